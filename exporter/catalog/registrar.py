"""The tables of a lake, as one database of a catalog is to have them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

from exporter.catalog.catalog import Catalog, CatalogEntry, Outcome, register, same_place, with_scheme
from exporter.catalog.names import catalog_name
from exporter.errors import TableUnreadable
from exporter.lake.lake import Lake


class CatalogOutcome(NamedTuple):
    """What became of one table. location: for which the name stands. fingerprint: of the table that was looked at."""

    outcome: Outcome
    name: str
    location: str
    fingerprint: str


class CatalogPlace(NamedTuple):
    """What a name stands for."""

    location: str
    is_ours: bool


class Registrar:
    """Of one lake and one database. Methods raise what the catalog's client raises; for one thread at a time."""

    def __init__(self, lake: Lake, opened: Callable[[], Catalog]) -> None:
        """opened: the catalog, when it is first asked something."""
        self._lake = lake
        self._opened = opened

    @cached_property
    def _catalog(self) -> Catalog:
        return self._opened()

    def register(self, event_type: str) -> CatalogOutcome:
        """Make it known, or its new columns. Raises TableUnreadable too."""
        table, name = self._lake.table(event_type), catalog_name(event_type)
        view = table.view()
        if view is None:
            raise TableUnreadable(f"table {event_type} is not there")
        entry = CatalogEntry(name, with_scheme(table.uri), view.schema_json)
        outcome, location = register(self._catalog, entry)
        return CatalogOutcome(outcome, name, location, view.fingerprint)

    def place(self, event_type: str) -> CatalogPlace | None:
        """What the table's name stands for; None if it is in nobody's use."""
        found = self._catalog.find(catalog_name(event_type))
        return (
            None if found is None else CatalogPlace(found.location, same_place(found.location, self._uri(event_type)))
        )

    def _uri(self, event_type: str) -> str:
        return with_scheme(self._lake.table(event_type).uri)
