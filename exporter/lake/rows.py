"""The rows of a table as they were at a snapshot, read by Spark."""

from __future__ import annotations

from pyspark.sql import DataFrame

from exporter.lake.lake import Lake
from offsets.table_log import TableView


def rows_at(lake: Lake, name: str, view: TableView) -> DataFrame:
    """The rows of a table as it was at a snapshot."""
    lake.gateway.activate()
    reader = lake.session.read.format("delta").option("versionAsOf", view.version)
    frame: DataFrame = reader.load(lake.table(name).uri)
    return frame
