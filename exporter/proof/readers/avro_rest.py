"""What only the writer of an Avro value has, beside what the reader's schema makes of it. Pure.

Unions of several types are taken as the reader has them: which member is which is not looked into.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Rest:
    """Of one pair of schemas. reader, writer: the types that they name, by full names, as fastavro has parsed them."""

    reader: Mapping[str, Any]
    writer: Mapping[str, Any]

    def added(self, found: Any, written: Any, reader: Any, writer: Any) -> Any:
        """A value by the reader's schema, with the fields that this lacks.

        found: by the reader's schema, written: by the writer's, both as documents.
        """
        reader, writer = _alone(reader, self.reader), _alone(writer, self.writer)
        if found is None or written is None or reader["type"] != writer["type"]:
            return found
        if reader["type"] in ("record", "error"):
            return self._record(found, written, reader, writer)
        if reader["type"] == "array":
            of = reader["items"], writer["items"]
            return [self.added(one, other, *of) for one, other in zip(found, written, strict=True)]
        if reader["type"] == "map":
            of = reader["values"], writer["values"]
            return {key: self.added(one, written[key], *of) for key, one in found.items()}
        return found

    def _record(self, found: Any, written: Any, reader: Any, writer: Any) -> dict[str, Any]:
        theirs = {one["name"]: one for one in writer["fields"]}
        whole = dict(found)
        for field in reader["fields"]:
            name = next((one for one in (field["name"], *field.get("aliases", ())) if one in theirs), None)
            if name is not None:
                values = found[field["name"]], written[name]
                whole[field["name"]] = self.added(*values, field["type"], theirs.pop(name)["type"])
        return whole | {name: written[name] for name in theirs}


def _alone(schema: Any, named: Mapping[str, Any]) -> dict[str, Any]:
    """A type without names for it, and without null beside it; a union of several has no type that has parts."""
    while True:
        if isinstance(schema, list):
            some = [one for one in schema if one != "null"]
            if len(some) != 1:
                return {"type": "union"}
            schema = some[0]
        elif isinstance(schema, str):
            if schema not in named:
                return {"type": schema}
            schema = named[schema]
        elif isinstance(schema["type"], (dict, list)) or schema["type"] in named:
            schema = schema["type"]
        else:
            return dict(schema)
