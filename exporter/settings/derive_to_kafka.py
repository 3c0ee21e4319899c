"""[derive.<name>] with kind = "to_kafka": the rows of a table as records of a topic."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from exporter.settings.table import Table
from exporter.settings.values import Count


class ToKafkaTable(Table):
    """[derive.<name>], kind = "to_kafka"."""

    kind: Literal["to_kafka"] = Field(examples=["to_kafka"])
    """A topic with the rows of a table, in their order."""
    source: str = Field(examples=["order"])
    """Event type, or another [derive] table of kind bundles or sql, whose rows are sent."""
    topic: str = Field(examples=["orders"])
    """Topic that the rows are sent to; one that is missing is made."""
    key: str | tuple[str, ...] = Field(default="", examples=["order_id", ("shop", "order_id")])
    """SQL whose value is the record's key, as text (BINARY as it is), or a list of columns that are the key together,
    in the record's format; without it records have no key."""
    value: tuple[str, ...] = Field(default=(), examples=[("order_id", "amount", "upper(note) AS note")])
    """SQL of each column of the value, `AS` its name; without it all columns of the source that are its own, none of
    the exporter's."""
    format: Literal["json", "avro", "protobuf"] = "json"
    """How the value is written, and a key of columns: JSON text, or Avro or Protobuf with the schema's id in front, as
    [schema_registry] gives it."""
    headers: dict[str, str] = Field(default={}, examples=[{"type": "'order'", "at": "_event_time"}])
    """Name of a header -> SQL whose value it has, as text (BINARY as it is); none where that is null."""
    where: str = Field(default="", examples=["_output = 'totals'"])
    """SQL: the rows that are sent; all without it."""
    delete: str = Field(default="", examples=["status = 'cancelled'"])
    """SQL: of a row for which it is true the value is null, which deletes its key in a compacted topic."""
    partitions: Count = 1
    """Partitions of the topic, if it is made."""
    replication: int = Field(default=-1, ge=-1)
    """Replicas of each of its partitions, if it is made; -1: as many as the brokers have by default."""
    rows_max: Count = 5_000
    """Rows of one transaction."""
    request_bytes_max: Count = 1_000_000
    """Bytes of the largest record; the topic has to take it (max.message.bytes)."""
    compression: Literal["none", "gzip", "lz4", "snappy", "zstd"] = "none"
    """How batches of records are compressed."""
    subject: str = Field(default="", examples=["orders-value"])
    """Subject of the value's schema in the registry; without it <topic>-value. That of a key is <topic>-key."""
    proto: Path | None = Field(default=None, examples=["order.proto"])
    """A .proto file whose message the value is; without it the message follows from the columns."""
    message: str = Field(default="", examples=["shop.Order"])
    """Full name of the message in it; without it the file's first one."""

    @model_validator(mode="after")
    def _together(self) -> ToKafkaTable:
        if self.delete and not self.key:
            raise ValueError("delete needs a key: a record without a value is nothing without one")
        if self.replication == 0:
            raise ValueError("replication should be -1, or 1 and more")
        if (self.proto or self.message) and self.format != "protobuf":
            raise ValueError('proto and message are for format = "protobuf"')
        if self.message and not self.proto:
            raise ValueError("message is one of a file: set proto")
        return self
