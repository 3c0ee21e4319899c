"""`exporter drill`: faults in real exporters, under load, until they have recovered, then an audit.

    __init__.py       this text               run.py        one run: its lake, its tasks, what it waits for
    drills.py         the verb
    scenarios.py      what can happen         producer.py   who writes to the topic meanwhile
                                              hostile.py    records that have ended an exporter once
    schedule.py       when it does (pure)     tasks.py      exporters as child processes
                                              lakes.py      where the tables stand: folders, or an S3
    kills.py, outages.py, store.py, registry.py, mishaps.py, streams.py, soak.py   the stories
    record.py         what came of it (pure)  helper.py     audits and SQL, in a process of its own
    report.py         the same as HTML (pure) group.py      a member of the group that is no exporter
    services.py       broker, DynamoDB            power.py      what a power cut may take from a lake

Nothing in here is used by an exporter at work. What a drill starts it ends, on every way out.
"""
