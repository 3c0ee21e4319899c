"""VACUUM in an object store, by whomever: it lists a table through our log store, and must not find its log there."""

from __future__ import annotations

from typing import Any

import pytest

from exporter.stores.store import Store
from offsets.names import LOG_FOLDER
from tests.support.places import committing_to
from tests.support.services import fresh_name

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("s3")]

UNCHECKED = "spark.databricks.delta.retentionDurationCheck.enabled"


def test_vacuum_leaves_the_log_of_a_table_in_an_s3(s3: Store, spark: Any) -> None:
    """The log is deleted with what no version needs, if a listing of a table goes down into all of its folders."""
    store = s3.below(fresh_name("vacuum"))
    where = f"delta.`{store.uri()}`"
    with committing_to(spark, store):
        spark.conf.set(UNCHECKED, "false")
        try:
            for number in range(3):
                rows = spark.range(number, number + 1).selectExpr("id", "'2026-01-01' AS day")
                rows.write.format("delta").mode("append").partitionBy("day").save(store.uri())
            spark.sql(f"DELETE FROM {where} WHERE id = 0")
            before, files = set(store.names(LOG_FOLDER)), store.names("day=2026-01-01")
            spark.sql(f"VACUUM {where} RETAIN 0 HOURS")
        finally:
            spark.conf.unset(UNCHECKED)
        assert before <= {*store.names(LOG_FOLDER)}
        assert len(store.names("day=2026-01-01")) == len(files) - 1
        assert sorted(row.id for row in spark.sql(f"SELECT id FROM {where}").collect()) == [1, 2]
