"""[derive.<name>] with kind = "to_kafka": the rows of a table as records of a topic."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from exporter.settings.table import Table
from exporter.settings.values import Count


class ToKafkaTable(Table):
    """[derive.<name>], kind = "to_kafka"."""

    kind: Literal["to_kafka"] = Field(
        description="A topic with the rows of a table, in their order.", examples=["to_kafka"]
    )
    source: str = Field(
        description="Event type, or another [derive] table of kind bundles or sql, whose rows are sent.",
        examples=["order"],
    )
    topic: str = Field(description="Topic that the rows are sent to; one that is missing is made.", examples=["orders"])
    key: str | tuple[str, ...] = Field(
        default="",
        description="SQL whose value is the record's key, as text (BINARY as it is), or a list of columns that are the "
        "key together, in the record's format; without it records have no key.",
        examples=["order_id", ("shop", "order_id")],
    )
    value: tuple[str, ...] = Field(
        default=(),
        description="SQL of each column of the value, `AS` its name; without it all columns of the source that are its "
        "own, none of the exporter's.",
        examples=[("order_id", "amount", "upper(note) AS note")],
    )
    format: Literal["json", "avro", "protobuf"] = Field(
        default="json",
        description="How the value is written, and a key of columns: JSON text, or Avro or Protobuf with the schema's "
        "id in front, as [schema_registry] gives it.",
    )
    headers: dict[str, str] = Field(
        default={},
        description="Name of a header -> SQL whose value it has, as text (BINARY as it is); none where that is null.",
        examples=[{"type": "'order'", "at": "_event_time"}],
    )
    where: str = Field(
        default="", description="SQL: the rows that are sent; all without it.", examples=["_output = 'totals'"]
    )
    delete: str = Field(
        default="",
        description="SQL: of a row for which it is true the value is null, which deletes its key in a compacted topic.",
        examples=["status = 'cancelled'"],
    )
    partitions: Count = Field(default=1, description="Partitions of the topic, if it is made.")
    replication: int = Field(
        default=-1,
        ge=-1,
        description="Replicas of each of its partitions, if it is made; -1: as many as the brokers have by default.",
    )
    rows_max: Count = Field(default=5_000, description="Rows of one transaction.")
    request_bytes_max: Count = Field(
        default=1_000_000, description="Bytes of the largest record; the topic has to take it (max.message.bytes)."
    )
    compression: Literal["none", "gzip", "lz4", "snappy", "zstd"] = Field(
        default="none", description="How batches of records are compressed."
    )
    subject: str = Field(
        default="",
        description="Subject of the value's schema in the registry; without it <topic>-value. That of a key is "
        "<topic>-key.",
        examples=["orders-value"],
    )
    proto: Path | None = Field(
        default=None,
        description="A .proto file whose message the value is; without it the message follows from the columns.",
        examples=["order.proto"],
    )
    message: str = Field(
        default="",
        description="Full name of the message in it; without it the file's first one.",
        examples=["shop.Order"],
    )

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
