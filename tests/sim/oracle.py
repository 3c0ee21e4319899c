"""What the topics alone say has to be in the tables, and whether it is: asked after each commit, and at the end.

Knows records (expected.py), the JSON of the logs and the lists of offsets in files. It shares no code with the product:
names of files and transactions are taken apart here, a second time.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import unquote

from tests.sim.columns import Columns
from tests.sim.expected import DEAD_LETTERS, Broken, Configuration, Expected, Partition

TOMBSTONE = (1 << 63) - 1
UNIX = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
MILLISECOND = timedelta(milliseconds=1)


@dataclass
class Table:
    """What one table's log has said so far. positions: (partition, epoch) -> offset. live: path -> rows, as placed.

    through: what it said last of valid_through, milliseconds since 1970.
    """

    version: int = -1
    positions: dict[tuple[Partition, int], int] = field(default_factory=dict)
    live: dict[str, tuple[Partition, tuple[int, ...]]] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)
    has: dict[Partition, set[int]] = field(default_factory=lambda: defaultdict(set))
    through: int = 0
    restored: bool = False
    properties: dict[str, str] = field(default_factory=dict)
    columns: Columns = field(default_factory=Columns)

    def live_at(self) -> dict[Partition, tuple[int, int]]:
        """Of each partition, the newest epoch that is not closed, and the position in it."""
        found: dict[Partition, tuple[int, int]] = {}
        for (partition, epoch), at in self.positions.items():
            if at != TOMBSTONE and (partition not in found or found[partition][0] < epoch):
                found[partition] = epoch, at
        return found

    def position(self, partition: Partition) -> int | None:
        """Of the newest epoch."""
        at = self.live_at().get(partition)
        return at[1] if at else None


class Oracle:
    """One app's. bodies: of all files, by path. root: the folder of all tables, by path."""

    def __init__(self, bodies: dict[str, bytes], root: str, app: str, begun: Configuration) -> None:
        self.bodies = bodies
        self.root = root
        self.app = app
        self.topics = Expected(begun)
        self.tables: dict[str, Table] = defaultdict(Table)
        self.commits = 0
        self.has_rows: Callable[[str, int], None] = lambda name, version: None
        self.spared: dict[Partition, dict[int, str]] = defaultdict(dict)
        self.skipped: dict[Partition, set[int]] = defaultdict(set)
        self.gaps: dict[tuple[str, Partition], list[tuple[int, int, int]]] = defaultdict(list)

    def committed(self, name: str, version: int, actions: Sequence[dict[str, Any]]) -> None:
        """A table has a version. actions: those of its entry. Raises Broken."""
        table = self.tables[name]
        if version != table.version + 1:
            raise Broken(f"VERSIONS: {name} has version {version} after {table.version}")
        table.version = version
        self.commits += 1
        infos = [one["commitInfo"].get("userMetadata") or "{}" for one in actions if "commitInfo" in one]
        said = json.loads(infos[0]) if infos else {}
        before, lived = dict(table.positions), table.live_at()
        restores = any(one.get("commitInfo", {}).get("operation") == "RESTORE" for one in actions)
        for action in actions:
            if "metaData" in action:
                table.properties = action["metaData"].get("configuration") or {}
                table.columns.become(name, json.loads(action["metaData"]["schemaString"]), restores)
            if "txn" in action:
                self._moved(name, table, action["txn"]["appId"], action["txn"]["version"])
        for action in actions:
            if "remove" in action:
                table.removed.add(path := unquote(action["remove"]["path"]))
                self._removed(name, table, path)
        table.restored |= restores or said.get("action") == "rewind"
        for action in actions:
            if "add" in action and restores:
                self._restored(name, table, action["add"])
            elif "add" in action:
                self._added(name, table, action["add"], before)
        table.columns.are_of_files(name, version)
        if any("add" in action for action in actions) and said:
            self.has_rows(name, version)
        lives = table.live_at()
        self._covered(name, table, lived, lives, rewound=said.get("action") == "rewind")
        self._through(name, table, said)
        self._counted(name, said)
        if name == DEAD_LETTERS:
            self._switched(table, lived, lives)

    def _moved(self, name: str, table: Table, app_id: str, to: int) -> None:
        parts = app_id.split("/")
        if len(parts) == 5 and parts[1] in ("spared", "skipped", "held"):
            self._listed(parts[1], (parts[2], int(parts[3])), int(parts[4]), to)
        if parts[0] != self.app or len(parts) != 4:
            return
        where = (parts[1], int(parts[2])), int(parts[3])
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
        if "gap" in tags:
            self._gaps(json.loads(body))
            table.live[path] = partition, ()
            return
        if "condemned" in tags:
            skips = [row["_kafka"]["offset"] for row in json.loads(body)]
            self._skips(partition, skips)
            table.live[path] = partition, tuple(skips)
            return
        rows = Counter[int](_rows(body))
        table.columns.fits(name, path, body)
        offsets = tuple(rows)
        if [offsets[0], offsets[-1]] != [int(tags["first_offset"]), int(tags["last_offset"])]:
            raise Broken(f"NAMES: {path} has {offsets[0]}..{offsets[-1]}, its tags say otherwise")
        where = partition, int(tags["epoch"])
        old, new = before.get(where, -1), table.positions.get(where, -1)
        if not (old < offsets[0] and offsets[-1] <= new):
            raise Broken(f"COVER: {name} {partition} goes from {old} to {new} with rows {offsets[0]}..{offsets[-1]}")
        if twice := table.has[partition] & {*offsets}:
            raise Broken(f"ONCE: {name} {partition} gets {sorted(twice)[:5]} a second time")
        if twice := self.skipped[partition] & {*offsets}:
            raise Broken(f"ONCE: {name} {partition} gets {sorted(twice)[:5]}, which are dead letters as poison")
        if strange := {*offsets} - self.topics.belongs[name][partition]:
            raise Broken(f"ROUTE: {name} {partition} gets {sorted(strange)[:5]}, which belong elsewhere")
        several = self.topics.dead[partition] if name == DEAD_LETTERS else {}
        if odd := [(one, rows[one]) for one in offsets if rows[one] != several.get(one, 1)]:
            raise Broken(f"ONCE: {name} {partition} gets (offset, rows) {odd[:5]}, not one for each type")
        late = [offset for offset in offsets if self.topics.of[partition].times[offset] <= table.through]
        if late and not table.restored:
            raise Broken(f"THROUGH: {name} {partition} gets {late[:5]}, not above {table.through}, which it has said")
        table.live[path] = partition, offsets
        table.has[partition] |= {*offsets}

    def _listed(self, state: str, partition: Partition, offset: int, to: int) -> None:
        """What the dead letters list of a poison record."""
        if offset not in self.topics.of[partition].poison:
            raise Broken(f"POISON: {partition} {offset} is {state}, and any task can read it")
        if to == TOMBSTONE:
            if self.spared[partition].get(offset) == state:
                del self.spared[partition][offset]
        else:
            self.spared[partition][offset] = state

    def _skips(self, partition: Partition, offsets: list[int]) -> None:
        """Dead letters of poison records: none is anywhere else."""
        for offset in offsets:
            has = [name for name, table in self.tables.items() if offset in table.has[partition]]
            if (has and self.topics.is_told_apart(partition, offset)) or offset in self.skipped[partition]:
                raise Broken(f"ONCE: {partition} {offset} is a dead letter as poison, and in {has or 'another one'}")
            self.skipped[partition].add(offset)

    def _gaps(self, rows: list[dict[str, Any]]) -> None:
        """Dead letters that stand for what Kafka deleted: it has, and of one epoch none says what another one says."""
        for row in rows:
            partition = row["_kafka"]["topic"], row["_kafka"]["partition"]
            first, last = row["first_offset"], row["last_offset"]
            if last >= self.topics.of[partition].first:
                raise Broken(f"GAP: {partition} {first}..{last} is said to be gone, and is not")
            told = self.gaps[row["event_type"], partition]
            epoch = row["_kafka"]["epoch"]
            if any(first <= end and begin <= last for begin, end, of in told if of == epoch):
                raise Broken(f"GAP: {row['event_type']} {partition} {first}..{last} is told a second time")
            told.append((first, last, epoch))

    def _excused(self, name: str, partition: Partition, offset: int, is_first: bool) -> bool:
        """Whether a table may pass a record that it does not have: a gap says so, or it began behind the record."""
        if offset in self.topics.of[partition].unsure:
            return True
        if offset in self.spared[partition]:
            return True
        if is_first:
            return offset < self.topics.of[partition].first
        return any(first <= offset <= last for first, last, _ in self.gaps[name, partition])

    def _removed(self, name: str, table: Table, path: str) -> None:
        partition, offsets = table.live.pop(path)
        if ".condemned." in path:
            self.skipped[partition] -= {*offsets}
        else:
            table.has[partition] -= {*offsets}

    def _restored(self, name: str, table: Table, add: dict[str, Any]) -> None:
        """A file that is live again: it was looked at when it came."""
        path, tags = unquote(add["path"]), add["tags"]
        partition, rows = (tags["topic"], int(tags["partition"])), _rows(self.bodies[f"{self.root}/{name}/{path}"])
        if ".condemned." in path:
            rows = [row["_kafka"]["offset"] for row in rows]
            self.skipped[partition] |= {*rows}
        else:
            table.has[partition] |= {*rows}
        table.live[path] = partition, tuple(rows)

    def _covered(
        self,
        name: str,
        table: Table,
        before: dict[Partition, tuple[int, int]],
        after: dict[Partition, tuple[int, int]],
        rewound: bool = False,
    ) -> None:
        """COVER and ANCHOR: whatever the commit passes is in the table, or nobody could read it."""
        for partition, (_, now) in after.items():
            old = before.get(partition, (0, -1))[1]
            if rewound and before.get(partition) != after[partition]:
                old = -1
                if kept := sorted(one for one in table.has[partition] if one > now):
                    raise Broken(f"REWIND: {name} {partition} begins again behind {now}, and has {kept[:5]}")
            if old == now:
                continue
            if now < old:
                raise Broken(f"MONOTONE: {name} {partition} goes back from {old} to {now}, into another epoch")
            passed = self.topics.belongs[name][partition].intersection(range(old + 1, now + 1))
            passed |= self.topics.undecided(name, partition).intersection(range(old + 1, now + 1))
            lacks, is_first = sorted(passed - table.has[partition]), partition not in before
            lost = [one for one in lacks if not self._excused(name, partition, one, is_first)]
            if lost:
                raise Broken(f"COVER: {name} {partition} goes from {old} to {now} without {lost[:5]}")
            if now >= (end := self.topics.of[partition].end):
                raise Broken(f"COVER: {name} {partition} is at {now}, the topic ends at {end}")

    def _through(self, name: str, table: Table, said: dict[str, Any]) -> None:
        """What the commit says of valid_through, and the table's property."""
        texts = said.get("valid_through", ""), table.properties.get("exporter.valid_through", "")
        now, told = ((datetime.fromisoformat(text) - UNIX) // MILLISECOND if text else 0 for text in texts)
        if now and now < table.through and not table.restored:
            raise Broken(f"THROUGH: {name} goes back from {table.through} to {now}")
        table.through = now or table.through
        if table.restored:
            return
        if told > table.through:
            raise Broken(f"THROUGH: the property of {name} says {told}, its commits {table.through}")

    def _counted(self, name: str, said: dict[str, Any]) -> None:
        """COUNT: what no table takes, or a type's filter leaves out, is counted by the commit that passes it."""
        for text, one in said.get("partitions", {}).items():
            if "expected" in one:
                topic, _, number = text.rpartition("-")
                partition = topic, int(number)
                passed = range(one["expected"] + 1, one["new"] + 1)
                counted = self.topics.counted[name][partition].intersection(passed)
                records = self.topics.of[partition]
                least = len(counted - records.unsure - records.poison)
                if not least <= one.get("filtered", 0) <= len(counted):
                    raise Broken(f"COUNT: {name} {partition} {passed} has {len(counted)} to be counted, not {one}")

    def _switched(
        self, table: Table, before: dict[Partition, tuple[int, int]], after: dict[Partition, tuple[int, int]]
    ) -> None:
        """The dead letters begin another epoch, or the first one: from there on its configuration counts."""
        for partition, (epoch, at) in after.items():
            if partition not in before or before[partition][0] != epoch:
                history = json.loads(table.properties[f"exporter.routing.{partition[0]}-{partition[1]}"])
                self.topics.switched(partition, history[str(epoch)], at)

    def missing(self) -> list[str]:
        """What is not exported yet: one line for each table and partition."""
        lines = []
        for partition, records in sorted(self.topics.of.items()):
            begun = records.configuration or self.topics.begun
            if begun != self.topics.wanted:
                lines.append(f"{partition} is under {begun}")
            if waits := [one for one, state in self.spared[partition].items() if state == "spared"]:
                lines.append(f"{partition} {waits[:5]} are spared, and nobody says where they are")
            for name in (*begun.declared, DEAD_LETTERS):
                at = self.tables[name].position(partition)
                if at is None or at < records.end - 1:
                    lines.append(f"{name} {partition} is at {at} of {records.end - 1}")
        for name in [*self.topics.belongs]:
            for partition, offsets in self.topics.belongs[name].items():
                at = self.tables[name].position(partition)
                met = at is not None or any(not self.topics.gone(partition, one) for one in offsets)
                if met and offsets and (at is None or at < max(offsets)):
                    lines.append(f"{name} {partition} is at {at}, and has records up to {max(offsets)}")
        return lines

    def have_columns(self) -> None:
        """What is in live rows is in a column of the table, where columns are made of it. Raises Broken."""
        for name in self.tables.keys() - {DEAD_LETTERS}:
            table = self.tables[name]
            for partition, records in self.topics.of.items():
                found = {records.fields[one] for one in records.fields.keys() & table.has[partition]}
                if lacks := sorted(found - table.columns.of.keys()):
                    raise Broken(f"COLUMNS: {name} has rows of {partition} with {lacks}, and no such columns")

    def finished(self) -> None:
        """Everything is in its table, once. Raises Broken."""
        if missing := self.missing():
            raise Broken(f"PROGRESS: {'; '.join(missing[:5])}")
        for name in {*self.topics.belongs, *self.tables}:
            for partition in self.topics.of:
                wanted, has = self.topics.belongs[name][partition], self.tables[name].has[partition]
                skipped, told_apart = self.skipped[partition], self.topics.is_told_apart
                wanted = wanted - {one for one in skipped if one not in has or told_apart(partition, one)}
                odd = [one for one in sorted(wanted ^ has) if one in has or not self.topics.gone(partition, one)]
                if odd:
                    raise Broken(f"ONCE: {name} {partition} has {len(has)} of {len(wanted)} records, not {odd[:5]}")


def _rows(body: bytes) -> list[Any]:
    """What a file has; behind it stands which columns it has."""
    rows: list[Any] = json.loads(body.splitlines()[0])
    return rows
