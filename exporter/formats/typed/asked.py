"""What is asked of the records of one event type: columns, event type and event time. Runs on Spark executors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from exporter.core.routing import Routing
from exporter.errors import ConfigError
from exporter.formats.asked import Asked, Path
from exporter.formats.cased import spelled_type
from exporter.formats.marks import holds_json, is_evolved


@dataclass(frozen=True)
class TypedAsked(Asked):
    """What is asked of typed values: columns, paths and policy."""

    @classmethod
    def by(cls, event_type: str, schema: pa.Schema, routing: Routing) -> TypedAsked:
        """What a routing configuration asks for. Raises ConfigError if a declared column is in the way."""
        asked = cls.of(event_type, schema, routing)
        if asked.route:
            _check_way(schema, asked.route, pa.types.is_string, "the event type", "STRING")
        if asked.time and asked.unit == "iso":
            _check_way(schema, asked.time, pa.types.is_temporal, "the event time", "TIMESTAMP")
        elif asked.time:
            _check_way(schema, asked.time, _counts_time, f"the event time in {asked.unit}", "BIGINT or TIMESTAMP")
        return asked

    def spelled(self, record: pa.DataType) -> pa.DataType:
        """A type of a writer's with the names of columns. Raises DeadLetter."""
        return record if self.spelling is None else spelled_type(record, self.spelling)

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
