"""From what was seen of an event type to its columns, the hints that they rest on, and a line for each place. Pure.

The columns are those that evolution would make (core/evolve.py), declared: what does not fit them is a dead letter.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from exporter.column.ddl import short_ddl, type_ddl
from exporter.column.spark_json import struct_of
from exporter.column.types import Field, ListType, MapType, ScalarType, StructType, Type
from exporter.core.columns import NO_COLUMNS, never_added, reserved
from exporter.core.evolve import Evolution, grown
from exporter.core.seen import Seen
from exporter.lake.schema import table_schema
from exporter.operate.infer.forms import UNITS, shown
from exporter.operate.infer.looks import Look, Looks
from offsets.partitions import DAY, Spec

FEW = 0.01
"""Of the values at a place so many may be there by mistake."""
RARE = 0.001
"""A field that fewer of the records have may be there by mistake."""
_PLAIN_PATH = re.compile(r"(?:\[\])*(?:\.[A-Za-z0-9_]+(?:\[\])*)*")
"""A name may hold anything; what is not plain is in no comment of a file."""
_FORM_TYPES = {"time": "timestamp", "date": "date"}


class PathRow(NamedTuple):
    """One place. share: of the type's records, 0 to 1. kinds: kind -> values. column: its DDL type, empty without one.

    examples: scalars as text. says: what is to be known of it.
    """

    path: str
    share: float
    kinds: Mapping[str, int]
    column: str
    examples: tuple[str, ...]
    says: str


@dataclass(frozen=True)
class InferredType:
    """One event type. bytes: of its values. columns: DDL, one text each. hints: dotted path -> DDL type.

    left_out: why it cannot be declared; empty if it can. untimed: records without an event time that would do.
    doubts: column, as in `columns` -> what is to be known of it. rare: those of `columns` that hardly any record has.
    """

    event_type: str
    records: int
    bytes: int
    columns: tuple[str, ...]
    hints: Mapping[str, str]
    paths: tuple[PathRow, ...]
    left_out: str = ""
    untimed: int = 0
    doubts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    rare: tuple[str, ...] = ()


def inferred_fields(looks: Looks, evolution: Evolution, spec: Spec = DAY) -> list[Field]:
    """spec: of the table that they will stand in."""
    table = struct_of(grown(table_schema(NO_COLUMNS, spec), looks.seen, evolution))
    own = reserved(spec)
    return [one for one in table.fields if one.name not in own]


def hints_of(looks: Looks) -> dict[str, Type]:
    """Dotted path -> TIMESTAMP or DATE, where every text that was seen is such a one."""
    return {path: ScalarType(kind) for path, kind in _timed(looks.seen, looks.look, "")}


def _timed(seen: Seen, look: Look, path: str) -> Iterator[tuple[str, str]]:
    if set(seen.kinds) == {"text"}:
        for form, kind in _FORM_TYPES.items():
            if look.forms[form] == seen.kinds["text"]:
                yield path, kind
    for name in sorted(seen.fields.keys() & look.fields.keys()):
        yield from _timed(seen.fields[name], look.fields[name], f"{path}.{name}" if path else name)
    if seen.item is not None and look.item is not None:
        yield from _timed(seen.item, look.item, f"{path}[]")


def leaves(fields: Iterable[Field], path: str = "") -> Iterator[tuple[str, str]]:
    """Dotted path and DDL type of each scalar in columns, but those in maps."""
    for one in fields:
        where, kind = f"{path}.{one.name}" if path else one.name, one.type
        while isinstance(kind, ListType):
            where, kind = where + kind.shown, kind.inner
        if isinstance(kind, StructType):
            yield from leaves(kind.fields, where)
        elif not isinstance(kind, MapType):
            yield where, type_ddl(kind)


def path_rows(looks: Looks, fields: Sequence[Field], plain: bool) -> tuple[PathRow, ...]:
    """A row for each place, those of an object below it. plain: examples are shown as they are."""
    return tuple(_Rows(looks.records, plain).of_struct(fields, looks.seen, looks.look, ""))


def doubts_of(columns: Mapping[str, str], rows: Sequence[PathRow], records: int) -> dict[str, list[str]]:
    """Of each column that says something: what its row says, and those below it whose path is plain.

    columns: DDL -> name.
    """
    found: dict[str, list[str]] = {}
    for column, name in columns.items():
        for row in rows:
            inner = row.path.removeprefix(name)
            if row.says and row.path.startswith(name) and (not inner or _PLAIN_PATH.fullmatch(inner)):
                found.setdefault(column, []).append(f"{inner.removeprefix('.')}: {row.says}" if inner else row.says)
            if not inner and row.share < RARE:
                found.setdefault(column, []).append(f"in {round(row.share * records):,} of {records:,} records")
    return found


def rare_of(columns: Mapping[str, str], rows: Sequence[PathRow]) -> tuple[str, ...]:
    """The columns that hardly any record has; none if that is all that there is. columns: DDL -> name."""
    rare = {row.path for row in rows if row.share < RARE}
    found = tuple(column for column, name in columns.items() if name in rare)
    return found if len(found) < len(columns) else ()


class _Rows:
    """The rows of one event type."""

    def __init__(self, records: int, plain: bool) -> None:
        self._records = records
        self._plain = plain

    def of_struct(self, fields: Sequence[Field], seen: Seen, look: Look, path: str) -> Iterator[PathRow]:
        """fields: of the struct that the objects became; none if they became none."""
        known = {one.name: one for one in fields}
        for name in sorted(seen.fields):
            inner, below = seen.fields[name], look.fields.get(name, Look())
            if inner:
                where = f"{path}.{name}" if path else name
                says = "" if name in known else _why_not(name, inner, top=not path)
                yield from self._of_place(known.get(name), inner, below, where, says)

    def _of_place(
        self, field: Field | None, seen: Seen, look: Look, path: str, says: str
    ) -> Iterator[PathRow]:
        """A row, and those of what is below it. What is in an array is told with the array."""
        kind = None if field is None else field.type
        kinds, share = dict(seen.kinds), look.records / self._records
        where, arrays = path, 0
        while isinstance(kind, ListType) and seen.item is not None:
            kind, seen, look = kind.inner, seen.item, look.item or Look()
            where, arrays = f"{where}[]", arrays + 1
            for one, count in seen.kinds.items():
                kinds[f"{'array of ' * arrays}{one}"] = count
        column = "" if field is None else short_ddl(field.type)
        examples = tuple(dict.fromkeys(shown(one, self._plain) for one in look.examples))
        says = says or _says(seen, look, kind, column)
        yield PathRow(path, share, dict(sorted(kinds.items())), column, examples, says)
        if isinstance(kind, StructType):
            yield from self.of_struct(kind.fields, seen, look, where)


def _why_not(name: str, seen: Seen, top: bool) -> str:
    if set(seen.kinds) <= {"object", "array"} and not seen.fields and not seen.item and not seen.crowded:
        return "no column yet: nothing is in it"
    if never_added(name, top):
        return "no column can have that name: it stays in `_rescued`"
    return "no column: too many (keys_max), or a name like another one's; it stays in `_rescued`"


def _says(seen: Seen, look: Look, kind: Type | None, column: str) -> str:
    """What is to be known of a place. kind: that its values got; column: of all of it."""
    if isinstance(kind, MapType):
        return f"more keys than become columns ({look.keys} in one object), or too many columns: a map"
    if "JSON" in column:
        return f"kinds that do not meet: any JSON{_mistaken(seen)}" if len(seen.kinds) > 1 else "any JSON"
    values = seen.kinds["integer"]
    unit = next((one for one in UNITS if values and look.forms[one] == values), "")
    return f"looks like {UNITS[unit].name} since 1970" if unit else ""


def _mistaken(seen: Seen) -> str:
    """Where nearly all values are of one kind."""
    values, (_, most) = seen.kinds.total(), seen.kinds.most_common(1)[0]
    few = values - most
    return f"; {few:,} of {values:,} may be mistakes" if few <= values * FEW else ""
