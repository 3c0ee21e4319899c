"""What is told of each place in the values of one event type, beside what core/seen.py keeps. Pure.

document ── add ──> Looks ─┬─ seen    kinds, fields, elements: what columns follow from
                           └─ look    how many records have it, what its values look like, examples
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from exporter.core.seen import At, Seen
from exporter.operate.infer.forms import form_of

EXAMPLES = 3


class Look:
    """What stood at one place. records: that have something there. forms: of its values. examples: different scalars.

    keys: the most that one object had.
    """

    __slots__ = ("_last", "examples", "fields", "forms", "item", "keys", "records")

    def __init__(self) -> None:
        self.records = 0
        self.forms: Counter[str] = Counter()
        self.examples: list[Any] = []
        self.fields: dict[str, Look] = {}
        self.item: Look | None = None
        self.keys = 0
        self._last = -1

    def add(self, value: Any, seen: Seen, record: int) -> None:
        """A value that is not null. seen: of the same place, with this value. record: its number."""
        if record != self._last:
            self._last = record
            self.records += 1
        if type(value) is dict:
            self.keys = max(self.keys, len(value))
            self._add_fields(value, seen, record)
        elif type(value) is list:
            for inner in value:
                if inner is not None and seen.item is not None:
                    self.item = self.item or Look()
                    self.item.add(inner, seen.item, record)
        else:
            self.forms[form_of(value)] += 1
            if len(self.examples) < EXAMPLES and value not in self.examples:
                self.examples.append(value)

    def _add_fields(self, value: dict[str, Any], seen: Seen, record: int) -> None:
        if seen.crowded:
            self.fields = {}
            return
        for key, inner in value.items():
            below = seen.fields.get(key)
            if inner is not None and below is not None:
                self.fields.setdefault(key, Look()).add(inner, below, record)


class Looks:
    """What was seen of one event type."""

    def __init__(self) -> None:
        self.records = 0
        self.bytes = 0
        self.seen = Seen()
        self.look = Look()

    def add(self, value: dict[str, Any], at: At, size: int) -> None:
        """One record. size: bytes of its value."""
        self.seen.add(value, at)
        self.look.add(value, self.seen, self.records)
        self.records += 1
        self.bytes += size
