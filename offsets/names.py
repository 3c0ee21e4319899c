"""The one place that builds and parses stored names (NAMES): files, folders and appIds.

    file    day=2026-11-01/<app>.<topic>.<partition>.<epoch>.<last offset>.<attempt>.parquet
            in the folder of its partition (partitions.py); of a table that is not cut, in the table's own
    folder  the event type, bytes outside [A-Za-z0-9_-] as ~XX
    appId   <app>/<topic>/<partition>/<epoch>            the position
            <app>/aged                                   of a table: before which time rows may be gone (aged.py)
            <app>/backfilled/<fingerprint>               of a table: when its columns were last filled (backfilled.py)
            <app>/erased                                 of a table: how many erasures it knows of (erased.py)
            <app>/<kind>/<topic>/<partition>/<epoch>     what else a table remembers of a partition
            <app>/gap/<folder>/<topic>/<partition>/<epoch>    the last offset of a type's recorded gap
    gap     day=2026-11-01/<app>.<topic>.<partition>.<epoch>.gap.<attempt>.parquet
    replay  <app>/replay/<topic>/<partition>/<replay number>; its files' attempt: replay-<replay number>-<uuid>
    offer   _exporter/offers/<offer id>.json, in the table's folder: what a message should not hold (protocol 4.11)
    key     _control.keys/<app>, below the root of all tables: what offers are signed with (protocol 4.11)
    pin     _schemas.pins/<registry>/<schema id>/<number>.json, below the root of all tables (protocol 3.8)
            _schemas.guids/<registry>/<guid>/<number>.json, of one that is named by a GUID
    poison  <app>/spared/<topic>/<partition>/<offset>, then <app>/skipped/... or <app>/held/...; a row's file like
            one of a gap, with `condemned` for `gap`

`app` is read from the left and the rest from the right, because a topic may hold dots.
What is stored is for ever: new code reads old names.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from offsets import partitions
from offsets.partitions import BadPartition, Partition
from offsets.ranges import TopicPartition

FORMAT_VERSION = 1
"""Version of names, tags and properties; stored beside them."""

APP = re.compile(r"[A-Za-z0-9_-]+\Z")
TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}\Z")
FOLDER_BYTES_MAX = 200
LOG_FOLDER = "_delta_log"
"""Of each table. One of this name would make the folder of all tables look like a table; delta-rs cannot read it."""
DERIVED_FOLDER = "_derived.tables"
"""Of the tables of jobs, a folder each, below the root of all tables. No event type's folder has a dot."""
PINS_FOLDER = "_schemas.pins"
"""Of the recorded decisions on ids of schemas. No event type's folder has a dot, and nobody reads below a `_`."""
KEYS_FOLDER = "_control.keys"
"""Of the keys of the control topics, a file for each app. No event type's folder has a dot."""
GUIDS_FOLDER = "_schemas.guids"
"""Of those on GUIDs: a folder of its own, where versions that know of ids alone never look."""
ERASED_FOLDER = "_erased.records"
"""Of the tables of erased records, one for each app. No event type's folder has a dot."""
OFFERS_FOLDER = "_exporter/offers"
"""Below a table's folder. Readers of Delta tables and VACUUM pass over what begins with `_`."""
_OFFSET_DIGITS = 20
OFFER_ID = re.compile(r"[A-Za-z0-9-]{1,64}\Z")
_ATTEMPT = re.compile(r"[A-Za-z0-9-]+\Z")
_REPLAY = re.compile(r"replay-([1-9][0-9]{0,17})-[A-Za-z0-9]+\Z")
_NUMBER = re.compile(r"(?:0|[1-9][0-9]{0,17})\Z")
_GUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")
_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")
_SUFFIX = ".parquet"

Kind = Literal["anchor", "sealed", "condemned", "spared", "skipped", "held", "rebased", "replay", "gap"]
KINDS: tuple[Kind, ...] = ("anchor", "sealed", "condemned", "spared", "skipped", "held", "rebased", "replay")
"""anchor: where an epoch began (exclusive). sealed: the position at which it was closed.
spared: a record that no task may read again, while a table may still get it of who has read it before. skipped: one
that no table got; its row came with it. held: one whose row some table has. Dead letters only; the record's offset
stands where an epoch would, the version is that of the epoch (protocol 3.7, protocol/poison.py). condemned: as earlier
versions wrote it, the last such offset of an epoch.
rebased: where an epoch began whose offsets are those of another topic of the same name (protocol 7).
replay: the greatest offset that a replay of dead letters added; its number, from 1, stands where an epoch would.
gap, with an event type: the last offset that retention took from the type (dead letters only; protocol 5.5)."""


class BadName(ValueError):
    """A name that is not ours or cannot be built."""


@dataclass(frozen=True, order=True)
class AppId:
    """The txn appId of a position, or with `kind` of a remembered offset of the same partition and epoch.

    event_type: of a gap; empty for all else.
    """

    app: str
    tp: TopicPartition
    epoch: int
    kind: Kind | None = None
    event_type: str = ""

    def __post_init__(self) -> None:
        if not (APP.match(self.app) and TOPIC.match(self.tp.topic)) or min(self.tp.partition, self.epoch) < 0:
            raise BadName(f"cannot build an appId from {self!r}")
        if (self.kind == "gap") != bool(self.event_type):
            raise BadName(f"a gap, and nothing else, has an event type: {self!r}")

    def __str__(self) -> str:
        head = f"{self.app}/{self.kind}" if self.kind else self.app
        head = f"{head}/{table_folder(self.event_type)}" if self.event_type else head
        return f"{head}/{self.tp.topic}/{self.tp.partition}/{self.epoch}"

    @classmethod
    def parse(cls, text: str) -> AppId:
        """Raises BadName if `text` is not one of ours."""
        parts = text.split("/")
        kind: Kind | None = None
        event_type = ""
        if len(parts) == 6 and parts[1] == "gap":
            kind, event_type = "gap", event_type_of(parts[2])
            del parts[1:3]
        elif len(parts) == 5:
            kind = next((known for known in KINDS if known == parts[1]), None)
            if kind is None:
                raise BadName(f"unknown kind in appId {text!r}")
            del parts[1]
        if len(parts) != 4 or not APP.match(parts[0]) or not TOPIC.match(parts[1]):
            raise BadName(f"not an appId of ours: {text!r}")
        tp = TopicPartition(parts[1], _number(parts[2], text))
        return cls(parts[0], tp, _number(parts[3], text), kind, event_type)


@dataclass(frozen=True, order=True)
class DataFile:
    """A data file's name: its writer, its partition and the offset of the last record in it (inclusive)."""

    partition: Partition
    app: str
    tp: TopicPartition
    epoch: int
    last_offset: int
    attempt: str

    def __post_init__(self) -> None:
        if not (APP.match(self.app) and TOPIC.match(self.tp.topic) and _ATTEMPT.match(self.attempt)):
            raise BadName(f"cannot build a file name from {self!r}")
        if min(self.tp.partition, self.epoch, self.last_offset) < 0:
            raise BadName(f"negative number in {self!r}")

    @property
    def replay(self) -> int | None:
        """The number of the replay that staged the file; None for all others.

        Its offsets are those of dead letters, anywhere below the position: it stands outside the ranges of NAMES.
        """
        found = _REPLAY.match(self.attempt)
        return int(found[1]) if found else None

    def __str__(self) -> str:
        """Path relative to the table's folder."""
        return _within(self.partition, (
            f"{self.app}.{self.tp.topic}.{self.tp.partition}.{self.epoch}"
            f".{self.last_offset:0{_OFFSET_DIGITS}d}.{self.attempt}{_SUFFIX}"
        ))  # fmt: skip

    @classmethod
    def parse(cls, path: str) -> DataFile:
        """The inverse of str(). Raises BadName if `path` is not one of ours."""
        folder, _, name = path.rpartition("/")
        app, dot, rest = name.partition(".")
        parts = rest[: -len(_SUFFIX)].rsplit(".", 4) if name.endswith(_SUFFIX) and dot else []
        if len(parts) != 5 or len(parts[3]) != _OFFSET_DIGITS:
            raise BadName(f"not a data file of ours: {path!r}")
        topic, number, epoch, last, attempt = parts
        try:
            partition = partitions.parse(folder)
        except BadPartition as error:
            raise BadName(f"not a data file of ours: {path!r}") from error
        if not last.isascii() or not last.isdigit():
            raise BadName(f"not an offset: {last!r} in {path!r}")
        tp = TopicPartition(topic, _number(number, path))
        parsed = cls(partition, app, tp, _number(epoch, path), int(last), attempt)
        if str(parsed) != path:
            raise BadName(f"not a data file of ours: {path!r}")
        return parsed


def offer_file(offer_id: str) -> str:
    """The file that says what an offer holds, relative to the table's folder. Raises BadName."""
    if not OFFER_ID.match(offer_id):
        raise BadName(f"not an id of an offer: {offer_id[:64]!r}")
    return f"{OFFERS_FOLDER}/{offer_id}.json"


def replay_attempt(number: int, unique: str) -> str:
    """The attempt in the name of a replay's file. unique: letters and digits. Raises BadName."""
    attempt = f"replay-{number}-{unique}"
    if not _REPLAY.match(attempt):
        raise BadName(f"not an attempt of a replay: {attempt!r}")
    return attempt


def gap_file(partition: Partition, app: str, tp: TopicPartition, epoch: int, attempt: str) -> str:
    """Path of a file of gap rows, relative to the dead letters' folder; never a DataFile.

    Such a row may be committed at any position of the dead letters, so no offset in a name could tell the sweep when
    the file is dead: it is left to VACUUM.
    """
    return _apart(partition, app, tp, epoch, "gap", attempt)


def poison_file(partition: Partition, app: str, tp: TopicPartition, epoch: int, attempt: str) -> str:
    """As gap_file(), of the row of a poison record, which comes before or after the position passes it."""
    return _apart(partition, app, tp, epoch, "condemned", attempt)


def _apart(partition: Partition, app: str, tp: TopicPartition, epoch: int, what: str, attempt: str) -> str:
    DataFile(partition, app, tp, epoch, 0, attempt)  # raises BadName
    return _within(partition, f"{app}.{tp.topic}.{tp.partition}.{epoch}.{what}.{attempt}{_SUFFIX}")


def _within(partition: Partition, name: str) -> str:
    folder = partition.folder
    return f"{folder}/{name}" if folder else name


def key_file(app: str) -> str:
    """The file of the key that an app's offers are signed with."""
    return f"{KEYS_FOLDER}/{app}"


def pins_folder(registry: str, guids: bool = False) -> str:
    """The folder of what is decided about one registry's ids, or about its GUIDs. Raises BadName."""
    if not APP.match(registry) or len(registry) > FOLDER_BYTES_MAX or registry.lower() == LOG_FOLDER:
        raise BadName(f"not a name of a registry: {registry[:40]!r}; letters, digits, _ and - make one")
    return f"{GUIDS_FOLDER if guids else PINS_FOLDER}/{registry}"


def pin_folder(registry: str, schema: int | str) -> str:
    """The folder of the decisions on one schema. schema: an id, or a GUID as guid_of gives it. Raises BadName."""
    if isinstance(schema, str):
        return f"{pins_folder(registry, guids=True)}/{guid_of(schema)}"
    if schema < 0:
        raise BadName(f"no schema has the id {schema}")
    return f"{pins_folder(registry)}/{schema}"


def pin_file(registry: str, schema: int | str, number: int) -> str:
    """The file of one decision, numbers from 0. schema: as in pin_folder. Raises BadName."""
    if number < 0:
        raise BadName(f"no decision has the number {number} of {schema}")
    return f"{pin_folder(registry, schema)}/{number}.json"


def guid_of(name: str) -> str:
    """A GUID that is the name of a folder: 32 digits in small letters, 8-4-4-4-12. Raises BadName."""
    if not _GUID.match(name):
        raise BadName(f"not a GUID as we write it: {name[:40]!r}")
    return name


def number_of(name: str) -> int:
    """A number that is the name of a folder or of a file of decisions, without `.json`. Raises BadName."""
    if not _NUMBER.match(name):
        raise BadName(f"not a number as we write it: {name[:40]!r}")
    return int(name)


@lru_cache(maxsize=4096)
def table_folder(event_type: str) -> str:
    """The folder of an event type's table. Raises BadName for a name that no folder can carry."""
    if not event_type:
        raise BadName("an event type cannot be empty")
    try:
        raw = event_type.encode()
    except UnicodeEncodeError as error:
        raise BadName(f"not valid Unicode: {event_type[:40]!r}") from error
    folder = "".join(chr(byte) if byte in _PLAIN else f"~{byte:02X}" for byte in raw)
    if folder.lower() == LOG_FOLDER:
        raise BadName(f"event type {event_type!r}: the name is Delta's own")
    if len(folder) > FOLDER_BYTES_MAX:
        raise BadName(f"event type {event_type[:40]!r}... needs a folder name of {len(folder)} bytes")
    return folder


def event_type_of(folder: str) -> str:
    """The inverse of table_folder. Raises BadName if `folder` is not one of ours."""
    raw = bytearray()
    index = 0
    while index < len(folder):
        char = folder[index]
        if char == "~":
            code = folder[index + 1 : index + 3]
            if not re.fullmatch("[0-9A-F]{2}", code):
                raise BadName(f"not a table folder of ours: {folder!r}")
            raw.append(int(code, 16))
            index += 3
        else:
            if not char.isascii():
                raise BadName(f"not a table folder of ours: {folder!r}")
            raw += char.encode()
            index += 1
    try:
        event_type = raw.decode()
    except UnicodeDecodeError as error:
        raise BadName(f"not a table folder of ours: {folder!r}") from error
    if table_folder(event_type) != folder:
        raise BadName(f"not a table folder of ours: {folder!r}")
    return event_type


def case_clash(event_types: tuple[str, ...]) -> tuple[str, str] | None:
    """Two event types whose folders differ by case only, or None."""
    seen: dict[str, str] = {}
    for event_type in event_types:
        folded = table_folder(event_type).casefold()
        if folded in seen:
            return seen[folded], event_type
        seen[folded] = event_type
    return None


def _number(text: str, whole: str) -> int:
    if not _NUMBER.match(text):
        raise BadName(f"not a number: {text!r} in {whole!r}")
    return int(text)
