"""What a catalog is: a database of tables that stand elsewhere, each with its name and its place.

    register(catalog, entry) ── find ─┬─ none ─────────── make            made
                                      ├─ another place ── left alone      elsewhere
                                      ├─ other columns ── update          updated
                                      └─ the same ─────────────────────── there

A table is never made, changed or deleted by it: its log is the truth, also of its columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol
from urllib.parse import unquote, urlsplit

from exporter.catalog.hive_types import Columns, hive_columns
from exporter.column.spark_json import struct_of
from exporter.column.types import StructType


class CatalogAddress(NamedTuple):
    """One database of a catalog. uri: empty for where the catalog's own client finds it.

    token_file: has the bearer token of a Unity Catalog; empty for none.
    """

    database: str
    uri: str = ""
    token_file: str = ""


@dataclass(frozen=True)
class CatalogEntry:
    """One table as a catalog is to have it. location: with its scheme. schema_json: Spark's."""

    name: str
    location: str
    schema_json: str = '{"type":"struct","fields":[]}'

    @property
    def schema(self) -> StructType:
        """Its columns."""
        return struct_of(self.schema_json)

    @property
    def columns(self) -> Columns:
        """The same in the words of Hive."""
        return hive_columns(self.schema)


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


def plain_location(location: str) -> str:
    """As everybody but Hadoop writes a bucket."""
    return location.replace("s3a://", "s3://", 1)


def same_place(one: str, other: str) -> bool:
    """Whether two URIs mean one folder: s3:, s3a: and s3n: are one store; `file:/x` is `file:///x`."""
    return _place(one) == _place(other)


def _place(uri: str) -> tuple[str, str, str]:
    parts = urlsplit(uri, allow_fragments=False)
    scheme = "s3" if parts.scheme in ("s3a", "s3n") else parts.scheme
    return scheme, parts.netloc, unquote(parts.path).rstrip("/")
