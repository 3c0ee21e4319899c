"""The one settings model.

One name in three spellings: roll_age_max_secs = --roll-age-max-secs = EXPORTER_ROLL_AGE_MAX_SECS.
Kinds of values: values.py. Tables, which stand in the TOML file only: tables.py.
Filled by load.py, shown by reference.py, turned into clients' options by kafka/options.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Literal

from pydantic import Field, PrivateAttr, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from exporter.core.routing import DEAD_LETTERS, EventTime, Routing, TypeFrom
from exporter.settings.tables import TABLES, EventTimeTable, KafkaClient, TypeFromTable, TypeTable
from exporter.settings.values import (
    CRON_DEFAULT,
    EPOCH,
    Beginning,
    Count,
    CountFrom0,
    Cron,
    DaysFrom1,
    Instant,
    LeaseSeconds,
    Names,
    NamesOrNone,
    Partitions,
    Port,
    Seconds,
    SecondsFrom0,
    WalMode,
)
from offsets.names import APP, TOPIC, BadName, case_clash, table_folder
from offsets.selection import Share, Topics

PREFIX = "EXPORTER_"
CONFIG_DEFAULT = Path("exporter.toml")
NOTHING: tuple[object, ...] = (None, "", ())
"""Defaults that mean: not given."""
_BROKER = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})")
_HOST = re.compile(r"[A-Za-z0-9.:-]+")
_MEMORY = re.compile(r"[1-9][0-9]*[kmgtKMGT]")
_WAL_TABLE = re.compile(r"[A-Za-z0-9_.-]{3,255}")
_ENDPOINT = re.compile(r"https?://(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?/?")
_MASTER = re.compile(r"local(?:\[(?:\*|[1-9][0-9]*)\])?|yarn|(?:spark|k8s)://\S+")


class Settings(BaseSettings):
    """Every setting that exists. Built by load(); the order here is the order of the reference and the example."""

    model_config = SettingsConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, validate_default=True)

    brokers: Names = Field(description="Kafka brokers to start from, as host:port.", examples=[("localhost:9092",)])
    topics: NamesOrNone = Field(
        default=(), description="The topics to export, all into one set of tables; these or topics_pattern.",
        examples=[("events",)],
    )  # fmt: skip
    topics_pattern: str = Field(
        default="",
        description="Regular expression: every topic whose whole name matches is exported, also one that comes later.",
        examples=[r"events\..*"],
    )
    topics_refresh_secs: Seconds = Field(
        default=30, description="Seconds between two looks for new partitions and for new topics of the pattern."
    )
    group: str = Field(
        description="Consumer group in which the tasks share the topics' partitions, and whose offsets lag tools read.",
        examples=["exporter"],
    )
    assignment: Literal["group", "static"] = Field(
        default="group",
        description="How a task comes to its partitions: by the consumer group, or by the setting partitions. Static "
        "tasks must not overlap: without a wal_table only the compare-and-set of the commits keeps two of them apart.",
    )
    partitions: Partitions = Field(
        default="",
        description="With assignment = static: this task's partitions of every topic, as a list such as 0,2,5 or as "
        "index/count such as 1/4, all p with p % 4 = 1 (a scheduler's allocation index and count).",
        examples=["0/4"],
    )
    app: str = Field(
        default="",
        description="Name of this export in stored positions and file names, of [A-Za-z0-9_-]; never change it once "
        "there are tables. Without it the group.",
        examples=["exporter"],
    )
    table_root: str = Field(
        description="Folder that holds one Delta table per event type: an absolute path or file:///path.",
        examples=["file:///var/lib/exporter/tables"],
    )
    isolation: Literal["read_committed", "read_uncommitted"] = Field(
        default="read_committed", description="Whether records of open and aborted Kafka transactions are left out."
    )
    first_position: Beginning = Field(
        default="earliest",
        description="Where a topic that is new to the tables begins: earliest, latest, or the first record at or after "
        "an ISO-8601 time with a zone; later starts go on from the tables.",
    )
    generation: CountFrom0 = Field(
        default=0,
        description="Raise it to return to a routing configuration that was in force before; no other change needs it.",
    )

    roll_records_max: Count = Field(
        default=1_000_000, description="Records that one type and partition stages before they are committed."
    )
    roll_bytes_max: Count = Field(
        default=128 << 20, description="Bytes of files that one type and partition stages before they are committed."
    )
    roll_age_max_secs: Seconds = Field(
        default=60, description="Seconds that the oldest staged record of a type and partition waits for its commit."
    )
    heartbeat_secs: Seconds = Field(
        default=60,
        description="Seconds after which a type without new records moves its position by a commit without files.",
    )
    poll_secs: Seconds = Field(
        default=1,
        description="Seconds between two looks at the partitions' ends, or roll_age_max_secs / 8 if that is less.",
    )

    round_records_max: Count = Field(default=1_000_000, description="Records that one round reads over all partitions.")
    round_bytes_max: Count = Field(
        default=512 << 20,
        description="Bytes of records that one round reads over all partitions, estimated from the rounds before.",
    )
    round_secs_max: Seconds = Field(default=600, description="Seconds after which a running round is given up.")
    record_bytes_max: Count = Field(
        default=10_000_000, description="Bytes of a record's value beyond which it is a dead letter."
    )
    memory_max_bytes: Count = Field(
        default=512 << 20,
        ge=16 << 20,
        description="Bytes that the tasks of a round, all together, hold in memory of files that are not finished; the "
        "largest are encoded, then finished, before there are more. Each task also has its current batch of records. "
        "The commits, all together, hold as much at most of small files that they join.",
    )
    open_files_max: Count = Field(
        default=10_000,
        description="Files (one per type, partition and event day) that the tasks of a round, all together, fill at "
        "once; the largest are finished before there are more.",
    )
    carried_bytes_max: int = Field(
        default=64 << 20,
        ge=0,
        description="Bytes of rows that wait in the driver to be written at their commit, of files that are small when "
        "their round ends; 0: each file is written then.",
    )
    staged_bytes_max: Count = Field(
        default=2 << 30,
        description="Bytes of staged files, of all types, from which on no new round starts and the largest are "
        "committed at once.",
    )
    stage_age_max_secs: Seconds = Field(
        default=21_600, description="Seconds after which a staged file is not committed any more but read again."
    )
    sync: bool = Field(
        default=True,
        description="Whether a commit waits until its files, its log entry and their folders are on disk, so that a "
        "power cut takes nothing that was committed.",
    )
    stop_budget_secs: SecondsFrom0 = Field(
        default=20, description="Seconds that a stop may take to commit what is staged."
    )
    session_timeout_ms: Count = Field(
        default=45_000, description="Milliseconds without a heartbeat after which the group gives the partitions away."
    )

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
        description="What becomes of JSON fields without a column: kept in _rescued, left out, or the record is a "
        "dead letter.",
    )
    new_type: Literal["dead_letter", "table"] = Field(
        default="dead_letter",
        description="What becomes of records of an event type without a [types] table: they are dead letters, or the "
        "type gets a table with the whole record in _rescued.",
    )
    new_types_max: Count = Field(
        default=200,
        description="Tables that event types without a [types] table may get; the type that would be one too many "
        "stops the task.",
    )
    on_gap: Literal["stop", "record"] = Field(
        default="stop",
        description="What happens when Kafka has deleted records that were not exported yet: stop with exit code 70, "
        "or record the lost offsets in the dead letters and go on after them.",
    )

    wal_table: str = Field(
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
        description="TCP port of the health server: /healthz, /readyz, /metrics, /status; 0 = there is none.",
        examples=[9108],
    )
    http_host: str = Field(
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
        "mark and the maintenance of closed days go by it: a record that is later still is exported like any other.",
    )
    maintain_cron: Cron = Field(
        default=CRON_DEFAULT,
        description="When `exporter maintain --schedule` works: minute, hour, day of month, month and day of week as "
        "cron writes them, the latter by name (mon-fri), in UTC.",
    )
    maintain_file_bytes_max: Count = Field(
        default=536_870_912,
        description="Bytes of a file up to which maintenance packs the files of a closed day together.",
    )

    spark_master: str = Field(
        default="local[*]", description="Where Spark runs: local[*], local[<cores>], or the address of a cluster."
    )
    driver_memory: str = Field(
        default="1g", description="Heap of the JVM, as Java writes it: a number with k, m, g or t."
    )

    type_from: TypeFromTable = Field(description="Where the event type stands.")
    event_time: EventTimeTable = Field(description="Where the event time stands.")
    types: dict[str, TypeTable] = Field(default_factory=dict, description="The event types and their columns.")
    kafka_client: KafkaClient = Field(default=KafkaClient(), description="Security of the connections to Kafka.")

    _origins: dict[str, str] = PrivateAttr(default_factory=dict)
    _declared: dict[str, str] = PrivateAttr(default_factory=dict)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Only what load() hands over: it merges the layers, because it is told the environment."""
        return (init_settings,)

    def origin(self, name: str) -> str:
        """Where a setting's value came from: `flag --x`, `environment EXPORTER_X`, `file <path>` or `default`."""
        return self._origins.get(name, "default")

    @property
    def selection(self) -> Topics:
        """The topics to export."""
        return Topics(self.topics, self.topics_pattern)

    @property
    def share(self) -> Share | None:
        """This task's partitions; None if the consumer group decides."""
        return Share.parse(self.partitions) if self.assignment == "static" else None

    @property
    def root(self) -> Path:
        """table_root as an absolute path."""
        return Path(self.table_root.removeprefix("file://"))

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

    @field_validator("brokers")
    @classmethod
    def _host_and_port(cls, brokers: tuple[str, ...]) -> tuple[str, ...]:
        for broker in brokers:
            match = _BROKER.fullmatch(broker)
            if not match or not 0 < int(match[1]) < 65_536:
                raise ValueError(f"{broker!r} should be host:port")
        return brokers

    @field_validator("topics")
    @classmethod
    def _topic_names(cls, topics: tuple[str, ...]) -> tuple[str, ...]:
        for topic in topics:
            if not TOPIC.match(topic) or topic in (".", ".."):
                raise ValueError(f"{topic!r} should be a topic's name: at most 249 of [A-Za-z0-9._-]")
        if len(set(topics)) < len(topics):
            raise ValueError("a topic is named twice")
        return topics

    @field_validator("topics_pattern")
    @classmethod
    def _names_or_pattern(cls, pattern: str, info: ValidationInfo) -> str:
        if "topics" not in info.data:
            return pattern
        if not info.data["topics"] and not pattern:
            raise ValueError("either topics or topics_pattern is needed")
        if info.data["topics"] and pattern:
            raise ValueError("cannot be given together with topics")
        return Topics(info.data["topics"], pattern).pattern

    @field_validator("partitions")
    @classmethod
    def _only_if_static(cls, partitions: str, info: ValidationInfo) -> str:
        static = info.data.get("assignment") == "static"
        if static and not partitions:
            raise ValueError("is needed with assignment = static")
        if partitions and not static:
            raise ValueError("has no effect without assignment = static")
        if partitions:
            Share.parse(partitions)
        return partitions

    @field_validator("group")
    @classmethod
    def _group_name(cls, group: str) -> str:
        if not group.strip() or not group.isprintable():
            raise ValueError("should be the name of a consumer group")
        return group

    @field_validator("app")
    @classmethod
    def _app_name(cls, app: str, info: ValidationInfo) -> str:
        name = app or str(info.data.get("group", ""))
        if name and not APP.match(name):
            by_default = "" if app else f" (by default it is the group, {name!r})"
            raise ValueError(f"should have letters, digits, _ and - only{by_default}")
        return name

    @field_validator("table_root")
    @classmethod
    def _local_root(cls, root: str) -> str:
        scheme, separator, _ = root.partition("://")
        if separator and scheme != "file":
            raise ValueError(
                f"{scheme}:// is not supported yet: with several writers such stores can lose commits silently; "
                "use file:///path on storage that all tasks share"
            )
        path = root.removeprefix("file://")
        if not path.startswith("/") or not root.isprintable():
            raise ValueError("should be an absolute path or file:///path")
        if separator and "%" in path:
            raise ValueError("a file:// path is not decoded: write it plainly, without %-codes")
        return root

    @field_validator("staged_bytes_max")
    @classmethod
    def _room_to_roll(cls, staged_bytes_max: int, info: ValidationInfo) -> int:
        if staged_bytes_max < info.data.get("roll_bytes_max", 0):
            raise ValueError("should not be less than roll_bytes_max, which could never be reached")
        return staged_bytes_max

    @field_validator("stage_age_max_secs")
    @classmethod
    def _older_than_roll(cls, stage_age_max_secs: float, info: ValidationInfo) -> float:
        if stage_age_max_secs <= info.data.get("roll_age_max_secs", 0):
            raise ValueError("should be more than roll_age_max_secs, else files are dropped before they are committed")
        return stage_age_max_secs

    @field_validator("wal_table")
    @classmethod
    def _table_name(cls, table: str) -> str:
        if table and not _WAL_TABLE.fullmatch(table):
            raise ValueError("should be the name of a DynamoDB table: 3 to 255 of [A-Za-z0-9_.-]")
        return table

    @field_validator("wal_mode")
    @classmethod
    def _mode_of_a_log(cls, mode: str | None, info: ValidationInfo) -> str:
        table = info.data.get("wal_table", "-")
        if mode in ("required", "best_effort") and not table:
            raise ValueError("needs wal_table")
        return mode or ("required" if table else "off")

    @field_validator("wal_endpoint")
    @classmethod
    def _url_of_a_log(cls, endpoint: str, info: ValidationInfo) -> str:
        if endpoint and not info.data.get("wal_table", "-"):
            raise ValueError("has no effect without wal_table")
        if endpoint and not _ENDPOINT.fullmatch(endpoint):
            raise ValueError("should be http://host:port or https://host:port")
        return endpoint

    @field_validator("http_host")
    @classmethod
    def _address(cls, host: str) -> str:
        if not _HOST.fullmatch(host):
            raise ValueError("should be an address or a host name, without a port")
        return host

    @field_validator("spark_master", "driver_memory")
    @classmethod
    def _for_spark(cls, value: str, info: ValidationInfo) -> str:
        if info.field_name == "spark_master" and not _MASTER.fullmatch(value):
            raise ValueError("should be local, local[*], local[<cores>], yarn, spark://... or k8s://...")
        if info.field_name == "driver_memory" and not _MEMORY.fullmatch(value):
            raise ValueError("should be a number with k, m, g or t, such as 2g")
        return value

    @field_validator("types")
    @classmethod
    def _storable(cls, types: dict[str, TypeTable], info: ValidationInfo) -> dict[str, TypeTable]:
        if not types and info.data.get("new_type") != "table":
            raise ValueError("no event type is declared")
        try:
            for name in types:
                table_folder(name)
            clash = case_clash((DEAD_LETTERS, *types))
        except BadName as error:
            raise ValueError(str(error)) from None
        if clash is not None and DEAD_LETTERS in clash:
            raise ValueError(f"event type {clash[1]!r}: {DEAD_LETTERS} is the exporter's own table")
        if clash is not None:
            raise ValueError(f"event types {clash[0]!r} and {clash[1]!r} differ by case only")
        return types


SCALARS: tuple[str, ...] = tuple(name for name in Settings.model_fields if name not in TABLES)
"""The settings that also have a flag and an environment variable."""


def flag(name: str) -> str:
    """roll_age_max_secs -> --roll-age-max-secs."""
    return "--" + name.replace("_", "-")


def variable(name: str) -> str:
    """roll_age_max_secs -> EXPORTER_ROLL_AGE_MAX_SECS."""
    return PREFIX + name.upper()


def routing(settings: Settings, schemas: Mapping[str, str]) -> Routing:
    """The routing configuration. schemas: event type -> Spark schema JSON, for exactly the declared types."""
    if set(schemas) != set(settings.types):
        raise ValueError(f"schemas of {sorted(schemas)} for the declared types {sorted(settings.types)}")
    canonical = {
        name: json.dumps(json.loads(schema), sort_keys=True, separators=(",", ":")) for name, schema in schemas.items()
    }
    return Routing(
        type_from=TypeFrom(settings.type_from.kind, settings.type_from.name),
        event_time=EventTime(settings.event_time.kind, settings.event_time.path, settings.event_time.unit),
        types=tuple(sorted(canonical.items())),
        unknown_fields=settings.unknown_fields,
        new_type=settings.new_type,
        isolation=settings.isolation,
        record_bytes_max=settings.record_bytes_max,
        event_time_min_us=(settings.event_time_min - EPOCH) // timedelta(microseconds=1),
        event_time_ahead_max_secs=settings.event_time_ahead_max_secs,
        generation=settings.generation,
    )
