"""Each column of a table, and where it came from. Pure."""

from __future__ import annotations

import json
from collections.abc import Collection, Container, Iterator, Mapping
from typing import Any, NamedTuple

from exporter.core.columns import EVOLVED, RECORD
from exporter.lake.schema_history import SchemaHistory
from exporter.operate.ddl import column_type


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
    declared = frozenset(path for path, _, _ in _places(json.loads(declared_json)["fields"], "", ""))
    rows, fields = [], json.loads(table_json)["fields"]
    of_record = frozenset(one["name"] for one in fields if RECORD in one.get("metadata", {}))
    for path, one, seen in _places(fields, "", ""):
        top = path.partition(".")[0].partition("[")[0]
        is_own = top in own or top in of_record
        kind = "exporter" if is_own else "evolved" if seen else "declared" if path in declared else "table"
        if kind == "exporter" and path != top:
            continue
        rows.append(ColumnRow(path, _short(one), kind, seen, since.get(path), hints.get(path, "")))
    return tuple(rows)


def _places(
    fields: Collection[Mapping[str, Any]], path: str, seen: str
) -> Iterator[tuple[str, Mapping[str, Any], str]]:
    """Path, field and where it was seen first, of each field at every level; below a marked one all are."""
    for one in fields:
        where, origin = f"{path}.{one['name']}" if path else one["name"], one.get("metadata", {}).get(EVOLVED, seen)
        yield where, one, origin
        inside, below = _struct_in(one["type"], where)
        yield from _places(inside, below, origin)


def _struct_in(kind: Any, path: str) -> tuple[Collection[Mapping[str, Any]], str]:
    """The fields of the struct that a type is, or that is in its arrays and maps, and the path that leads to them."""
    while isinstance(kind, dict) and kind["type"] in ("array", "map"):
        array = kind["type"] == "array"
        kind, path = kind["elementType" if array else "valueType"], path + ("[]" if array else "{}")
    return (kind["fields"], path) if isinstance(kind, dict) else ((), path)


def _short(one: Mapping[str, Any]) -> str:
    """A type; what is in a struct has rows of its own."""
    before, struct, rest = column_type(one).partition("STRUCT<")
    return f"{before}STRUCT{'>' * before.count('<')}" if struct and rest else before


def _versions(history: SchemaHistory) -> dict[str, int]:
    """Path -> the version of the table in which it appeared, where that is sure."""
    since: dict[str, int] = {}
    unsure: frozenset[str] | None = frozenset() if history.whole else None
    for version, schema in history.schemas.items():
        there = frozenset(path for path, _, _ in _places(json.loads(schema)["fields"], "", ""))
        if unsure is None:
            unsure = there
        since = {path: since.get(path, version) for path in there - unsure}
    return since
