"""What every verb works with, opened from the settings: session, lake, topics, routing, log."""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from exporter.catalog.catalog import CatalogAddress
from exporter.catalog.catalogs import CATALOGS
from exporter.catalog.registrar import Registrar
from exporter.column.ddl import NotColumns, ddl_schema
from exporter.column.spark_json import struct_of
from exporter.column.types import Type
from exporter.core.columns import NO_COLUMNS, check_columns
from exporter.core.evolve import Evolutions
from exporter.core.routing import DEAD_LETTERS, Routing
from exporter.core.schemas import SchemaColumns, SchemaSource
from exporter.core.specs import Specs
from exporter.core.value_format import JSON, ValueFormat
from exporter.errors import ConfigError, TableUnreadable
from exporter.formats.decoder import Decoder
from exporter.formats.formats import format_of
from exporter.formats.schema_columns import FromSchemas
from exporter.kafka.options import kafka_python_options
from exporter.kafka.topics import FirstPosition, TopicReader
from exporter.kafka.topics_beside import TopicsBeside
from exporter.lake.lake import Lake
from exporter.lake.later import Later
from exporter.lake.trial import tried
from exporter.registry.options import RegistryOptions
from exporter.registry.source import Registry
from exporter.settings.meaning import evolutions, own_names, routing, specs_of, table_options, value_formats
from exporter.settings.model import Settings
from exporter.settings.table import revealed
from exporter.spark import session as spark
from exporter.wal.dynamodb import DynamoDbLog
from exporter.wal.journal import Journal
from offsets.intents import WalUnreachable, WriteAheadLog
from offsets.partitions import Spec
from offsets.table_log import CONFIG_PROPERTY

WAL_DEADLINE_SECS = 10.0
"""How long one call to the write-ahead log is tried before the log counts as out of reach."""


@dataclass(frozen=True)
class Workbench:
    """What every verb that touches the lake needs. As a context manager it closes itself.

    schemas: also where no values name theirs by an id: those of an older configuration may have. None: nobody asks.
    columns: that follow from schemas.
    """

    lake: Lake
    topics: TopicReader
    routing: Routing
    evolutions: Evolutions = field(default_factory=Evolutions)
    schemas: SchemaSource | None = None
    columns: SchemaColumns | None = None

    @property
    def session(self) -> Any:
        """The lake's."""
        return self.lake.session

    @cached_property
    def beside(self) -> TopicsBeside:
        """For threads beside the loop, over a connection of their own; none is made before somebody asks."""
        return TopicsBeside(lambda: TopicReader(self.topics.client, self.topics.topics, "read_uncommitted"))

    def load_schemas(self) -> None:
        """Read what is decided of schema ids, and record what the settings name, before anything is read.

        Raises RegistryUnreachable, InvariantBroken.
        """
        if isinstance(self.schemas, Registry):
            self.schemas.start()

    def close(self) -> None:
        """Ends the session and the connection; the JVM goes with the process."""
        self.topics.close()
        self.beside.close()
        self.lake.stop()

    def __enter__(self) -> Workbench:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def parse_schemas(
    declared: dict[str, str],
    specs: Specs | None = None,
    forms: Collection[ValueFormat] = (JSON,),
    own: Collection[str] = (),
) -> dict[str, str]:
    """Event type -> Spark schema JSON. Raises ConfigError for all DDL that cannot be used.

    specs: how tables are cut; by day without. forms: the formats that are to carry them.
    own: names of columns that the exporter writes beside those of each table.
    """
    schemas: dict[str, str] = {}
    broken: list[ConfigError] = []
    specs = specs or Specs()
    for name in {**declared, **specs.named}:
        try:
            if name in declared:
                schemas[name] = _schema(name, declared[name])
                for form in forms:
                    format_of(form).schema(schemas[name], name)
            check_columns(schemas.get(name, NO_COLUMNS), name, specs.of(name), own)
        except ConfigError as error:
            broken.append(error)
    if broken:
        raise ConfigError.of(broken, "event types have columns that cannot be used")
    return schemas


def parse_hints(settings: Settings) -> dict[str, dict[str, Type]]:
    """Event type -> path -> type. Raises ConfigError for all that cannot be used."""
    paths = {name: [*table.hints] for name, table in settings.types.items() if table.hints}
    hinted = {
        name: ", ".join(f"h{number} {settings.types[name].hints[path]}" for number, path in enumerate(found))
        for name, found in paths.items()
    }
    hints: dict[str, dict[str, Type]] = {}
    for name, schema in parse_schemas(hinted).items():
        fields = struct_of(schema).fields
        if len(fields) != len(paths[name]):
            raise ConfigError(f"types.{name}.hints: each is one type", 'write for example: "sent_at" = "TIMESTAMP"')
        if "timestamp_ntz" in schema:  # it needs a table feature, which comes with a declaration only
            what = f"types.{name}.hints: TIMESTAMP_NTZ is no type of an evolved column"
            raise ConfigError(what, "declare the column")
        hints[name] = {path: one.type for path, one in zip(paths[name], fields, strict=True)}
    return hints


def _schema(name: str, ddl: str) -> str:
    try:
        return ddl_schema(ddl)
    except NotColumns as error:
        what = f"types.{name}: the columns are no DDL: {error}"
        raise ConfigError(what, "write for example: id BIGINT, name STRING, payload JSON") from error


def open_workbench(settings: Settings, session: Any = None) -> Workbench:
    """Reach the broker first (a wrong address fails fast), then read the schemas.

    session: the one to be used; else one for a verb that ends soon, as soon as something needs one.
    """
    topics = TopicReader(kafka_python_options(settings), settings.selection, settings.isolation)
    topics.require()
    session = session or _session(settings)
    configuration = routing_of(settings, session)
    later = session if isinstance(session, Later) else Later.of(session, spark.stop)
    lake = Lake(later, settings.store, settings.app, settings.sync, table_options(settings))
    tried(lake)
    evolving, columns = growth_of(settings, configuration)
    return Workbench(lake, topics, configuration, evolving, open_registry(settings), columns)


def as_recorded(configuration: Routing, lake: Lake) -> Routing:
    """A configuration under the decoder version that the tables record it with, if values are still read as that
    version read them: an upgrade alone is then no switch (protocol 5.3). Where the tables cannot be read it is one: who
    reads them later waits for them, and drains by what they record."""
    try:
        dead_letters = lake.table(DEAD_LETTERS).view()
    except TableUnreadable:
        return configuration
    known = {} if dead_letters is None else dead_letters.properties
    versions = (configuration, *configuration.earlier)
    return next((one for one in versions if f"{CONFIG_PROPERTY}{one.fingerprint()}" in known), configuration)


def growth_of(settings: Settings, configuration: Routing) -> tuple[Evolutions, FromSchemas]:
    """Which tables grow, and the columns that follow from schemas. Raises ConfigError."""
    return evolutions(settings, parse_hints(settings)), FromSchemas(configuration)


def open_registry(settings: Settings) -> Registry:
    """Decisions on ids of schemas, those under the name that the settings have and any other; nothing is asked yet."""
    return Registry(registry_options(settings), settings.store, settings.sync)


def registry_options(settings: Settings) -> RegistryOptions:
    """[schema_registry], as its client takes it."""
    table = settings.schema_registry
    return RegistryOptions(
        urls=table.urls,
        name=table.name,
        subjects=table.subjects,
        username=table.username,
        password=revealed(table.password) or "",
        token=revealed(table.token) or "",
        ca_file=table.ca_file,
        cert_file=table.cert_file,
        key_file=table.key_file,
        timeout_secs=table.timeout_secs,
        unknown_schema_id=table.unknown_schema_id,
        unknown_after_secs=table.unknown_after_secs,
        kind=table.kind,
        region=table.region,
        registry_name=table.registry_name,
        endpoint_url=table.endpoint_url,
    )


def open_lake(settings: Settings, short_lived: bool = True) -> Lake:
    """The lake alone; no broker is asked, and Spark is started as soon as something needs it. short_lived: as in
    spark.start()."""
    return Lake(_session(settings, short_lived), settings.store, settings.app, settings.sync, table_options(settings))


def _session(settings: Settings, short_lived: bool = True) -> Later:
    name, java = f"exporter {settings.app}", settings.store.java
    where = settings.deployment
    return Later(lambda: spark.start(where, name, short_lived, java=java), spark.stop, not where.is_local)


def schemas_of(settings: Settings) -> dict[str, str]:
    """Event type -> Spark schema JSON, of the types whose columns the settings declare. Raises ConfigError."""
    forms = [form for _, form in value_formats(settings)]
    specs = specs_of(settings)
    shaped = (name for name, table in settings.types.items() if table.shaping or settings.constants)
    specs = replace(specs, named={**specs.named, **dict.fromkeys(shaped, Spec("none"))})  # their tables: _check_tables
    return parse_schemas(settings.declared, specs, forms, own_names(settings))


def added_columns(settings: Settings) -> dict[str, str]:
    """The same of what their functions add, of those that add any."""
    told = {name: table.python_columns for name, table in settings.types.items() if table.python_columns}
    return parse_schemas(told) if told else {}


def routing_of(settings: Settings, session: Any) -> Routing:
    """The routing configuration, as the tables record it (as_recorded). Raises ConfigError for one that cannot work.

    session: None where nothing needs one; then no table is asked.
    """
    made = checked_routing(settings, schemas_of(settings), added_columns(settings))
    if session is None or not made.earlier:
        return made
    return as_recorded(made, Lake(session, settings.store, settings.app, settings.sync))


def checked_routing(settings: Settings, schemas: dict[str, str], added: Mapping[str, str] | None = None) -> Routing:
    """The routing configuration, tried out once here, so that the executors never meet one that cannot work.

    added: as in routing().
    """
    configuration = routing(settings, schemas, added)
    _check_tables(settings, configuration)
    if configuration.type_from.kind in ("json", "schema", "source"):
        for form in configuration.formats:
            format_of(form).peek(configuration.type_from)
    for name in schemas:
        _check_raw(configuration, name)
        for reading in map(format_of, configuration.formats):
            Decoder(name, reading.schema(configuration.decoded_of(name), name), configuration, reading)
    return configuration


def _check_tables(settings: Settings, configuration: Routing) -> None:
    """Raises ConfigError for all names of columns that a table cannot have, and for what cannot cut it."""
    specs, own, broken = specs_of(settings), own_names(settings), []
    for name in configuration.shape_by_type:
        try:
            check_columns(configuration.columns_of(name), name, specs.of(name), own)
        except ConfigError as error:
            broken.append(error)
    if broken:
        raise ConfigError.of(broken, "event types have columns that cannot be used")


def _check_raw(configuration: Routing, name: str) -> None:
    """Raises ConfigError if a type of raw values is declared with anything but their one column."""
    form = configuration.format_of(name) if configuration.type_from.kind == "topic" else configuration.value_format
    columns = [*struct_of(configuration.decoded_of(name)).named]
    if form.is_raw and columns != ["value"]:
        what = f"types.{name}: a value of kind = {form.kind} is the column `value` and has no other"
        raise ConfigError(what, "declare `value` as BINARY or STRING, or no columns at all")


def registrar_of(settings: Settings, lake: Lake) -> Registrar | None:
    """Of the catalog that the settings name; None if there is none. Nothing is asked yet."""
    if not settings.catalog:
        return None
    at = CatalogAddress(settings.catalog_database, settings.catalog_uri, settings.catalog_token_file)
    return Registrar(lake, lambda: CATALOGS[settings.catalog](at, lake.session))


def open_wal(settings: Settings, deadline_secs: float = WAL_DEADLINE_SECS) -> WriteAheadLog | None:
    """The write-ahead log that the settings name; None if there is none. Nothing is asked yet. Raises ConfigError."""
    if not settings.wal_table or settings.wal_mode == "off":
        return None
    try:
        return DynamoDbLog.connect(
            settings.wal_table, settings.app, settings.wal_endpoint, settings.wal_keep_days, deadline_secs
        )
    except WalUnreachable as error:
        raise ConfigError(error.message, "set AWS_REGION, or a region in ~/.aws/config, and the credentials") from error


def open_journal(settings: Settings, routing: Routing, wal: WriteAheadLog | None = None) -> Journal:
    """This process's side of the log, under a name of its own. wal: instead of the one that the settings name."""
    owner = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
    return Journal(wal or open_wal(settings), settings.wal_mode == "required", owner, routing.fingerprint())


def first_position(settings: Settings) -> FirstPosition:
    """Where a topic begins that is new to the tables, as the settings say."""
    return FirstPosition(settings.first_position_at)
