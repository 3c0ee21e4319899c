"""The engine of SQL: asked for only where there is SQL, and closed to all but the rows."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from exporter.core.shapes import Shape
from exporter.errors import ConfigError
from exporter.shape import engine
from exporter.shape.columns import table_columns
from exporter.shape.evaluated import evaluations_of
from exporter.shape.sql import checked_sql
from tests.support.schemas import schema


@pytest.fixture
def forgotten() -> Iterator[None]:
    """No engine is there yet, and none is kept."""
    for known in (engine._engine, checked_sql, evaluations_of):
        known.cache_clear()
    yield
    for known in (engine._engine, checked_sql, evaluations_of):
        known.cache_clear()


def test_without_duckdb_sql_is_a_setting_that_cannot_be_used(forgotten: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says what to install; a shape without SQL needs none."""
    monkeypatch.setitem(sys.modules, "duckdb", None)
    assert table_columns("orders", Shape(schema("a BIGINT"), drop=("a",)), [("env", "x")])
    with pytest.raises(ConfigError, match="duckdb is not installed") as caught:
        table_columns("orders", Shape(schema("a BIGINT"), where="a > 1"), [])
    assert caught.value.hint == "pip install 'kafka-delta-exporter[sql]'"


def test_a_shape_without_sql_does_not_load_duckdb() -> None:
    """What nobody asks for costs nothing."""
    text = """
import sys
from exporter.core.shapes import Shape
from exporter.shape.shaper import Shaper
Shaper(None, [("env", "x")])
Shaper(Shape('{"type":"struct","fields":[]}', drop=("a",)), [])
sys.exit("duckdb" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", text], check=False).returncode == 0


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM read_csv('/etc/passwd')", "COPY (SELECT 1) TO 'x.csv'", "ATTACH 'x.db'", "INSTALL httpfs",
        "LOAD httpfs", "SET threads = 4", "SET TimeZone = 'Europe/Berlin'", "SET enable_external_access = true",
    ],
)  # fmt: skip
def test_the_engine_knows_no_files_no_network_and_no_other_settings(statement: str) -> None:
    """Whatever gets through what is checked."""
    import duckdb

    with pytest.raises(duckdb.Error):
        engine.connection().execute(statement).fetchall()


def test_times_are_in_utc_wherever_it_runs(forgotten: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the machine's own zone is, for each connection."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    asked = "SELECT current_setting('TimeZone'), TIMESTAMPTZ '2024-01-01 12:00:00'::DATE::VARCHAR, 'é' < 'f'"
    assert engine.connection().execute(asked).fetchall() == [("UTC", "2024-01-01", False)]
    assert engine.connection() is not engine.connection()
