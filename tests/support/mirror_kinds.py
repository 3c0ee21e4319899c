"""Sources of mirrors of all kinds, and random rows of them: plain ones, patches, and the envelopes of change data.

Rows speak of columns that their table does not have yet: what is sent of one is in `_rescued`, as the export keeps it.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from tests.support.mirror_oracle import UNSENT, Page

Row = dict[str, Any]
BEGIN = datetime(2026, 1, 31, 12, tzinfo=timezone.utc)
VALUES = ("a", "b", "c", "later", "latest")
"""Columns with values; a table gets the last two in mid-stream."""
LATER = {"later": "STRING", "latest": "BIGINT"}
COMMON = "id BIGINT, region STRING, a STRING, b BIGINT, c STRUCT<x: BIGINT>"
OPS = f"{COMMON}, at BIGINT, op STRING, changed ARRAY<STRING>"
CHANGES = f"{COMMON}, changed ARRAY<STRING>, _cdc STRUCT<op: STRING, ts: TIMESTAMP, source: STRING, key: STRING>, \
_cdc_before STRING"


class Rows:
    """Makes rows. columns: that the table has now, to be set from outside."""

    def __init__(self, seed: int, keys: int) -> None:
        self.random, self.keys, self.clock = random.Random(seed), keys, 0
        self.columns: Sequence[str] = ()

    def key(self) -> int:
        few = self.random.random() < 0.3
        return int(self.random.paretovariate(1)) % self.keys if few else self.random.randrange(self.keys)

    def late(self) -> int:
        """The clock, or some time ago; the same for several rows."""
        self.clock += 1
        behind = self.random.choice((0, 0, 0, 5, self.random.randrange(self.clock)))
        return (self.clock - behind) // 2

    def value(self, name: str) -> Any:
        """Null sometimes."""
        if self.random.random() < 0.15:
            return None
        return {"b": self.clock, "latest": self.clock, "c": {"x": self.clock}}.get(name, f"{name}{self.clock}")

    def row(self, key: int, sent: Mapping[str, Any], **more: Any) -> Row:
        """sent: name -> value. Those without a column, and what stands for a value, are in `_rescued`."""
        odd = {
            name: value for name, value in sent.items()
            if value is not None and (name not in self.columns or value in UNSENT)
        }  # fmt: skip
        columns: Row = {"id": key, "region": "eu" if key % 2 else "us", **{name: sent.get(name) for name in VALUES}}
        roll = self.random.random()
        if roll < 0.01:
            columns["id"] = None
        elif roll < 0.02:
            columns["id"], odd["id"] = None, 1 << 64
        kept = {name: None if name in odd else value for name, value in columns.items()}
        partition = key % 2 if self.random.random() < 0.9 else self.random.randrange(2)
        return {
            **{name: value for name, value in kept.items() if name not in LATER or name in self.columns},
            "_rescued": json.dumps(odd, separators=(",", ":")) if odd else None, "partition": partition,
            "days": self.random.randrange(4), **more,
        }  # fmt: skip

    def all_values(self) -> dict[str, Any]:
        """What a row has that is not silent of anything."""
        return {name: self.value(name) for name in VALUES if name not in LATER or self.random.random() < 0.5}

    def listed(self) -> list[str] | None:
        names = self.random.sample(VALUES, self.random.randrange(4))
        return self.random.choice((names, names, names, [*names, *names[:1]], None, ["c.x"]))

    # -- of each kind, all rows of one change: a key that moves is two of them

    def upserts(self) -> list[Row]:
        return [self.row(self.key(), self.all_values(), at=self.late(), op=None)]

    def patched(self) -> list[Row]:
        op = self.random.choices(("I", "U", "D", "P", "?", None), (3, 4, 2, 5, 0.1, 0.1))[0]
        keys = [self.key(), self.key()] if self.random.random() < 0.05 else [self.key()]
        ops = ("D", "I") if len(keys) == 2 else (op,)
        at = self.late() if self.random.random() < 0.95 else None
        return [
            self.row(key, self.all_values(), at=at, op=one, changed=self.listed())
            for key, one in zip(keys, ops, strict=True)
        ]  # fmt: skip

    def changes(self, document: bool = False, ops: tuple[float, ...] = (3, 6, 2, 1, 0.1)) -> list[Row]:
        """Of an envelope; what did not change is not sent sometimes, also of columns that are to come."""
        op = self.random.choices(("I", "U", "D", "R", "T"), ops)[0]
        keys = [self.key(), self.key()] if self.random.random() < 0.05 else [self.key()]
        made = []
        for key, one in zip(keys, ("D", "I") if len(keys) == 2 else (op,), strict=True):
            sent = self.all_values()
            for name in VALUES:
                if self.random.random() < (0.3 if one == "U" else 0.05):
                    sent[name] = self.random.choice(UNSENT)
            if one == "D" and (document or self.random.random() < 0.3):
                sent = {}  # its key alone
            seconds = timedelta(seconds=self.late())
            cdc = {"op": one, "ts": BEGIN + seconds, "source": "public.orders", "key": f'{{"id":{key}}}'}
            if self.random.random() < 0.01:
                cdc["key"] = None
            was = {"id": self.random.choice((self.key(), None)), "region": self.random.choice(("eu", "us"))}
            told = dict(self.random.sample([*was.items()], self.random.randrange(3))) if one == "U" else {}
            before = json.dumps(told) if self.random.random() < 0.2 and told else None
            made.append(self.row(key, sent, _cdc=cdc, changed=self.listed(), _cdc_before=before))
        return made

    def documents(self) -> list[Row]:
        return self.changes(document=True)


@dataclass(frozen=True)
class Kind:
    """page: the settings. ddl: of the source. make: the rows of one change. partitions: that have rows."""

    page: Page
    ddl: str
    make: Callable[[Rows], list[Row]]
    partitions: int = 2

    @property
    def is_emptied(self) -> bool:
        """Whether the source may be."""
        return self.ddl == CHANGES


KINDS: Mapping[str, Kind] = {
    "plain": Kind(Page(["id"]), OPS, Rows.upserts),
    "plain, late": Kind(Page(["id", "region"], ["at"]), OPS, Rows.upserts),
    "patches that list": Kind(
        Page(["id"], ["at"], "op", ("I", "U"), ("D",), ("P",), fields="changed"), OPS, Rows.patched
    ),
    "patches of what is there": Kind(Page(["id"], ["at"], "op", ("I", "U"), patches=("P",)), OPS, Rows.patched),
    "ops alone": Kind(Page(["region", "id"], ["at", "b"], "op", ("I", "U", "P")), OPS, Rows.patched),
    "debezium": Kind(Page(["id"], op="_cdc"), CHANGES, Rows.changes, partitions=1),
    "debezium, late": Kind(Page(["id"], ["_cdc.ts"], "_cdc"), CHANGES, Rows.changes),
    "dms": Kind(Page(["id", "region"], ["_cdc.ts"], "_cdc"), CHANGES, Rows.changes),
    "mongo": Kind(Page(["_cdc.key"], ["_cdc.ts"], "_cdc"), CHANGES, Rows.documents),
    "changes as patches": Kind(
        Page(["id"], ["_cdc.ts"], "_cdc", ("I", "R"), patches=("U",)), CHANGES, Rows.changes
    ),
    "changes that list": Kind(
        Page(["id"], ["_cdc.ts"], "_cdc", ("I", "R"), patches=("U",), fields="changed"), CHANGES, Rows.changes
    ),
}  # fmt: skip
