"""The one settings model.

One name in three spellings: roll_age_max_secs = --roll-age-max-secs = EXPORTER_ROLL_AGE_MAX_SECS.
Its first parts: reading.py, coordinating.py, places.py. Kinds of values: values.py. Tables, in the TOML file only:
tables.py.
Filled by load.py, shown by reference.py, turned into clients' options by kafka/options.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from typing import Literal, get_args

from pydantic import (
    Field,
    PrivateAttr,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import InitErrorDetails

from exporter.core.columns import JsonText
from exporter.core.deployment import Deployment
from exporter.core.seen import FIELDS_KEPT, KEYS_KEPT
from exporter.settings.derive_tables import DERIVE, Derive
from exporter.settings.format_tables import SchemaRegistry, TopicFormats, ValueFormatTable
from exporter.settings.kafka_client import KafkaClient
from exporter.settings.places import Places
from exporter.settings.rules import broken
from exporter.settings.tables import FREE, TABLES, EventTimeTable, TypeFromTable
from exporter.settings.type_tables import Types
from exporter.settings.values import (
    CRON_DEFAULT,
    EPOCH,
    Constants,
    Count,
    CountFrom0,
    Cron,
    DaysFrom1,
    Host,
    Instant,
    LeaseSeconds,
    OptionalCron,
    PartitionBy,
    Port,
    Seconds,
    SecondsFrom0,
    WalMode,
    WalTable,
)
from offsets.selection import Share, Topics

PREFIX = "EXPORTER_"
CONFIG_DEFAULT = Path("exporter.toml")
NOTHING: tuple[object, ...] = (None, "", (), {})
"""Defaults that mean: not given."""


class Settings(Places):
    """Every setting that exists. Built by load(); the order here is the order of the reference and the example."""

    event_time_min: Instant = Field(
        default=datetime(2000, 1, 1, tzinfo=timezone.utc),
        description="ISO-8601 time with a zone; a record with an earlier event time is a dead letter.",
    )
    event_time_ahead_max_secs: CountFrom0 = Field(
        default=86_400,
        description="Seconds that an event time may lie after the record's own Kafka timestamp, else it is a dead "
        "letter.",
    )
    unknown_fields: Literal["rescue", "ignore", "dead_letter"] = Field(
        default="rescue",
        description="What becomes of fields without a column: kept in _rescued, left out, or the record is a dead "
        "letter.",
    )
    rescue_empty: bool = Field(
        default=False,
        description="Whether _rescued holds what is empty throughout, too: null, {}, [], objects and arrays of nothing "
        "else. By default it is null where there is no more than that.",
    )
    evolve: Literal["off", "add"] = Field(
        default="off",
        description="What becomes of fields that no column holds: they stay in _rescued, or the table gets columns for "
        "them. A record is good or bad by what is declared alone: what does not fit such a column stays in _rescued.",
    )
    keys_max: int = Field(
        default=100,
        ge=1,
        le=KEYS_KEPT,
        description="Different keys of one object that become columns; an object with more becomes MAP<STRING, JSON>.",
    )
    columns_max: int = Field(
        default=1_000,
        ge=1,
        le=FIELDS_KEPT,
        description="Columns, nested ones too, from which on evolve adds none to a table; new objects are maps first.",
    )
    json_text: JsonText = Field(
        default="as_sent",
        description="How a column of the type JSON holds a value: its text as it was sent, byte for byte, or as in "
        "_rescued: compact, numbers as sent, no more escapes than needed.",
    )
    force_optional: bool = Field(
        default=False,
        description="Whether declared columns and fields may be absent or null although their DDL says NOT NULL; else "
        "the record is a dead letter.",
    )
    new_type: Literal["dead_letter", "table"] = Field(
        default="dead_letter",
        description="What becomes of records of an event type without a [types] table: they are dead letters, or the "
        "type gets a table with the whole record in _rescued.",
    )
    unrouted: str = Field(
        default="dead_letter",
        description="What becomes of records of an event type that no table takes: they are dead letters "
        "(dead_letter), they are counted and stand nowhere (count), or the table of this declared type takes them.",
    )
    new_types_max: Count = Field(
        default=200,
        description="Tables that event types without a [types] table may get; the type that would be one too many "
        "stops the task.",
    )
    partition_by: PartitionBy = Field(
        default="day",
        description="How a new table's files are cut by event time; a table that is there keeps how it was made.",
    )
    key_column: str = Field(
        default="",
        description="Column of each table with the record's key, BINARY, by this name; without it there is none.",
        examples=["_key"],
    )
    headers_column: str = Field(
        default="",
        description="Column with the record's headers by this name, ARRAY<STRUCT<key: STRING, value: BINARY>>; without "
        "it there is none.",
        examples=["_headers"],
    )
    timestamp_type_column: str = Field(
        default="",
        description="Column by this name that tells whether the record's timestamp is its CreateTime or its "
        "LogAppendTime; without it there is none.",
        examples=["_timestamp_type"],
    )
    type_widening: bool = Field(
        default=False,
        description="Whether a table's column gets the wider type that new settings declare (INT to BIGINT, FLOAT to "
        "DOUBLE, ...) by Delta's type widening, which delta-rs 1.6 and DuckDB over it do not read; else refused.",
    )
    on_gap: Literal["stop", "record"] = Field(
        default="stop",
        description="What happens when Kafka has deleted records that were not exported yet: stop with exit code 70, "
        "or record the lost offsets in the dead letters and go on after them.",
    )

    wal_table: WalTable = Field(
        default="",
        description="DynamoDB table of the write-ahead log and of the leases; without it there is neither. "
        "`exporter check --create-wal` makes it.",
        examples=["exporter-wal"],
    )
    wal_mode: WalMode = Field(
        default=None,
        description="What happens while the log cannot be reached: commits wait for it, or go on without it; or there "
        "is no log. Without it required if there is a wal_table.",
        examples=["required"],
    )
    wal_endpoint: str = Field(
        default="",
        description="Address of a DynamoDB that is not AWS's own. Region and credentials are boto3's, from the "
        "environment, ~/.aws or the machine's role.",
        examples=["http://localhost:8000"],
    )
    wal_keep_days: DaysFrom1 = Field(
        default=14, description="Days after which the log forgets a commit that is not the newest of its kind."
    )
    wal_verify_secs: Seconds = Field(
        default=300, description="Seconds between two comparisons of the log with the tables while running."
    )
    lease_secs: LeaseSeconds = Field(
        default=30,
        description="Seconds without a renewal after which another task may take a partition; with assignment = "
        "static and a wal_table.",
    )

    http_port: Port = Field(
        default=0,
        description="TCP port of the health server: a page, /healthz, /readyz, /metrics, /status; 0 = there is none.",
        examples=[9108],
    )
    http_host: Host = Field(
        default="127.0.0.1",
        description="Address that the health server listens on. It has no login: 0.0.0.0 shows topics, tables and "
        "positions to whoever reaches the port.",
    )
    give_up_secs: Seconds = Field(
        default=1800,
        description="Seconds that a running task waits for brokers, storage or a required write-ahead log to answer "
        "again before it ends with exit code 69. A run with an end gives a partition up that was stuck for so long, "
        "exports the rest and ends with 1.",
    )
    event_time_late_max_secs: SecondsFrom0 = Field(
        default=3600,
        description="Seconds that a record is expected to come after its event time at most. Only the completeness "
        "mark and the maintenance of partitions that have ended go by it: a record that is later still is exported "
        "like any other.",
    )
    maintain_cron: Cron = Field(
        default=CRON_DEFAULT,
        description="When `exporter maintain --schedule` works: minute, hour, day of month, month and day of week as "
        "cron writes them, the latter by name (mon-fri), in UTC.",
    )
    maintain_file_bytes_max: Count = Field(
        default=512 << 20,
        description="Bytes of a file up to which maintenance packs the files of a partition that has ended.",
    )

    derive_inline: bool = Field(
        default=False,
        description="Whether `exporter run` also runs the jobs of [derive], beside the export; else `exporter derive "
        "run` does, as a task of its own.",
    )
    derive_cron: OptionalCron = Field(
        default="",
        description="When `exporter derive run --schedule` works, as cron writes it, in UTC; without it whenever a "
        "source has something new.",
        examples=["*/5 * * * *"],
    )
    derive_secs: Seconds = Field(
        default=10, description="Seconds between two looks of `exporter derive run` for new rows of its sources."
    )

    type_from: TypeFromTable = Field(description="Where the event type stands.")
    event_time: EventTimeTable = Field(description="Where the event time stands.")
    types: Types = Field(default_factory=dict, description="The event types and their columns.")
    value_format: ValueFormatTable = Field(default=ValueFormatTable(), description="How values are written.")
    topic_formats: TopicFormats = Field(
        default_factory=dict,
        description="A table as value_format, of the topics whose whole name the expression matches; of several the "
        "first one counts.",
    )
    schema_registry: SchemaRegistry = Field(default=SchemaRegistry(), description="Where schemas are registered.")
    kafka_client: KafkaClient = Field(default=KafkaClient(), description="Security of the connections to Kafka.")

    constants: Constants = Field(
        default_factory=dict,
        description="Columns of each type's table that hold the same text, number, true or false in every row.",
        examples=[{"cluster": "east"}],
    )
    derive: Derive = Field(
        default_factory=dict,
        description="Tables and topics that `exporter derive` makes of the exported tables, each by a name.",
    )

    _origins: dict[str, str] = PrivateAttr(default_factory=dict)
    _declared: dict[str, str] = PrivateAttr(default_factory=dict)
    _schemas: dict[Path, str] = PrivateAttr(default_factory=dict)
    _file: Path | None = PrivateAttr(default=None)

    def told(
        self,
        origins: Mapping[str, str],
        declared: Mapping[str, str],
        file: Path | None,
        schemas: Mapping[Path, str] | None = None,
    ) -> Settings:
        """The same, with where each given value came from, the DDL of each event type, and the file that was read.

        schemas: schema file -> its text, as core/value_format.py has it.
        """
        made = self.model_copy()
        made._origins, made._declared, made._file = dict(origins), dict(declared), file
        made._schemas = dict(schemas or {})
        return made

    @property
    def file(self) -> Path | None:
        """The TOML file that was read; None if there was none."""
        return self._file

    def origin(self, name: str) -> str:
        """Where a setting's value came from: `flag --x`, `environment EXPORTER_X`, `file <path>` or `default`."""
        return self._origins.get(name, "default")

    @property
    def deployment(self) -> Deployment:
        """Where Spark runs, and what it is told."""
        return replace(super().deployment, kafka_tokens=self.kafka_client.by_token)

    @property
    def selection(self) -> Topics:
        """The topics to export."""
        return Topics(self.topics, self.topics_pattern)

    @property
    def share(self) -> Share | None:
        """This task's partitions; None if the consumer group decides."""
        return Share.parse(self.partitions) if self.assignment == "static" else None

    @property
    def first_position_at(self) -> Literal["earliest", "latest"] | int:
        """first_position, a time as milliseconds since 1970 UTC, rounded up to Kafka's resolution."""
        if isinstance(self.first_position, str):
            return self.first_position
        return -((EPOCH - self.first_position) // timedelta(milliseconds=1))

    @property
    def declared(self) -> dict[str, str]:
        """Event type -> DDL text, columns_file read."""
        return dict(self._declared)

    @property
    def schemas(self) -> dict[Path, str]:
        """Schema file -> its text, as core/value_format.py has it."""
        return dict(self._schemas)

    @field_validator("*")
    @classmethod
    def _by_itself(cls, value: object, info: ValidationInfo) -> object:
        """Notes what is fine by itself, so that what is wrong between settings can be told beside a wrong one."""
        if info.context is not None:
            info.context[info.field_name] = value
        return value

    @model_validator(mode="after")
    def _together(self) -> Settings:
        """Raises all that is wrong between settings, under the name of the one that is blamed."""
        wrong = [
            InitErrorDetails(type="value_error", loc=(name,), input=None, ctx={"error": ValueError(reason)})
            for name, reason in broken(dict(self))
        ]
        if wrong:
            raise ValidationError.from_exception_data(type(self).__name__, wrong, hide_input=True)
        fill = partial(object.__setattr__, self)  # nobody has seen it yet
        fill("app", self.app or self.group)
        fill("wal_mode", self.wal_mode or ("required" if self.wal_table else "off"))
        return self


SCALARS: tuple[str, ...] = tuple(name for name in Settings.model_fields if name not in {*TABLES, *FREE, DERIVE})
"""The settings that also have a flag and an environment variable."""

HIDDEN = frozenset(name for name in SCALARS if SecretStr in get_args(Settings.model_fields[name].annotation))
"""Those among them whose values are shown nowhere."""


def flag(name: str) -> str:
    """roll_age_max_secs -> --roll-age-max-secs."""
    return "--" + name.replace("_", "-")


def variable(name: str) -> str:
    """roll_age_max_secs -> EXPORTER_ROLL_AGE_MAX_SECS."""
    return PREFIX + name.upper()
