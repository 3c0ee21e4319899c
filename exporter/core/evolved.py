"""Tables that evolution has made wider: what is decoded for them, and which staged files fit them. Pure.

All types and schemas are Spark's, as JSON text or as parsed from it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from exporter.core.columns import EVOLVED, JSON_TEXT, Names
from exporter.core.writers import StagedFile
from offsets.table_log import TableView

STEPS = {"array": "elementType", "map": "valueType"}
"""Kind of a type that is no struct -> the one type in it that may hold structs."""


def combined(declared_json: str, table_json: str) -> str:
    """What is decoded: the declared fields as they are declared, and the table's marked fields at every level.

    declared_json: Spark schema JSON of the declared columns; a field that is declared is never a marked one.
    """
    declared = json.loads(declared_json)
    return json.dumps(_combined(declared, json.loads(table_json)), separators=(",", ":"))


def union(table_json: str, files_json: str) -> str | None:
    """The table's schema with the columns that only the files have; None if one does not fit (protocol 4.2).

    A column fits if it is new, and no reader takes it for another one, or if the table has it with the same type at
    every level. What is noted of a column that is there stays (its comment, its mark). Where the files' schema holds
    all that the table's does, the result is that text.
    """
    if table_json == files_json:
        return table_json
    table, files = json.loads(table_json), json.loads(files_json)
    try:
        merged = _union(table, files)
    except _Clash:
        return None
    if merged == table:
        return table_json
    return files_json if _as_set(merged) == _as_set(files) else json.dumps(merged, separators=(",", ":"))


def fitting(view: TableView, files: Iterable[StagedFile]) -> str | None:
    """The schema with which the table holds staged files: its own, or a wider one; None if it cannot (protocol 4.2)."""
    return fitting_all(view, ((file.fingerprint, file.columns) for file in files))


def fitting_all(view: TableView, fits: Iterable[tuple[str, str]]) -> str | None:
    """As fitting(). fits: fingerprint and columns of what files were staged for."""
    schema: str | None = view.schema_json
    for fingerprint, columns in sorted({*fits}):
        if fingerprint == view.fingerprint:
            continue
        if schema is None or not columns or view.fingerprint_with(columns) != fingerprint:
            return None
        schema = union(schema, columns)
    return schema


def has_evolved(table_json: str) -> bool:
    """Whether any field of a table was made by evolution."""
    return any(EVOLVED in one.get("metadata", {}) for one in fields_of(json.loads(table_json)))


def columns_of(kind: Any) -> int:
    """How many columns a type amounts to: its leaves."""
    if not isinstance(kind, dict):
        return 1
    if kind["type"] == "struct":
        return sum(columns_of(one["type"]) for one in kind["fields"])
    return columns_of(kind[STEPS[kind["type"]]])


def fields_of(kind: Any) -> Iterator[Mapping[str, Any]]:
    """All fields of structs in a type, at every level. kind: as parsed JSON."""
    if not isinstance(kind, dict):
        return
    for one in kind.get("fields", ()):
        yield one
        yield from fields_of(one["type"])
    if (part := STEPS.get(kind["type"])) is not None:
        yield from fields_of(kind[part])


def with_new(fields: Sequence[Any], new: Sequence[Any]) -> list[Any]:
    """The fields of a struct with new ones, which in a table stand before `_rescued`."""
    names = [one["name"] for one in fields]
    end = names.index("_rescued") if "_rescued" in names else len(names)
    return [*fields[:end], *new, *fields[end:]]


class _Clash(Exception):
    """Two fields of one name and two types, or two names that readers do not tell apart."""


def _union(have: Any, want: Any) -> Any:
    if not (isinstance(have, dict) and isinstance(want, dict) and have["type"] == want["type"]):
        if have != want:
            raise _Clash
        return have
    if have["type"] != "struct":
        part = STEPS[have["type"]]
        return {**have, part: _union(have[part], want[part])}
    wanted = {one["name"]: one for one in want["fields"]}
    kept = [_union_field(one, wanted.pop(one["name"], one)) for one in have["fields"]]
    names = Names(one["name"] for one in have["fields"])
    new = [*wanted.values()]
    if any(names.clash(one["name"]) for one in new):
        raise _Clash
    return {**have, "fields": with_new(kept, new)}


def _union_field(have: Any, want: Any) -> Any:
    """A text and JSON as text are one type, and two meanings."""
    if have.get("metadata", {}).get(JSON_TEXT) != want.get("metadata", {}).get(JSON_TEXT):
        raise _Clash
    return have if have is want else {**have, "type": _union(have["type"], want["type"])}


def _as_set(kind: Any) -> Any:
    """A type without the order of its fields."""
    if not isinstance(kind, dict):
        return kind
    if kind["type"] == "struct":
        return {one["name"]: {**one, "type": _as_set(one["type"])} for one in kind["fields"]}
    part = STEPS[kind["type"]]
    return {**kind, part: _as_set(kind[part])}


def _combined(declared: Any, table: Any) -> Any:
    """A declared type with the marked fields that the table's has in it."""
    if not (isinstance(declared, dict) and isinstance(table, dict) and declared["type"] == table["type"]):
        return declared
    if declared["type"] != "struct":
        part = STEPS[declared["type"]]
        return {**declared, part: _combined(declared[part], table[part])}
    there = {one["name"]: one for one in table["fields"]}
    fields = [
        {**one, "type": _combined(one["type"], there[one["name"]]["type"])} if one["name"] in there else one
        for one in declared["fields"]
    ]
    names = {one["name"] for one in declared["fields"]}
    marked = [one for one in table["fields"] if one["name"] not in names and EVOLVED in one.get("metadata", {})]
    return {**declared, "fields": [*fields, *marked]}
