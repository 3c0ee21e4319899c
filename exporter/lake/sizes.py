"""How large the live files of a table are, partition by partition."""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress

from exporter.core.specs import table_spec
from exporter.lake.table import DeltaTable
from offsets.partitions import BadPartition, Partition
from offsets.table_log import TableView


def live_sizes(table: DeltaTable, view: TableView) -> dict[Partition, list[int]]:
    """Partition -> bytes of each live file at a snapshot. Raises LogCleaned, TableUnreadable.

    A file of a partition that the table's spec does not have is somebody else's, and left out.
    """
    spec, sizes = table_spec(view), defaultdict[Partition, list[int]](list)
    for add in table.files_at(view.version):
        with suppress(BadPartition):
            sizes[spec.of_values(add["partitionValues"])].append(add["size"])
    return dict(sizes)
