"""The valid_through that commits of a table have said, from its property and the end of its log (protocol 4.12)."""

from __future__ import annotations

from exporter.core.valid_through import as_ms
from exporter.errors import LogCleaned
from exporter.lake.table import DeltaTable
from offsets.table_log import THROUGH, THROUGH_PROPERTY, TableView, own_metadata

LOOKED_BACK = 100
"""Versions in which it is looked for that nobody has looked at: most commits say it, and a later one says more."""


def said_through(table: DeltaTable, view: TableView, after: int = -1) -> int:
    """The greatest of a view's versions beyond `after`, milliseconds since 1970; 0: none. Raises TableUnreadable."""
    said = as_ms(view.properties.get(THROUGH_PROPERTY, ""))
    try:
        for version in range(view.version, max(after, view.version - LOOKED_BACK, -1), -1):
            told = own_metadata(table.logged(version).user_metadata).get(THROUGH)
            if told:
                return max(said, as_ms(told))
    except LogCleaned:  # what is older said less
        pass
    return said
