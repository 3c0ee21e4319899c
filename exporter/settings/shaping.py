"""From what [types.<event type>] says of rows to their Shape (core/shapes.py)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from exporter.column.spark_json import struct_of
from exporter.core.columns import folded
from exporter.core.naming import decoded_schema
from exporter.core.shapes import Constant, Shape
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
        if not table.shaping and not settings.constants:
            continue
        broken += wrong(name, table, schemas[name], added.get(name, ""))
        try:
            shapes[name] = shape_of(name, table, schemas[name], added.get(name, ""))
        except ConfigError as error:
            broken.append(error)
    if broken:
        raise ConfigError.of(broken, "event types cannot be shaped as the settings say")
    return shapes


def tables_of(shapes: Mapping[str, Shape], constants: Iterable[tuple[str, Constant]]) -> dict[str, str]:
    """Event type -> Spark schema JSON of its table's columns. Raises one ConfigError for all that cannot be."""
    from exporter.shape.columns import table_columns  # they bring Arrow along, which most settings need not
    from exporter.shape.function import check_function

    columns: dict[str, str] = {}
    broken: list[ConfigError] = []
    for name, shape in shapes.items():
        try:
            columns[name] = table_columns(name, shape, constants)
            if shape.python:
                check_function(name, shape)
        except ConfigError as error:
            broken.append(error)
    if broken:
        raise ConfigError.of(broken, "event types cannot be shaped as the settings say")
    return columns


def shape_of(name: str, table: TypeTable, schema: str, added: str) -> Shape:
    """Of one type. schema, added: as shapes_of() has them. Raises ConfigError for names that cannot be."""
    order = {column: at for at, column in enumerate(_names(schema))}
    names = tuple(sorted(table.names.items(), key=lambda one: order.get(one[0], len(order))))
    return Shape(
        decoded=decoded_schema(schema, names, name, table.case),
        names=names,
        case=table.case,
        python=table.python,
        python_version=table.python_version,
        python_columns=added,
        computed=tuple(table.set.items()),
        where=table.where,
        drop=tuple(sorted(table.drop)),
    )


def wrong(name: str, table: TypeTable, schema: str, added: str) -> Iterator[ConfigError]:
    """What speaks of columns that are not there."""
    declared = _names(schema)
    new = _names(added) if added else []
    for column in new:
        if folded(column) in map(folded, declared):
            what = f"types.{name}.python_columns: {column!r} is declared too"
            yield ConfigError(what, "name it once: what the function changes stays declared")
    for column in table.drop:
        if column not in (*declared, *new):
            what = f"types.{name}.drop: there is no column {column!r}"
            yield ConfigError(what, f"there are: {', '.join((*declared, *new)) or 'none'}")


def _names(schema: str) -> list[str]:
    return [one.name for one in struct_of(schema).fields]
