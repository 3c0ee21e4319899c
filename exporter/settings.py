"""The one settings model: flag > environment EXPORTER_* > TOML file > default.

One name in three spellings: roll_age_max_secs = --roll-age-max-secs = EXPORTER_ROLL_AGE_MAX_SECS.
Tables ([type_from], [event_time], [types.<event type>], [kafka_client]) stand in the TOML file only.
Whatever cannot be used is a ConfigError that says where it was given; unknown names are errors, and no
message holds a secret. Never reads os.environ: the environment is an argument.
"""

from __future__ import annotations

import base64
import difflib
import functools
import json
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin

import click
from pydantic import (
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    SecretStr,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from exporter.errors import ConfigError
from exporter.routing import DEAD_LETTERS, EventTime, Routing, TypeFrom
from offsets.names import APP, TOPIC, BadName, case_clash, table_folder
from offsets.selection import Share, Topics

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo
    from pydantic_core import ErrorDetails

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found, unused-ignore]

PREFIX = "EXPORTER_"
CONFIG_VARIABLE = "EXPORTER_CONFIG"
CONFIG_DEFAULT = Path("exporter.toml")
OTHER_VARIABLES = frozenset(
    {CONFIG_VARIABLE, "EXPORTER_TEST_KAFKA", "EXPORTER_TEST_DYNAMODB", "EXPORTER_CACHE_DIR", "EXPORTER_FAULTS"}
)
"""EXPORTER_ names that are not settings."""

EXAMPLE_FILE = "deploy/exporter.example.toml"
REQUIRED = "required"
NOTHING: tuple[object, ...] = (None, "", ())
"""Defaults that mean: not given."""
_EXAMPLE_TYPE = "order_placed"
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_BROKER = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})")
_MEMORY = re.compile(r"[1-9][0-9]*[kmgtKMGT]")
_MASTER = re.compile(r"local(?:\[(?:\*|[1-9][0-9]*)\])?|yarn|(?:spark|k8s)://\S+")
_TIME = "an ISO-8601 date and time with a zone, such as 2026-01-31T00:00:00Z"
_PKCS8_HINT = "convert the key with `openssl pkcs8 -topk8` and put it and the certificate chain into one file"

_PBES1_HINT = (
    "encrypt it with `openssl pkcs8 -topk8 -v1 PBE-SHA1-3DES`, or store it unencrypted and readable by this user"
)
_PBES2 = bytes.fromhex("2a864886f70d01050d")
"""The object identifier 1.2.840.113549.1.5.13. Seen with kafka-clients 3.9.0 on Java 17: "PBES2 SecretKeyFactory
not available"; it is what openssl 3 writes when nothing else is asked for."""


def _no_bool(value: object) -> object:
    """TOML's true would pass as the number 1."""
    if isinstance(value, bool):
        raise ValueError("should be a number, not true or false")
    return value


def _names(value: object) -> object:
    """Comma text or a list -> a list; flags and environment variables hold text only."""
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def _partitions(value: object) -> object:
    """A TOML list of numbers -> the text that flags and environment variables hold."""
    return ",".join(map(str, value)) if isinstance(value, list) else value


def _instant(value: object) -> datetime:
    """ISO-8601 text with a zone, or TOML's own date-time -> UTC. Numbers have no unit and are refused."""
    wanted = f"should be {_TIME}"
    if isinstance(value, str) and not re.match(r"\d{4}-\d\d-\d\d[Tt ]\d\d:", value):
        raise ValueError(wanted)
    if not isinstance(value, (str, datetime)):
        raise ValueError(wanted)
    try:
        return TypeAdapter(AwareDatetime).validate_python(value).astimezone(timezone.utc)
    except (ValidationError, OverflowError):
        raise ValueError(wanted) from None


def _first_position(value: object) -> str | datetime:
    """earliest, latest or an instant; Kafka reads negative milliseconds as something else."""
    if value in ("earliest", "latest"):
        return str(value)
    try:
        instant = _instant(value)
    except ValueError:
        raise ValueError(f"should be earliest, latest or {_TIME}") from None
    if instant < _EPOCH:
        raise ValueError("should not lie before 1970")
    return instant


Count = Annotated[int, BeforeValidator(_no_bool), Field(ge=1)]
CountFrom0 = Annotated[int, BeforeValidator(_no_bool), Field(ge=0, le=2**31 - 1)]
Seconds = Annotated[float, BeforeValidator(_no_bool), Field(gt=0, allow_inf_nan=False)]
SecondsFrom0 = Annotated[float, BeforeValidator(_no_bool), Field(ge=0, allow_inf_nan=False)]
Names = Annotated[tuple[str, ...], BeforeValidator(_names), Field(min_length=1)]
NamesOrNone = Annotated[tuple[str, ...], BeforeValidator(_names)]
Partitions = Annotated[str, BeforeValidator(_partitions)]
Instant = Annotated[AwareDatetime, BeforeValidator(_instant)]
FirstPosition = Annotated[Literal["earliest", "latest"] | AwareDatetime, BeforeValidator(_first_position)]


class _Table(BaseModel):
    """A table of the TOML file."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class TypeFromTable(_Table):
    """[type_from]"""

    kind: Literal["header", "json", "key", "topic"] = Field(
        description="Where a record's event type stands: in a header, in a JSON field, in the key, or it is the "
        "topic's name.",
        examples=["json"],
    )
    name: str = Field(
        default="",
        description="Name of the header, or dotted path of the JSON field; empty for key and topic.",
        examples=["type"],
    )

    @model_validator(mode="after")
    def _named(self) -> TypeFromTable:
        _check_path("name", self.name, needed=self.kind in ("header", "json"), dotted=self.kind == "json")
        return self


class EventTimeTable(_Table):
    """[event_time]"""

    kind: Literal["json", "record"] = Field(
        description="Where a record's event time stands: in a JSON field, or it is the record's Kafka timestamp.",
        examples=["json"],
    )
    path: str = Field(
        default="", description="Dotted path of the JSON field; empty for record.", examples=["occurred_at"]
    )
    unit: Literal["iso", "s", "ms", "us", "ns"] = Field(
        default="iso",
        description="How the JSON field tells the time: ISO-8601 text, or a number of seconds, milliseconds, "
        "microseconds or nanoseconds since 1970.",
    )

    @model_validator(mode="after")
    def _pathed(self) -> EventTimeTable:
        _check_path("path", self.path, needed=self.kind == "json", dotted=True)
        return self


class TypeTable(_Table):
    """[types.<event type>]"""

    columns: str | None = Field(
        default=None,
        description="The event type's columns as Spark DDL; this or columns_file.",
        examples=["order_id BIGINT, amount DECIMAL(12,2), occurred_at TIMESTAMP"],
    )
    columns_file: Path | None = Field(
        default=None,
        description="File that holds the columns as Spark DDL; relative to the TOML file.",
        examples=["schemas/order_placed.ddl"],
    )

    @model_validator(mode="after")
    def _one_of_two(self) -> TypeTable:
        if (self.columns is None) == (self.columns_file is None):
            raise ValueError("needs either columns or columns_file")
        if self.columns is not None and not self.columns.strip():
            raise ValueError("columns is empty")
        return self


class KafkaClient(_Table):
    """[kafka_client]: security of every connection to Kafka, kafka-python's and Spark's, in PEM files only."""

    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        default="PLAINTEXT", description="Encryption (SSL) and login (SASL) of the connections to Kafka."
    )
    ssl_cafile: Path | None = Field(
        default=None,
        description="PEM file of the authorities that sign the brokers' certificates; without it those of the "
        "system (Python) and of the JVM (Spark).",
        examples=["ca.pem"],
    )
    ssl_certfile: Path | None = Field(
        default=None,
        description="PEM file of the client's PKCS#8 key and certificate chain, both in this one file.",
        examples=["client.pem"],
    )
    ssl_keyfile: Path | None = Field(
        default=None,
        description="The same file as ssl_certfile or nothing: Spark cannot read the key from a file of its own.",
        examples=["client.pem"],
    )
    ssl_password: SecretStr | None = Field(
        default=None, description="Password of the encrypted key.", examples=["secret"]
    )
    ssl_check_hostname: bool = Field(
        default=True, description="Whether the name in the broker's certificate must be its host name."
    )
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = Field(
        default=None, description="How the client proves who it is.", examples=["SCRAM-SHA-512"]
    )
    sasl_plain_username: str | None = Field(
        default=None, description="User name for PLAIN and SCRAM.", examples=["exporter"]
    )
    sasl_plain_password: SecretStr | None = Field(
        default=None, description="Password for PLAIN and SCRAM.", examples=["secret"]
    )

    @property
    def tls(self) -> bool:
        return self.security_protocol in ("SSL", "SASL_SSL")

    @property
    def sasl(self) -> bool:
        return self.security_protocol.startswith("SASL_")

    @model_validator(mode="after")
    def _agree(self) -> KafkaClient:
        """A setting that the protocol ignores would promise a safety that is not there."""
        for prefix, used in (("ssl_", self.tls), ("sasl_", self.sasl)):
            idle = sorted(name for name in self.model_fields_set if name.startswith(prefix))
            if idle and not used:
                raise ValueError(f"{idle[0]} has no effect with security_protocol = {self.security_protocol!r}")
        if self.ssl_certfile is None and (self.ssl_keyfile or self.ssl_password):
            raise ValueError("ssl_keyfile and ssl_password need ssl_certfile")
        if self.ssl_keyfile not in (None, self.ssl_certfile):
            raise ValueError(
                "Spark's Kafka client cannot read key and certificate from two files: put both into one PEM file "
                "and name it as ssl_certfile"
            )
        if self.sasl:
            self._check_login()
        return self

    def _check_login(self) -> None:
        login = (self.sasl_mechanism, self.sasl_plain_username, self.sasl_plain_password)
        if not all(login):
            raise ValueError("SASL needs sasl_mechanism, sasl_plain_username and sasl_plain_password")
        for text in (self.sasl_plain_username, _revealed(self.sasl_plain_password)):
            if re.search(r"[\x00-\x1f\x7f]", text or ""):
                raise ValueError("sasl_plain_username or sasl_plain_password holds a control character")


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
        "tasks must not overlap: only the compare-and-set of the commits keeps two of them apart.",
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
    first_position: FirstPosition = Field(
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
        default=1, description="Seconds between two looks at the partitions' ends while nothing is new."
    )

    round_records_max: Count = Field(default=500_000, description="Records that one round reads over all partitions.")
    round_bytes_max: Count = Field(
        default=256 << 20,
        description="Bytes of records that one round reads over all partitions, estimated from the rounds before.",
    )
    round_secs_max: Seconds = Field(default=600, description="Seconds after which a running round is given up.")
    record_bytes_max: Count = Field(
        default=10_000_000, description="Bytes of a record's value beyond which it is a dead letter."
    )
    staged_bytes_max: Count = Field(
        default=2 << 30, description="Bytes of staged files, of all types, from which on no new round starts."
    )
    stage_age_max_secs: Seconds = Field(
        default=21_600, description="Seconds after which a staged file is not committed any more but read again."
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
    def first_position_ms(self) -> int | None:
        """Milliseconds since 1970 if first_position is a time, rounded up to Kafka's resolution."""
        if isinstance(self.first_position, str):
            return None
        return -((_EPOCH - self.first_position) // timedelta(milliseconds=1))

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


TABLES: dict[str, type[_Table]] = {
    "type_from": TypeFromTable,
    "event_time": EventTimeTable,
    "types": TypeTable,
    "kafka_client": KafkaClient,
}
"""The settings that are tables, in the TOML file only."""

SCALARS: tuple[str, ...] = tuple(name for name in Settings.model_fields if name not in TABLES)
"""The settings that also have a flag and an environment variable."""


PATHS = ("ssl_cafile", "ssl_certfile", "ssl_keyfile", "columns_file")
"""The settings in tables that are paths, relative to the TOML file."""


def flag(name: str) -> str:
    """roll_age_max_secs -> --roll-age-max-secs."""
    return "--" + name.replace("_", "-")


def variable(name: str) -> str:
    """roll_age_max_secs -> EXPORTER_ROLL_AGE_MAX_SECS."""
    return PREFIX + name.upper()


@dataclass(frozen=True)
class _Given:
    """The layers, each setting name -> value as given. path: of the TOML file, empty if there is none."""

    flags: Mapping[str, object]
    environment: Mapping[str, object]
    file: Mapping[str, object]
    path: str

    @property
    def in_file(self) -> str:
        return f"in {self.path}" if self.path else "in the TOML file"

    def merged(self) -> dict[str, object]:
        return {**self.file, **self.environment, **self.flags}

    def origins(self) -> dict[str, str]:
        """Setting -> where its value came from; what no layer gives is left out."""
        return {
            **dict.fromkeys(self.file, f"file {self.path}"),
            **{name: f"environment {variable(name)}" for name in self.environment},
            **{name: f"flag {flag(name)}" for name in self.flags},
        }

    def spelled(self, name: str) -> str:
        """A scalar in the spelling in which it was given, value included."""
        value = self.merged().get(name)
        shown = repr(value) if isinstance(value, (str, int, float, datetime)) else "..."
        shown = shown if len(shown) <= 80 else shown[:80] + "..."
        if name in self.flags:
            return f"{flag(name)} {shown}"
        if name in self.environment:
            return f"{variable(name)}={shown}"
        return f"{name} = {shown} {self.in_file}" if name in self.file else f"{name} (default)"


@dataclass(frozen=True)
class _Problem:
    """What is wrong and what to do; neither holds a value from a table, which may be a secret."""

    what: str
    hint: str


def load(config: Path | None, flags: Mapping[str, object], environ: Mapping[str, str]) -> Settings:
    """The settings of one run. Raises ConfigError with everything that is wrong.

    config: the TOML file; None: $EXPORTER_CONFIG, else ./exporter.toml if it is there. flags:
    setting name -> value as given, None = not given. environ: all environment variables.
    """
    path = _config_path(config, environ)
    table = _read_toml(path) if path else {}
    given = _Given(
        flags={name: value for name, value in flags.items() if value is not None},
        environment={name: environ[variable(name)] for name in SCALARS if variable(name) in environ},
        file=_resolved(table, path.parent) if path else {},
        path=str(path or ""),
    )
    _refuse([*_unknown_names(given), *_unknown_variables(environ)])
    try:
        settings = Settings(**given.merged())  # type: ignore[arg-type]
    except ValidationError as error:
        problems = [_problem(detail, given) for detail in error.errors(include_url=False, include_context=False)]
    else:
        problems = list(_pem_problems(settings.kafka_client))
        settings._origins.update(given.origins())
        settings._declared.update(_read_columns(settings, problems))
    _refuse(problems)
    return settings


def _config_path(config: Path | None, environ: Mapping[str, str]) -> Path | None:
    if config is None and environ.get(CONFIG_VARIABLE):
        config = Path(environ[CONFIG_VARIABLE])
    return config or (CONFIG_DEFAULT if CONFIG_DEFAULT.is_file() else None)


def _read_toml(path: Path) -> dict[str, object]:
    try:
        table: dict[str, object] = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ConfigError(f"the configuration {path} cannot be read: {reason}", "check --config") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8: byte {error.start}", "save it as UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not TOML: {error}", f"compare it with {EXAMPLE_FILE}") from None
    return table


def _resolved(table: Mapping[str, object], folder: Path) -> dict[str, object]:
    """The file's content with its relative paths joined to the file's folder."""
    resolved = dict(table)
    types = table.get("types")
    if isinstance(types, dict):
        resolved["types"] = {name: _resolved_table(inner, folder) for name, inner in types.items()}
    if "kafka_client" in table:
        resolved["kafka_client"] = _resolved_table(table["kafka_client"], folder)
    return resolved


def _resolved_table(table: object, folder: Path) -> object:
    if not isinstance(table, dict):
        return table
    paths = {name: folder / table[name] for name in PATHS if isinstance(table.get(name), str)}
    return {**table, **paths}


def _refuse(problems: list[_Problem]) -> None:
    """Raises one ConfigError for all problems."""
    if not problems:
        return
    if len(problems) == 1:
        raise ConfigError(problems[0].what, problems[0].hint)
    lines = [f"\n  {problem.what}\n    hint: {problem.hint}" for problem in problems]
    raise ConfigError(f"{len(problems)} problems with the settings:{''.join(lines)}", f"{EXAMPLE_FILE} lists them all")


def _unknown_names(given: _Given) -> Iterator[_Problem]:
    """Top-level names that are no settings; those within tables are found by the model."""
    known = {name.rpartition(".")[2]: name for name, _, _ in reference()}
    known |= {name: name for name in Settings.model_fields}
    for name in given.file:
        if name not in Settings.model_fields:
            yield _Problem(f"unknown setting {name!r} {given.in_file}", _did_you_mean(name, known))
    flags = {name: flag(name) for name in SCALARS}
    for name in given.flags:
        if name not in flags:
            yield _Problem(f"unknown flag {flag(name)}", _did_you_mean(name, flags))


def _unknown_variables(environ: Mapping[str, str]) -> Iterator[_Problem]:
    settings = {variable(name): variable(name) for name in SCALARS}
    tables = {variable(name): name for name in TABLES}
    for name in sorted(environ):
        if not name.upper().startswith(PREFIX) or name in settings or name in OTHER_VARIABLES:
            continue
        what = f"unknown environment variable {name}"
        if name in tables:
            yield _Problem(what, f"[{tables[name]}] stands in the TOML file only")
        else:
            yield _Problem(what, _did_you_mean(name.upper(), settings | {other: other for other in OTHER_VARIABLES}))


def _did_you_mean(name: str, known: Mapping[str, str]) -> str:
    """known: what to compare with -> what to show."""
    near = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {known[near[0]]}?" if near else f"{EXAMPLE_FILE} lists every setting"


def _problem(error: ErrorDetails, given: _Given) -> _Problem:
    """One error of the model in the user's words."""
    loc = [str(part) for part in error["loc"]]
    reason = error["msg"].removeprefix("Value error, ").replace("Input should", "should")
    if loc[0] in TABLES:
        return _table_problem(loc, error["type"], reason, given)
    spellings = f"{flag(loc[0])}, {variable(loc[0])} or {loc[0]} {given.in_file}"
    if error["type"] == "missing":
        return _Problem(f"{loc[0]} is missing", f"give {spellings}")
    return _Problem(f"{given.spelled(loc[0])}: {reason}", f"change {spellings}")


def _table_problem(loc: list[str], kind: str, reason: str, given: _Given) -> _Problem:
    """An error at [table], [table] key, [types.<event type>] or [types.<event type>] key."""
    depth = 2 if loc[0] == "types" else 1
    table = f"[{'.'.join(loc[:depth])}]"
    where = " ".join([table, *loc[depth:]])
    hint = f"see {table if depth == 1 else '[types.<event type>]'} in {EXAMPLE_FILE}"
    if kind == "extra_forbidden":
        known = {name: name for name in TABLES[loc[0]].model_fields}
        hint = _did_you_mean(loc[-1], known)
        if loc[0] == "types":
            hint += '; an event type with a dot needs quotes: [types."a.b"]'
        return _Problem(f"unknown setting {where} {given.in_file}", hint)
    if kind == "missing":
        return _Problem(f"{where} is missing {given.in_file}", hint)
    return _Problem(f"{where} {given.in_file}: {reason}", hint)


def _check_path(what: str, path: str, needed: bool, dotted: bool) -> None:
    """Raises ValueError if a name is missing, superfluous, or no dotted path."""
    if needed != bool(path):
        raise ValueError(f"{what} is {'missing' if needed else 'not used'} with this kind")
    if dotted and needed and (path.startswith("$.") or not all(path.split("."))):
        raise ValueError(f"{what} {path!r} should be a dotted path such as meta.type")


def _read_columns(settings: Settings, problems: list[_Problem]) -> dict[str, str]:
    """Event type -> DDL text; what cannot be read is added to `problems`."""
    declared = {}
    for name, table in settings.types.items():
        declared[name] = table.columns or ""
        if table.columns_file is None:
            continue
        try:
            declared[name] = table.columns_file.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
            what = f"[types.{name}] columns_file {table.columns_file} cannot be read: {reason}"
            problems.append(_Problem(what, "the path is relative to the TOML file"))
        else:
            if not declared[name].strip():
                problems.append(_Problem(f"[types.{name}] columns_file {table.columns_file} is empty", "write DDL"))
    return declared


def _pem_problems(client: KafkaClient) -> Iterator[_Problem]:
    """What both clients would report as no more than "no broker answers"."""
    for name in ("ssl_cafile", "ssl_certfile"):
        path: Path | None = getattr(client, name)
        if path is None:
            continue
        where = f"[kafka_client] {name} {path}"
        try:
            text = path.read_text("utf-8", errors="replace")
        except OSError as error:
            yield _Problem(f"{where} cannot be read: {error.strerror}", "the path is relative to the TOML file")
            continue
        if "-----BEGIN CERTIFICATE-----" not in text:
            yield _Problem(f"{where} holds no certificate", "it should be a PEM file, not JKS or PKCS#12")
        elif name == "ssl_certfile":
            yield from _key_problems(where, text, client.ssl_password is not None)


def _key_problems(where: str, text: str, password: bool) -> Iterator[_Problem]:
    """What Java's PEM reader refuses."""
    plain, encrypted = (f"-----BEGIN {kind}PRIVATE KEY-----" in text for kind in ("", "ENCRYPTED "))
    if not plain and not encrypted:
        yield _Problem(f"{where} holds no PKCS#8 key", _PKCS8_HINT)
    elif encrypted != password:
        reason = "is encrypted but there is no ssl_password" if encrypted else "is not encrypted but has a ssl_password"
        yield _Problem(f"{where}: the key {reason}", "set or remove ssl_password")
    elif encrypted and _PBES2 in _der_of_key(text):
        yield _Problem(f"{where}: the key is encrypted with PBES2, which Kafka's Java client cannot read", _PBES1_HINT)


def _der_of_key(text: str) -> bytes:
    """The bytes of the first encrypted key in a PEM file; empty if they are damaged."""
    body = text.partition("-----BEGIN ENCRYPTED PRIVATE KEY-----")[2].partition("-----")[0]
    try:
        return base64.b64decode("".join(body.split()))
    except ValueError:
        return b""


def _revealed(secret: SecretStr | None) -> str | None:
    return secret.get_secret_value() if secret else None


def kafka_python_options(settings: Settings) -> dict[str, Any]:
    """Keywords for kafka-python's clients: bootstrap servers and security. Holds secrets."""
    client = settings.kafka_client
    options: dict[str, Any] = {
        "bootstrap_servers": list(settings.brokers),
        "security_protocol": client.security_protocol,
    }
    if client.tls:
        options["ssl_check_hostname"] = client.ssl_check_hostname
        for name in ("ssl_cafile", "ssl_certfile", "ssl_keyfile"):
            if getattr(client, name) is not None:
                options[name] = str(getattr(client, name))
        if client.ssl_password is not None:
            options["ssl_password"] = _revealed(client.ssl_password)
    if client.sasl:
        options["sasl_mechanism"] = client.sasl_mechanism
        options["sasl_plain_username"] = client.sasl_plain_username
        options["sasl_plain_password"] = _revealed(client.sasl_plain_password)
    return options


def spark_kafka_options(settings: Settings) -> dict[str, str]:
    """The same as `kafka.`-prefixed options of Spark's Kafka source. Holds secrets."""
    client = settings.kafka_client
    options = {"bootstrap.servers": ",".join(settings.brokers), "security.protocol": client.security_protocol}
    if client.tls:
        if client.ssl_cafile is not None:
            options |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(client.ssl_cafile)}
        if client.ssl_certfile is not None:
            options |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(client.ssl_certfile)}
        if client.ssl_password is not None:
            options["ssl.key.password"] = client.ssl_password.get_secret_value()
        if not client.ssl_check_hostname:
            options["ssl.endpoint.identification.algorithm"] = ""
    if client.sasl:
        options |= {"sasl.mechanism": str(client.sasl_mechanism), "sasl.jaas.config": _jaas(client)}
    return {f"kafka.{name}": value for name, value in options.items()}


def _jaas(client: KafkaClient) -> str:
    """One entry of a JAAS file; quotes and backslashes are escaped as Java's StreamTokenizer reads them."""

    def quoted(text: str | None) -> str:
        return '"' + (text or "").replace("\\", "\\\\").replace('"', '\\"') + '"'

    package = "plain.Plain" if client.sasl_mechanism == "PLAIN" else "scram.Scram"
    username, password = quoted(client.sasl_plain_username), quoted(_revealed(client.sasl_plain_password))
    module = f"org.apache.kafka.common.security.{package}LoginModule"
    return f"{module} required username={username} password={password};"


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
        event_time_min_us=(settings.event_time_min - _EPOCH) // timedelta(microseconds=1),
        event_time_ahead_max_secs=settings.event_time_ahead_max_secs,
        generation=settings.generation,
    )


def click_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds `--config` and one flag per scalar setting to a click command.

    The command is called with `config: Path | None` and `flags: dict[str, str]` (those that were
    given) beside its own parameters: `load(config, flags, os.environ)`.
    """

    @functools.wraps(command)
    def with_settings(*args: Any, **given: Any) -> Any:
        values = {name: given.pop(f"setting_{name}") for name in SCALARS}
        flags = {name: value for name, value in values.items() if value is not None}
        return command(*args, flags=flags, **given)

    decorated: Callable[..., Any] = with_settings
    texts = {name: (default, description) for name, default, description in reference()}
    for name in reversed(SCALARS):
        default, description = texts[name]
        shown = f"{description}  [{'default: ' if default != REQUIRED else ''}{default}]" if default else description
        decorated = click.option(flag(name), f"setting_{name}", metavar="VALUE", help=shown)(decorated)
    return click.option(
        "--config", type=click.Path(path_type=Path), help=f"TOML file with settings.  [default: {CONFIG_DEFAULT}]"
    )(decorated)


def reference() -> list[tuple[str, str, str]]:
    """(name, default as TOML or `required`, description) of every setting, in the model's order."""
    rows = [(name, Settings.model_fields[name]) for name in SCALARS]
    for table, model in TABLES.items():
        prefix = "types.<event type>" if table == "types" else table
        rows += [(f"{prefix}.{name}", field) for name, field in model.model_fields.items()]
    return [(name, _default_text(field), _description(field)) for name, field in rows]


def _description(field: FieldInfo) -> str:
    """The field's sentence, and what there is to choose from."""
    kinds = get_args(field.annotation)
    kinds = kinds if type(None) in kinds else (field.annotation,)
    choices = [choice for kind in kinds if get_origin(kind) is Literal for choice in get_args(kind)]
    text = field.description or ""
    return f"{text} One of: {', '.join(choices)}." if len(choices) > 1 else text


def _default_text(field: FieldInfo) -> str:
    if field.is_required():
        return REQUIRED
    return "" if field.default in NOTHING else toml_value(field.default)


def example_toml() -> str:
    """An example file with every setting; a commented line shows the default, or an example where there is none."""
    head = (
        "Generated from exporter/settings.py; copy it to exporter.toml and edit. What is commented out shows the "
        "default, or an example of a setting that has none. Each setting outside a [table] is also a flag and an "
        f"environment variable, which win over this file: roll_age_max_secs = {flag('roll_age_max_secs')} = "
        f"{variable('roll_age_max_secs')}."
    )
    lines = [*_comment(head), ""]
    lines += _example_lines(((name, Settings.model_fields[name]) for name in SCALARS), needed=_EXAMPLE_NEEDED)
    for table, model in TABLES.items():
        lines += [f"[types.{_EXAMPLE_TYPE}]" if table == "types" else f"[{table}]"]
        lines += _example_lines(model.model_fields.items(), needed=_EXAMPLE_NEEDED)
    return "\n".join(lines).rstrip() + "\n"


_EXAMPLE_NEEDED = frozenset({"topics", "name", "path", "columns"})
"""Optional settings without which the example would not load."""


def _example_lines(fields: Iterable[tuple[str, FieldInfo]], needed: frozenset[str] = frozenset()) -> Iterator[str]:
    for name, field in fields:
        yield from _comment(_description(field))
        given = field.is_required() or name in needed
        absent = field.is_required() or field.default in NOTHING
        value = (field.examples or [""])[0] if absent else field.default
        yield f"{'' if given else '# '}{name} = {toml_value(value)}"
        yield ""


def _comment(text: str) -> list[str]:
    return textwrap.wrap(text, 110, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False)


def toml_value(value: object) -> str:
    """A setting's value as the TOML file writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value:_}" if value >= 10_000 else f"{value}"
    if isinstance(value, float):
        return f"{value:.0f}" if value.is_integer() and value < 1e15 else repr(value)
    if isinstance(value, tuple):
        return f"[{', '.join(toml_value(item) for item in value)}]"
    if isinstance(value, datetime):
        return json.dumps(value.isoformat().replace("+00:00", "Z"))
    return json.dumps(str(value))
