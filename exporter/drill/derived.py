"""Scenarios of derived tables: jobs as processes of their own beside the export, killed, doubled, and put to sleep.

    topic ──> exporter ──> tables ──> jobs of each kind (kill -9, SIGSTOP) ──> audit of the export, audit of the jobs
                             ^
              OPTIMIZE, VACUUM, RESTORE and repair meanwhile
"""

from __future__ import annotations

import signal
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from exporter.drill import schedule
from exporter.drill.mishaps import UNCHECKED
from exporter.drill.run import LIFE_SECS_MAX, Run
from exporter.faults import Fault

TOPIC = "{topic}"
"""Stands for one of the run's own."""
Sections = Mapping[str, dict[str, Any]]
JOBS: Mapping[str, Sections] = {
    "sql": {
        "derive.sql": {"kind": "sql", "source": "order", "query": "SELECT id, amount FROM source WHERE id % 2 = 0"},
    },
    "bundles": {
        "derive.bundles": {"kind": "bundles", "complete": "any"},
        "derive.bundles.inputs.orders": {"source": "order", "transaction": "id div 6"},
        "derive.bundles.inputs.clicks": {"source": "click", "transaction": "id div 6", "done": "id % 6 = 4"},
        "derive.bundles.outputs": {"sums": "SELECT _transaction, count(*) AS n FROM orders GROUP BY _transaction"},
    },
    "mirror": {
        "derive.mirror": {"kind": "mirror", "source": "click", "keys": ["page"], "order": ["id"]},
    },
    "to_kafka": {
        "derive.to_kafka": {"kind": "to_kafka", "source": "order", "topic": TOPIC, "key": "id", "rows_max": 50},
    },
}
"""Job, called as its kind is -> its settings."""
COMMIT = (Fault.BEFORE_DERIVE_COMMIT, Fault.AFTER_DERIVE_COMMIT)
STEPS: Mapping[str, Sequence[Fault]] = {
    "sql": COMMIT,
    "mirror": COMMIT,
    "bundles": COMMIT,
    "to_kafka": (Fault.AFTER_DERIVE_FENCE, Fault.AFTER_DERIVE_SEND, *COMMIT),
}
"""Job -> the named steps that its runs pass; the last but one is the last before a commit."""
ONCE = frozenset({Fault.AFTER_DERIVE_FENCE})
"""Steps that a process passes but once, when it begins."""
STAYS = frozenset({"to_kafka"})
"""What is not put right when its source takes rows back: a topic takes nothing back."""
PACE = {"roll_age_max_secs": 5.0, "roll_records_max": 2_000, "carried_bytes_max": 1 << 20}
"""Jobs look for rows at once; the export makes a tenth of the files of other drills, as a job reads each of them."""
SOURCES = ("order", "click")
TAKEN_BACK = 2
"""Versions of a source that are restored away."""


def derived(run: Run) -> None:
    """Jobs of each kind beside the export: killed at each named step and at random, and two of the same at once."""
    jobs = run.rng.sample([*JOBS], min(len(JOBS), 1 + run.size.kills))
    exporter = _begun(run, jobs)
    steps = [(job, point) for job in jobs for point in STEPS[job]]
    for job, point in run.rng.sample(steps, min(len(steps), run.size.kills)):
        armed = f"{point.value}@{job}:kill:{1 if point in ONCE else run.rng.randint(1, 2)}"
        run.strike_by(run.start("run", job, verb="derive", armed=armed), f"at {point.value} of {job}")
        run.sql(*(f"OPTIMIZE {run.table(name)}" for name in SOURCES))
    for kill in schedule.kills(run.rng, run.size.kills):
        task = run.start("run", verb="derive")
        if kill.after_commit:
            run.wait_event(task, "derive_ran")
        run.nap(kill.secs)
        run.kill(task, kill.whole)
    for job in jobs[: run.size.kills]:
        _two_at_once(run, job)
    run.check()
    run.stop(exporter)
    _proven(run)


def derived_rewound(run: Run) -> None:
    """The sources of jobs are vacuumed, restored and repaired: jobs say so and begin anew, or put it right."""
    jobs = [job for job in JOBS if job not in STAYS]
    sources = [run.table(name) for name in SOURCES]
    exporter = _begun(run, jobs)
    run.wait_commit(exporter, 3)
    run.sql(*(f"OPTIMIZE {source}" for source in sources))
    least = {name: run.version(name) + TAKEN_BACK for name in SOURCES}  # VACUUM leaves nothing of what was before
    behind = "commits of both behind OPTIMIZE"
    run.wait(lambda: all(run.version(name) > least[name] for name in SOURCES), LIFE_SECS_MAX, behind, exporter)
    run.stop(exporter)
    run.ends(run.start("run", "--until-caught-up", verb="derive"), 0)
    run.sql(f"SET {UNCHECKED} = false", *(f"VACUUM {source} RETAIN 0 HOURS" for source in sources))
    for name in SOURCES:
        run.sql(f"RESTORE TABLE {run.table(name)} TO VERSION AS OF {run.version(name) - TAKEN_BACK}")
    for job in jobs:
        run.ends(run.start("run", job, "--until-caught-up", verb="derive"), 70)
    run.repair(run.start())
    exporter = run.start()
    run.wait_commit(exporter, 3)
    run.stop(exporter)
    run.sql(*(f"OPTIMIZE {source}" for source in sources))  # each job reads all of a source anew, file by file
    for job in jobs:
        task = run.start("run", job, "--until-caught-up", verb="derive")
        run.ends(task, 70, 0)
        if task.ended():
            run.ends(run.start("run", job, "--rebuild", verb="derive"), 0)
    _proven(run)


def _begun(run: Run, jobs: Collection[str]) -> Any:
    """An exporter at work, and jobs in the settings from now on."""
    made = f"{run.topic}-made"
    for name, settings in ((name, settings) for job in jobs for name, settings in JOBS[job].items()):
        run.sections[name] = {key: made if value == TOPIC else value for key, value in settings.items()}
    run.made_topics[made] = f"{run.app}.derive.to_kafka"
    run.scalars |= PACE
    run.load()
    exporter = run.start()
    run.wait_commit(exporter)
    return exporter


def _two_at_once(run: Run, job: str) -> None:
    """One falls asleep before its commit, the other runs the job, the first wakes up and is refused."""
    sleeper = run.start("run", job, verb="derive", armed=f"{STEPS[job][-2].value}@{job}:stop:1")
    run.wait(sleeper.stopped, LIFE_SECS_MAX, f"{sleeper.name} sleeps", sleeper)
    sleeper.signal(signal.SIGSTOP, whole=True)
    run.struck(sleeper, f"SIGSTOP before a commit of {job}")
    run.ends(run.start("run", job, "--until-caught-up", verb="derive"), 0)
    sleeper.signal(signal.SIGCONT, whole=True)
    run.ends(sleeper, 75)


def _proven(run: Run) -> None:
    """The export's own proof, and that of the jobs."""
    run.finish()
    run.ends(run.start("run", "--until-caught-up", verb="derive"), 0)
    run.ends(run.start("audit", verb="derive"), 0)
