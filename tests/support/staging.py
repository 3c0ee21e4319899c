"""Rows of a test's own, in files as the export stages them: no Spark job is needed to fill a source."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from exporter.core.specs import table_spec
from exporter.lake.change import add_action
from exporter.lake.table import DeltaTable
from exporter.stores.parquet import FileOrigin, GrowingFile
from offsets.ranges import TopicPartition


def staged(table: DeltaTable, rows: Iterable[Mapping[str, Any]], replay: int = 0) -> tuple[dict[str, Any], ...]:
    """`add` actions of rows: a file per topic partition, epoch and day, if the table is cut by days.

    rows: columns of the table by name, `_kafka` among them; one that a row lacks is null.
    """
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    view = table.view()
    assert view is not None
    spec = table_spec(view)
    columns = to_arrow_schema(StructType.fromJson(json.loads(view.schema_json)), timezone="UTC")
    schema = pa.schema([one.with_nullable(True) for one in columns if one.name not in spec.column_names])
    of_files: dict[Any, list[Mapping[str, Any]]] = defaultdict(list)
    for row in sorted(rows, key=lambda one: one["_kafka"]["offset"]):
        kafka, day = row["_kafka"], spec.of_values({name: str(row[name]) for name in spec.column_names})
        of_files[TopicPartition(kafka["topic"], kafka["partition"]), kafka["epoch"], day].append(row)
    made = []
    for (tp, epoch, day), some in of_files.items():
        origin = FileOrigin(table.store, table.app, tp, epoch, table.event_type, view.fingerprint, {}, replay)
        growing = GrowingFile(origin, day)
        first, last = (some[nth]["_kafka"]["offset"] for nth in (0, -1))
        growing.add(pa.Table.from_pylist([*some], schema), first, last)
        made.append(add_action(growing.finish(), {}))
    return tuple(made)
