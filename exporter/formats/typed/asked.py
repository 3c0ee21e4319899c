"""What is asked of the records of one event type: columns, event type and event time. Runs on Spark executors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from exporter.core.routing import Routing
from exporter.errors import ConfigError
from exporter.formats.cased import Spelling, spelled_type
from exporter.formats.marks import declared_only, has_evolved, holds_json, is_evolved
from exporter.formats.said import SaidType

Path = tuple[str, ...]


@dataclass(frozen=True)
class TypedAsked:
    """What one routing configuration asks for, before any writer is known.

    schema: all columns that are returned. read: those that are filled, with their marks: without what nobody declared
    where unknown fields are not kept. route, time: where the event type and the event time stand, if in a record.
    spelling: of the columns, if fields fill them whose names differ by case only; such a field is called as its column
    is before anything here looks at it.
    """

    said: SaidType
    schema: pa.Schema
    read: pa.Schema
    route: Path | None
    time: Path | None
    unit: str
    policy: Literal["rescue", "ignore", "dead_letter"]
    spelling: Spelling | None = None

    @classmethod
    def by(cls, event_type: str, schema: pa.Schema, routing: Routing) -> TypedAsked:
        """schema: columns as formats/schema.py makes them. Raises ConfigError if a declared one is in the way."""
        time, kind = routing.event_time, routing.type_from
        drops = routing.unknown_fields != "rescue" and has_evolved(schema)
        spelling = Spelling.of(schema) if routing.ignores_case(event_type) else None
        as_is = spelling or Spelling({})
        asked = cls(
            SaidType(event_type, routing),
            schema,
            declared_only(schema) if drops else schema,
            tuple(as_is.path(kind.name.split("."))) if kind.kind == "json" else None,
            tuple(as_is.path(time.path.split("."))) if time.kind == "json" else None,
            time.unit,
            routing.unknown_fields,
            spelling,
        )
        if asked.route:
            _check_way(schema, asked.route, pa.types.is_string, "the event type", "STRING")
        if asked.time and time.unit == "iso":
            _check_way(schema, asked.time, pa.types.is_temporal, "the event time", "TIMESTAMP")
        elif asked.time:
            _check_way(schema, asked.time, _counts_time, f"the event time in {time.unit}", "BIGINT or TIMESTAMP")
        return asked

    def spelled(self, record: pa.DataType) -> pa.DataType:
        """A type of a writer's with the names of columns. Raises Unclear."""
        return record if self.spelling is None else spelled_type(record, self.spelling)

    @property
    def keeps_all(self) -> bool:
        """Whether a record has no column, so that all of it is kept as unknown."""
        return len(self.read) == 0

    @property
    def known(self) -> frozenset[Path]:
        """What is no unknown field, whether a column holds it or not."""
        return frozenset(path for path in (self.route, self.time) if path)


def _counts_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_temporal(kind))


def _check_way(schema: pa.Schema, path: Path, fits: Callable[[pa.DataType], bool], what: str, needed: str) -> None:
    """Raises ConfigError if a declared column of another type stands at a path or on the way to it."""
    fields = list(schema)
    for depth, name in enumerate(path, start=1):
        found = next((one for one in fields if one.name == name), None)
        if found is None or is_evolved(found):
            return
        dotted, kind = ".".join(path[:depth]), "JSON" if holds_json(found) else found.type
        if depth == len(path) and (holds_json(found) or not fits(found.type)):
            raise ConfigError(f"column {dotted} is declared {kind}, but holds {what}", f"declare it as {needed}")
        if depth < len(path) and not pa.types.is_struct(found.type):
            raise ConfigError(
                f"{what} stands below {dotted}, but that column is declared {kind}",
                "declare it as a STRUCT or leave it out",
            )
        fields = list(found.type) if pa.types.is_struct(found.type) else []
