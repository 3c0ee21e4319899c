"""Whose a file is that is written outside of the staging tasks."""

from __future__ import annotations

from collections.abc import Mapping

from exporter.lake.lake import Lake
from exporter.stores.parquet import FileOrigin
from offsets.ranges import TopicPartition


def origin(
    lake: Lake, event_type: str, fingerprint: str, tp: TopicPartition, epoch: int, footer: Mapping[str, str]
) -> FileOrigin:
    """fingerprint: of the metadata that the table has by then. epoch: of the position that the file stands behind."""
    store = lake.table(event_type).store
    return FileOrigin(store, lake.app, tp, epoch, event_type, fingerprint, footer, compression=lake.compression)
