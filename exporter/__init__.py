"""A stateless exporter: Kafka topics of many event types become one Delta table per type.

The rooms in the order in which a record meets them; README.md beside this file draws its way.

    entry.py       The console script: signals are taken over before all else is loaded.
    cli/           The verbs: parse, call, print, exit code.
    settings/      The one settings model: declared, filled, shown.
    task/          One task, put together, and its loop, the one place that branches.
    kafka/         What the brokers say, and which partitions are this task's.
    column/        What a column is of: one type, and the notations that it is read from and written in.
    core/          Pure decisions and their values: what is staged, due, read next, and what became of a commit.
    fetch/         Exact ranges of offsets, read from the leader as whole record batches. Runs on Spark executors.
    rounds/        One round is one Spark job: exact offsets in, one manifest out; one round after the other.
    executor/      What runs in Spark's Python workers: route, decode, shape, gather, stage.
    formats/       What a record's value is: from bytes to columns, or to a reason. One package per format.
    shape/         What the settings make of decoded rows: names, SQL, Python, filters, constants.
    arrow/         What a table can hold, as Arrow has it: leaves of a schema, dates and times, timestamps of Kafka.
    stores/        Where bytes go: Parquet data files, and the stores that hold them, one module per scheme.
    protocol/      Every commit to a table while records are exported, and the way back from the tables to writers.
    lake/          Delta tables: one snapshot in, one commit out, and what happened to them.
    wal/           The write-ahead log and the leases in DynamoDB: told, kept, compared with the tables.
    coordinate/    One commit per table and interval, however many tasks: offers, rounds of a leader, outcomes.
    announce/      Events for those downstream: each version with rows, at least once, in the table's order.
    registry/      Schema registries: asked by the driver alone, their answers recorded beside the tables for ever.
    catalog/       Catalogs, which know tables by a name: told beside the export, best effort, and never asked by it.
    spark/         Java, the jars, the session and the size of its batches.
    display/       How an export fares, for people: a verdict and what helps, a status in plain words, pages of HTML.
    monitor/       What a task tells of itself: sums, marks, outages, one snapshot per iteration, metrics, health.
    workbench.py   What every verb works with, opened from the settings: session, lake, topics, routing, log.
    proof/         Values and rules read a second time, for whoever proves what was made of them.
    derive/        Tables and topics that are made of the exported tables: mirrors, bundles, queries, records.
    operate/       What a person asks for beside the export: look, prove, mend, tend.
    local/         Servers, processes and plain readers on this machine, for the demo, the drill, tests, benchmark.
    demo/          The tour.
    drill/         `exporter drill`: faults in real exporters, under load, until they have recovered, then an audit.
    exporter/*.py  Errors, fault points, logs, secrets, texts, times and the end of a process: usable from everywhere.
    offsets/       The rules of landing each record exactly once, and the stored views they read.
"""

__version__ = "0.1.0"
