"""Part memory: the peak of driver, JVM and workers in the two catch-ups that ask for most.

Budget 2 min: 2 M records of 50 types over 60 days; 2,000 records of 1 MB.
"""

from __future__ import annotations

from tests.bench.catch_up import figures
from tests.bench.desk import Desk, checked
from tests.bench.figures import Outcome, Row, Target, rounded
from tests.bench.load import Load

GIB_MAX = 3.0
CASES = (
    ("60 days x 50 types", Load(types=50, days=60), 2_000_000, 5_000),
    ("2,000 records of 1 MB", Load(types=1, size="huge", bad_every=0), 2_000, 20),
)


def run(desk: Desk) -> Outcome:
    """Both."""
    outcome = Outcome()
    rows: list[Row] = []
    for name, load, records, least in CASES:
        with desk.broker():
            topic = desk.topic(load, desk.count(records, least))
            done = checked(desk.export(desk.config(topic, desk.lake()), weighed=True), topic)
        peak = done.usage.pss_bytes / 2**30
        parts = {f"{part}, GiB": rounded(size / 2**30) for part, size in done.usage.pss_parts.items()}
        rows.append({"case": name, "peak PSS, GiB": rounded(peak), **parts, **figures(done, topic)})
        outcome.stacks.setdefault("GiB at the peak of the sum", {})[name] = {
            part: size / 2**30 for part, size in done.usage.pss_parts.items()
        }
        outcome.targets.append(Target(f"{name}: peak memory", peak, GIB_MAX, "GiB"))
    outcome.tables["Peak of the summed PSS"] = rows
    return outcome
