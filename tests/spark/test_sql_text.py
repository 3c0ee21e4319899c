"""No value of data becomes part of SQL text: texts that SQL would read as something else, as keys and values."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from exporter.derive.jobs import own_session
from exporter.derive.mirror import MirrorJob
from exporter.lake.lake import Lake
from exporter.operate.maintain.due import Due
from exporter.settings.derive_mirror import MirrorTable
from exporter.sql_text import literal
from offsets.partitions import Spec
from tests.support.mirrored import DDL, Raw, mirror_rows

pytestmark = pytest.mark.spark

ODD = (
    "${env:HOME}", "${system:user.home}", "${spark.app.name}", "it's", "\\", "\\'; --", "a\0b", ":least", "`",
    "\n\u2028",
)  # fmt: skip


def test_a_text_stays_what_it_is(spark: Any) -> None:
    """As a literal, in an expression and a statement, in each session that is made of the exporter's."""
    assert os.environ.get("HOME"), "there is nothing to be replaced"
    for session in (spark, spark.newSession()):
        assert session.sql("SELECT '${env:HOME}' AS a").collect()[0]["a"] == "${env:HOME}"
        row = session.range(1).selectExpr(*(f"{literal(text)} AS `{n}`" for n, text in enumerate(ODD))).collect()[0]
        assert tuple(row) == ODD


def test_a_mirror_has_one_row_for_whatever_text_its_key_is(spark: Any, tmp_path: Path) -> None:
    """NEWEST: each is put in by a first run and changed by a second one; names of columns are as odd."""
    ddl = f"`it's$a` STRING, {DDL.replace('id BIGINT', 'id STRING')}"
    raw = Raw(Lake(spark, tmp_path / "lake", "odd", sync=False), spark, ddl=ddl)
    raw.create()
    ops = {"op": "op", "upserts": ("I",), "patches": ("${env:HOME}",)}
    table = MirrorTable(kind="mirror", source="customer", keys=("id",), **ops)
    mirror = MirrorJob("customers", table, raw.lake, own_session(raw.lake), "me")
    keys = (*ODD, "x" * 1_000_000)
    for a in ("first", "second"):
        raw.append([{"id": key, "op": "I", "a": a, "it's$a": key[:20]} for key in keys])
        assert mirror.run().rows == len(keys)
    raw.append([{"id": key, "op": "${env:HOME}", "b": 5} for key in ODD])
    assert mirror.run().rows == len(ODD)
    rows = mirror_rows(str(raw.lake.derived("customers").store.uri().removeprefix("file://")))
    assert sorted((row["id"], row["a"], row["b"]) for row in rows) == sorted(
        (key, "second", 5 if key in ODD else None) for key in keys
    )
    assert [line for line in mirror.audit() if not line.clean] == []


def test_a_partition_of_whatever_text_is_rewritten_once(spark: Any, tmp_path: Path) -> None:
    """Of each value two files become one, and then there is nothing left to do for it."""
    from delta.tables import DeltaTable

    path = str(tmp_path / "table")
    texts = [text for text in ODD if "\0" not in text]
    rows = spark.createDataFrame([(text, n) for n, text in enumerate(texts)], "c STRING, n INT").repartition(1)
    for _ in range(2):
        rows.write.format("delta").partitionBy("c").mode("append").save(path)
    for text in texts:
        condition = Due(Spec("none", ("c",)).of_key(0, [text]), 2, 2).condition
        for files in (2, 0):
            (done,) = DeltaTable.forPath(spark, path).optimize().where(condition).executeCompaction().collect()
            assert done.metrics.numFilesRemoved == files, text
