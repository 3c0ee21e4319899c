"""Part sync: what it costs that a commit waits for the disk: the same topics with it and without, in turn.

Budget 4 min: 2 topics of 2 M and 1 M records, exported four times each; commits of one second in the last two.
"""

from __future__ import annotations

from statistics import median

from tests.bench.catch_up import figures
from tests.bench.desk import Desk, checked
from tests.bench.figures import Outcome, Row, rounded
from tests.bench.load import Load

CASES = (("10 types", Load(), 2_000_000), ("50 types", Load(types=50), 1_000_000))


def run(desk: Desk) -> Outcome:
    """Both topics: off, on, off, on; once with one commit at the end, once with a commit a second."""
    rows: list[Row] = []
    for name, load, records in CASES:
        with desk.broker():
            topic = desk.topic(load, desk.count(records, least=5_000))
            for often, settings in (("as by default", {}), ("every second", {"roll_age_max_secs": 1})):
                for sync in (False, True):
                    done = checked(desk.export(desk.config(topic, desk.lake(), sync=sync, **settings)), topic)
                    secs = [float(line["secs"]) for line in done.of("commit_landed") if line["files"]]
                    rows.append(
                        {"case": name, "commits": often, "sync": "on" if sync else "off",
                         **{of: figures(done, topic)[of] for of in ("records/s", "core-s/M, window")},
                         "landed": len(secs), "commit, median": rounded(median(secs))}
                    )  # fmt: skip
    return Outcome(tables={"The same topic, off and on in turn": rows})
