"""What is decided about the schema ids of one registry, for ever (protocol 3.8). Pure.

    an id's decisions, in the order in which they were recorded, none ever changed:

    unknown through p0: 120, p1: 80 ── records up to there are dead letters, whatever is registered later
    unknown through p0: 900, p1: 80
    text                            ── what is beyond is read by this schema

The first decision that speaks of a record counts. A record of which none does cannot be read yet: it is *missing*.
Of an id that no registry can give nothing has to be recorded: its records are dead letters wherever they are.

A schema is named by the registry's own id, or by a GUID: one that follows from what it says, or the id of a version in
Glue's registry. Both are numbers here:

    0 .. ID_MAX                an id
    ID_MAX + 1 .. 2^32 - 1     what no registry gives; among texts, and in frames made of headers, the alias of a GUID
    GUID ..                    a GUID, its 128 bits behind the one that says so
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, Protocol, TypeAlias
from uuid import UUID

from exporter.column.types import Field
from offsets.ranges import TopicPartition

ID_MAX = 2**31 - 1
"""The greatest id that a registry can give. What some answer about a greater one cannot be told from an outage."""
GUID = 1 << 128
"""Numbers from here on are GUIDs."""


def guid_number(raw: bytes) -> int:
    """The number of a GUID of 16 bytes."""
    return GUID | int.from_bytes(raw, "big")


def called(number: int) -> int | str:
    """What people and files call a schema: its id, or the text of its GUID."""
    return number if number < GUID else str(UUID(int=number - GUID))


def can_be(number: int) -> bool:
    """Whether a registry may have given it."""
    return number <= ID_MAX or number >= GUID


@dataclass(frozen=True)
class SchemaText:
    """One registered schema, with all that it refers to.

    text: as the registry has it; of Protobuf a FileDescriptorSet in base64 that has everything. references: (name,
    schema), the name as the schema calls it. why: what its compiler says of a text that it refuses; no file has it.
    """

    kind: Literal["AVRO", "PROTOBUF", "JSON"]
    text: str
    references: tuple[tuple[str, SchemaText], ...] = ()
    why: str = ""


CARRIED = "carried:"
"""How the key of a schema begins that a record brings along: its text follows."""


def origin_of(key: str) -> str:
    """What is said of columns that come of the schema of a key (Fragment.met)."""
    if key.startswith(CARRIED):
        return "schema of the record"
    number, colon, place = key.partition(":")
    return f"schema {called(int(number)) if number.isdecimal() else number}{colon}{place}"


@dataclass(frozen=True)
class UnknownId:
    """The registry definitely had no such id. through: the last offset of each partition that this is about."""

    through: Mapping[TopicPartition, int]


Decision: TypeAlias = "SchemaText | UnknownId"


@dataclass(frozen=True)
class KnownSchemas:
    """The decisions by id or GUID. Goes with each order to the workers.

    A GUID with a text has an alias, a number of 32 bits, as long as one of these lives. What takes a number takes an
    alias too, unless it says otherwise.
    """

    decisions: Mapping[int, Sequence[Decision]] = field(default_factory=dict)

    def of(self, schema_id: int, tp: TopicPartition, offset: int) -> Decision | None:
        """What is decided for one record; None if nothing is. schema_id: no alias."""
        if not can_be(schema_id):
            return UnknownId({})
        for decision in self.decisions.get(schema_id, ()):
            if isinstance(decision, SchemaText) or decision.through.get(tp, -1) >= offset:
                return decision
        return None

    def settled(self, schema_id: int) -> bool:
        """Whether all records with this id are read by its schema. schema_id: no alias."""
        found = self.decisions.get(schema_id, ())
        return bool(found) and isinstance(found[0], SchemaText)

    def text(self, schema_id: int) -> SchemaText | None:
        """The schema of an id, wherever its records are; None if there is none yet."""
        found = self.decisions.get(self.number(schema_id), ())
        return found[-1] if found and isinstance(found[-1], SchemaText) else None

    @cached_property
    def _guids(self) -> list[int]:
        return sorted(one for one, found in self.decisions.items() if one >= GUID and isinstance(found[-1], SchemaText))

    @cached_property
    def _aliases(self) -> Mapping[int, int]:
        return {number: ID_MAX + 1 + at for at, number in enumerate(self._guids)}

    def alias(self, number: int) -> int | None:
        """Of a GUID that has a text; an id is its own. None of what has no text."""
        return self._aliases.get(number) if number > ID_MAX else number

    def number(self, alias: int) -> int:
        """The GUID of an alias; any other number as it is."""
        at = alias - ID_MAX - 1
        return self._guids[at] if 0 <= at < len(self._guids) else alias

    def called(self, schema_id: int) -> int | str:
        """An id as people call it: a number or a GUID."""
        return called(self.number(schema_id))

    @property
    def texts(self) -> KnownSchemas:
        """The schemas alone: what was unknown once is read by the text that there is by now (protocol 4.9)."""
        texts = {schema_id: found[-1] for schema_id, found in self.decisions.items() if found}
        return KnownSchemas({one: (text,) for one, text in texts.items() if isinstance(text, SchemaText)})


NO_SCHEMAS = KnownSchemas()


class SchemaColumns(Protocol):
    """Which columns follow from schemas; what no column can hold is left out."""

    def of_key(self, key: str, schemas: KnownSchemas, topic: str) -> Sequence[Field]:
        """Those of a topic's records that were written by a registered schema. key: as Fragment.met has it."""
        ...

    def of_type(self, event_type: str, topic: str = "") -> Sequence[Field]:
        """Those of a type whose schema is in the settings; none if it is not, or if it is not known which it is.

        topic: one that its records come from, where formats differ.
        """
        ...


class SchemaSource(Protocol):
    """Where decisions come from: what is recorded, then the registry. In the driver alone."""

    def known(self, registry: str) -> KnownSchemas:
        """All that is recorded and has been read by now, of the registry of that name. Asks nobody."""
        ...

    def look_up(
        self, registry: str, schema_id: int, ends: Mapping[TopicPartition, int], *, now: float
    ) -> Decision | None:
        """Decide on an id that is missing, and record it; None while the registry's answer may still change.

        ends: of the partitions in question, the offset after the last readable record. Blocks for as long as a request
        may take. Raises RegistryUnreachable if the registry gives no answer, InvariantBroken if it contradicts what is
        recorded.
        """
        ...

    def verify(self) -> None:
        """Ask for some ids that are recorded, whoever needs them. Raises InvariantBroken if one has another text.

        No answer is no trouble: nobody waits for it.
        """
        ...


@dataclass(frozen=True)
class Schemas:
    """What a task goes by. source: None where values have no ids. columns: None where none follow from schemas."""

    source: SchemaSource | None = None
    columns: SchemaColumns | None = None
