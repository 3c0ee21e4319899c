"""What a mirror has to be, in plain Python: all rows that its source has had, applied one by one in their order.

Written from the handbook's page of mirrors alone; nothing of exporter/ is used, and nothing of it is known here.

    rows ── in their order ── why it is left out, or what it does ─┬─ delete  the key has nothing any more
                                                                    ├─ upsert  all columns but those that were not sent
                                                                    └─ patch   those that it lists, or has

A truncate is told as `_kafka` and `ts`, when it was. Rows that are older by `order`, or else by their offset, are as
if they had never been. An update with `_cdc_before` also deletes the key that it had, where that was another one.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Row = Mapping[str, Any]
Key = tuple[Any, ...]
NULL_KEY, UNFIT_KEY = "null key", "key that its column cannot hold"
UNKNOWN, NESTED = "unknown op", "patch of a nested field"
UNSENT_TEXT = "__debezium_unavailable_value"
UNSENT = (UNSENT_TEXT, "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==", [UNSENT_TEXT], {UNSENT_TEXT: UNSENT_TEXT})
"""What Debezium sends in place of a value that did not change."""
OF_THE_ROW = ("_kafka", "_event_time", "_cdc", "_cdc_before")


@dataclass(frozen=True)
class Page:
    """The settings of a mirror, as its page explains them."""

    keys: Sequence[str]
    order: Sequence[str] = ()
    op: str = ""
    upserts: Sequence[str] = ("I", "U", "R")
    deletes: Sequence[str] = ("D",)
    patches: Sequence[str] = ()
    fields: str = ""

    def rank(self, row: Row) -> Any:
        """Of two rows the one with the greater rank is the newer; a null is below all values."""
        kafka = row["_kafka"]
        return (
            [self._valued(row, path) for path in self.order],
            kafka["epoch"], kafka["offset"], kafka["topic"], kafka["partition"],
        )  # fmt: skip

    def is_older(self, row: Row, truncate: Row) -> bool:
        if self.order:
            there = {"_cdc": {"ts": truncate["ts"]}, "_kafka": truncate["_kafka"]}
            mine, theirs = ([self._valued(one, path) for path in self.order] for one in (row, there))
            return mine < theirs
        return bool(row["_kafka"]["offset"] < truncate["_kafka"]["offset"])

    @staticmethod
    def _valued(row: Row, path: str) -> tuple[bool, Any]:
        value = at(row, path)
        return value is not None, 0 if value is None else value

    def key(self, row: Row) -> Key:
        return tuple(at(row, path) for path in self.keys)

    def left_out(self, row: Row) -> str:
        """Why a row is in no mirror; empty if it is."""
        if None in self.key(row):
            nulls = [path for path in self.keys if at(row, path) is None]
            return UNFIT_KEY if any(at(rescued(row), path) is not None for path in nulls) else NULL_KEY
        if not self.op:
            return ""
        if self._does(row) not in (*self.upserts, *self.deletes, *self.patches):
            return UNKNOWN
        lists = at(row, self.fields) if self.fields and self._does(row) in self.patches else None
        return NESTED if any("." in name for name in lists or () if name is not None) else ""

    def former(self, row: Row) -> Key | None:
        """The key that the row of an update had before; None if it had no other one."""
        told = json.loads(row.get("_cdc_before") or "{}")
        if not told or not self.op or self._does(row) not in (*self.upserts, *self.patches):
            return None
        was = self.key({**row, **told})
        return None if None in was or was == self.key(row) else was

    def effect(self, row: Row, was: Row, columns: Sequence[str]) -> dict[str, Any]:
        """Column -> value of the row's key after it. was: before it, empty if the key was never there."""
        does = self._does(row) if self.op else ""
        if self.op and does in self.deletes:
            written: dict[str, Any] = dict.fromkeys(columns)
        else:
            names = [name for name in columns if self._writes(row, name, does in self.patches)]
            written = {name: row.get(name) for name in names}
        heads = {path.split(".")[0] for path in (*self.keys, *self.order, self.op, self.fields) if path}
        own = {name: row.get(name) for name in columns if name in heads or name in OF_THE_ROW}
        return {**dict.fromkeys(columns), **was, **written, **own}

    def is_delete(self, row: Row) -> bool:
        return bool(self.op) and self._does(row) in self.deletes

    def _does(self, row: Row) -> Any:
        return at(row, "_cdc.op" if self.op == "_cdc" else self.op)

    def _writes(self, row: Row, name: str, patches: bool) -> bool:
        if self.op == "_cdc" and row.get(name) is None and name != "_rescued" and rescued(row).get(name) in UNSENT:
            return False
        if not patches:
            return True
        return name in (at(row, self.fields) or ()) if self.fields else row.get(name) is not None


@dataclass
class Mirrored:
    """keys: key -> its columns. deleted: the keys that are not to be seen. left_out: why -> rows.

    newest: key -> coordinates of its newest row.
    """

    keys: dict[Key, dict[str, Any]] = field(default_factory=dict)
    deleted: set[Key] = field(default_factory=set)
    newest: dict[Key, tuple[int, int, int]] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)

    @property
    def shown(self) -> dict[Key, dict[str, Any]]:
        return {key: row for key, row in self.keys.items() if key not in self.deleted}


def mirrored(page: Page, rows: Iterable[Row], columns: Sequence[str], truncates: Sequence[Row] = ()) -> Mirrored:
    """columns: of the source now; a row that lacks one has null there."""
    found = Mirrored()
    for row in sorted(rows, key=page.rank):
        if why := page.left_out(row):
            found.left_out[why] += 1
        if any(page.is_older(row, one) for one in truncates):
            continue
        if former := page.former(row):
            found.keys[former], found.newest[former] = dict.fromkeys(columns), coordinates(row)
            found.deleted.add(former)
        if why:
            continue
        key = page.key(row)
        found.keys[key] = page.effect(row, found.keys.get(key, {}), columns)
        found.newest[key] = coordinates(row)
        (found.deleted.add if page.is_delete(row) else found.deleted.discard)(key)
    return found


def coordinates(row: Row) -> tuple[int, int, int]:
    """Epoch, offset, partition."""
    return row["_kafka"]["epoch"], row["_kafka"]["offset"], row["_kafka"]["partition"]


def at(row: Any, path: str) -> Any:
    """What stands at a dotted path; None if nothing."""
    for part in path.split("."):
        row = row.get(part) if isinstance(row, Mapping) else None
    return row


def rescued(row: Row) -> dict[str, Any]:
    return json.loads(row["_rescued"]) if row.get("_rescued") else {}
