"""What a catalog is: a database of tables that stand elsewhere, each with its name and its place.

    register(catalog, entry) ── find ─┬─ none ─────────── make            made
                                      ├─ another place ── left alone      elsewhere
                                      ├─ other columns ── update          updated
                                      └─ the same ─────────────────────── there

A table is never made, changed or deleted by it: its log is the truth, also of its columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol
from urllib.parse import unquote, urlsplit

Columns = tuple[tuple[str, str], ...]
"""(name, type in the words of Hive), in the table's order."""


@dataclass(frozen=True)
class CatalogEntry:
    """One table as a catalog is to have it. location: with its scheme."""

    name: str
    location: str
    columns: Columns = ()


@dataclass(frozen=True)
class CatalogTable:
    """What a catalog has under a name. columns: None if it leaves them to the table's log."""

    location: str
    columns: Columns | None = None


class Catalog(Protocol):
    """One database of a catalog. Methods raise what its client raises, ExporterError or anything else."""

    def find(self, name: str) -> CatalogTable | None:
        """What is there under a name; None if nothing is, or there is no such database."""
        ...

    def make(self, entry: CatalogEntry) -> None:
        """Add a table, and the database if that is not there. Nothing if somebody has just added one."""
        ...

    def update(self, entry: CatalogEntry) -> None:
        """Give a table of the same place these columns; all else of it stays."""
        ...


Outcome = Literal["made", "updated", "there", "elsewhere"]


def register(catalog: Catalog, entry: CatalogEntry) -> tuple[Outcome, str]:
    """What became of it, and the place that the name stands for. Raises what the catalog's client raises."""
    found = catalog.find(entry.name)
    if found is None:
        catalog.make(entry)
        return "made", entry.location
    if not same_place(found.location, entry.location):
        return "elsewhere", found.location
    if found.columns is None or found.columns == entry.columns:
        return "there", found.location
    catalog.update(entry)
    return "updated", found.location


def with_scheme(uri: str) -> str:
    """A store's uri() as others have to read it: a path alone is one of this machine's."""
    return f"file://{uri}" if uri.startswith("/") else uri


def same_place(one: str, other: str) -> bool:
    """Whether two URIs mean one folder: s3:, s3a: and s3n: are one store; `file:/x` is `file:///x`."""
    return _place(one) == _place(other)


def _place(uri: str) -> tuple[str, str, str]:
    parts = urlsplit(uri, allow_fragments=False)
    scheme = "s3" if parts.scheme in ("s3a", "s3n") else parts.scheme
    return scheme, parts.netloc, unquote(parts.path).rstrip("/")
