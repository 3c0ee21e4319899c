"""A sink and a keeper of pointers in this process's memory, for tests; both can be told to fail."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from exporter.announce.pointers import Pointer, Pointers, pointers_of, texts_of
from exporter.announce.seams import Trouble


@dataclass
class MemorySink:
    """taken: (table, message), in order. failing: table -> why nothing of it is taken; "" stands for all."""

    taken: list[tuple[str, bytes]] = field(default_factory=list)
    failing: dict[str, str] = field(default_factory=dict)

    def send(self, messages: Mapping[str, bytes]) -> dict[str, str]:
        why = {table: self.failing.get(table, self.failing.get("", "")) for table in messages}
        self.taken += [(table, message) for table, message in messages.items() if not why[table]]
        return {table: text for table, text in why.items() if text}

    def close(self) -> None:
        pass


@dataclass
class MemoryKept:
    """texts: as a consumer group has them. texts_max: partitions. trouble: why it does not answer; empty if it does."""

    texts: list[str] = field(default_factory=list)
    texts_max: int = 1
    trouble: str = ""
    saves: int = 0

    def load(self) -> dict[str, Pointer] | None:
        self._answer()
        return pointers_of(self.texts)

    def save(self, pointers: Pointers) -> Collection[str]:
        self._answer()
        self.saves += 1
        self.texts, left_out = texts_of(pointers, self.texts_max)
        return left_out

    def close(self) -> None:
        pass

    def _answer(self) -> None:
        if self.trouble:
            raise Trouble(self.trouble)
