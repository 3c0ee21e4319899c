"""Whether two tables hold the same rows, as three readers have them; a process of its own, which is given both folders.

Of each reader it prints a line of JSON: its name, how many rows each table has, and whether these are the same. Rows
are compared by two sums over a hash of all their columns by name: in whatever order and files they stand.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import deltalake
import duckdb
from pyspark.sql import functions as sf

from exporter.core.deployment import Deployment
from exporter.spark import session as spark

EVENT = "same_rows"
Told = tuple[int, int, int]
"""Rows, and two sums over the hash of each."""


def main() -> None:
    """One line for each reader."""
    paths = sys.argv[1:3]
    for name, told in (("delta-rs", _by_delta_rs), ("DuckDB", _by_duckdb), ("Spark", _by_spark())):
        one, other = map(told, paths)
        print(json.dumps({"event": EVENT, "reader": name, "rows": one[0], "others": other[0], "same": one == other}))


def _by_delta_rs(path: str) -> Told:
    found = duckdb.connect()
    found.register("rows_of", deltalake.DeltaTable(path).to_pyarrow_dataset())
    return _hashed(found, "rows_of", path)


def _by_duckdb(path: str) -> Told:
    """By its own reader of Parquet, of the files that the log lists."""
    files = deltalake.DeltaTable(path).file_uris()
    found = duckdb.connect()
    found.register("rows_of", found.from_parquet(files, hive_partitioning=True, union_by_name=True))
    return _hashed(found, "rows_of", path)


def _hashed(found: Any, view: str, path: str) -> Told:
    names = ", ".join(f'"{name}"' for name in _names(path))
    hashed = f"SELECT count(*), bit_xor(h), sum(h) FROM (SELECT hash({names}) AS h FROM {view})"
    ((count, mixed, total),) = found.sql(hashed).fetchall()
    return int(count), int(mixed), int(total)


def _by_spark() -> Callable[[str], Told]:
    session = spark.start(Deployment("local[2]", "1g"), EVENT)

    def told(path: str) -> Told:
        names = [sf.col(f"`{name}`") for name in _names(path)]
        hashed = session.read.format("delta").load(path).select(sf.xxhash64(*names).alias("h"))
        row = hashed.agg(sf.count("h"), sf.bit_xor("h"), sf.sum(sf.col("h").cast("decimal(38,0)"))).first()
        return int(row[0]), int(row[1]), int(row[2])

    return told


def _names(path: str) -> list[str]:
    """All columns, in the order of their names."""
    return sorted(field.name for field in deltalake.DeltaTable(path).schema().fields)
