"""How the values of one type become those of a column: one node for each type in it. Runs on Spark executors.

    fit(array) ── FittedColumn: the column, what of it no column holds, and the rows that do not fit, each with a reason

A node is made of the writer's type and the wanted field (compiled.py), and knows no record. Where nobody declared a
column (*free*), a value that does not fit is unknown in the nearest member above it, and nothing is wrong. Must never
let a value become null in silence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from exporter.arrow.rows import filled, nulled
from exporter.formats.typed.casts import Cast
from exporter.formats.typed.items import TypedItems, items_of, list_array, map_array
from exporter.formats.typed.texts import json_text
from exporter.formats.typed.unknown import Part, RescueUnknown, UnknownPolicy, first_of, positions
from exporter.text import shorten

_KEPT = RescueUnknown()


class Misfit(NamedTuple):
    """Why a value does not fit. path: from the value that is asked about."""

    code: str
    what: str
    path: str = ""

    @property
    def reason(self) -> str:
        return f"{self.code}: {shorten('$' + self.path)} {self.what}"


_UNFIT = Misfit("", "")
_MISSING = Misfit("missing_field", "is required, but null or missing")
_NULL_ITEM = Misfit("missing_field", "is required, but null")


@dataclass
class FittedColumn:
    """column: of the wanted type, without marks; anything stands where a row is in `bad`. unknown: see unknown.py."""

    column: pa.Array
    unknown: Part | None = None
    bad: dict[int, Misfit] = field(default_factory=dict)


class TypedNode(Protocol):
    """A place of the columns, which takes the writer's values there."""

    @property
    def target(self) -> pa.DataType:
        """The type of the column, without marks."""
        ...

    def fit(self, array: pa.Array) -> FittedColumn:
        """array: of the writer's type."""
        ...


@dataclass(frozen=True)
class Scalar:
    """A place that holds one value."""

    target: pa.DataType
    cast: Cast
    free: bool

    def fit(self, array: pa.Array) -> FittedColumn:
        """Implements `TypedNode.fit`: an array as the column's type, and what does not fit."""
        column, unfit = self.cast.convert(array)
        if not len(unfit):
            return FittedColumn(column)
        if self.free:
            return FittedColumn(column, None, dict.fromkeys(unfit.tolist(), _UNFIT))
        shown = array.take(pa.array(unfit)).cast(pa.string()).to_pylist()
        what = [Misfit(self.cast.code, f"= {text} {self.cast.what}") for text in shown]
        return FittedColumn(column, None, dict(zip(unfit.tolist(), what, strict=True)))


@dataclass(frozen=True)
class AnyJson:
    """A column that holds the JSON of any value."""

    target: pa.DataType = field(default_factory=pa.string)

    def fit(self, array: pa.Array) -> FittedColumn:
        """Implements `TypedNode.fit`: an array as the column's type, and what does not fit."""
        return FittedColumn(json_text(array))


@dataclass(frozen=True)
class TypedNothing:
    """What fits no value of the writer's type but null. Free, or the writer has nulls only."""

    target: pa.DataType

    def fit(self, array: pa.Array) -> FittedColumn:
        """Implements `TypedNode.fit`: an array as the column's type, and what does not fit."""
        rows = np.flatnonzero(array.is_valid()).tolist() if array.null_count < len(array) else []
        return FittedColumn(nulls(len(array), self.target), None, dict.fromkeys(rows, _UNFIT))


@dataclass(frozen=True)
class TypedMember:
    """One field of a struct. at: number of the writer's field; None: it has none, or none that ever fits.

    held: a column has it: not what only the routing reads, or something below it. known: the routing reads it, so that
    it is no unknown field.
    """

    name: str
    target: pa.DataType
    nullable: bool = True
    free: bool = False
    at: int | None = None
    node: TypedNode | None = None
    held: bool = True
    known: bool = False


@dataclass(frozen=True)
class TypedStruct:
    """members: the wanted fields in their order, then what is known without a column. others: (number, name) of the
    writer's fields that are unknown as a whole."""

    members: Sequence[TypedMember]
    others: Sequence[tuple[int, str]]
    target: pa.DataType
    unknown: UnknownPolicy

    def fit(self, array: pa.StructArray) -> FittedColumn:
        """Implements `TypedNode.fit`: an array as the column's type, and what does not fit."""
        fitted, columns = self.fields(array)
        mask = array.is_null() if array.null_count else None
        kept = [one.with_nullable(True) for one in self.target]
        if not kept:
            fitted.column = array
            return fitted
        made = pa.StructArray.from_arrays(columns, fields=kept, mask=mask)
        fitted.column = made if made.type == self.target else made.cast(self.target)
        return fitted

    def fields(self, array: pa.StructArray) -> tuple[FittedColumn, list[pa.Array]]:
        """The columns of the wanted fields, instead of one that has them all."""
        sent = array.flatten()
        present = array.is_valid() if array.null_count else None
        columns: list[pa.Array] = []
        bad: dict[int, Misfit] = {}
        notes: dict[int, tuple[str, Part]] = {}
        for member in self.members:
            if member.node is None or member.at is None:
                column = nulls(len(array), member.target)
            else:
                found = member.node.fit(sent[member.at])
                column = found.column
                if found.bad and member.free:
                    rows = np.fromiter(found.bad, np.int64, len(found.bad))
                    column = nulled(column, rows)
                    if not member.known:
                        found.unknown = _KEPT.at(rows, sent[member.at], found.unknown)
                elif found.bad:
                    _lift(found.bad, f".{member.name}", bad)
                if found.unknown is not None:
                    notes[member.at] = (member.name, found.unknown)
            if member.held and not member.nullable and column.null_count:
                _lift(dict.fromkeys(_missing(column, present), _MISSING), f".{member.name}", bad)
                column = filled(column)
            if member.held:
                columns.append(column)
        for at, name in self.others:
            if (part := self.unknown.whole(sent[at])) is not None:
                notes[at] = (name, part)
        unknown = self.unknown.fields([notes[at] for at in sorted(notes)]) if notes else None
        return FittedColumn(array, unknown, bad), columns


@dataclass(frozen=True)
class TypedList:
    """A place that holds an array."""

    node: TypedNode
    nullable: bool
    target: pa.DataType
    unknown: UnknownPolicy

    def fit(self, array: pa.ListArray) -> FittedColumn:
        """Implements `TypedNode.fit`: an array as the column's type, and what does not fit."""
        items = items_of(array)
        found = self.node.fit(items.parts[0])
        bad, column = _of_items(found, self.nullable)
        steps = [f"[{at}]" for at in positions(items, sorted(bad))] if bad else []
        part = None if found.unknown is None else self.unknown.items(items, found.unknown)
        return FittedColumn(list_array(items.offsets, column, self.target, array), part, _of_rows(items, bad, steps))


@dataclass(frozen=True)
class TypedMap:
    """A map with keys that are text. free: an entry that does not fit is left out of the column, and unknown."""

    node: TypedNode
    nullable: bool
    free: bool
    target: pa.DataType
    unknown: UnknownPolicy

    def fit(self, array: pa.MapArray) -> FittedColumn:
        """Implements `TypedNode.fit`: an array as the column's type, and what does not fit."""
        items = items_of(array)
        found = self.node.fit(items.parts[1])
        kept = TypedItems(items.offsets, [items.parts[0], found.column])
        if self.free and found.bad:
            rows = np.fromiter(found.bad, np.int64, len(found.bad))
            found.unknown = _KEPT.at(rows, items.parts[1], found.unknown)
            keep = np.ones(len(found.column), bool)
            keep[rows] = False
            kept, found.bad = kept.kept(keep), {}
        part = None if found.unknown is None else self.unknown.entries(items, found.unknown)
        found.column = kept.parts[1]
        bad, column = _of_items(found, self.nullable)
        steps = [f".{items.parts[0][at].as_py()}" for at in sorted(bad)]
        made = map_array(kept.offsets, [kept.parts[0], column], self.target, array)
        return FittedColumn(made, part, _of_rows(items, bad, steps))


def nulls(count: int, kind: pa.DataType) -> pa.Array:
    """Nulls of a type; below those of a struct there is some value wherever none may be null."""
    if not pa.types.is_struct(kind):
        return pa.nulls(count, kind)
    inside = [nulls(count, one.type) for one in kind]
    columns = [part if one.nullable else filled(part) for one, part in zip(kind, inside, strict=True)]
    return pa.StructArray.from_arrays(columns, fields=list(kind), mask=pa.repeat(True, count))


def _missing(column: pa.Array, present: pa.BooleanArray | None) -> list[int]:
    """The rows that are null in a struct that is not."""
    null = column.is_null() if present is None else pc.and_(column.is_null(), present)
    rows: list[int] = pc.indices_nonzero(null).to_pylist()
    return rows


def _lift(found: dict[int, Misfit], step: str, bad: dict[int, Misfit]) -> None:
    """The first field that does not fit is what is told of a struct."""
    for row, one in found.items():
        bad.setdefault(row, one._replace(path=step + one.path))


def _of_items(found: FittedColumn, nullable: bool) -> tuple[dict[int, Misfit], pa.Array]:
    """The items that do not fit, null ones where none may be among them, and their column."""
    if nullable or not found.column.null_count:
        return found.bad, found.column
    null = dict.fromkeys(_missing(found.column, None), _NULL_ITEM)
    return {**null, **found.bad}, filled(found.column)


def _of_rows(items: TypedItems, bad: dict[int, Misfit], steps: Sequence[str]) -> dict[int, Misfit]:
    """Of each row the first item that does not fit. steps: to the items, ascending."""
    first = first_of(items, sorted(bad), steps)
    return {row: bad[number]._replace(path=step + bad[number].path) for row, (number, step) in first.items()}
