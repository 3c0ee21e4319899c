"""What settings have to be to each other. What each has to be by itself is told by values.py and tables.py. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NamedTuple

from exporter.core.columns import folded
from exporter.core.deployment import refusal
from exporter.core.record_columns import name_problem
from exporter.core.table_properties import property_problem
from exporter.settings.derive_tables import DERIVE, Derive, DeriveTable
from exporter.settings.derive_to_kafka import ToKafkaTable
from exporter.settings.format_tables import REGISTERED, SchemaRegistry, ValueFormatTable
from exporter.settings.routing_rules import columns_to_shape, known_table, own_constants
from exporter.settings.tables import EventTimeTable, TypeFromTable
from exporter.settings.type_tables import TypeTable
from exporter.settings.values import ENDPOINT
from exporter.stores.stores import open_store
from offsets.names import APP
from offsets.selection import Share, Topics

_METASTORE = r"thrift://(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):[0-9]{1,5}"
_METASTORES = re.compile(f"{_METASTORE}(?:,{_METASTORE})*")


class SettingsRule(NamedTuple):
    """blames: the setting that is told of. needs: the settings whose values `check` takes; it raises ValueError."""

    blames: str
    needs: tuple[str, ...]
    check: Callable[..., None]


def broken(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The settings that do not go with others, and why not: of each the first reason, in the order of the settings.

    values: of the settings that are fine by themselves. A rule that needs another one keeps silent.
    """
    told: set[str] = set()
    for rule in RULES:
        if rule.blames not in told and values.keys() >= {*rule.needs}:
            try:
                rule.check(*(values[name] for name in rule.needs))
            except ValueError as error:
                told.add(rule.blames)
                yield rule.blames, str(error)


def _passed_on(options: Mapping[str, str], root: str) -> None:
    of_store = open_store(root).java.settings
    for name in options:
        if reason := refusal(name, of_store):
            raise ValueError(f"{name} is not passed on: {reason}")


def _used_archive(archive: str, python: str) -> None:
    if archive and not python:
        raise ValueError("needs worker_python, a path in its folder")


def _topics_or_pattern(topics: tuple[str, ...], pattern: str) -> None:
    if not topics and not pattern:
        raise ValueError("either topics or topics_pattern is needed")
    if topics and pattern:
        raise ValueError("cannot be given together with topics")
    Topics(topics, pattern)


def _partitions_if_static(assignment: str, partitions: str) -> None:
    static = assignment == "static"
    if static and not partitions:
        raise ValueError("is needed with assignment = static")
    if partitions and not static:
        raise ValueError("has no effect without assignment = static")
    if partitions:
        Share.parse(partitions)


def _app_name(app: str) -> None:
    if app and not APP.match(app):
        raise ValueError("should have letters, digits, _ and - only")


def _group_as_app(app: str, group: str) -> None:
    if not app and not APP.match(group):
        raise ValueError(f"should have letters, digits, _ and - only (by default it is the group, {group!r})")


def _room_to_roll(staged_bytes_max: int, roll_bytes_max: int) -> None:
    if staged_bytes_max < roll_bytes_max:
        raise ValueError("should not be less than roll_bytes_max, which could never be reached")


def _mode_of_a_log(mode: str | None, table: str) -> None:
    if mode in ("required", "best_effort") and not table:
        raise ValueError("needs wal_table")


def _address_of_a_log(endpoint: str, table: str) -> None:
    if endpoint and not table:
        raise ValueError("has no effect without wal_table")


def _url_of_a_log(endpoint: str) -> None:
    if endpoint and not re.fullmatch(ENDPOINT, endpoint):
        raise ValueError("should be http://host:port or https://host:port")


def _some_type(types: Collection[str], new_type: str) -> None:
    if not types and new_type != "table":
        raise ValueError("no event type is declared")


def _rescued_first(unknown_fields: str, evolve: str, types: Mapping[str, TypeTable]) -> None:
    grows = evolve == "add" or any(table.evolve == "add" for table in types.values())
    if grows and unknown_fields != "rescue":
        raise ValueError("should be rescue with evolve = add: else a verdict would go by what was seen before")


def _declared_or_known(
    types: Mapping[str, TypeTable], evolve: str, form: ValueFormatTable, others: Mapping[str, ValueFormatTable]
) -> None:
    known = any(one.is_raw or one.kind in REGISTERED for one in (form, *others.values()))
    for name, table in types.items():
        if not table.is_declared and (table.evolve or evolve) == "off" and not known:
            raise ValueError(f"{name} needs columns or columns_file, or evolve = add")
        if table.hints and (table.evolve or evolve) == "off":
            raise ValueError(f"{name}.hints has no effect without evolve = add")


def _rescued_where_columns_come(
    unknown_fields: str,
    types: Mapping[str, TypeTable],
    new_type: str,
    form: ValueFormatTable,
    others: Mapping[str, ValueFormatTable],
) -> None:
    known = any(one.kind in REGISTERED for one in (form, *others.values()))
    bare = not all(table.is_declared for table in types.values())
    if known and unknown_fields != "rescue" and (bare or new_type == "table"):
        raise ValueError(
            "should be rescue where columns come from schemas: else a verdict would go by which schemas are known"
        )


_ASKED: Mapping[str, str] = {"confluent": "[schema_registry] urls", "glue": "[schema_registry] kind = glue"}
"""Frame with an id -> what has to be set, so that somebody can be asked."""


def _complete(form: ValueFormatTable, registry: SchemaRegistry) -> None:
    if form.kind not in REGISTERED:
        return
    framed = form.framed(registry.frame)
    if framed in _ASKED and framed != registry.frame:
        raise ValueError(f"frame = {framed} needs {_ASKED[framed]} with this kind")
    if framed not in _ASKED and not form.schema_files:
        raise ValueError("needs schema_files, or [schema_registry] urls or kind = glue, and values with an id")


def _each_complete(others: Mapping[str, ValueFormatTable], registry: SchemaRegistry) -> None:
    for pattern, form in others.items():
        try:
            _complete(form, registry)
        except ValueError as error:
            raise ValueError(f"{pattern!r}: {error}") from None


def _used(
    registry: SchemaRegistry, form: ValueFormatTable, others: Mapping[str, ValueFormatTable], derive: Derive
) -> None:
    all_formats = (form, *others.values())
    used = any(one.kind in REGISTERED and one.framed(registry.frame) in _ASKED for one in all_formats)
    if registry.frame != "none" and not used and not any(map(_registers, derive.values())):
        raise ValueError(f"has no effect: no format is one of {', '.join(REGISTERED)} with frame = {registry.frame}")


def _registers(job: DeriveTable) -> bool:
    return isinstance(job, ToKafkaTable) and job.format != "json"


def _a_registry_for_records(derive: Derive, registry: SchemaRegistry) -> None:
    for name, job in derive.items():
        if _registers(job) and not registry.urls:
            raise ValueError(f"{name}: its format needs [schema_registry] urls")


def _own_topics(derive: Derive, topics: tuple[str, ...], pattern: str) -> None:
    sent: dict[str, str] = {}
    for name, job in derive.items():
        if not isinstance(job, ToKafkaTable):
            continue
        if job.topic in topics or (pattern and Topics((), pattern).match(job.topic)):
            raise ValueError(f"{name}: topic {job.topic} is exported: what is sent there would come back for ever")
        if job.topic in sent:
            raise ValueError(f"{name}: topic {job.topic} is that of {sent[job.topic]} too; each job has one of its own")
        sent[job.topic] = name


def _type_is_said(type_from: TypeFromTable, form: ValueFormatTable, others: Mapping[str, ValueFormatTable]) -> None:
    for one in (form, *others.values()):
        if type_from.kind in ("field", "json") and one.is_raw:
            raise ValueError(f"a value of kind = {one.kind} has no fields: take the header, the key or the topic")
        if type_from.kind == "schema" and one.kind not in REGISTERED:
            raise ValueError(f"a value of kind = {one.kind} names no schema")
        if type_from.kind == "source" and one.envelope == "none":
            raise ValueError("source needs an envelope in each format: nothing else says what a row is of")


def _time_is_said(event_time: EventTimeTable, form: ValueFormatTable, others: Mapping[str, ValueFormatTable]) -> None:
    for one in (form, *others.values()):
        if event_time.kind != "record" and one.is_raw:
            raise ValueError(f"a value of kind = {one.kind} has no fields: kind should be record")


def _own_name(name: str) -> None:
    if name and (reason := name_problem(name)):
        raise ValueError(reason)


def _three_names(one: str, other: str, third: str) -> None:
    given = [folded(name) for name in (one, other, third) if name]
    if len({*given}) < len(given):
        raise ValueError("key_column, headers_column and timestamp_type_column need names of their own")


def _database_of_a_catalog(catalog: str, database: str) -> None:
    if catalog and not database:
        raise ValueError("needs catalog_database")
    if catalog == "unity" and "." not in database:
        raise ValueError("needs a catalog_database of the form catalog.schema")
    if catalog in ("glue", "hive") and "." in database:
        raise ValueError(f"a database of {catalog} is in no other: catalog_database should have no dot")


def _where_glue_is_read(catalog: str, root: str) -> None:
    if catalog == "glue" and not root.startswith(("s3://", "s3a://")):
        raise ValueError("glue is for tables in s3://: what reads from there reaches no others")


def _address_of_a_catalog(uri: str, catalog: str) -> None:
    if uri and not catalog:
        raise ValueError("has no effect without catalog")
    if catalog == "unity" and not uri:
        raise ValueError("is needed with catalog = unity")
    if uri and catalog in ("glue", "unity") and not re.fullmatch(ENDPOINT, uri):
        raise ValueError(f"should be http://host:port or https://host:port with catalog = {catalog}")
    if uri and catalog == "hive" and not _METASTORES.fullmatch(uri):
        raise ValueError("should be thrift://host:port, of several with commas between")


def _token_of_a_catalog(token_file: str, catalog: str) -> None:
    if token_file and catalog != "unity":
        raise ValueError("has no effect without catalog = unity")


def _properties_of_delta(properties: Mapping[str, str]) -> None:
    if reason := property_problem(properties):
        raise ValueError(reason)


def _not_exported(topic: str, topics: tuple[str, ...], pattern: str) -> None:
    if topic in topics or (topic and pattern and Topics((), pattern).match(topic)):
        raise ValueError(f"{topic} is exported: what is said there would come to the tables")


def _not_of_a_job(topic: str, derive: Derive) -> None:
    for name, job in derive.items():
        if isinstance(job, ToKafkaTable) and topic == job.topic:
            raise ValueError(f"{topic} is the topic of [{DERIVE}.{name}]")


def _two_topics(events: str, control: str) -> None:
    if events and events == control:
        raise ValueError("should not be the control_topic")


def _time_of_something(time: str, valid_through: str) -> None:
    if time != "record" and valid_through == "off":
        raise ValueError("has no effect without valid_through")


def _property_of_something(secs: float, valid_through: str, control: str) -> None:
    if secs and (valid_through == "off" or not control):
        raise ValueError("has no effect without valid_through and control_topic")


OWN = ("key_column", "headers_column", "timestamp_type_column")
_FORMATS = ("value_format", "topic_formats")
_EXPORTED = ("topics", "topics_pattern")

RULES = (
    SettingsRule("topics_pattern", ("topics", "topics_pattern"), _topics_or_pattern),
    SettingsRule("partitions", ("assignment", "partitions"), _partitions_if_static),
    SettingsRule("app", ("app",), _app_name),
    SettingsRule("app", ("app", "group"), _group_as_app),
    SettingsRule("staged_bytes_max", ("staged_bytes_max", "roll_bytes_max"), _room_to_roll),
    SettingsRule("wal_mode", ("wal_mode", "wal_table"), _mode_of_a_log),
    SettingsRule("wal_endpoint", ("wal_endpoint", "wal_table"), _address_of_a_log),
    SettingsRule("wal_endpoint", ("wal_endpoint",), _url_of_a_log),
    SettingsRule("types", ("types", "new_type"), _some_type),
    SettingsRule("types", ("types", "evolve", *_FORMATS), _declared_or_known),
    SettingsRule("types", ("types",), columns_to_shape),
    SettingsRule("unrouted", ("unrouted", "types"), known_table),
    SettingsRule("constants", ("constants", *_FORMATS, *OWN), own_constants),
    SettingsRule("unknown_fields", ("unknown_fields", "evolve", "types"), _rescued_first),
    SettingsRule("unknown_fields", ("unknown_fields", "types", "new_type", *_FORMATS), _rescued_where_columns_come),
    SettingsRule("value_format", ("value_format", "schema_registry"), _complete),
    SettingsRule("topic_formats", ("topic_formats", "schema_registry"), _each_complete),
    SettingsRule("schema_registry", ("schema_registry", *_FORMATS, DERIVE), _used),
    SettingsRule(DERIVE, (DERIVE, "schema_registry"), _a_registry_for_records),
    SettingsRule(DERIVE, (DERIVE, "topics", "topics_pattern"), _own_topics),
    SettingsRule("worker_archive", ("worker_archive", "worker_python"), _used_archive),
    SettingsRule("spark", ("spark", "table_root"), _passed_on),
    SettingsRule("type_from", ("type_from", *_FORMATS), _type_is_said),
    SettingsRule("event_time", ("event_time", *_FORMATS), _time_is_said),
    *(SettingsRule(name, (name,), _own_name) for name in OWN),
    SettingsRule("timestamp_type_column", OWN, _three_names),
    SettingsRule("catalog", ("catalog", "catalog_database"), _database_of_a_catalog),
    SettingsRule("catalog", ("catalog", "table_root"), _where_glue_is_read),
    SettingsRule("catalog_uri", ("catalog_uri", "catalog"), _address_of_a_catalog),
    SettingsRule("catalog_token_file", ("catalog_token_file", "catalog"), _token_of_a_catalog),
    SettingsRule("control_topic", ("control_topic", *_EXPORTED), _not_exported),
    SettingsRule("control_topic", ("control_topic", DERIVE), _not_of_a_job),
    SettingsRule("events_topic", ("events_topic", *_EXPORTED), _not_exported),
    SettingsRule("events_topic", ("events_topic", DERIVE), _not_of_a_job),
    SettingsRule("events_topic", ("events_topic", "control_topic"), _two_topics),
    SettingsRule("valid_through_time", ("valid_through_time", "valid_through"), _time_of_something),
    SettingsRule(
        "valid_through_property_secs",
        ("valid_through_property_secs", "valid_through", "control_topic"),
        _property_of_something,
    ),
    SettingsRule("table_properties", ("table_properties",), _properties_of_delta),
)
