"""What the SQL of one type sees: columns by the table's names, and the record itself.

    value ── paths, whatever the case ── the columns that the SQL mentions ── rows as Arrow ── DuckDB

Knows no driver.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from exporter.core.shapes import Shape
from exporter.proof.rules.values import arrow_of, member, typed

RECORD = pa.schema([
    ("_kafka", pa.struct([
        ("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
    ])),
    ("_key", pa.binary()),
    ("_headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
])  # fmt: skip
"""Of each record, whatever its value."""


@dataclass(frozen=True)
class SeenColumn:
    """A column that is there before anything is computed. field: of a Spark schema; paths: where its values stand."""

    name: str
    field: Mapping[str, Any]
    paths: Sequence[Sequence[str]]


def seen_columns(shape: Shape) -> list[SeenColumn]:
    """All columns that expressions of a type see."""
    fields = {one["name"]: one for one in json.loads(shape.decoded)["fields"]}
    taken = {tuple(path.split(".")) for _, paths in shape.names for path in paths}
    kept = [SeenColumn(name, one, [[name]]) for name, one in fields.items() if (name,) not in taken]
    for column, paths in shape.names:
        where = [path.split(".") for path in paths]
        kept.append(SeenColumn(column, _field_at(fields, where[0]), where))
    return kept


def _field_at(fields: Mapping[str, Mapping[str, Any]], path: Sequence[str]) -> Mapping[str, Any]:
    found = fields[path[0]]
    for name in path[1:]:
        found = next(one for one in found["type"]["fields"] if one["name"] == name)
    return found


class SqlSight:
    """Of one type. texts: its SQL; columns that it does not mention are left out, unless the whole is asked for."""

    def __init__(self, shape: Shape, texts: Sequence[str], whole: bool = False) -> None:
        said = "\n".join(texts).lower()
        self._loose = shape.case != "exact"
        self._seen = [one for one in seen_columns(shape) if whole or one.name.lower() in said]
        fields = [pa.field(one.name, arrow_of(one.field["type"])) for one in self._seen]
        self.schema = pa.schema([*fields, *RECORD])

    def row(self, document: Any, record: Mapping[str, Any]) -> dict[str, Any]:
        """One row. record: `topic`, `partition`, `offset`, `timestamp`, `key`, `headers`. Raises Unsure."""
        kafka = {name: record[name] for name in ("topic", "partition", "offset", "timestamp")}
        own = {"_kafka": kafka, "_key": record["key"], "_headers": record["headers"] or None}
        return {**{one.name: self._value(one, document) for one in self._seen}, **own}

    def rows(self, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
        """Rows as the engine takes them."""
        return pa.Table.from_pylist(list(rows), schema=self.schema)

    def _value(self, column: SeenColumn, document: Any) -> Any:
        for path in column.paths:
            found = document
            for name in path:
                found = member(found, name, self._loose)
            if found is not None:
                return typed(column.field, found, self._loose)
        return None
