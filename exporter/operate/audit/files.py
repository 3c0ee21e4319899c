"""The live files of a table at one version, as its log lists them, and which of them are on disk.

What its files tell is read from them; else it is Spark's to read, which costs two jobs a table.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import unquote

from pyspark.sql import DataFrame

from exporter.lake import log_files
from exporter.lake.gateway import Gateway
from exporter.lake.lake import Lake
from exporter.log import get_logger
from exporter.log_events import Event
from exporter.operate.audit.report import AbsentFile, TableCount
from exporter.stores.live import LiveSizes
from offsets.names import BadName, DataFile
from offsets.table_log import TableView

log = get_logger(__name__)

FILES_AT_A_TIME = 1_000


@dataclass(frozen=True)
class LiveFiles:
    """The live files of one snapshot; `frame` reads all that are there."""

    frame: DataFrame
    count: TableCount
    absent: tuple[AbsentFile, ...]


def live_files(lake: Lake, name: str, view: TableView) -> LiveFiles:
    """Look for each live file on disk; a missing one would make every query on the table fail."""
    table, gateway = lake.table(name), lake.gateway
    delta_log = gateway.log(table.uri)
    snapshot = delta_log.getSnapshotAt(view.version, gateway.none, gateway.none, False)
    replayed = log_files.adds_at(table.store, view.version)
    listed = None if replayed is not None else snapshot.allFiles().collectAsList()
    absent: list[AbsentFile] = []
    there: list[dict[str, Any]] = []
    files, rows, days, on_disk = 0, 0, set(), LiveSizes(table.store)
    for add in _read(gateway, listed) if replayed is None else replayed:
        files += 1
        rows += _numbers(add.get("stats"), "numRecords") or 0
        rows -= (add.get("deletionVector") or {}).get("cardinality", 0)
        days.add(json.dumps(add["partitionValues"], sort_keys=True))
        size = on_disk.of(add["path"])
        if size != add["size"]:
            absent.append(_absent_file(name, add, size, view.partition_columns))
        elif replayed is not None:
            there.append(add)
    if replayed is not None:
        listed = gateway.adds(there)
    elif absent:
        kept = gateway.not_among("path", (file.path for file in absent))
        listed = snapshot.allFiles().filter(kept).collectAsList()
    frame = DataFrame(delta_log.createDataFrame(snapshot, gateway.to_seq(listed), False, gateway.none), lake.session)
    return LiveFiles(frame, TableCount(name, rows, files, len(days), view.version), tuple(absent))


def _read(gateway: Gateway, adds: Any) -> Iterator[dict[str, Any]]:
    """The `add` actions of a Java list as Python values, some at a time."""
    for start in range(0, adds.size(), FILES_AT_A_TIME):
        some = adds.subList(start, min(adds.size(), start + FILES_AT_A_TIME))
        yield from json.loads(gateway.to_json(gateway.to_seq(some)))


def _numbers(stats: str | None, *path: str) -> int | None:
    """A number in a file's statistics, None where they do not tell."""
    found: Any = json.loads(stats) if stats else None
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, int) else None


def _absent_file(name: str, add: Mapping[str, Any], size: int | None, cut_by: Sequence[str]) -> AbsentFile:
    """What was in the file: from its statistics, else from its name."""
    stats = add.get("stats")
    partition = _numbers(stats, "minValues", "_kafka", "partition")
    first = _numbers(stats, "minValues", "_kafka", "offset")
    last = _numbers(stats, "maxValues", "_kafka", "offset")
    topic = None
    try:
        named = DataFile.parse(unquote(add["path"]))
        topic, partition, last = named.tp.topic, named.tp.partition, named.last_offset if last is None else last
    except BadName:
        log.info(Event.FILE_NAME_NOT_OURS, table=name, path=add["path"])
    day = " ".join(add["partitionValues"].get(column) or "" for column in cut_by)
    why: Literal["absent", "another size"] = "absent" if size is None else "another size"
    return AbsentFile(name, add["path"], day, topic, partition, first, last, why)
