"""A value of data is never SQL's text, from the topic to a mirror and to maintenance."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import deltalake
import pytest

from exporter.derive.jobs import jobs_of
from exporter.operate.maintain.maintain import Maintenance, MaintenanceLimits
from tests.support.lakes import NOON, Exports, event, wrong_places

pytestmark = [pytest.mark.broker, pytest.mark.spark]

LIMITS = MaintenanceLimits(late_secs=3600, file_bytes_max=1 << 29, stage_age_max_secs=21_600)
VARIABLE = "${env:HOME}"
"""What Spark by default replaces in SQL by the environment's."""
MIRROR = """[derive.users]
kind = "mirror"
source = "user"
keys = ["name"]
"""


def test_a_variable_of_spark_s_is_a_text_as_key_and_as_partition(exports: Exports, tmp_path: Path, spark: Any) -> None:
    """Upserted in two runs the key is there once; its partition is rewritten once, and then no longer due."""
    e = exports(
        types={"user": "id BIGINT, name STRING, country STRING"}, cuts={"user": 'partition_columns = ["country"]'},
        more=MIRROR,
    )  # fmt: skip
    lake = e.lake(spark)
    (job,) = jobs_of(e.settings(), lake)
    for number in range(2):
        e.send({0: [event("user", number, NOON, name=VARIABLE, country=VARIABLE)]})
        e.run(spark)
        assert job.run().version == number
    rows = deltalake.DeltaTable(f"{tmp_path}/lake/_derived.tables/users").to_pyarrow_table().to_pylist()
    assert [(row["name"], row["id"], row["country"]) for row in rows] == [(VARIABLE, 1, VARIABLE)]
    assert [line for line in job.audit() if not line.clean] == []
    for expected in ([("optimize", "done", 2)], []):
        steps = [*Maintenance(lake, LIMITS).steps(["user"], apply=True)]
        assert [(one.what, one.outcome, one.files) for one in steps if one.what == "optimize"] == expected
    assert wrong_places(e) == {} and {row["country"] for row in e.rows("user")} == {VARIABLE}
