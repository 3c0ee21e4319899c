"""Both sides of whole contents as frames, joined by (topic partition, offset), and compared in Spark's Python workers.

    records: the value ──────────────────────────────┐
                                                     ├─ join ── compare.py, row by row ── what differs
    rows: their columns as one JSON text, `_rescued` ┘

A share of the offsets, chosen by a hash of the coordinates that both sides make: what is not chosen is not shuffled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from exporter.core.columns import EVENT_TIME
from exporter.operate.audit.codes import LETTERS
from exporter.operate.audit.columns import PARTITION
from exporter.operate.audit.contents.shapes import ours
from exporter.operate.audit.contents.workers import CONTENTS_DDL, Table, comparing, is_computed
from exporter.operate.audit.files import LiveFiles
from exporter.operate.audit.sides import Sides
from exporter.operate.audit.sql import COMPARED_BYTES_MAX, sane_timestamp

CHOSEN_OF = 1_000_000
RECORDS_DEFAULT = 100_000
"""About so many records are compared whole if nothing else is asked for: a matter of seconds, and enough that what is
wrong with one record in ten thousand is met almost surely."""


def share_of(records: int, wanted: float | None) -> float:
    """The share of the records that is compared. wanted: as asked for; None: RECORDS_DEFAULT of them."""
    if wanted is not None:
        return wanted
    return 1.0 if records <= RECORDS_DEFAULT else RECORDS_DEFAULT / records


@dataclass(frozen=True)
class Contents:
    """The comparison of one audit. share: of the offsets."""

    sides: Sides
    files: Mapping[str, LiveFiles]
    share: float

    def differing(self) -> DataFrame:
        """CONTENTS_DDL, one row per row of a table that differs, and counts."""
        pinned = self.sides.pinned
        tables = {
            code: Table(name, pinned.views[name].schema_json)
            for name, code in pinned.codes.items()
            if code != LETTERS and name in self.files
        }
        rows = [self._rows(code, table) for code, table in tables.items()]
        if not rows:
            empty: DataFrame = self.sides.job.session.createDataFrame([], CONTENTS_DDL)
            return empty
        frame = rows[0]
        for one in rows[1:]:
            frame = frame.unionByName(one)
        long = sf.octet_length("value") > COMPARED_BYTES_MAX
        more = ["headers", *(["timestamp", "key"] if is_computed(pinned.routings) else [])]
        records = self.sides.raw_records().withColumn("timestamp", sf.unix_micros(sane_timestamp()))
        records = self._chosen(records.select("value", *PARTITION, "offset", *more))
        records = records.withColumn("skipped", long).withColumn("value", sf.when(~long, sf.col("value")))
        both = records.join(self.sides.judged_by(frame), [*PARTITION, "offset"])
        compared = ["value", "held", "rescued", "at", "skipped"]
        both = both.select(*PARTITION, "offset", "code", "routings", *compared, *more)
        run = comparing(tuple(pinned.routings), tables, pinned.schemas, COMPARED_BYTES_MAX, pinned.replayed_through)
        found: DataFrame = both.mapInArrow(run, CONTENTS_DDL)
        return found

    def _rows(self, code: int, table: Table) -> DataFrame:
        """The rows of a table with coordinates, their columns as one text."""
        frame, kafka = self.files[table.name].frame, sf.col("_kafka")
        declared = [one.columns_of(table.name) for one in self.sides.pinned.routings]
        fields = ours(table.schema_json, declared)
        there = dict(frame.dtypes)
        timed = there.get(EVENT_TIME) == "timestamp"
        chosen = self._chosen(
            frame.filter(kafka["topic"].isin(*self.sides.job.topics)).withColumns(
                {name: kafka[name] for name in (*PARTITION, "offset", "epoch")}
            )
        )
        return chosen.select(
            sf.lit(code).alias("code"), *PARTITION, "epoch", "offset", held(fields).alias("held"),
            (sf.col("_rescued") if "_rescued" in there else sf.lit(None).cast("string")).alias("rescued"),
            (sf.unix_micros(EVENT_TIME) if timed else sf.lit(None).cast("bigint")).alias("at"),
        )  # fmt: skip

    def _chosen(self, frame: DataFrame) -> DataFrame:
        """Those of a frame with coordinates that the share takes. Other versions of the tables have others chosen."""
        if self.share >= 1:
            return frame
        seed = sum(view.version for view in self.sides.pinned.views.values())
        place = sf.xxhash64("topic", sf.col("partition").cast("int"), sf.col("offset").cast("bigint"), sf.lit(seed))
        return frame.filter(sf.pmod(place, sf.lit(CHOSEN_OF)) < int(self.share * CHOSEN_OF))


def held(fields: list[dict[str, Any]]) -> Column:
    """Columns as one JSON text, as contents/scalars.py reads it; null ones are left out. fields: of a Spark schema."""
    columns = [_plain(sf.col("`" + f["name"].replace("`", "``") + "`"), f["type"]).alias(f["name"]) for f in fields]
    return sf.to_json(sf.struct(*columns), {"ignoreNullFields": "true"}) if columns else sf.lit("{}")


def _plain(column: Column, kind: Any) -> Column:
    """A column without types that a JSON text would show in some way of its own. kind: Spark's, as parsed JSON."""
    if _is_plain(kind):
        return column
    if isinstance(kind, str):
        return _scalar(column, kind)
    if kind["type"] == "array":
        return sf.transform(column, lambda item: _plain(item, kind["elementType"]))
    if kind["type"] == "map":
        return sf.transform_values(column, lambda _, item: _plain(item, kind["valueType"]))
    inner = [_plain(column.getField(f["name"]), f["type"]).alias(f["name"]) for f in kind["fields"]]
    return sf.when(column.isNotNull(), sf.struct(*inner))


def _is_plain(kind: Any) -> bool:
    if isinstance(kind, str):
        return kind in ("string", "boolean", "byte", "short", "integer", "long", "double")
    parts = [kind[part] for part in ("elementType", "valueType") if part in kind]
    return all(map(_is_plain, [*parts, *(one["type"] for one in kind.get("fields", ()))]))


def _scalar(column: Column, kind: str) -> Column:
    if kind == "timestamp":
        return sf.unix_micros(column)
    if kind == "timestamp_ntz":  # the session's zone is UTC
        return sf.unix_micros(column.cast("timestamp"))
    if kind == "date":
        return sf.unix_date(column)
    if kind == "binary":
        return sf.hex(column)
    return column.cast("double" if kind == "float" else "string")
