"""What the settings mean.

    routing      where each record goes, and how values are written
    evolutions   which tables grow
    specs_of     how all are cut
    days_kept    how long all keep their rows
    orders_of    in which order rows stand in files
    record_columns   what of the record itself they have
    table_options    all that tables are made and filled with
    event_groups     who is told of versions, and who keeps how far
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

from exporter.column.spark_json import struct_of, text_of
from exporter.column.types import Type, all_nullable
from exporter.core.days_kept import DaysKept
from exporter.core.evolve import Evolution, Evolutions
from exporter.core.record_columns import BEFORE, CDC, RecordColumns
from exporter.core.routing import Routing
from exporter.core.shapes import Rename
from exporter.core.specs import Specs
from exporter.core.table_options import TableOptions
from exporter.core.value_format import ValueFormat
from exporter.settings.format_tables import ValueFormatTable
from exporter.settings.model import Settings
from exporter.settings.shaping import shapes_of, tables_of
from exporter.settings.values import EPOCH
from offsets.partitions import Spec


def routing(settings: Settings, schemas: Mapping[str, str], added: Mapping[str, str] | None = None) -> Routing:
    """The routing configuration. Raises ConfigError for SQL, names and functions that cannot be.

    schemas: event type -> Spark schema JSON, of exactly those with declared columns. added: the same of what functions
    add, of those that add any.
    """
    if set(schemas) != set(settings.declared):
        raise ValueError(f"schemas of {sorted(schemas)} for the declared types {sorted(settings.declared)}")
    (_, form), *others = value_formats(settings)
    made = Routing(
        type_from=settings.type_from.meant,
        event_time=settings.event_time.meant,
        types=(),
        unknown_fields=settings.unknown_fields,
        new_type=settings.new_type,
        isolation=settings.isolation,
        record_bytes_max=settings.record_bytes_max,
        event_time_min_us=(settings.event_time_min - EPOCH) // timedelta(microseconds=1),
        event_time_ahead_max_secs=settings.event_time_ahead_max_secs,
        generation=settings.generation,
        value_format=form,
        topic_formats=tuple(others),
        registry=settings.schema_registry.name,
        renames=tuple(Rename(rule.match, rule.to) for rule in settings.type_from.rename),
        matches=tuple(sorted((name, table.match) for name, table in settings.types.items() if table.match)),
        unrouted=settings.unrouted,
        constants=tuple(settings.constants.items()),
    )
    canonical = {
        name: _canonical(schemas.get(name) or made.decoded_of(name), settings.force_optional if own is None else own)
        for name, own in ((name, table.force_optional) for name, table in settings.types.items())
    }
    shapes = shapes_of(settings, canonical, added or {})
    shaped = tables_of(shapes, made.constants)
    typed = replace(made, types=tuple(sorted({**canonical, **shaped}.items())), shapes=tuple(sorted(shapes.items())))
    return replace(typed, decoder_version=typed.decoder_here)


def value_formats(settings: Settings) -> list[tuple[str, ValueFormat]]:
    """The formats and the pattern of the topics that each is of; the first one is of all others, and has none."""
    tables = [("", settings.value_format), *settings.topic_formats.items()]
    return [(pattern, value_format(settings, table)) for pattern, table in tables]


def value_format(settings: Settings, table: ValueFormatTable) -> ValueFormat:
    """With its default frame and the schemas of its files."""
    return ValueFormat(
        kind=table.kind,
        frame=table.framed(settings.schema_registry.frame),
        envelope=table.envelope,
        tombstones=table.tombstones,
        semantic_types=table.semantic_types,
        message=table.message,
        before=tuple(sorted(table.before)),
        schemas=tuple(sorted((file.name, settings.schemas[file]) for file in table.schema_files)),
    )


def record_columns(settings: Settings) -> RecordColumns:
    """The columns with something of the record itself."""
    return RecordColumns(settings.key_column, settings.headers_column, settings.timestamp_type_column)


def own_names(settings: Settings) -> tuple[str, ...]:
    """Names of top-level columns that these settings take, beside those that every table has."""
    forms = [form for _, form in value_formats(settings)]
    told = [CDC] if any(form.envelope != "none" for form in forms) else []
    return (*record_columns(settings).given, *told, *([BEFORE] if any(form.before for form in forms) else []))


def _canonical(schema_json: str, optional: bool) -> str:
    """optional: whether nothing that is declared is required."""
    schema = struct_of(schema_json)
    return text_of(all_nullable(schema) if optional else schema, sort_keys=True)


def evolutions(settings: Settings, hints: Mapping[str, Mapping[str, Type]]) -> Evolutions:
    """Which tables grow, and how. hints: event type -> path -> type.

    A type without declared columns gets those of its schema, where the format has schemas, and nothing else unless it
    is told to grow.
    """
    forms = [form for _, form in value_formats(settings)]
    known = settings.unknown_fields == "rescue" and any(one.has_schemas or one.carries_schemas for one in forms)

    def one(evolve: str | None, of_type: Mapping[str, Type], declared: bool) -> Evolution | None:
        if (evolve or settings.evolve) != "off":
            return Evolution(of_type, settings.keys_max, settings.columns_max)
        if declared or not known:
            return None
        return Evolution({}, settings.keys_max, settings.columns_max, infers=False)

    named = {
        name: one(table.evolve, hints.get(name, {}), name in settings.declared)
        for name, table in settings.types.items()
    }
    return Evolutions(one(None, {}, declared=settings.new_type != "table"), named)


def specs_of(settings: Settings) -> Specs:
    """How tables are cut when they are made."""
    named = {
        name: Spec(table.partition_by or settings.partition_by, table.partition_columns)
        for name, table in settings.types.items()
    }
    return Specs(named, Spec(settings.partition_by))


def days_kept(settings: Settings) -> DaysKept:
    """How long tables keep their rows."""
    named = {name: days for name, table in settings.types.items() if (days := table.retention_days) is not None}
    return DaysKept(named, settings.retention_days, settings.dead_letters_retention_days)


def orders_of(settings: Settings) -> Mapping[str, tuple[str, ...]]:
    """Event type -> columns by which maintenance orders its table, of those that have any."""
    return {name: table.order_by for name, table in settings.types.items() if table.order_by}


def table_options(settings: Settings) -> TableOptions:
    """How tables are made and filled."""
    return TableOptions(
        json_text=settings.json_text,
        rescue_empty=settings.rescue_empty,
        specs=specs_of(settings),
        type_widening=settings.type_widening,
        record_columns=record_columns(settings),
        properties=settings.table_properties,
        compression=settings.parquet_compression,
    )


EVENTS_TOPIC, EVENTS_WEBHOOK = "topic", "webhook"
"""Who is told of versions, as logs and metrics call them."""


def event_groups(settings: Settings) -> dict[str, str]:
    """Who is told of versions -> the consumer group that keeps how far, as far as the settings name any."""
    groups = {EVENTS_TOPIC: f"{settings.group}.events", EVENTS_WEBHOOK: f"{settings.group}.events.webhook"}
    named = {EVENTS_TOPIC: settings.events_topic, EVENTS_WEBHOOK: settings.events_webhook}
    return {sink: group for sink, group in groups.items() if named[sink]}
