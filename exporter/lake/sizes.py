"""The live files of a table, partition by partition, and how large they are."""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from typing import Any

from exporter.core.specs import table_spec
from exporter.lake.table import DeltaTable
from offsets.partitions import BadPartition, Partition
from offsets.table_log import TableView


def live_files(table: DeltaTable, view: TableView) -> dict[Partition, list[dict[str, Any]]]:
    """Partition -> `add` action of each live file at a snapshot. Raises LogCleaned, TableUnreadable.

    A file of a partition that the table's spec does not have is somebody else's, and left out.
    """
    spec, files = table_spec(view), defaultdict[Partition, list[dict[str, Any]]](list)
    for add in table.files_at(view.version):
        with suppress(BadPartition):
            files[spec.of_values(add["partitionValues"])].append(add)
    return dict(files)


def live_sizes(table: DeltaTable, view: TableView) -> dict[Partition, list[int]]:
    """Partition -> bytes of each; as live_files()."""
    return {partition: [add["size"] for add in adds] for partition, adds in live_files(table, view).items()}
