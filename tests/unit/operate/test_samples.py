"""`exporter check --sample`: where records would go, by router, decoder and shaper of the workers; without a JVM."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from exporter.cli.main import cli
from exporter.errors import ConfigError
from exporter.operate.check.samples import Sampled, samples
from exporter.settings.load import load

HEAD = """brokers = ["k:9092"]
topics = ["shop"]
group = "exporter"
table_root = "file:///data/lake"
"""
TABLES = """type_from = { kind = "field", name = "type" }
event_time = { kind = "field", path = "at", unit = "ms" }
[types.order]
columns = "id BIGINT, amount DOUBLE"
"""


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def judged(toml: str, *lines: str | bytes, records: bool = False) -> list[Sampled]:
    Path("exporter.toml").write_text(toml, "utf-8")
    raw = (one.encode() if isinstance(one, str) else one for one in lines)
    return [*samples(load(None, {}, {}), raw, records)]


def test_programs_are_told_the_same() -> None:
    """One JSON value for each sample."""
    Path("exporter.toml").write_text(HEAD + TABLES, "utf-8")
    found = CliRunner().invoke(cli, ["check", "--sample", "-", "--format", "json"], input='\n{"type":"x","at":0}\n')
    (one,) = map(json.loads, found.stdout.splitlines())
    assert (one["line"], one["said"], one["event_type"]) == (2, "x", "x")
    assert [(fate["went"], fate["why"]) for fate in one["fates"]] == [("dead_letter", "route: unknown_type: x")]
    assert CliRunner().invoke(cli, ["check", "--sample", "-", "--deep"], input="").exit_code == 2


def test_records_have_whatever_kafka_has_of_them() -> None:
    """Key, headers, topic, coordinates, and values that are no JSON; a line that is no record is told by its number."""
    toml = HEAD + 'type_from = { kind = "topic" }\nevent_time = { kind = "record" }\n[value_format]\nkind = "bytes"\n'
    toml += "[types.a]\n"
    values = ['"value_text":"x"', '"value_base64":"/w=="', '"value":null', '"value":[1, 2.50]']
    lines = [f'{{"topic":"a","timestamp":1767225600000,{one}}}' for one in values]
    found = [one.fates[0] for one in judged(toml, *lines, records=True)]
    assert [one.row and one.row["value"] for one in found] == ["x", "/w==", None, "[1, 2.50]"]
    assert found[2].why == "route: tombstone: the value is null"
    for line in ('{"topik":"a"}', '{"value_base64":"?"}', "{"):
        with pytest.raises(ConfigError, match="line 2 of the samples is no record"):
            judged(toml, lines[0], line, records=True)


def test_a_schema_that_only_a_registry_knows_is_not_guessed() -> None:
    """It is not asked: what it says would have to be recorded."""
    toml = HEAD + (
        'new_type = "table"\ntype_from = { kind = "schema" }\nevent_time = { kind = "record" }\n'
        '[value_format]\nkind = "avro"\n[schema_registry]\nurls = ["http://localhost:1"]\n'
    )
    (one,) = judged(toml, '{"value_base64":"AAAAAAcC"}', records=True)
    (fate,) = one.fates
    assert (fate.went, fate.why) == ("unread", "the registry is not asked for its schema here")


def test_settings_that_cannot_work_are_refused_as_a_start_refuses_them() -> None:
    """Before a line is read."""
    with pytest.raises(ConfigError, match="there is no column"):
        judged(HEAD + TABLES + "drop = ['x']\n", "{")
