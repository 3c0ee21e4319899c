"""The columns of one table, as its log and its files say: part of the oracle, which shares no code with the product."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from tests.sim.expected import Broken

EVOLVED, JSON_TEXT = "exporter.evolved", "exporter.json"


@dataclass
class Columns:
    """of: by name, as the schema has them. new: that came with the commit that is looked at, and are of no file yet."""

    of: dict[str, dict[str, Any]] = field(default_factory=dict)
    new: set[str] = field(default_factory=set)

    def become(self, table: str, schema: dict[str, Any], restores: bool) -> None:
        """A commit writes the schema. Raises Broken."""
        now = {one["name"]: one for one in schema["fields"]}
        for name, one in self.of.items() if not restores else ():
            if now.get(name) != one:
                raise Broken(f"COLUMNS: {table} had {one}, and has {now.get(name)}")
        new = () if restores else now.keys() - self.of.keys()
        self.of, self.new = now, {name for name in new if EVOLVED in now[name]["metadata"]}

    def fits(self, table: str, path: str, body: bytes) -> None:
        """A file comes. Raises Broken."""
        said = body.splitlines()[1:]
        for name, kind in json.loads(said[0]).items() if said else ():
            one = self.of.get(name, {"type": "none"})
            if kind != ("json" if JSON_TEXT in one.get("metadata", {}) else one["type"]):
                raise Broken(f"COLUMNS: {table} gets {path} with {name} {kind}, and has {one}")
            self.new.discard(name)

    def are_of_files(self, table: str, version: int) -> None:
        """All files of a commit were looked at. The first one makes the table, with what is planned. Raises Broken."""
        if self.new and version:
            raise Broken(f"COLUMNS: {table} gets {sorted(self.new)} in version {version}, which no file of it has")
        self.new = set()
