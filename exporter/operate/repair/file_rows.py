"""Which rows the files of a table hold, partition by partition: what a rewind is cut by. Writes nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from exporter.lake.rows import by_file_name, file_name
from exporter.lake.table import DeltaTable
from offsets.ranges import TopicPartition
from offsets.rewind import FileRows
from offsets.table_log import TableView


def rows_of_files(session: Any, table: DeltaTable, view: TableView, least: int) -> Iterator[FileRows]:
    """The rows of the live files, by their tags; of files without (OPTIMIZE drops them) by reading them.

    least: a file without tags is passed over if its statistics say that no row lies beyond this offset.
    """
    unknown = []
    for add in table.files_at(view.version):
        if (rows := _tagged(add)) is not None:
            yield rows
        elif not _ends_by(add, least):
            unknown.append(add["path"])
    if unknown:
        yield from _read_rows(session, table, view, unknown)


def _read_rows(session: Any, table: DeltaTable, view: TableView, paths: Sequence[str]) -> Iterator[FileRows]:
    by_name = by_file_name(table.event_type, paths)
    kafka = [sf.col(f"_kafka.{part}").alias(part) for part in ("topic", "partition", "epoch", "offset")]
    frame = DataFrame(table.rows_of(view.version, paths), session)
    frame = frame.select(sf.input_file_name().alias("file"), *kafka).filter("offset IS NOT NULL")
    found = frame.groupBy("file", "topic", "partition", "epoch").agg(
        sf.min("offset").alias("first"), sf.max("offset").alias("last")
    )
    for row in found.collect():
        path = by_name[file_name(row["file"])]
        yield FileRows(
            path, TopicPartition(row["topic"], row["partition"]), row["epoch"] or 0, row["first"], row["last"]
        )


def _tagged(add: Mapping[str, Any]) -> FileRows | None:
    """What the tags of one of our files say."""
    tags = add.get("tags") or {}
    if not {"topic", "partition", "epoch", "first_offset", "last_offset"} <= tags.keys():
        return None
    tp = TopicPartition(tags["topic"], int(tags["partition"]))
    return FileRows(add["path"], tp, int(tags["epoch"]), int(tags["first_offset"]), int(tags["last_offset"]))


def _ends_by(add: Mapping[str, Any], offset: int) -> bool:
    """True if the statistics say that no row lies beyond `offset`, whatever its partition."""
    last = json.loads(add.get("stats") or "{}").get("maxValues", {}).get("_kafka", {}).get("offset")
    return isinstance(last, int) and last <= offset
