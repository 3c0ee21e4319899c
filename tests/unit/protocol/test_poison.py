"""The dead-letter rows of poison records."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from exporter.fetch import ranges
from exporter.protocol.poison import dead_letter_adds
from exporter.stores.parquet import FileOrigin
from exporter.stores.stores import open_store
from offsets.names import BadName, DataFile
from offsets.ranges import TopicPartition

TP = TopicPartition("orders", 3)
MS = 1_767_225_600_000
"""2026-01-01T00:00:00Z"""


def test_poison_records_keep_what_can_be_told_of_them(tmp_path: Path) -> None:
    """Whole, with a timestamp that no table holds, or by coordinates alone: a file per day, that no sweep judges."""
    row = {"key": b"k", "value": b"v", "topic": TP.topic, "partition": 3, "headers": [{"key": "h", "value": b"1"}]}
    times = {5: (MS * 1000, MS), 6: (None, MS * 1000), 8: (MS * 1000 - 1, MS - 1)}
    rows = [{**row, "offset": offset, "timestamp": us, "kafka_ms": ms} for offset, (us, ms) in times.items()]
    wanted = ranges.RangeWanted({}, TP, 7, 8, "read_committed", 10)
    raw = pa.concat_tables(
        [pa.Table.from_pylist(rows[:2], schema=ranges.EXACT), ranges.by_coordinates(wanted),
         pa.Table.from_pylist(rows[2:], schema=ranges.EXACT)]
    )  # fmt: skip
    origin = FileOrigin(open_store(str(tmp_path)), "app", TP, 2, "dead_letters", "f", {"routing": "r"})
    adds = dead_letter_adds(origin, raw, [f"why {number}" for number in range(4)])
    found = {add["partitionValues"]["day"]: pq.read_table(tmp_path / add["path"], partitioning=None) for add in adds}
    assert {day: [one["_kafka"]["offset"] for one in table.to_pylist()] for day, table in found.items()} == {
        "1970-01-01": [6, 7], "2025-12-31": [8], "2026-01-01": [5],
    }  # fmt: skip
    six, seven = found["1970-01-01"].to_pylist()
    assert (six["value"], six["_kafka"]["timestamp"], six["reason"]) == (b"v", None, "condemned: why 1")
    assert (six["stage"], six["headers"], six["_kafka"]["epoch"]) == ("condemned", [{"key": "h", "value": b"1"}], 2)
    assert seven["key"] is seven["value"] is seven["headers"] is seven["_kafka"]["timestamp"] is None
    for add in adds:
        try:
            parsed = DataFile.parse(add["path"])
        except BadName:
            continue
        raise AssertionError(f"{parsed} names an offset that some position may have reached")
