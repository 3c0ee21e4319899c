"""The catalogs there are, by their name in the settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from exporter.catalog.catalog import Catalog, CatalogAddress
from exporter.catalog.glue import GlueCatalog
from exporter.catalog.hive import HiveCatalog
from exporter.catalog.unity import UnityCatalog

CATALOGS: dict[str, Callable[[CatalogAddress, Any], Catalog]] = {
    "hive": lambda at, session: HiveCatalog(at.database, at.uri, session),
    "glue": lambda at, _: GlueCatalog.connect(at.database, at.uri),
    "unity": lambda at, _: UnityCatalog(at),
}
"""Called with an address and a Spark session; asks nothing of the catalog yet."""
