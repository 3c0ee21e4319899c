"""What the topics alone say has to be in the tables, and whether it is: asked after each commit, and at the end.

Knows records, the JSON of the logs and the lists of offsets in files. It shares no code with the product: names of
files and transactions are taken apart here, a second time.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

DEAD_LETTERS = "dead_letters"
Partition = tuple[str, int]


class Broken(AssertionError):
    """An invariant does not hold: its name comes first."""


@dataclass
class Table:
    """What one table's log has said so far. positions: (partition, epoch) -> offset. live: path -> rows, as placed."""

    version: int = -1
    positions: dict[tuple[Partition, int], int] = field(default_factory=dict)
    anchors: dict[tuple[Partition, int], int] = field(default_factory=dict)
    live: dict[str, tuple[Partition, tuple[int, ...]]] = field(default_factory=dict)
    has: dict[Partition, set[int]] = field(default_factory=lambda: defaultdict(set))

    def position(self, partition: Partition) -> int | None:
        """Of the newest epoch."""
        found = {epoch: at for (one, epoch), at in self.positions.items() if one == partition}
        return found[max(found)] if found else None


class Oracle:
    """One app's. bodies: of all files, by path. root: the folder of all tables, by path."""

    def __init__(self, bodies: dict[str, bytes], root: str, app: str, declared: tuple[str, ...]) -> None:
        self.bodies = bodies
        self.root = root
        self.app = app
        self.declared = declared
        self.tables: dict[str, Table] = defaultdict(Table)
        self.commits = 0
        self.belongs: dict[str, dict[Partition, set[int]]] = defaultdict(lambda: defaultdict(set))
        self.ends: dict[Partition, int] = {}

    def produced(self, partition: Partition, offset: int, kind: str) -> None:
        """A record is in the topic: there is one table that it belongs to."""
        table = kind if kind in self.declared else DEAD_LETTERS
        self.belongs[table][partition].add(offset)
        self.ends[partition] = offset + 1

    def written(self, path: str, body: bytes) -> None:
        """A file is new: a commit, if it is an entry of a log. Raises Broken."""
        if "/_delta_log/" not in path or not path.endswith(".json"):
            return
        folder, _, name = path.partition("/_delta_log/")
        if folder.startswith(f"{self.root}/"):
            self._committed(folder.removeprefix(f"{self.root}/"), int(name.removesuffix(".json")), body)

    def _committed(self, name: str, version: int, body: bytes) -> None:
        table = self.tables[name]
        if version != table.version + 1:
            raise Broken(f"VERSIONS: {name} has version {version} after {table.version}")
        table.version = version
        self.commits += 1
        actions = [json.loads(line) for line in body.decode().splitlines()]
        before = dict(table.positions)
        for action in actions:
            if "txn" in action:
                self._moved(name, table, action["txn"]["appId"], action["txn"]["version"])
        for action in actions:
            if "remove" in action:
                partition, offsets = table.live.pop(unquote(action["remove"]["path"]))
                table.has[partition] -= {*offsets}
        for action in actions:
            if "add" in action:
                self._added(name, table, action["add"], before)
        self._covered(name, table, before)

    def _moved(self, name: str, table: Table, app_id: str, to: int) -> None:
        parts = app_id.split("/")
        if parts[0] != self.app or (len(parts) == 5 and parts[1] != "anchor") or len(parts) > 5:
            return
        topic, partition, epoch = parts[-3:]
        where = (topic, int(partition)), int(epoch)
        if len(parts) == 5:
            table.anchors[where] = to
            return
        at = table.positions.get(where)
        if at is not None and to < at:
            raise Broken(f"MONOTONE: {name} {where[0]} goes back from {at} to {to}")
        table.positions[where] = to

    def _added(self, name: str, table: Table, add: dict[str, Any], before: dict[tuple[Partition, int], int]) -> None:
        path = unquote(add["path"])
        tags = add["tags"]
        partition = tags["topic"], int(tags["partition"])
        if (body := self.bodies.get(f"{self.root}/{name}/{path}")) is None:
            raise Broken(f"TEMP: {name} names {path}, which is not there")
        if len(body) != add["size"]:
            raise Broken(f"TEMP: {name} says {add['size']} bytes of {path}, which has {len(body)}")
        offsets = tuple(json.loads(body))
        if [offsets[0], offsets[-1]] != [int(tags["first_offset"]), int(tags["last_offset"])]:
            raise Broken(f"NAMES: {path} has {offsets[0]}..{offsets[-1]}, its tags say otherwise")
        where = partition, int(tags["epoch"])
        old, new = before.get(where, -1), table.positions.get(where, -1)
        if not (old < offsets[0] and offsets[-1] <= new):
            raise Broken(f"COVER: {name} {partition} goes from {old} to {new} with rows {offsets[0]}..{offsets[-1]}")
        if twice := table.has[partition] & {*offsets}:
            raise Broken(f"ONCE: {name} {partition} gets {sorted(twice)[:5]} a second time")
        if strange := {*offsets} - self.belongs[name][partition]:
            raise Broken(f"ROUTE: {name} {partition} gets {sorted(strange)[:5]}, which belong elsewhere")
        table.live[path] = partition, offsets
        table.has[partition] |= {*offsets}

    def _covered(self, name: str, table: Table, before: dict[tuple[Partition, int], int]) -> None:
        """COVER and ANCHOR: whatever the commit passes is in the table."""
        for where, now in table.positions.items():
            anchored = where not in before and where in table.anchors
            old = table.anchors[where] if anchored else before.get(where, -1)
            if old == now:
                continue
            partition = where[0]
            passed = self.belongs[name][partition].intersection(range(old + 1, now + 1))
            if lost := sorted(passed - table.has[partition]):
                raise Broken(f"COVER: {name} {partition} goes from {old} to {now} without {lost[:5]}")
            if now >= self.ends.get(partition, 0):
                raise Broken(f"COVER: {name} {partition} is at {now}, the topic ends at {self.ends.get(partition, 0)}")

    def missing(self) -> list[str]:
        """What is not exported yet: one line for each table and partition."""
        lines = []
        for name in (*self.declared, DEAD_LETTERS):
            for partition, end in sorted(self.ends.items()):
                at = self.tables[name].position(partition)
                if at is None or at < end - 1:
                    lines.append(f"{name} {partition} is at {at} of {end - 1}")
        return lines

    def finished(self) -> None:
        """Everything is in its table, once. Raises Broken."""
        if missing := self.missing():
            raise Broken(f"PROGRESS: {'; '.join(missing[:5])}")
        for name in (*self.declared, DEAD_LETTERS):
            for partition in self.ends:
                wanted, has = self.belongs[name][partition], self.tables[name].has[partition]
                if wanted != has:
                    odd = sorted(wanted ^ has)[:5]
                    raise Broken(f"ONCE: {name} {partition} has {len(has)} of {len(wanted)} records, not {odd}")
