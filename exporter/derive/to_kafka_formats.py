"""What keys and values are as bytes: texts that Spark made, or AvroForm and ProtobufForm behind a schema's id.

    0 | id, 4 bytes | the value                       Confluent's wire format, of AvroForm
    0 | id, 4 bytes | which message | the value       of Protobuf

A schema is registered when a run first meets its columns; the same text gets the same id for ever.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from exporter.column.spark_json import struct_of
from exporter.column.types import StructType
from exporter.derive.to_kafka_avro import avro_schema, record_name, writer
from exporter.derive.to_kafka_protobuf import derived, given
from exporter.registry.protobuf import as_one_set
from exporter.registry.server import Client, Kind, Server, whole
from exporter.settings.derive_to_kafka import ToKafkaTable


class Form(Protocol):
    """A way to write the columns of a key or value."""

    kind: Kind

    def text(self) -> str:
        """Its schema, as it is registered."""

    def require_follows(self, before: bytes) -> None:
        """Raises ConfigError where it cannot be the next version after a Protobuf one, though a registry may take it.

        before: the FileDescriptorSet of that.
        """

    def encoded(self, row: Mapping[str, Any]) -> bytes:
        """One row, without what stands in front of it."""


class AvroForm:
    """By the schema that follows from the columns."""

    kind: Kind = "AVRO"

    def __init__(self, columns: StructType, subject: str) -> None:
        """The form of one job. Raises ConfigError for columns that Avro cannot have."""
        self.schema = avro_schema(columns, record_name(subject))
        self._write = writer(columns)

    def require_follows(self, before: bytes) -> None:
        """A registry's own rules say all of it."""

    def text(self) -> str:
        return json.dumps(self.schema, separators=(",", ":"))

    def encoded(self, row: Mapping[str, Any]) -> bytes:
        out = bytearray()
        self._write(out, row)
        return bytes(out)


class RegisteredForms:
    """Forms with their ids: of each subject the columns that came last."""

    def __init__(self, table: ToKafkaTable, client: Callable[[], Client]) -> None:
        """client: opens the registry's, when it is needed first."""
        self._table = table
        self.client = client
        self._known: dict[str, tuple[str, Callable[[Mapping[str, Any]], bytes]]] = {}

    def encoder(self, subject: str, columns_json: str) -> Callable[[Mapping[str, Any]], bytes]:
        """Registers what is new. Raises RegistryUnreachable, ConfigError for columns that cannot be written or that the
        registry refuses."""
        known = self._known.get(subject)
        if known is None or known[0] != columns_json:
            form = form_of(self._table, subject, struct_of(columns_json))
            number = self.client().ask(lambda server: _register(server, subject, form))
            head = struct.pack(">bI", 0, number)
            known = columns_json, lambda row: head + form.encoded(row)
            self._known[subject] = known
        return known[1]


def _register(server: Server, subject: str, form: Form) -> int:
    if form.kind == "PROTOBUF" and (versions := server.versions(subject)):
        newest = as_one_set(whole(server, server.version(subject, versions[-1])))
        form.require_follows(base64.b64decode(newest.text))
    return server.register(subject, form.kind, form.text())


def form_of(table: ToKafkaTable, subject: str, columns: StructType) -> Form:
    """How a subject's columns are written. Raises ConfigError."""
    if table.format == "avro":
        return AvroForm(columns, subject)
    is_value = subject == value_subject(table)
    return given(table.proto, table.message, columns) if table.proto and is_value else derived(columns, subject)


def value_subject(table: ToKafkaTable) -> str:
    return table.subject or f"{table.topic}-value"


def key_subject(table: ToKafkaTable) -> str:
    return f"{table.topic}-key"
