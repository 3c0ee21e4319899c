"""What the settings of routing and of shapes have to be to others. Pure; each raises ValueError."""

from __future__ import annotations

from collections.abc import Mapping

from exporter.core.columns import folded
from exporter.core.routing import DEAD_LETTERS
from exporter.core.shapes import COUNT, TO_DEAD_LETTERS, Constant
from exporter.settings.format_tables import ValueFormatTable
from exporter.settings.type_tables import TypeTable


def known_table(unrouted: str, types: Mapping[str, TypeTable]) -> None:
    """Where records go that no table takes."""
    if unrouted == DEAD_LETTERS:
        raise ValueError(f"should be {TO_DEAD_LETTERS}: their table is no type's")
    if unrouted not in (TO_DEAD_LETTERS, COUNT, *types):
        raise ValueError(f"should be {TO_DEAD_LETTERS}, {COUNT} or a declared event type: {', '.join(types) or 'none'}")
    if unrouted in (TO_DEAD_LETTERS, COUNT) and unrouted in types:
        raise ValueError(f"is the name of an event type too: rename the type {unrouted}")


def columns_to_shape(types: Mapping[str, TypeTable]) -> None:
    """What is made of columns needs to know them before anything is read."""
    for name, table in types.items():
        if table.shaping and not table.is_declared:
            raise ValueError(
                f"{name}.{table.shaping[0]} needs declared columns: columns or columns_file (`exporter schema` "
                "shows those of a table as DDL)"
            )


def own_constants(
    constants: Mapping[str, Constant], form: ValueFormatTable, others: Mapping[str, ValueFormatTable], *of_record: str
) -> None:
    """Names that nothing else has."""
    taken = {folded(name): "a column of the record" for name in of_record if name}
    if any(one.is_raw for one in (form, *others.values())):
        taken["value"] = "the column of raw values"
    for name in constants:
        if folded(name) in taken:
            raise ValueError(f"{name!r} is {taken[folded(name)]} too")
        taken[folded(name)] = "another one"
