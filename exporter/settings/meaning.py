"""What the settings mean: where each record goes (Routing), which tables grow (Evolutions), how all are cut (Specs)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta

from exporter.core.columns import NO_COLUMNS, all_nullable
from exporter.core.evolve import Evolution, Evolutions, Hint
from exporter.core.routing import EventTime, Routing, TypeFrom
from exporter.core.specs import Specs
from exporter.settings.model import Settings
from exporter.settings.values import EPOCH
from offsets.partitions import Spec


def routing(settings: Settings, schemas: Mapping[str, str]) -> Routing:
    """The routing configuration. schemas: event type -> Spark schema JSON, of exactly those with declared columns."""
    if set(schemas) != set(settings.declared):
        raise ValueError(f"schemas of {sorted(schemas)} for the declared types {sorted(settings.declared)}")
    canonical = {
        name: _canonical(schemas.get(name, NO_COLUMNS), settings.force_optional if own is None else own)
        for name, own in ((name, table.force_optional) for name, table in settings.types.items())
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


def _canonical(schema_json: str, optional: bool) -> str:
    """optional: whether nothing that is declared is required."""
    schema = json.loads(schema_json)
    return json.dumps(all_nullable(schema) if optional else schema, sort_keys=True, separators=(",", ":"))


def evolutions(settings: Settings, hints: Mapping[str, Mapping[str, Hint]]) -> Evolutions:
    """Which tables grow, and how. hints: event type -> path -> type."""

    def one(evolve: str | None, of_type: Mapping[str, Hint]) -> Evolution | None:
        if (evolve or settings.evolve) == "off":
            return None
        return Evolution(of_type, settings.keys_max, settings.columns_max)

    named = {name: one(table.evolve, hints.get(name, {})) for name, table in settings.types.items()}
    return Evolutions(one(None, {}), named)


def specs_of(settings: Settings) -> Specs:
    """How tables are cut when they are made."""
    named = {
        name: Spec(table.partition_by or settings.partition_by, table.partition_columns)
        for name, table in settings.types.items()
    }
    return Specs(named, Spec(settings.partition_by))
