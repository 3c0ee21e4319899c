"""The one settings model.

One name in three spellings: roll_age_max_secs = --roll-age-max-secs = EXPORTER_ROLL_AGE_MAX_SECS.
Those that have a flag: scalars.py; what follows from several is a property here. Kinds of values: values.py. Tables, in
the TOML file only: tables.py. What there was once: gone.py. Filled by load.py, shown by reference.py, turned into
clients' options by kafka/options.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
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

from exporter.core.deployment import Deployment
from exporter.core.roll import RollLimits
from exporter.core.seen import FIELDS_KEPT
from exporter.core.valid_through import Basis
from exporter.settings.derive_tables import DERIVE, Derive
from exporter.settings.format_tables import SchemaRegistry, TopicFormats, ValueFormatTable
from exporter.settings.kafka_client import KafkaClient
from exporter.settings.rules import broken
from exporter.settings.scalars import ScalarSettings
from exporter.settings.tables import FREE, TABLES, EventTimeTable, TypeFromTable
from exporter.settings.type_tables import Types
from exporter.settings.values import EPOCH, Constants
from exporter.stores.store import Store
from exporter.stores.stores import open_store
from offsets.selection import Share, Topics

PREFIX = "EXPORTER_"
CONFIG_DEFAULT = Path("exporter.toml")
ROUNDS_MISSED, ROUNDS_PASSED = 3, 2
"""Rounds that an offer waits for its outcome, and that anything waits for one to ride in."""
STAGE_AGE_SECS, WAL_VERIFY_SECS, DERIVE_SECS, TOPICS_REFRESH_SECS = 6 * 3600.0, 300.0, 10.0, 30.0
WAL_KEEP_DAYS = 14
FILES_PER_512_MIB, COLUMNS_MAX = 10_000, 1_000
NOTHING: tuple[object, ...] = (None, "", (), {})
"""Defaults that mean: not given."""


class Settings(ScalarSettings):
    """Every setting that exists. Built by load()."""

    type_from: TypeFromTable
    """Where the event type stands."""
    event_time: EventTimeTable
    """Where the event time stands."""
    types: Types = Field(default_factory=dict)
    """The event types and their columns."""
    value_format: ValueFormatTable = ValueFormatTable()
    """How values are written."""
    topic_formats: TopicFormats = Field(default_factory=dict)
    """A table as value_format, of the topics whose whole name the expression matches; of several the first one
    counts."""
    schema_registry: SchemaRegistry = SchemaRegistry()
    """Where schemas are registered."""
    kafka_client: KafkaClient = KafkaClient()
    """Security of the connections to Kafka."""

    constants: Constants = Field(default_factory=dict, examples=[{"cluster": "east"}])
    """Columns of each type's table that hold the same text, number, true or false in every row."""
    derive: Derive = Field(default_factory=dict)
    """Tables and topics that `exporter derive` makes of the exported tables, each by a name."""

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
    def store(self) -> Store:
        """Where the tables are."""
        return open_store(self.table_root, self.store_options)

    @property
    def deployment(self) -> Deployment:
        """Where Spark runs, and what it is told."""
        return Deployment(
            master=self.spark_master,
            driver_memory=self.driver_memory,
            driver_host=self.driver_host,
            driver_port=self.driver_port,
            worker_python=self.worker_python,
            worker_archive=self.worker_archive,
            options=self.spark,
        )

    @property
    def store_options(self) -> Mapping[str, str]:
        """What the store is told beside its root (Store.options); only what is not the default."""
        if not self.table_root.startswith(("s3://", "s3a://")):
            return {}
        told = {"endpoint": self.s3_endpoint, "region": self.s3_region}
        return {name: text for name, text in told.items() if text}

    @property
    def commit_mode(self) -> Literal["own", "coordinated"]:
        """Who commits what the tasks have staged: each task what is its own, or a leader, in rounds, for all."""
        return "coordinated" if self.control_topic else "own"

    @property
    def commit_timeout_secs(self) -> float:
        """Seconds that a task waits to hear what became of its offer; then it looks, and commits by itself."""
        return ROUNDS_MISSED * self.commit_interval_secs

    @property
    def grace_secs(self) -> float:
        """Seconds after which what waits for a round goes by itself; 0 where each task commits what is its own."""
        return ROUNDS_PASSED * self.commit_interval_secs if self.control_topic else 0.0

    @property
    def roll(self) -> RollLimits:
        """When staged files become a commit. With a control_topic, what waits for none of two rounds goes by itself."""
        return RollLimits(
            self.roll_records_max,
            self.roll_bytes_max,
            self.grace_secs or self.roll_age_max_secs,
            self.staged_bytes_max,
            together=self.valid_through != "off" and self.commit_mode == "own",
        )

    @property
    def times_told(self) -> Basis:
        """Of which times the tasks of a round of reading tell the greatest."""
        return self.valid_through_time if self.valid_through != "off" else ""

    @property
    def stage_age_max_secs(self) -> float:
        """Seconds after which a staged file is not committed any more but read again; far beyond any commit's turn."""
        return max(STAGE_AGE_SECS, 4 * self.roll_age_max_secs, 4 * self.commit_timeout_secs)

    @property
    def wal_verify_secs(self) -> float:
        """Seconds between two comparisons of the log with the tables while running."""
        return min(WAL_VERIFY_SECS, 5 * self.heartbeat_secs)

    @property
    def derive_secs(self) -> float:
        """Seconds between two looks for new rows of derived tables' sources: some within each wait for a commit."""
        wait_secs = self.commit_interval_secs if self.control_topic else self.roll_age_max_secs / 6
        return min(DERIVE_SECS, wait_secs)

    @property
    def topics_refresh_secs(self) -> float:
        """Seconds between two looks for new partitions and for new topics of the pattern."""
        return TOPICS_REFRESH_SECS

    @property
    def wal_keep_days(self) -> int:
        """Days after which the log forgets a commit that is not the newest of its kind."""
        return WAL_KEEP_DAYS

    @property
    def session_timeout_ms(self) -> int:
        """As Kafka's clients take it."""
        return round(1000 * self.session_timeout_secs)

    @property
    def open_files_max(self) -> int:
        """Files that the tasks of a round, all together, fill at once."""
        return max(1, self.memory_max_bytes * FILES_PER_512_MIB // (512 << 20))

    @property
    def columns_max(self) -> int:
        """Columns, nested ones too, from which on evolve adds none to a table; new objects are maps first."""
        return min(max(COLUMNS_MAX, 10 * self.keys_max), FIELDS_KEPT)

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
    """A setting's flag: roll_age_max_secs -> --roll-age-max-secs."""
    return "--" + name.replace("_", "-")


def variable(name: str) -> str:
    """A setting's variable: roll_age_max_secs -> EXPORTER_ROLL_AGE_MAX_SECS."""
    return PREFIX + name.upper()
