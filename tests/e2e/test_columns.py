"""What a column may be called: every verb says the same, before anything is made, and what is allowed is read right."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest
from deltalake import QueryBuilder

from exporter.cli.main import _exit_code, cli
from tests.support.lakes import NOON, Export, Exports, millis
from tests.support.services import Record
from tests.support.sessions import Kept

pytestmark = [pytest.mark.broker, pytest.mark.spark]


@pytest.fixture
def verbs(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The verbs, run in this process on the tests' session."""

    monkeypatch.setattr("exporter.spark.session.start", lambda *_, **__: Kept(spark))
    monkeypatch.setattr("exporter.spark.session.starting", lambda *_: lambda: Kept(spark))


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ("id BIGINT, `_event_time` STRING", "column '_event_time': the exporter writes a column of that name itself"),
        ("`_kafka.offset` BIGINT", "column '_kafka.offset': the exporter writes a column of that name itself"),
        ("s ARRAY<STRUCT<`a b`: INT>>", "column 's[].a b': a name cannot hold ' '"),
        ('`a"b` INT', "column 'a\"b': a name cannot hold '\"'"),
        ("`a\tb` INT", r"column 'a\tb': a name cannot hold '\t'"),
        ("a STRUCT<b: INT>, `a.b` INT", "column '`a.b`': readers cannot tell it from a.b"),
        ("m MAP<STRING, STRUCT<a: INT, A: INT>>", "column 'm{}.A': m{}.a is there too"),
    ],
)
def test_every_verb_refuses_a_name_with_2_and_a_hint_before_anything_is_made(
    columns: str, says: str, exports: Exports, tmp_path: Path, verbs: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """`check`, `plan` and `run` name the type, the column's path and what is wrong with it; there is no table."""
    config = exports(types={"order": columns}).write()
    for verb in ("check", "plan", "run"):
        arguments = [verb, "--config", str(config)]
        code = _exit_code(lambda: cli(arguments, standalone_mode=False))  # noqa: B023 - called at once
        told = capsys.readouterr()
        text = told.out + told.err
        assert code == 2, text
        assert f"types.order, {says}" in text, text
        assert "hint: " in text
        assert "Traceback" not in text
    assert not (tmp_path / "lake").exists()



PUNCTUATION = "!#$%&'*+-./:<>?@[]^_`|~"
NAMES = [*(f"x{char}y" for char in PUNCTUATION), *PUNCTUATION.replace("_", ""), "größe", "日本", "a\u00a0b"]
NAMES += ["a", "a.b", "a.b.c", "day.x"]
"""Names that are allowed: each character that a keyboard has and no rule refuses, within a name and alone."""
GROUPS = [NAMES[at : at + 12] for at in range(0, len(NAMES), 12)]
"""Few enough for all columns of a type to have statistics, and for a filter on all of them."""


@pytest.mark.long
def test_every_name_that_is_allowed_is_exported_and_read_right_by_every_reader(exports: Exports, spark: Any) -> None:
    """As a column and as a field: by a filter on all of them Spark, DuckDB and delta-rs find one row of three files."""
    types = {f"columns{at}": listed(some, " ") for at, some in enumerate(GROUPS)}
    types |= {f"fields{at}": f"s STRUCT<{listed(some, ': ')}>" for at, some in enumerate(GROUPS)}
    e = exports(types=types)
    sent = []
    for day in range(3):
        for at, some in enumerate(GROUPS):
            values = {name: 10 * number + day for number, name in enumerate(some)}
            sent += [named(f"columns{at}", day, values), named(f"fields{at}", day, {"s": values})]
    e.send({0: sent})
    e.run(spark)
    e.proven(spark)
    for kind in types:
        assert len(e.live(kind)) == 3
        wanted = [(name, 10 * number + 1) for number, name in enumerate(GROUPS[int(kind[-1])])]
        found = [read(e, spark, kind, wanted) for read in (by_spark, by_duckdb, by_delta_rs)]
        assert found == [1, 1, 1], kind


def named(kind: str, day: int, fields: dict[str, Any]) -> Record:
    value = {"type": kind, "at": (NOON - timedelta(days=day)).isoformat(), **fields}
    return Record(kind.encode(), json.dumps(value).encode(), timestamp_ms=millis(NOON))


def listed(some: list[str], between: str) -> str:
    """Columns, or the fields of a struct, as Spark DDL."""
    return ", ".join(f"{ticked(name)}{between}BIGINT" for name in some)


def ticked(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def by_spark(e: Export, spark: Any, kind: str, wanted: list[tuple[str, int]]) -> int:
    head = "s." if kind.startswith("fields") else ""
    condition = " AND ".join(f"{head}{ticked(name)} = {value}" for name, value in wanted)
    return len(spark.table(f"delta.`{e.folder(kind)}`").where(condition).select("day").collect())


def by_duckdb(e: Export, _spark: Any, kind: str, wanted: list[tuple[str, int]]) -> int:
    with duckdb.connect() as connection:
        connection.register("exported", e.table(kind).to_pyarrow_dataset())
        return len(connection.execute(f"SELECT day FROM exported WHERE {condition(kind, wanted)}").fetchall())


def by_delta_rs(e: Export, _spark: Any, kind: str, wanted: list[tuple[str, int]]) -> int:
    query = QueryBuilder().register("exported", e.table(kind))
    return int(query.execute(f"SELECT day FROM exported WHERE {condition(kind, wanted)}").read_all().num_rows)


def condition(kind: str, wanted: list[tuple[str, int]]) -> str:
    """A filter in the SQL of DuckDB and DataFusion alike."""
    if kind.startswith("fields"):
        return " AND ".join("s['" + name.replace("'", "''") + f"'] = {value}" for name, value in wanted)
    return " AND ".join('"' + name.replace('"', '""') + f'" = {value}' for name, value in wanted)
