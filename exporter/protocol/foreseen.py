"""What follows for a table before a record is in it: from a schema that its records name, from the format of a topic.

Each is asked once, when the first of such records comes, and planned (planned.py). Belongs to one thread.
"""

from __future__ import annotations

from exporter.core.routing import Routing
from exporter.core.schemas import KnownSchemas, SchemaColumns, origin_of
from exporter.core.value_format import ValueFormat
from exporter.protocol.planned import FILES, PlannedColumns


class Foreseeing:
    """For one task or replay. columns: None where none follow from schemas."""

    def __init__(self, routing: Routing, planned: PlannedColumns, columns: SchemaColumns | None) -> None:
        self._routing = routing
        self._planned = planned
        self._columns = columns
        self._done: set[tuple[str, str, ValueFormat]] = set()

    @property
    def has_several(self) -> bool:
        """Whether the format of a type's values is told by the topic that a record comes from, and by nothing else."""
        return len(self._routing.formats) > 1 and self._routing.type_from.kind != "topic"

    def schema(self, name: str, key: str, topic: str, decided: KnownSchemas) -> bool:
        """Plan columns for records of a type that are written by a registered schema; whether there are new ones.

        key: as Fragment.met has it. topic: that they come from; its format says how they are wrapped.
        """
        form = self._routing.format_of(topic)
        if self._columns is None or self._planned.evolutions.of(name) is None or (name, key, form) in self._done:
            return False
        fields = self._columns.of_key(key, decided, topic)
        if fields:
            self._done.add((name, key, form))
            self._planned.foresee(name, fields, origin_of(key))
        return bool(fields)

    def topic(self, name: str, topic: str) -> bool:
        """Plan what follows from the format of a topic for a type that comes from it; whether there is anything new.

        Where all have one format, and where types are topics, it was known before any record.
        """
        form = self._routing.format_of(topic)
        if not self.has_several or (name, "", form) in self._done:
            return False
        self._done.add((name, "", form))
        if form.envelope != "none":
            self._planned.changes(name)
        grows = self._columns is not None and self._planned.evolutions.of(name) is not None
        fields = self._columns.of_type(name, topic) if self._columns is not None and grows else ()
        if fields:
            self._planned.foresee(name, fields, FILES)
        return bool(fields) or form.envelope != "none"
