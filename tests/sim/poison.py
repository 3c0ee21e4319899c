"""Records on which a round ends, without Spark: what is read of one raw, who holds one, and the rows of dead letters.

A record that is poison ends the rounds of all tasks, or those of the first task of the group alone: then a table may
have it by the time that somebody spares it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from exporter.core.writers import StagedFile
from exporter.fetch.ranges import EXACT
from exporter.stores.parquet import FileOrigin
from offsets.ranges import OffsetRange, TopicPartition
from offsets.table_log import TableView
from tests.sim.broker import Record
from tests.sim.store import There

WEAK = "task0"
"""So begins the name of the processes that cannot read what others can."""


def ends(record: Record, process: str) -> bool:
    """Whether a round of this process ends on it."""
    return record.poison == "all" or (record.poison == "weak" and process.startswith(WEAK))


def raw(tp: TopicPartition, records: Iterable[Record]) -> Any:
    """Records as a raw read gives them."""
    rows = [
        {
            "topic": tp.topic,
            "partition": tp.partition,
            "offset": one.offset,
            "value": json.dumps({"type": one.kind}).encode(),
            "timestamp": one.at_ms * 1000,
            "timestampType": 0,
            "headers": [],
        }
        for one in records
    ]
    return pa.Table.from_pylist(rows, schema=EXACT)


def held_offsets(
    lake: Any, name: str, view: TableView, tp: TopicPartition, offsets: Sequence[int], since: int, whole: bool = False
) -> set[int]:
    """As protocol/poison.held_offsets: asked of the live files at the view's version."""
    store = lake.table(name).store
    root = store.uri("_delta_log").removeprefix("sim://")

    def look() -> set[int]:
        live: dict[str, Any] = {}
        for version in range(view.version + 1):
            for line in There.disk.get(f"{root}/{version:020d}.json").decode().splitlines():
                action = json.loads(line)
                if "add" in action:
                    live[action["add"]["path"]] = action["add"]["tags"]
                if "remove" in action:
                    live.pop(action["remove"]["path"], None)
        found: set[int] = set()
        folder = root.removesuffix("/_delta_log")
        for path, tags in live.items():
            if (tags["topic"], int(tags["partition"])) == (tp.topic, tp.partition) and int(tags["epoch"]) >= since:
                found |= {*_offsets(json.loads(There.disk.get(f"{folder}/{unquote(path)}").splitlines()[0]))}
        return found

    there: set[int] = store.asked(look)
    return there & {*offsets}


def _offsets(rows: Iterable[Any]) -> Iterator[int]:
    for row in rows:
        offset = row if isinstance(row, int) else row["_kafka"].get("offset")
        if offset is not None:
            yield offset


class SimGrowing:
    """GrowingFile, of dead letters that no round stages: gaps and poison records. Its rows are written as JSON."""

    def __init__(self, origin: FileOrigin, partition: Any) -> None:
        self._origin = origin
        self._rows: list[dict[str, Any]] = []
        self._span = OffsetRange(0, 0)

    def add(self, table: Any, first_offset: int, last_offset: int) -> None:
        self._rows += table.to_pylist()
        self._span = OffsetRange(first_offset, last_offset)

    def finish(self, name: str) -> StagedFile:
        body, rows = json.dumps(self._rows, default=str).encode(), len(self._rows)
        self._origin.store.write_once(name, body)
        stats = json.dumps({"numRecords": rows})
        return StagedFile(name, self._span, rows, len(body), stats, self._origin.fingerprint)
