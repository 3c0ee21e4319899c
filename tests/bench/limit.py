"""Part limit: the exporter against what the same read, decoder and Parquet encoder can do at all.

Budget 3 min: 2 M records of 10 types; three rounds of exporter and limit, and one process without Spark.
"""

from __future__ import annotations

from statistics import median

from tests.bench.desk import Desk
from tests.bench.figures import Outcome, Target, ratios
from tests.bench.load import Load
from tests.bench.pairs import PAIRS, Timed, compared, exported, in_turn, timed

RECORDS = 2_000_000
SHARE_MIN = 0.75


def run(desk: Desk) -> Outcome:
    """Three of each, in turn; of the one process, which nothing is promised of, one."""
    outcome = Outcome()
    with desk.broker():
        topic = desk.topic(Load(), desk.count(RECORDS, least=5_000))
        words = ["--config", str(desk.config(topic, desk.lake())), "--folder"]

        def limit(*more: str) -> Timed:
            return timed(desk.module("tests.bench.limit_job", [*words, str(desk.lake()), *more]))

        done = in_turn(PAIRS, {"exporter": lambda: exported(desk, topic), "limit, Spark": limit})
        alone = limit("--without-spark")
    speeds = compared(outcome, "10 types, 360 B, 2 partitions", done)
    _, share = ratios(speeds["exporter"], speeds["limit, Spark"])
    outcome.targets.append(Target("10 types: share of the limit's records/s", share, SHARE_MIN, "", at_least=True))
    times = median(speeds["exporter"]) / alone.speed
    outcome.notes.append(
        "The limit: the same Spark read, router, decoder and Parquet encoder, without day split, dead letters, "
        f"protocol or commits. The exporter has {times:.2f} times the records/s of one process without Spark "
        "(librdkafka into the same decoder and encoder)."
    )
    return outcome
