"""What is told of versions of a table, as JSON for others to read: a field may come, none is renamed or goes. Pure.

    one commit of ours with rows   ──> Announcement     rows, their offsets, their days
    versions that the log has lost ──> Skipped          which ones

Both say after which version of the table they come, so that who reads them knows what was said twice, and what was not
said at all. The handbook's page of events has the schema.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any
from urllib.parse import unquote

from offsets import partitions
from offsets.partitions import BadPartition
from offsets.table_log import own_metadata

FORMAT = 1
"""Version of the messages' form, in each of them."""
NONE_YET = -1
"""Instead of a version: of none before the first one."""
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True)
class Range:
    """The rows of one partition in one version. Offsets are inclusive; a table has some of the records in between."""

    topic: str
    partition: int
    first: int
    last: int
    rows: int


@dataclass(frozen=True)
class Announcement:
    """One version with rows of this app. after: the last version with rows before it, or NONE_YET.

    action: what brought the rows if it was no export, such as a replay. days: of its rows' event times, as the table's
    partitions have them. valid_through: as the commit says it, empty if it does not. at: of the commit, by its writer.
    """

    app: str
    table: str
    version: int
    after: int
    table_id: str
    commit_id: str
    action: str
    rows: int
    ranges: tuple[Range, ...]
    days: tuple[str, ...]
    valid_through: str
    at: str

    def as_dict(self) -> dict[str, Any]:
        """The message as it is sent, ready for JSON."""
        said = {name: value for name, value in vars(self).items() if name not in ("ranges", "days")}
        return {"v": FORMAT, "kind": "version", **said, "days": [*self.days], "ranges": [*map(vars, self.ranges)]}


@dataclass(frozen=True)
class Skipped:
    """Versions that the log does not have any more: first to version, both inclusive. after: as of an Announcement."""

    app: str
    table: str
    first: int
    version: int
    after: int

    def as_dict(self) -> dict[str, Any]:
        """The message as it is sent, ready for JSON."""
        return {"v": FORMAT, "kind": "skipped", **vars(self)}


Message = Announcement | Skipped


def as_json(message: Message) -> bytes:
    """One line, the same for the same message."""
    return json.dumps(message.as_dict(), ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


@dataclass
class _Entry:
    """The parts of a log entry that matter here."""

    info: Mapping[str, Any] = field(default_factory=dict)
    adds: list[Mapping[str, Any]] = field(default_factory=list)


def announced(app: str, table: str, version: int, after: int, lines: Iterable[str]) -> Announcement | None:
    """What is told of one version; None if it is none of this app's with rows. lines: of its entry in the log.

    Raises ValueError for what is no entry, an empty one among it.
    """
    entry = _parsed(lines)
    said = own_metadata(entry.info.get("userMetadata") or "")
    if said.get("app") != app or not (rows := sum(map(_rows_of, entry.adds))):
        return None
    return Announcement(
        app=app,
        table=table,
        version=version,
        after=after,
        table_id=str(said.get("table_id", "")),
        commit_id=str(said["commit_id"]),
        action=str(said.get("action", "")),
        rows=rows,
        ranges=tuple(_ranges(said.get("partitions") or said.get("replayed") or {})),
        days=tuple(sorted({day for add in entry.adds if (day := _day_of(str(add["path"])))})),
        valid_through=str(said.get("valid_through") or ""),
        at=(_EPOCH + timedelta(milliseconds=int(entry.info.get("timestamp") or 0))).isoformat(timespec="milliseconds"),
    )


def _parsed(lines: Iterable[str]) -> _Entry:
    entry, empty = _Entry(), True
    for line in lines:
        action = json.loads(line) if line.strip() else {}
        if not isinstance(action, dict):
            raise ValueError("a line of it is no action")
        empty = empty and not action
        entry.info = action.get("commitInfo", entry.info)
        if action.get("add", {}).get("dataChange", False):
            entry.adds.append(action["add"])
    if empty:
        raise ValueError("it is empty")
    return entry


def _rows_of(add: Mapping[str, Any]) -> int:
    return int(json.loads(add.get("stats") or "{}").get("numRecords", 0))


def _ranges(said: Mapping[str, Mapping[str, Any]]) -> Iterable[Range]:
    for tp, one in sorted(said.items()):
        topic, _, partition = tp.rpartition("-")
        if one.get("rows"):
            yield Range(topic, int(partition), int(one["first"]), int(one["last"]), int(one["rows"]))


def _day_of(path: str) -> str:
    """The day, or what a table's unit has in place of it; empty if the path tells none. path: as a log has it."""
    try:
        return partitions.time_text(unquote(path).rpartition("/")[0])
    except BadPartition:
        return ""
