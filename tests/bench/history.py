"""Makes a table's history longer, as log files of the kind that the exporter's own commits are: for part start-up.

    version  0       made by the exporter, on an empty topic, with its checksum
             1..n    written here: commit v of table i says that its position is v * tables - 1 and adds one file, that
                     of offset (v - 1) * tables + i, which nobody will read; the checksum of n is derived from that of 0
             n + 1   the exporter's again

So the history of all tables tells of a topic whose record o belongs to table o % tables.
"""

from __future__ import annotations

import argparse
import json
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from exporter.core.deployment import Deployment
from exporter.demo.shop_types import BASE_DAY
from exporter.lake.lake import Lake
from exporter.spark import session as spark
from offsets.names import AppId, DataFile
from offsets.ranges import TopicPartition
from tests.support.days import partition_of

FILE_BYTES = 10_000


@dataclass(frozen=True)
class Place:
    """A table among those of a lake. number: None for the dead letters, whose commits add no file."""

    folder: Path
    app: str
    tp: TopicPartition
    tables: int
    number: int | None

    @property
    def app_id(self) -> str:
        return str(AppId(self.app, self.tp, 0))

    def position(self, commit: int) -> int:
        """The offset through which so many commits have everything."""
        return commit * self.tables - 1


def extend(place: Place, commits: int) -> int:
    """Write so many commits after the newest one and the checksum of the last; its version."""
    log = place.folder / "_delta_log"
    top = max(int(path.stem) for path in log.glob("*.json"))
    checksum = json.loads((log / f"{top:020d}.crc").read_text())
    said = _said(log / f"{top:020d}.json")
    txn_id, now_ms = "", int(time.time() * 1000)  # the checksum repeats the last commit's time
    for commit in range(1, commits + 1):
        txn_id = str(uuid.uuid4())
        lines = [json.dumps(action) for action in _actions(place, commit, top + commit, txn_id, now_ms, said)]
        (log / f"{top + commit:020d}.json").write_text("\n".join(lines) + "\n")
    (log / f"{top + commits:020d}.crc").write_text(json.dumps(_checksum(place, checksum, commits, txn_id, now_ms)))
    return top + commits


def _said(commit: Path) -> Mapping[str, Any]:
    """The user metadata of a commit."""
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    (info,) = (action["commitInfo"] for action in actions if "commitInfo" in action)
    said: Mapping[str, Any] = json.loads(info["userMetadata"])
    return said


def _actions(
    place: Place, commit: int, version: int, txn_id: str, now_ms: int, said: Mapping[str, Any]
) -> Iterator[Mapping[str, Any]]:
    """What one commit says."""
    commit_id = uuid.uuid4().hex
    expected, new = place.position(commit - 1), place.position(commit)
    about: dict[str, Any] = {"epoch": 0, "expected": expected, "new": new}
    offset = None if place.number is None else expected + 1 + place.number
    if offset is not None:
        about |= {"first": offset, "last": offset, "rows": 1}
    metadata = {
        "app": place.app, "checked_through": version - 1, "commit_id": commit_id, "owner": "history",
        "partitions": {str(place.tp): about}, "routing": said["routing"],
    }  # fmt: skip
    yield {
        "commitInfo": {
            "timestamp": now_ms, "operation": "STREAMING UPDATE",
            "operationParameters": {"outputMode": "Append", "queryId": place.app, "epochId": "0"},
            "readVersion": version - 1, "isolationLevel": "Serializable", "isBlindAppend": True,
            "operationMetrics": {}, "userMetadata": json.dumps(metadata), "txnId": txn_id,
        }
    }  # fmt: skip
    yield {"txn": {"appId": place.app_id, "version": new, "lastUpdated": now_ms}}
    if offset is not None:
        yield {"add": _add(place, offset, now_ms, {"commit_id": commit_id, "covered_offset": str(new)})}


def _add(place: Place, offset: int, now_ms: int, tags: Mapping[str, str]) -> Mapping[str, Any]:
    coordinates = {"topic": place.tp.topic, "partition": place.tp.partition, "epoch": 0, "offset": offset}
    bounds = {"_kafka": coordinates, "seq": offset}
    return {
        "path": str(DataFile(partition_of(BASE_DAY), place.app, place.tp, 0, offset, uuid.uuid4().hex)),
        "partitionValues": {"day": str(BASE_DAY)}, "size": FILE_BYTES, "modificationTime": now_ms, "dataChange": True,
        "stats": json.dumps({"numRecords": 1, "minValues": bounds, "maxValues": bounds, "nullCount": {"seq": 0}}),
        "tags": {
            "app": place.app, "topic": place.tp.topic, "partition": str(place.tp.partition), "epoch": "0",
            "first_offset": str(offset), "last_offset": str(offset), "format": "1", **tags,
        },
    }  # fmt: skip


def _checksum(place: Place, before: Mapping[str, Any], commits: int, txn_id: str, now_ms: int) -> Mapping[str, Any]:
    """That of a table so many commits later. What Delta may leave out of a checksum is left out."""
    kept = {name: value for name, value in before.items() if name not in ("allFiles", "fileSizeHistogram")}
    files = 0 if place.number is None else commits
    moved = {"appId": place.app_id, "version": place.position(commits), "lastUpdated": now_ms}
    others = [txn for txn in before["setTransactions"] if txn["appId"] != place.app_id]
    return {
        **kept,
        "txnId": txn_id,
        "numFiles": before["numFiles"] + files,
        "tableSizeBytes": before["tableSizeBytes"] + files * FILE_BYTES,
        "setTransactions": [*others, moved],
    }


def main() -> None:
    """Let Delta write a checkpoint of each table of a lake, as maintenance does."""
    parser = argparse.ArgumentParser()
    parser.add_argument("lake", type=Path)
    parser.add_argument("app")
    given = parser.parse_args()
    session = spark.start(Deployment("local[2]", "2g"), "history")
    lake = Lake(session, given.lake, given.app)
    for event_type in lake.event_types():
        lake.table(event_type).checkpoint(0, apply=True)
    session.stop()
