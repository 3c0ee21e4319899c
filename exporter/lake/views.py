"""The order in which tables are read: one snapshot of each, the dead letters' last (protocol 5.1)."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from typing import Literal

from exporter.core.routing import DEAD_LETTERS, dead_letters_last
from exporter.lake.lake import Lake
from offsets.table_log import APP_PROPERTY, TableView


def views_of(
    lake: Lake,
    names: Iterable[str] | None = None,
    others: Literal["skip", "keep"] = "skip",
    but: Container[str] = (),
) -> Iterator[tuple[str, TableView]]:
    """Event type and snapshot of each table, one at a time, the dead letters last (protocol 5.1).

    A table that is not there is passed over. Raises TableUnreadable.

    names: the tables to read; None for all that the lake lists, and the dead letters.
    others: whether tables that do not name lake.app as their app are skipped or kept.
    but: tables that are not read.
    """
    wanted = {*lake.event_types(), DEAD_LETTERS} if names is None else names
    for name in dead_letters_last(name for name in wanted if name not in but):
        view = lake.table(name).view()
        if view is not None and (others == "keep" or view.properties.get(APP_PROPERTY) == lake.app):
            yield name, view
