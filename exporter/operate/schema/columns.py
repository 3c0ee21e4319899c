"""Each column of a table, and where it came from. Pure."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import NamedTuple

from exporter.column.ddl import short_ddl
from exporter.column.spark_json import struct_of
from exporter.column.types import Field, ListType, MapType, StructType
from exporter.core.columns import EVOLVED, RECORD
from exporter.lake.schema_history import SchemaHistory


class ColumnRow(NamedTuple):
    """path: dotted, `[]` for the elements of arrays, `{}` for the values of maps. type: DDL, without the fields in it.

    origin: `exporter`, `declared`, `evolved` or `table` (there without a word in the settings). seen: of an evolved
    one, where the field was seen first. version: of the table, in which it appeared; None if the log does not tell.
    """

    path: str
    type: str
    origin: str
    seen: str = ""
    version: int | None = None
    hint: str = ""


def column_rows(
    table_json: str, declared_json: str, own: Container[str], history: SchemaHistory, hints: Mapping[str, str]
) -> tuple[ColumnRow, ...]:
    """All columns and the fields in them. declared_json: Spark schema JSON of what the settings declare now.

    own: the columns that the exporter itself makes.
    """
    since = _versions(history)
    declared = frozenset(path for path, _, _ in _places(struct_of(declared_json).fields))
    rows, fields = [], struct_of(table_json).fields
    of_record = frozenset(one.name for one in fields if RECORD in one.metadata)
    for path, one, seen in _places(fields):
        top = path.partition(".")[0].partition("[")[0]
        is_own = top in own or top in of_record
        kind = "exporter" if is_own else "evolved" if seen else "declared" if path in declared else "table"
        if kind == "exporter" and path != top:
            continue
        rows.append(ColumnRow(path, short_ddl(one.type), kind, seen, since.get(path), hints.get(path, "")))
    return tuple(rows)


def _places(fields: Sequence[Field], path: str = "", seen: str = "") -> Iterator[tuple[str, Field, str]]:
    """Path, field and where it was seen first, of each field at every level; below a marked one all are."""
    for one in fields:
        where, origin = f"{path}.{one.name}" if path else one.name, one.metadata.get(EVOLVED, seen)
        yield where, one, origin
        kind = one.type
        while isinstance(kind, ListType | MapType):
            where, kind = where + kind.shown, kind.inner
        if isinstance(kind, StructType):
            yield from _places(kind.fields, where, origin)


def _versions(history: SchemaHistory) -> dict[str, int]:
    """Path -> the version of the table in which it appeared, where that is sure."""
    since: dict[str, int] = {}
    unsure: frozenset[str] | None = frozenset() if history.whole else None
    for version, schema in history.schemas.items():
        there = frozenset(path for path, _, _ in _places(struct_of(schema).fields))
        if unsure is None:
            unsure = there
        since = {path: since.get(path, version) for path in there - unsure}
    return since
