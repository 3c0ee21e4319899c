"""The rows of data files by their offsets: as plain Python says it, whatever the file's statistics say."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from exporter.operate.audit.files import LiveFiles
from exporter.operate.audit.report import TableCount
from exporter.stores.file import FileStore
from offsets.ranges import TopicPartition

PLACE = pa.struct({"topic": pa.string(), "partition": pa.int32(), "offset": pa.int64()})
WANTED = pa.schema({"_kafka": PLACE, "n": pa.int64()})
TOPICS = ("a", "b", "c")
Row = dict[str, Any]


def rows(chance: random.Random, count: int) -> list[Row]:
    def one(number: int) -> Row:
        place = {"topic": chance.choice(TOPICS), "partition": chance.randrange(3), "offset": chance.randrange(20)}
        if chance.random() < 0.05:
            place = {**place, chance.choice([*place]): None}
        return {"_kafka": None if chance.random() < 0.02 else place, "n": number}

    return [one(number) for number in range(count)]


def is_in(row: Row, ranges: dict[TopicPartition, tuple[int, int]]) -> bool:
    at = row["_kafka"]
    if at is None or None in at.values():
        return False
    start, end = ranges.get(TopicPartition(at["topic"], at["partition"]), (0, 0))
    return start <= at["offset"] < end


def written(folder: Path, name: str, some: list[Row], tells: bool) -> dict[str, Any]:
    """The action of a file with these rows, with the statistics that Delta has of such."""
    pq.write_table(pa.Table.from_pylist(some, WANTED), folder / name, row_group_size=7)
    there = [row["_kafka"] for row in some if row["_kafka"] is not None]
    told = {part: [at[part] for at in there if at[part] is not None] for part in ("topic", "partition", "offset")}
    stats = {
        "minValues": {"_kafka": {part: min(found) for part, found in told.items() if found}},
        "maxValues": {"_kafka": {part: max(found) for part, found in told.items() if found}},
        "nullCount": {"_kafka": {part: len(some) - len(found) for part, found in told.items()}},
    }
    return {"path": name, "size": 1, "partitionValues": {}, "stats": json.dumps(stats) if tells else None}


@pytest.mark.parametrize("seed", range(60))
def test_rows_of_offsets_and_all_others(seed: int, tmp_path: Path) -> None:
    """Of files of one partition, of several, with rows of none, and without statistics."""
    chance = random.Random(seed)
    files, every = [], []
    for number in range(chance.randrange(1, 4)):
        some = rows(chance, chance.randrange(1, 40))
        if chance.random() < 0.4:
            some = [{**row, "_kafka": {"topic": "a", "partition": 1, "offset": nth}} for nth, row in enumerate(some)]
        files.append(written(tmp_path, f"{number}.parquet", some, tells=chance.random() < 0.8))
        every += some
    live = LiveFiles(FileStore(str(tmp_path)), TableCount("t", len(every), len(files), 1, 0), (), files)
    ranges = {}
    for _ in range(chance.randrange(4)):
        start = chance.randrange(15)
        span = start, start + chance.randrange(1, 12)
        ranges[TopicPartition(chance.choice(TOPICS), chance.randrange(4))] = span
    if chance.random() < 0.3:  # nothing is of others
        ranges |= {TopicPartition(topic, partition): (0, 99) for topic in TOPICS for partition in range(3)}
    inside = [row for row in every if is_in(row, ranges)]
    assert live.of(ranges, WANTED).to_pylist() == inside
    others = live.others(ranges, WANTED).to_pylist()
    assert others == [row for row in every if not is_in(row, ranges)]
    assert live.all(WANTED).num_rows == len(every)
