"""The MERGE of a mirror, as text."""

from __future__ import annotations

from datetime import date
from typing import Any

from exporter.derive.mirror_rows import BASE, DELETED, ORDER, WRITTEN, Shape, deviating
from exporter.sql_text import column, literal, quoted

CHANGES = "changes"
"""The view with one row per key, as Shape.newest() makes it."""
EVERY = "every_change"
LATER = "s._order > t._order"
BOUND_CHARS_MAX = 1000


def merge_sql(shape: Shape, target: str, bounds: str = "") -> str:
    """Put the rows of `changes` into a mirror. target: the table, as SQL has it. bounds: bounds_sql().

    What a table is cut by is not among the conditions: a key whose value of it changes would be there twice.
    """
    on = [f"t.{quoted(key)} = s.{quoted(key)}" for key in shape.table.keys] + ([bounds] if bounds else [])
    return "\n".join((
        f"MERGE INTO {target} AS t USING {CHANGES} AS s",
        f"ON {' AND '.join(on)}",
        f"WHEN MATCHED AND ({_changes(shape)}) THEN UPDATE SET {', '.join(_sets(shape)) if shape.own_writers else '*'}",
        "WHEN NOT MATCHED THEN INSERT *",
    ))  # fmt: skip


def lacking_sql(shape: Shape, target: str) -> str:
    """Those of `every_change` that a mirror does not have yet.

    A MERGE writes each file anew that has a key of its source, whether the row changes or not: of all rows of a source
    these are all files.
    """
    on = " AND ".join(f"t.{quoted(key)} = s.{quoted(key)}" for key in shape.table.keys)
    return f"SELECT s.* FROM {EVERY} AS s LEFT JOIN {target} AS t ON {on} WHERE t.{ORDER} IS NULL OR {_changes(shape)}"


def _changes(shape: Shape) -> str:
    """Whether any column of a row changes."""
    return " OR ".join([LATER, *(_newer(name) for name in shape.own_writers)])


def bounds_sql(key: str) -> str:
    """That a key lies between the parameters :least and :most, so that Delta reads no other files."""
    return f"t.{quoted(key)} >= :least AND t.{quoted(key)} <= :most"


def bounds_of(least: Any, most: Any) -> dict[str, Any]:
    """The parameters of bounds_sql(), of the two values between which all keys lie.

    None where statistics do not tell, and for texts that are too long for the table's history, where they would stand.
    """
    return {"least": least, "most": most} if _is_bound(least) and _is_bound(most) else {}


def _is_bound(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= BOUND_CHARS_MAX
    return type(value) in (int, date)


def _sets(shape: Shape) -> list[str]:
    base = f"greatest(s.{BASE}, t.{BASE})"
    orders = {name: f"greatest({_order('s', name)}, {_order('t', name)})" for name in shape.own_writers}
    newer = {column(name): _newer(name) for name in shape.own_writers}
    newer |= {column(name): LATER for name in shape.of_the_newest} | {ORDER: LATER, DELETED: LATER}
    sets = [f"t.{name} = CASE WHEN {when} THEN s.{name} ELSE t.{name} END" for name, when in newer.items()]
    return [*sets, f"t.{BASE} = {base}", f"t.{WRITTEN} = {deviating(orders, base)}"]


def _order(side: str, name: str) -> str:
    """When a column was last written; null if it never was."""
    at = f"{side}.{WRITTEN}", literal(name)
    return f"CASE WHEN map_contains_key({', '.join(at)}) THEN {at[0]}[{at[1]}] ELSE {side}.{BASE} END"


def _newer(name: str) -> str:
    mine, theirs = _order("s", name), _order("t", name)
    return f"coalesce({mine} > {theirs}, {mine} IS NOT NULL AND {theirs} IS NULL)"
