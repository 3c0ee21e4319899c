"""From what [types.<event type>] says of rows to their Shape (core/shapes.py)."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from exporter.core.shapes import Constant, Shape, constant_fields, with_fields
from exporter.errors import ConfigError
from exporter.settings.model import Settings
from exporter.settings.type_tables import TypeTable


def shapes_of(settings: Settings, schemas: Mapping[str, str], added: Mapping[str, str]) -> dict[str, Shape]:
    """Event type -> its shape, of those whose rows are not as they are decoded. Raises one ConfigError for all.

    schemas: Spark schema JSON of the columns of each type. added: of what functions add.
    """
    shapes: dict[str, Shape] = {}
    broken: list[ConfigError] = []
    for name, table in settings.types.items():
        if table.shaping or settings.constants:
            broken += wrong(name, table, schemas[name], added.get(name, ""))
            shapes[name] = shape_of(table, schemas[name], added.get(name, ""))
    if broken:
        raise ConfigError.of(broken, "event types cannot be shaped as the settings say")
    return shapes


def shape_of(table: TypeTable, schema: str, added: str) -> Shape:
    """schema, added: as shapes_of() has them, of this type."""
    return Shape(
        decoded=schema,
        names=tuple(sorted(table.names.items())),
        case=table.case,
        python=table.python,
        python_version=table.python_version,
        python_columns=added,
        computed=tuple(table.set.items()),
        where=table.where,
        drop=tuple(sorted(table.drop)),
    )


def table_columns(shape: Shape, constants: Iterable[tuple[str, Constant]]) -> str:
    """Spark schema JSON of a table's columns."""
    kept = {**json.loads(shape.decoded)}
    kept["fields"] = [one for one in kept["fields"] if one["name"] not in shape.drop]
    return with_fields(json.dumps(kept), constant_fields(constants))


def wrong(name: str, table: TypeTable, schema: str, added: str) -> Iterator[ConfigError]:
    """What speaks of columns that are not there."""
    declared = _names(schema)
    new = _names(added) if added else []
    for column in table.names:
        if column not in declared:
            yield _no_such(name, "names", column, declared)
    for column in new:
        if column.lower() in (one.lower() for one in declared):
            what = f"types.{name}.python_columns: {column!r} is declared too"
            yield ConfigError(what, "name it once: what the function changes stays declared")
    for column in table.drop:
        if column not in (*declared, *new):
            yield _no_such(name, "drop", column, [*declared, *new])


def _names(schema: str) -> list[str]:
    fields: list[dict[str, Any]] = json.loads(schema)["fields"]
    return [one["name"] for one in fields]


def _no_such(name: str, setting: str, column: str, known: Collection[str]) -> ConfigError:
    what = f"types.{name}.{setting}: there is no column {column!r}"
    return ConfigError(what, f"declared are: {', '.join(known) or 'none'}")
