"""The columns of a table that hold what stands in the value under the same name, whatever rules there are. Pure."""

from __future__ import annotations

import json

from exporter.core.columns import NO_COLUMNS
from exporter.core.routing import Routing


def plain_columns(routing: Routing, event_type: str) -> str:
    """Spark schema JSON of them, of a declared type; nothing of others."""
    declared = routing.schemas.get(event_type, NO_COLUMNS)
    shape = routing.shape_by_type.get(event_type)
    constants = {name for name, _ in routing.constants}
    if shape is None and not constants:
        return declared
    if shape is not None and (shape.python or shape.case != "exact"):
        return NO_COLUMNS
    made = constants | ({name for name, _ in (*shape.names, *shape.computed)} if shape is not None else set())
    decoded = {one["name"] for one in json.loads(routing.decoded_of(event_type))["fields"]}
    schema = json.loads(declared)
    kept = [one for one in schema["fields"] if one["name"] in decoded and one["name"] not in made]
    return json.dumps({**schema, "fields": kept})
