"""A catalog in this process, for tests: stricter than a real one, and as deaf as a test wants it."""

from __future__ import annotations

from exporter.catalog.catalog import CatalogEntry, CatalogTable


class MemoryCatalog:
    """tables: name -> what it stands for. error: raised by every call, if there is one. calls: made so far."""

    def __init__(self) -> None:
        self.tables: dict[str, CatalogTable] = {}
        self.error: Exception | None = None
        self.calls = 0

    def find(self, name: str) -> CatalogTable | None:
        self._called(name)
        return self.tables.get(name)

    def make(self, entry: CatalogEntry) -> None:
        self._called(entry.name)
        self.tables.setdefault(entry.name, CatalogTable(entry.location, entry.columns))

    def update(self, entry: CatalogEntry) -> None:
        self._called(entry.name)
        if self.tables[entry.name].location != entry.location:
            raise ValueError(f"{entry.name} is of another place")
        self.tables[entry.name] = CatalogTable(entry.location, entry.columns)

    def _called(self, name: str) -> None:
        self.calls += 1
        if self.error is not None:
            raise self.error
        if name != name.lower():
            raise ValueError(f"{name!r} is no name of a table")
