"""How the values of records are written: format, frame, envelope, schemas given by hand. Pure.

A part of the routing configuration (ROUTE): stored with it, and in its fingerprint. What a schema registry answers is
not: it is recorded beside the tables (core/schemas.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["json", "avro", "protobuf", "json_schema", "connect_json", "string", "bytes"]
Frame: TypeAlias = Literal["none", "confluent", "glue", "single_object"]
Envelope: TypeAlias = Literal["none", "debezium", "debezium_mongo", "dms"]


@dataclass(frozen=True)
class ValueFormat:
    """One format of values.

    frame: what stands before each value and names its schema: Confluent's 00 and id, Glue's 03 and the id of a version,
    Avro's C3 01 and fingerprint.
    envelope: what the row is wrapped in (formats/envelopes/). tombstones: what becomes of null values; counted ones are
    in no table. semantic_types: whether Connect's names of logical types are honoured. message: full name of the
    record or message that unframed values are, where `schemas` has several.
    schemas: (name, text) of schema files, sorted: Avro's JSON, or a FileDescriptorSet of Protobuf in base64.
    before: columns of which an update says what they held before it, where its envelope has an image of that.
    """

    kind: Kind = "json"
    frame: Frame = "none"
    envelope: Envelope = "none"
    tombstones: Literal["dead_letter", "count"] = "dead_letter"
    semantic_types: Literal["none", "connect"] = "none"
    message: str = ""
    schemas: tuple[tuple[str, str], ...] = ()
    before: tuple[str, ...] = ()

    @property
    def is_framed(self) -> bool:
        """Whether a value has the frame of a registry's serialisers. Whichever was sent, who reads values finds that of
        Confluent (formats/frames.py)."""
        return self.frame in ("confluent", "glue")

    @property
    def has_ids(self) -> bool:
        """Whether a value names its schema by the id of a registry, without which it cannot be read."""
        return self.is_framed and self.kind in ("avro", "protobuf", "json_schema")

    @property
    def is_read_as_json(self) -> bool:
        """Whether rows are read from texts of JSON."""
        return self.kind in ("json", "json_schema", "connect_json") or self.envelope == "debezium_mongo"

    @property
    def is_raw(self) -> bool:
        """Whether a value is one column, `value`, as it is."""
        return self.kind in ("string", "bytes")

    @property
    def carries_schemas(self) -> bool:
        """Whether each record brings its own schema."""
        return self.kind == "connect_json"

    @property
    def has_schemas(self) -> bool:
        """Whether what is in a value is known before any is read, so that columns may be left out."""
        return self.has_ids or self.kind in ("avro", "protobuf", "json_schema")


JSON = ValueFormat()
"""What there was before any setting named another one."""
