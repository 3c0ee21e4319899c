"""What is decided about ids of schemas, as files beside the tables (protocol 3.8). Written once, never changed.

    <table_root>/_schemas.pins/<registry>/<id>/0.json   {"decision": "unknown", "through": {"orders": {"0": 119}}, ...}
                                               1.json   {"decision": "text", "kind": "AVRO", "text": ..., ...}
                 _schemas.guids/<registry>/<guid>/0.json   the same of a GUID, which stands there in the stead of `id`

An id's files are numbered from 0 without a gap, and the text is the last. Whoever adds one makes the file that must not
be there yet: who comes second reads again and goes by what is there. Also read by the audit; asks no registry.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from exporter.core.schemas import Decision, SchemaText, UnknownId, called, guid_number
from exporter.errors import InvariantBroken, RegistryUnreachable
from exporter.stores.store import Store
from offsets import Invariant
from offsets.names import BadName, guid_of, number_of, pin_file, pin_folder, pins_folder
from offsets.ranges import TopicPartition

VERSION = 1
"""Of the files' content."""
KINDS = ("AVRO", "PROTOBUF", "JSON")
SYNC_THREADS = 16
"""Folders that are brought to disk side by side: a disk does many at once as fast as one."""
TRIES_MAX = 100
"""How often somebody else may have been quicker with the same number; each time there is one decision more."""
_BACK = "bring the file back from a backup: by it records were read, and without it they would be read otherwise"


@dataclass(frozen=True)
class PinnedId:
    """All that is decided about one id. answer: a text as the registry gave it, which of Protobuf is not the text.

    unknown: what all decisions of that kind say together. count: files of it.
    """

    unknown: Mapping[TopicPartition, int]
    text: SchemaText | None = None
    answer: str = ""
    count: int = 0

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """In the order that counts."""
        unknown: tuple[Decision, ...] = (UnknownId(dict(self.unknown)),) if self.unknown else ()
        return (*unknown, self.text) if self.text else unknown


NOTHING = PinnedId({})


@dataclass(frozen=True)
class Pins:
    """The decisions on one registry's ids and GUIDs. store: of all tables. sync: they have to survive a power cut.

    Every method raises RegistryUnreachable where the storage does not answer, InvariantBroken for a file that is
    damaged or not ours.
    """

    store: Store
    registry: str
    sync: bool = True

    def ids(self) -> list[int]:
        """Every id and GUID about which something is decided."""
        folder, guids = (pins_folder(self.registry, guids=one) for one in (False, True))
        found = [self._number(name, folder) for name in self._names(folder)]
        return sorted([*found, *(self._guid(name, guids) for name in self._names(guids))])

    def _names(self, folder: str) -> list[str]:
        try:
            return [name for name in self.store.names(folder) if not name.startswith(".")]
        except OSError as error:
            raise self._out(folder, error) from error

    def read(self, schema_id: int) -> PinnedId:
        """What is decided about an id; NOTHING if nothing is."""
        folder = pin_folder(self.registry, called(schema_id))
        try:
            found = self._from(NOTHING, schema_id)
            while (last := self._last(folder)) >= found.count:
                more = self._from(found, schema_id)  # others may have come while it was listed
                if more.count == found.count:
                    raise self._broken(folder, f"there is a file {last}.json, and no {found.count}.json")
                found = more
        except OSError as error:
            raise self._out(folder, error) from error
        return found

    def settle(self, ids: Sequence[int]) -> None:
        """What was read of some ids survives a power cut, also what somebody was killed in the middle of."""
        if not self.sync or not ids:
            return
        folders = [pin_folder(self.registry, called(one)) for one in ids]
        above = sorted({one.rpartition("/")[0] for one in folders})
        above += [one.rpartition("/")[0] for one in above]
        folder = above[0]
        try:
            with ThreadPoolExecutor(SYNC_THREADS) as pool:
                for _ in pool.map(self.store.sync, [*folders, *above, ""]):
                    pass
        except OSError as error:
            raise self._out(folder, error) from error

    def add(self, schema_id: int, decision: Decision, answer: str = "") -> PinnedId:
        """Record one decision more, unless what is there says as much; what counts then. answer: see PinnedId."""
        body = _body(self.registry, schema_id, decision, answer)
        for _ in range(TRIES_MAX):
            found = self.read(schema_id)
            if found.text or (isinstance(decision, UnknownId) and _says(found.unknown, decision.through)):
                return found
            path = pin_file(self.registry, called(schema_id), found.count)
            try:
                self.store.create(path, body, self.sync)
            except FileExistsError:
                continue
            except OSError as error:
                raise self._out(path, error) from error
        raise RegistryUnreachable(f"{self.store.uri(path)} is there, and cannot be read", "look at the storage")

    def _from(self, found: PinnedId, schema_id: int) -> PinnedId:
        """With the files that follow what was found, by their names: a listing may be late."""
        try:
            while True:
                body = self.store.read(pin_file(self.registry, called(schema_id), found.count))
                found = self._with(found, schema_id, body)
        except FileNotFoundError:
            return found

    def _last(self, folder: str) -> int:
        """The greatest number that is listed; -1 if there is none."""
        try:
            names = self.store.names(folder)
        except FileNotFoundError:  # it came to be meanwhile
            return -1
        listed = [name.removesuffix(".json") for name in names if not name.startswith(".")]
        return max((self._number(name, folder) for name in listed), default=-1)

    def _number(self, name: str, folder: str) -> int:
        try:
            return number_of(name)
        except BadName as error:
            raise self._broken(f"{folder}/{name}", "it is not ours", "move it away") from error

    def _guid(self, name: str, folder: str) -> int:
        try:
            return guid_number(UUID(guid_of(name)).bytes)
        except BadName as error:
            raise self._broken(f"{folder}/{name}", "it is not ours", "move it away") from error

    def _with(self, found: PinnedId, schema_id: int, body: bytes) -> PinnedId:
        path = pin_file(self.registry, called(schema_id), found.count)
        if found.text:
            raise self._broken(path, "it follows a text, which is always the last decision")
        try:
            record = json.loads(body)
            version = record["version"]
            if version > VERSION:
                raise self._broken(path, f"it is of version {version}", "run the version that wrote it, or a newer one")
            about = record[_key_of(schema_id)]
            if (record["registry"], about) != (self.registry, called(schema_id)):
                raise ValueError(f"it is about {_key_of(schema_id)} {about} of {record['registry']}")
            if record["decision"] == "unknown":
                return PinnedId(_merged(found.unknown, _through(record["through"])), None, "", found.count + 1)
            if record["decision"] == "text":
                schema = _schema(record)
                return PinnedId(found.unknown, schema, record.get("answer", schema.text), found.count + 1)
            raise ValueError(f"it decides {record['decision']!r}")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise self._broken(path, f"it is damaged: {error}") from error

    def _broken(self, path: str, what: str, hint: str = _BACK) -> InvariantBroken:
        return InvariantBroken(Invariant.ROUTE, f"{self.store.uri(path)}: {what}", hint)

    def _out(self, path: str, error: OSError) -> RegistryUnreachable:
        what = f"decisions on ids of schemas cannot be read or recorded in {self.store.uri(path)}"
        return RegistryUnreachable(f"{what}: {error.strerror or error}", "look at the storage")


def _key_of(schema_id: int) -> str:
    """What a file calls what it is about."""
    return "id" if isinstance(called(schema_id), int) else "guid"


def _says(known: Mapping[TopicPartition, int], through: Mapping[TopicPartition, int]) -> bool:
    return all(known.get(tp, -1) >= offset for tp, offset in through.items())


def _merged(one: Mapping[TopicPartition, int], other: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    return {tp: max(one.get(tp, -1), other.get(tp, -1)) for tp in {**one, **other}}


def _body(registry: str, schema_id: int, decision: Decision, answer: str) -> bytes:
    head: dict[str, Any] = {"version": VERSION, "registry": registry, _key_of(schema_id): called(schema_id)}
    if isinstance(decision, UnknownId):
        through: dict[str, dict[str, int]] = {}
        for tp, offset in sorted(decision.through.items()):
            through.setdefault(tp.topic, {})[str(tp.partition)] = offset
        head |= {"decision": "unknown", "through": through}
    else:
        head |= {"decision": "text", **_record(decision)}
        head |= {"answer": answer} if answer not in ("", decision.text) else {}
    return json.dumps(head, indent=1).encode()


def _record(schema: SchemaText) -> dict[str, Any]:
    return {
        "kind": schema.kind, "sha256": _sha256(schema.text), "text": schema.text,
        "references": [{"name": name, **_record(one)} for name, one in schema.references],
    }  # fmt: skip


def _schema(record: Mapping[str, Any]) -> SchemaText:
    kind, text = record["kind"], record["text"]
    if kind not in KINDS or not isinstance(text, str):
        raise ValueError(f"a text of the kind {kind!r}")
    if _sha256(text) != record["sha256"]:
        raise ValueError("its text has another sha256")
    return SchemaText(kind, text, tuple((str(one["name"]), _schema(one)) for one in record["references"]))


def _through(record: Mapping[str, Mapping[str, int]]) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic, int(partition)): int(offset)
        for topic, offsets in record.items()
        for partition, offset in offsets.items()
    }


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
