"""What is in the topics, and where each record belongs: by the configuration that is in force for its offset.

The world says what was produced, and what was told to tasks; which configuration counts from which offset on is what
the dead letters' history says. No code of the product decides anything here.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

DEAD_LETTERS = "dead_letters"
COUNTED = ""
"""In the place of a table's name: the count of what no table takes."""
Partition = tuple[str, int]


@dataclass(frozen=True)
class Configuration:
    """What tasks were told. new_tables: an undeclared type has its own table. counts: else it is counted."""

    declared: tuple[str, ...]
    new_tables: bool = False
    counts: bool = False
    generation: int = 0

    def place(self, kind: str) -> str:
        """The one table that a record belongs to, or COUNTED."""
        if kind.startswith("!"):
            return DEAD_LETTERS
        if kind in self.declared:
            return kind
        clashes = kind.lower() in {name.lower() for name in (*self.declared, DEAD_LETTERS)}
        if self.new_tables and not clashes:
            return kind
        return COUNTED if self.counts else DEAD_LETTERS


@dataclass
class Records:
    """Those of one partition. kinds: of what was produced. first: what is before it is gone. unsure: a record that may
    have gone before anybody read it. poison: those on which some task's rounds end.
    """

    kinds: dict[int, str] = field(default_factory=dict)
    times: dict[int, int] = field(default_factory=dict)
    end: int = 0
    first: int = 0
    unsure: set[int] = field(default_factory=set)
    poison: set[int] = field(default_factory=set)
    configuration: Configuration | None = None


class Expected:
    """One app's. configurations: by the fingerprint that the dead letters record; begun: the one that all began with.
    wanted: the one that counts everywhere in the end.

    belongs: table -> partition -> offsets.
    """

    def __init__(self, begun: Configuration) -> None:
        self.begun = self.wanted = begun
        self.configurations: dict[str, Configuration] = {}
        self.of: dict[Partition, Records] = defaultdict(Records)
        self.belongs: dict[str, dict[Partition, set[int]]] = defaultdict(lambda: defaultdict(set))

    def produced(self, partition: Partition, offset: int, kind: str, at_ms: int = 1) -> None:
        """A record is in the topic."""
        records = self.of[partition]
        records.kinds[offset], records.times[offset] = kind, at_ms
        records.end = offset + 1
        configuration = records.configuration or self.begun
        self.belongs[configuration.place(kind)][partition].add(offset)

    def ends_at(self, partition: Partition, end: int) -> None:
        """The topic ends there: with a marker that no consumer sees, or with holes."""
        self.of[partition].end = max(self.of[partition].end, end)

    def vanished(self, partition: Partition, offsets: set[int]) -> None:
        """These were never to be seen: of a transaction that was aborted."""
        records = self.of[partition]
        for offset in offsets:
            kind = records.kinds.pop(offset)
            self.belongs[(records.configuration or self.begun).place(kind)][partition].discard(offset)

    def switched(self, partition: Partition, fingerprint: str, after: int) -> None:
        """From behind an offset on another configuration counts, or the first one."""
        records, now = self.of[partition], self.configurations[fingerprint]
        before = records.configuration or self.begun
        if now == before:
            records.configuration = now
            return
        for offset, kind in records.kinds.items():
            if offset > after and before.place(kind) != now.place(kind):
                self.belongs[before.place(kind)][partition].discard(offset)
                self.belongs[now.place(kind)][partition].add(offset)
        records.configuration = now

    def gone(self, partition: Partition, offset: int) -> bool:
        """Whether Kafka may have deleted a record before it was read."""
        records = self.of[partition]
        return offset < records.first or offset in records.unsure
