"""The MERGE of a mirror, as text."""

from __future__ import annotations

from datetime import date
from typing import Any

from exporter.derive.mirror_rows import BASE, DELETED, ORDER, WRITTEN, MirrorShape, deviating
from exporter.sql_text import column, literal, quoted

CHANGES = "changes"
"""The view with one row per key, as MirrorShape.newest() makes it."""
EVERY = "every_change"
LATER = "s._order > t._order"
BOUND_CHARS_MAX = 1000
NAMES = f"array_union(map_keys(s.{WRITTEN}), map_keys(t.{WRITTEN}))"
"""Those that have an order of their own in one of the two."""


def merge_sql(shape: MirrorShape, target: str, bounds: str = "") -> str:
    """Put the rows of `changes` into a mirror. target: the table, as SQL has it. bounds: bounds_sql().

    What a table is cut by is not among the conditions: a key whose value of it changes would be there twice. Columns
    are named: a source that was restored may lack some that the mirror has.
    """
    on = [f"t.{quoted(key)} = s.{quoted(key)}" for key in shape.table.keys] + ([bounds] if bounds else [])
    names = [*map(column, shape.columns), ORDER, DELETED, *((BASE, WRITTEN) if shape.own_writers else ())]
    sets = merged(shape) if shape.own_writers else {name: f"s.{name}" for name in names}
    return "\n".join((
        f"MERGE INTO {target} AS t USING {CHANGES} AS s",
        f"ON {' AND '.join(on)}",
        f"WHEN MATCHED AND ({_changes(shape)}) THEN UPDATE SET "
        + ", ".join(f"t.{name} = {value}" for name, value in sets.items()),
        f"WHEN NOT MATCHED THEN INSERT ({', '.join(names)}) VALUES ({', '.join(f's.{name}' for name in names)})",
    ))  # fmt: skip


def lacking_sql(shape: MirrorShape, target: str) -> str:
    """Those of `every_change` that a mirror does not have yet.

    A MERGE writes each file anew that has a key of its source, whether the row changes or not: of all rows of a source
    these are all files.
    """
    on = " AND ".join(f"t.{quoted(key)} = s.{quoted(key)}" for key in shape.table.keys)
    return f"SELECT s.* FROM {EVERY} AS s LEFT JOIN {target} AS t ON {on} WHERE t.{ORDER} IS NULL OR {_changes(shape)}"


def _changes(shape: MirrorShape) -> str:
    """Whether anything of a row changes; the order of a name that is no column yet, too."""
    if not shape.own_writers:
        return LATER
    return f"{LATER} OR {_greater(f's.{BASE}', f't.{BASE}')} OR exists({NAMES}, name -> {_newer('name')})"


def bounds_sql(key: str, least: Any, most: Any) -> str:
    """That a key lies between two values, so that Delta reads no other files.

    Empty where statistics do not tell, and for texts that are too long for the table's history, where they would stand.
    """
    if not (_is_bound(least) and _is_bound(most)):
        return ""
    return f"t.{quoted(key)} >= {_bound(least)} AND t.{quoted(key)} <= {_bound(most)}"


def _is_bound(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= BOUND_CHARS_MAX
    return type(value) in (int, date)


def _bound(value: int | str | date) -> str:
    if isinstance(value, int):
        return _whole(value)
    return literal(value) if isinstance(value, str) else f"DATE {literal(value.isoformat())}"


def _whole(value: int) -> str:
    return f"{value}"


def merged(shape: MirrorShape) -> dict[str, str]:
    """Column -> SQL: what two rows of a key, `s` and `t`, come to; where orders are equal that of `t` stays."""
    newer = {column(name): _newer(literal(name)) for name in shape.own_writers}
    newer |= {column(name): LATER for name in (*shape.of_the_newest, ORDER, DELETED)}
    values = {name: f"CASE WHEN {when} THEN s.{name} ELSE t.{name} END" for name, when in newer.items()}
    base = f"greatest(s.{BASE}, t.{BASE})"
    each = f"struct(name, greatest({order_of('s', 'name')}, {order_of('t', 'name')}))"
    orders = f"map_from_entries(transform({NAMES}, name -> {each}))"
    return {**values, BASE: base, WRITTEN: deviating(orders, base)}


def order_of(side: str, name: str) -> str:
    """SQL: when a column was last written; null if it never was. side: s or t. name: SQL."""
    at = f"{side}.{WRITTEN}", name
    return f"CASE WHEN map_contains_key({', '.join(at)}) THEN {at[0]}[{at[1]}] ELSE {side}.{BASE} END"


def _newer(name: str) -> str:
    return _greater(order_of("s", name), order_of("t", name))


def _greater(mine: str, theirs: str) -> str:
    """Never null; null is less than all else, as it is within a struct."""
    return f"struct({mine}) > struct({theirs})"
