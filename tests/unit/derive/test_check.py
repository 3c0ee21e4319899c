"""What `check` finds out of [derive], by what a run of each job would do next."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import AnalysisException

from exporter.derive.check import findings, unknown_sources
from exporter.derive.job import Planned
from exporter.derive.source import NoSource
from exporter.errors import ConfigError, InvariantBroken
from exporter.settings.load import load
from offsets import Invariant
from tests.support.settings import TOML


def job(planned: Planned | Exception) -> Any:
    def plan() -> Planned:
        if isinstance(planned, Exception):
            raise planned
        return planned

    return SimpleNamespace(name="a", kind="sql", plan=plan)


@pytest.mark.parametrize(
    ("planned", "level", "in_settings", "says"),
    [
        (Planned("a", "sql", {"events-0": "3..9"}), "ok", False, "sql, 1 ranges are new"),
        (Planned("a", "sql", says="a full pass"), "ok", False, "sql, nothing is new; a full pass"),
        (NoSource("there is no table yet"), "warn", False, "there is no table yet"),
        (AnalysisException("no column `x`"), "error", True, "no column `x`"),
        (ConfigError("keys: no column `x`"), "error", True, "keys: no column `x`"),
        (InvariantBroken(Invariant.ONCE, "rows were taken back"), "error", False, "rows were taken back"),
    ],
)
def test_a_job_is_judged_by_its_plan(
    planned: Planned | Exception, level: str, in_settings: bool, says: str
) -> None:
    """A source that is not there yet is waited for; what the settings are to blame for makes `check` end with 2."""
    (found,) = findings(job(planned), [])
    assert (found.what, found.level, found.in_settings) == ("derive a", level, in_settings)
    assert says in found.says


def test_a_source_that_nobody_makes_is_an_error(tmp_path: Path) -> None:
    """Neither a table nor a job nor a declared type; where undeclared types get tables, it may come."""
    path = tmp_path / "exporter.toml"
    tables = "".join(
        f'[derive.{name}]\nkind = "sql"\nsource = "{source}"\nquery = "SELECT 1"\n'
        for name, source in {"a": "order", "b": "oder", "c": "old", "d": "a"}.items()
    )
    path.write_text(f"{TOML}\n{tables}")
    settings = load(path, {}, {})
    there = {"old", *settings.derive}
    assert [unknown_sources(settings, name, there) for name in "abcd"] == [[], ["oder"], [], []]
    open_to_new = load(path, {"new_type": "table"}, {})
    assert unknown_sources(open_to_new, "b", there) == []
    (found,) = findings(job(Planned("a", "sql")), ["oder"])
    assert (found.level, found.in_settings) == ("error", True)
