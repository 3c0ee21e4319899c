"""Part limit: the exporter against what the same read, decoder and Parquet encoder can do at all.

Budget 3 min: 2 M records of 10 types; three rounds of exporter and limit, the first also with one process without
Spark.
"""

from __future__ import annotations

from statistics import median

from tests.bench.desk import Desk
from tests.bench.figures import Outcome, Row, Target, ratios, rounded
from tests.bench.load import Load
from tests.bench.pairs import PAIRS, Timed, exported, row, timed

RECORDS = 2_000_000
SHARE_MIN = 0.75
NAMES = ("exporter", "limit, Spark", "limit, one process without Spark")


def run(desk: Desk) -> Outcome:
    """Three of each, in turn; of the one process, which nothing is promised of, one."""
    found: dict[str, list[Timed]] = {name: [] for name in NAMES}
    with desk.broker():
        topic = desk.topic(Load(), desk.count(RECORDS, least=5_000))
        config = desk.config(topic, desk.lake())
        words = ["--config", str(config), "--folder"]
        for number in range(PAIRS):
            found[NAMES[0]].append(exported(desk, topic))
            found[NAMES[1]].append(timed(desk.module("tests.bench.limit_job", [*words, str(desk.lake())])))
            if not number:
                alone = [*words, str(desk.lake()), "--without-spark"]
                found[NAMES[2]].append(timed(desk.module("tests.bench.limit_job", alone)))
    ours = [one.speed for one in found[NAMES[0]]]
    with_spark, share = ratios(ours, [one.speed for one in found[NAMES[1]]])
    (share_alone,), _ = ratios(ours[:1], [one.speed for one in found[NAMES[2]]])
    rows: list[Row] = [
        {"round": number + 1, "who": name, **row(runs[number]), "share of Spark's limit": rounded(with_spark[number])}
        for number in range(PAIRS)
        for name, runs in found.items()
        if number < len(runs)
    ]
    return Outcome(
        targets=[Target("10 types: share of the limit's records/s", share, SHARE_MIN, "", at_least=True)],
        tables={"10 types, 360 B, 2 partitions": rows},
        bars={"records/s, medians": {name: median(one.speed for one in runs) for name, runs in found.items()}},
        notes=[
            "The limit: the same Spark read, router, decoder and Parquet encoder, without day split, dead letters, "
            f"protocol or commits. The exporter has {share_alone:.2f} times the records/s of one process without Spark "
            "(librdkafka into the same decoder and encoder)."
        ],
    )
