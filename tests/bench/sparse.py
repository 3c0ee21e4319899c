"""Part sparse: how many files 200 types leave behind that have a record a minute each, in 12 partitions.

Budget 3.5 min: 40 s to make 200 tables, then the pattern at its true pace until each is rolled, most of them twice.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

from exporter.core.routing import DEAD_LETTERS
from tests.bench.desk import Desk
from tests.bench.figures import Outcome, Target, rounded
from tests.bench.load import Load, Record, Sender, one_of_each, pace

TYPES, PARTITIONS = 200, 12
SECS = 130.0
FILES_MAX = 2.0
MINUTES_PER_DAY = 1440


def run(desk: Desk) -> Outcome:
    """Each type in its turn, its partition drawn."""
    load, lake = Load(types=max(5, desk.count(TYPES)), size="small", partitions=PARTITIONS, bad_every=0), desk.lake()
    secs = desk.secs(SECS, least=20)
    with desk.broker():
        topic = desk.topic(load, 0)
        age = 60 if desk.scale >= 1 else 5
        with desk.exporting(desk.config(topic, lake, roll_age_max_secs=age)) as task:
            sender = Sender(topic.bootstrap, topic.name, linger_ms=5)
            sent = pace(sender, in_turn(load), load.types / age, secs)
            sender.flush()
            done = task.so_far()
    found = rolls(lake)
    per_roll = Counter(roll.files for roll in found)
    most = float(max(per_roll, default=0))
    mean = sum(roll.files for roll in found) / max(1, len(found))
    commits = [line for line in done.of("commit_landed") if line["files"]]
    each = sum(roll.files for roll in found) / load.types / (secs / age)
    return Outcome(
        targets=[Target("200 sparse types: most files per (type, day) and roll", most or None, FILES_MAX, "files")],
        tables={
            "Files": [
                {
                    "records sent": sent, "commits with files": len(commits),
                    "heartbeats": len(done.of("commit_landed")) - len(commits), "(type, day) rolls": len(found),
                    "files per roll, mean": rounded(mean), "files per roll, most": most,
                    "files per type and day, before maintenance": rounded(each * MINUTES_PER_DAY),
                }
            ]
        },
        bars={"(type, day) rolls, by number of files": {str(size): float(many) for size, many in per_roll.items()}},
    )  # fmt: skip


def in_turn(load: Load) -> Iterator[tuple[int, Record]]:
    """(partition, record): types in turn, as evenly as they come in life; any partition."""
    random = Random(7)
    while True:
        for record in one_of_each(load):
            yield random.randrange(load.partitions), record


@dataclass(frozen=True)
class Roll:
    """What one commit added to one day of a table."""

    table: str
    version: int
    day: str
    files: int


def rolls(lake: Path) -> list[Roll]:
    """Of all tables but the dead letters."""
    found = []
    for log in sorted(lake.glob("*/_delta_log/*.json")):
        adds = [json.loads(line).get("add") for line in log.read_text().splitlines()]
        days = Counter(str(add["partitionValues"]["day"]) for add in adds if add)
        table = log.parents[1].name
        if table != DEAD_LETTERS:
            found += [Roll(table, int(log.stem), day, files) for day, files in days.items()]
    return found
