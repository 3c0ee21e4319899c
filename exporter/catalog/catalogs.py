"""The catalogs there are, by their name in the settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from exporter.catalog.catalog import Catalog
from exporter.catalog.glue import GlueCatalog
from exporter.catalog.hive import HiveCatalog

CATALOGS: dict[str, Callable[[str, str, Any], Catalog]] = {
    "hive": HiveCatalog,
    "glue": lambda database, uri, session: GlueCatalog.connect(database, uri),
}
"""Called with the database, the address or nothing, and a Spark session; asks nothing of the catalog yet."""
