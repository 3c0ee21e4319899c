"""What is decided about the schema ids of one registry, for ever (protocol 3.8). Pure.

    an id's decisions, in the order in which they were recorded, none ever changed:

    unknown through p0: 120, p1: 80 ── records up to there are dead letters, whatever is registered later
    unknown through p0: 900, p1: 80
    text                            ── what is beyond is read by this schema

The first decision that speaks of a record counts. A record of which none does cannot be read yet: it is *missing*.
Of an id that no registry can give nothing has to be recorded: its records are dead letters wherever they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

from offsets.ranges import TopicPartition

ID_MAX = 2**31 - 1
"""The greatest id that a registry can give. What some answer about a greater one cannot be told from an outage."""


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


@dataclass(frozen=True)
class Unknown:
    """The registry definitely had no such id. through: the last offset of each partition that this is about."""

    through: Mapping[TopicPartition, int]


Decision: TypeAlias = "SchemaText | Unknown"


@dataclass(frozen=True)
class KnownSchemas:
    """The decisions by id. Goes with each order to the workers."""

    decisions: Mapping[int, Sequence[Decision]] = field(default_factory=dict)

    def of(self, schema_id: int, tp: TopicPartition, offset: int) -> Decision | None:
        """What is decided for one record; None if nothing is."""
        if schema_id > ID_MAX:
            return Unknown({})
        for decision in self.decisions.get(schema_id, ()):
            if isinstance(decision, SchemaText) or decision.through.get(tp, -1) >= offset:
                return decision
        return None

    def settled(self, schema_id: int) -> bool:
        """Whether all records with this id are read by its schema."""
        found = self.decisions.get(schema_id, ())
        return bool(found) and isinstance(found[0], SchemaText)

    def text(self, schema_id: int) -> SchemaText | None:
        """The schema of an id, wherever its records are; None if there is none yet."""
        found = self.decisions.get(schema_id, ())
        return found[-1] if found and isinstance(found[-1], SchemaText) else None

    @property
    def texts(self) -> KnownSchemas:
        """The schemas alone: what was unknown once is read by the text that there is by now (protocol 4.9)."""
        texts = {schema_id: found[-1] for schema_id, found in self.decisions.items() if found}
        return KnownSchemas({one: (text,) for one, text in texts.items() if isinstance(text, SchemaText)})


NO_SCHEMAS = KnownSchemas()


Fields: TypeAlias = Sequence[Mapping[str, Any]]
"""Of a Spark schema, as parsed JSON."""


class SchemaColumns(Protocol):
    """Which columns follow from schemas; what no column can hold is left out."""

    def of_key(self, key: str, schemas: KnownSchemas, topic: str) -> Fields:
        """Those of a topic's records that were written by a registered schema. key: as Fragment.met has it."""
        ...

    def of_type(self, event_type: str, topic: str = "") -> Fields:
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
