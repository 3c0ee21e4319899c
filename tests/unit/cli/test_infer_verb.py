"""`exporter infer` and `exporter schema` as they are typed; what they find is replaced."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

from exporter.cli.main import cli
from exporter.operate.infer.infer import inferred
from exporter.operate.schema.columns import ColumnRow
from exporter.operate.schema.rescued import RescuedRow
from exporter.operate.schema.schema import TableSchema
from exporter.settings.load import load
from exporter.settings.model import Settings
from tests.support.settings import written
from tests.unit.operate.test_infer import hooks

REACHED = ("--brokers", "127.0.0.1:1", "--topics", "events")


@pytest.fixture
def sampled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the verb asked for: settings, records, types, whether values are shown."""
    asked: list[Any] = []

    def of_a_sample(settings: Settings, records: int, only: list[str], plain: bool) -> Any:
        asked.append((settings, records, only, plain))
        return inferred(settings, hooks(100), only, plain)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("exporter.operate.infer.infer.infer", of_a_sample)
    return asked


def typed(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["infer", *arguments])


def test_without_a_settings_file_brokers_and_topics_are_enough(sampled: list[Any], tmp_path: Path) -> None:
    """And what is written is a whole file; the data stands on stdout, what was written is told beside it."""
    found = typed(*REACHED, "--write", "exporter.toml")
    assert (found.exit_code, found.stderr) == (0, "written: exporter.toml\n")
    assert "event type: json event" in found.stdout
    assert "milestone\t100.0%\t" in found.stdout
    assert len(load(tmp_path / "exporter.toml", {}, {}).declared) == 10
    assert sampled[0][1:] == (10_000, [], False)


def test_a_second_time_it_completes_what_is_there_and_overwrites_nothing(sampled: list[Any]) -> None:
    """The file of the first time is the settings of the second."""
    assert typed(*REACHED, "--write", "exporter.toml").exit_code == 0
    again = typed("--write", "exporter.toml")
    assert again.exit_code != 0
    assert "is there already" in str(again.exception)
    assert typed("--write", "other.toml").exit_code == 0
    assert load(Path("other.toml"), {}, {}).declared == load(Path("exporter.toml"), {}, {}).declared


def test_json_holds_all_that_the_text_does(sampled: list[Any]) -> None:
    """One object; examples masked unless they are asked for."""
    found = json.loads(typed(*REACHED, "--format", "json", "--types", "push, star", "--records", "50").stdout)
    assert sampled[0][1:] == (50, ["push", "star"], False)
    assert {one["event_type"] for one in found["types"]} == {"push", "star"}
    push = next(one for one in found["types"] if one["event_type"] == "push")
    assert {row["path"]: row["examples"] for row in push["paths"]}["ref"] == ['"aaaa/aaaaa/aaaa"']
    typed(*REACHED, "--show-values")
    assert sampled[1][3]


def test_flags_that_say_how_to_write_need_a_file(sampled: list[Any]) -> None:
    """Else somebody would look for what was never made."""
    assert typed(*REACHED, "--columns-folder", "x").exit_code == 2
    assert sampled == []
    assert typed(*REACHED, "--evolve", "add", "--write", "exporter.toml").exit_code == 0
    assert load(Path("exporter.toml"), {}, {}).evolve == "add"


def test_the_schema_of_each_table_is_told_with_what_found_no_column(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tables one after the other, in text and as JSON lines."""
    columns = (ColumnRow("id", "BIGINT", "declared", "", 0), ColumnRow("b\x1b", "STRING", "evolved", "t/0/7", None))
    table = TableSchema("order", 9, columns, (RescuedRow("n", 1200, {"text": 1200}, "BIGINT"),), 100_000, False)
    asked: list[Any] = []

    def tables(lake: Any, declared: Any, hints: Any, only: Any, rows: int) -> Any:
        asked.append((declared, hints, only, rows))
        return iter([table])

    monkeypatch.setattr("exporter.operate.schema.schema.table_schemas", tables)
    monkeypatch.setattr("exporter.workbench.open_lake", lambda _: nullcontext(SimpleNamespace()))
    monkeypatch.setattr("exporter.workbench.schemas_of", lambda settings: settings.declared)
    path = written(tmp_path)
    found = CliRunner().invoke(cli, ["schema", "--config", str(path), "--types", "order", "--rescued-rows", "7"])
    assert asked == [({"order": "id BIGINT"}, {"order": {}}, ["order"], 7)]
    assert found.stdout.splitlines()[0] == "order, version 9"
    assert "b\\x1b\tSTRING\tevolved\tt/0/7\t-\t-" in found.stdout
    assert "n\t1,200\t1,200 text\tBIGINT" in found.stdout
    assert found.stdout.splitlines()[-1] == "100,000 rows with something in _rescued, and there are more"
    as_json = CliRunner().invoke(cli, ["schema", "--config", str(path), "--format", "json"])
    assert json.loads(as_json.stdout)["columns"][1]["seen"] == "t/0/7"
