"""What is in the topics, and where each record belongs: by the configuration that is in force for its offset.

The world says what was produced, and what was told to tasks; which configuration counts from which offset on is what
the dead letters' history says. No code of the product decides anything here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

DEAD_LETTERS = "dead_letters"
HAS_TEXT, UNKNOWN = "text", "unknown"
"""What is decided of a schema id."""
Partition = tuple[str, int]


class Broken(AssertionError):
    """An invariant does not hold: its name comes first."""


@dataclass(frozen=True)
class Configuration:
    """What tasks were told. new_tables: an undeclared type has its own table. counts: else it is counted.

    takes: of a declared type that takes others than its own, which. thirds: those whose filter leaves out each third
    offset. texts: those that take any id, also a text, as a kind that begins with ~ has it.
    """

    declared: tuple[str, ...]
    new_tables: bool = False
    counts: bool = False
    generation: int = 0
    takes: tuple[tuple[str, tuple[str, ...]], ...] = ()
    thirds: frozenset[str] = frozenset()
    texts: frozenset[str] = frozenset()

    def takers(self, said: str) -> list[str]:
        """The types that a record belongs to which says this one."""
        takes = dict(self.takes)
        found = [name for name in self.declared if said in takes.get(name, (name,))]
        clashes = said.lower() in {name.lower() for name in (*self.declared, DEAD_LETTERS)}
        return found or ([said] if self.new_tables and not clashes else [])

    def fills(self, table: str) -> bool:
        """Whether some record may belong to this table."""
        return table == DEAD_LETTERS or table in self.declared or self.new_tables

    def place(self, kind: str, offset: int = 1) -> Place:
        """Where a record is to be."""
        said = kind.removeprefix("~")
        if kind.startswith("!") or not (takers := self.takers(said)):
            is_counted = self.counts and not kind.startswith("!")
            return Place((), (DEAD_LETTERS,)) if is_counted else Place((DEAD_LETTERS,))
        refused = [name for name in takers if kind != said and name in self.declared and name not in self.texts]
        left_out = [name for name in takers if name not in refused and name in self.thirds and offset % 3 == 0]
        rows = [DEAD_LETTERS if name in refused else name for name in takers if name not in left_out]
        return Place(tuple(rows), tuple(left_out))


@dataclass(frozen=True)
class Place:
    """Where a record is to be: tables, each as often as it has a row of it, and those whose commits count it."""

    rows: tuple[str, ...]
    counted: tuple[str, ...] = ()


@dataclass
class Records:
    """Those of one partition. kinds: of what was produced. first: what is before it is gone. unsure: a record that may
    have gone before anybody read it. poison: those on which some task's rounds end. fields: a record's further one.
    schemas: the id that a record's value names. undecided: those of which nothing is decided yet.
    """

    kinds: dict[int, str] = field(default_factory=dict)
    times: dict[int, int] = field(default_factory=dict)
    end: int = 0
    first: int = 0
    unsure: set[int] = field(default_factory=set)
    poison: set[int] = field(default_factory=set)
    fields: dict[int, str] = field(default_factory=dict)
    schemas: dict[int, int] = field(default_factory=dict)
    undecided: set[int] = field(default_factory=set)
    configuration: Configuration | None = None


class Expected:
    """One app's. configurations: by the fingerprint that the dead letters record; begun: the one that all began with.
    wanted: the one that counts everywhere in the end.

    belongs: table -> partition -> offsets; counted: the same, of those that its commits count. dead: how many dead
    letters a record has, where it has several. decided: what is decided of a schema id at an offset: HAS_TEXT, UNKNOWN,
    or nothing.
    """

    def __init__(self, begun: Configuration) -> None:
        self.begun = self.wanted = begun
        self.configurations: dict[str, Configuration] = {}
        self.of: dict[Partition, Records] = defaultdict(Records)
        self.belongs: dict[str, dict[Partition, set[int]]] = defaultdict(lambda: defaultdict(set))
        self.counted: dict[str, dict[Partition, set[int]]] = defaultdict(lambda: defaultdict(set))
        self.dead: dict[Partition, dict[int, int]] = defaultdict(dict)
        self.decided: Callable[[int, Partition, int], str] = lambda schema_id, partition, offset: HAS_TEXT

    def produced(
        self, partition: Partition, offset: int, kind: str, at_ms: int = 1, schema_id: int | None = None
    ) -> None:
        """A record is in the topic."""
        records = self.of[partition]
        records.kinds[offset], records.times[offset] = kind, at_ms
        if schema_id is not None:
            records.schemas[offset] = schema_id
        records.end = offset + 1
        self._place(partition, [offset], records.configuration or self.begun)

    def decides(self, schema_id: int, record: Callable[[], None]) -> None:
        """Something is decided of an id: its records are in their places afterwards. record: takes it in."""
        named = {
            partition: [offset for offset in of.kinds if of.schemas[offset] == schema_id]
            for partition, of in self.of.items()
        }
        for partition, offsets in named.items():
            self._unplace(partition, offsets, self.of[partition].configuration or self.begun)
        record()
        for partition, offsets in named.items():
            self._place(partition, offsets, self.of[partition].configuration or self.begun)

    def _place_of(self, partition: Partition, offset: int, by: Configuration) -> Place:
        """Nowhere, as long as it cannot be read; a dead letter, where nobody can ever."""
        records = self.of[partition]
        schema_id = records.schemas.get(offset)
        state = HAS_TEXT if schema_id is None else self.decided(schema_id, partition, offset)
        if not state:
            records.undecided.add(offset)
            return Place(())
        records.undecided.discard(offset)
        return by.place(records.kinds[offset], offset) if state == HAS_TEXT else Place((DEAD_LETTERS,))

    def _place(self, partition: Partition, offsets: Iterable[int], by: Configuration) -> None:
        dead = self.dead[partition]
        for offset in offsets:
            place = self._place_of(partition, offset, by)
            for name in place.rows:
                self.belongs[name][partition].add(offset)
            for name in place.counted:
                self.counted[name][partition].add(offset)
            if (several := place.rows.count(DEAD_LETTERS)) > 1:
                dead[offset] = several

    def _unplace(self, partition: Partition, offsets: Iterable[int], by: Configuration) -> None:
        dead = self.dead[partition]
        for offset in offsets:
            place = self._place_of(partition, offset, by)
            for name in place.rows:
                self.belongs[name][partition].discard(offset)
            for name in place.counted:
                self.counted[name][partition].discard(offset)
            dead.pop(offset, None)

    def undecided(self, table: str, partition: Partition) -> set[int]:
        """Records of which nothing is decided yet, where this table may have to have them."""
        records = self.of[partition]
        return records.undecided if (records.configuration or self.begun).fills(table) else set()

    def ends_at(self, partition: Partition, end: int) -> None:
        """The topic ends there: with a marker that no consumer sees, or with holes."""
        self.of[partition].end = max(self.of[partition].end, end)

    def vanished(self, partition: Partition, offsets: set[int]) -> None:
        """These were never to be seen: of a transaction that was aborted."""
        records = self.of[partition]
        self._unplace(partition, offsets, records.configuration or self.begun)
        records.undecided -= offsets
        for offset in offsets:
            del records.kinds[offset]

    def switched(self, partition: Partition, fingerprint: str, after: int) -> None:
        """From behind an offset on another configuration counts, or the first one."""
        records, now = self.of[partition], self.configurations[fingerprint]
        before = records.configuration or self.begun
        if now != before:
            behind = [offset for offset in records.kinds if offset > after]
            self._unplace(partition, behind, before)
            self._place(partition, behind, now)
        records.configuration = now

    def is_told_apart(self, partition: Partition, offset: int) -> bool:
        """Whether a table that has a record says that no other one is to have it."""
        return not (self.of[partition].configuration or self.begun).takes

    def gone(self, partition: Partition, offset: int) -> bool:
        """Whether Kafka may have deleted a record before it was read."""
        records = self.of[partition]
        return offset < records.first or offset in records.unsure
