"""`exporter check --sample`: where records would go, by router, decoder and shaper of the workers; without a JVM."""

from __future__ import annotations

import base64
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


def test_each_way_a_record_can_go_is_told() -> None:
    """With what sends it there."""
    rest = "[types.rest]\nmatch = 'r.*'\ncolumns = 'id INT'\n"
    toml = HEAD + 'unrouted = "rest"\n' + TABLES + "where = 'amount > 1'\n" + rest
    lines = [
        '{"type":"order","at":1767225600000,"id":1,"amount":2,"x":1}', '{"type":"order","at":1767225600000,"id":1}',
        '{"type":"order","at":1767225600000,"id":"?"}', '{"type":"r1","at":1767225600000,"id":1}',
        '{"type":"q","at":1767225600000,"id":1}', '{"type":"r1","at":1767225600000,"id":"?"}', '{"at":1}', "null", "{",
    ]  # fmt: skip
    found = [[(fate.went, fate.event_type, fate.why) for fate in one.fates] for one in judged(toml, *lines)]
    assert found[0] == [("row", "order", "its event type")]
    assert found[1] == [("filtered", "order", "where amount > 1")]
    assert found[3] == [("row", "rest", "match = r.*")]
    assert found[4] == [("row", "rest", "unrouted = rest")]
    dead = [one[0] for one in (found[2], *found[5:])]
    assert [(went, name) for went, name, _ in dead] == [
        ("dead_letter", "order"), ("dead_letter", "rest"), *[("dead_letter", "")] * 3,
    ]  # fmt: skip
    assert dead[0][2].startswith("decode: type_mismatch") and dead[2][2].startswith("route: no_type")
    (one,) = judged(toml, lines[0])
    assert one.fates[0].row == {
        "id": 1, "amount": 2.0, "_rescued": '{"x":1}', "_event_time": "2026-01-01T00:00:00+00:00",
    }  # fmt: skip


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


def test_a_protobuf_oneof_of_messages_is_split_by_rules(tmp_path: Path) -> None:
    """As the handbook says (formats.md): a table for each member, its columns those of the member's message."""
    proto = """syntax = "proto3"; package shop;
        message Customer { int64 id = 1; string name = 2; }
        message Purchase { int64 id = 1; double amount = 2; }
        message AllTypes { oneof oneof_type { Customer customer = 1; Purchase purchase = 2; } }"""
    (tmp_path / "all.proto").write_text(proto)
    page = Path(__file__).parents[3] / "deploy" / "handbook" / "formats.md"
    settings = page.read_text("utf-8").split("A `oneof` of messages")[1].split("```toml\n")[1].split("```")[0]
    toml = HEAD + settings.replace('value_format = { kind = "protobuf" }', "").replace("schema_registry", "#") + (
        '\n[value_format]\nkind = "protobuf"\nframe = "none"\nschema_files = ["all.proto"]\nmessage = "shop.AllTypes"\n'
    )  # fmt: skip
    customer, order = b"\x0a\x07\x08\x01\x12\x03Ada", b"\x12\x0b\x08\x02\x11" + bytes(7) + b"\x40"
    found = judged(toml, *(json.dumps({"value_base64": base64.b64encode(one).decode()}) for one in (customer, order)),
                   records=True)  # fmt: skip
    rows = [{fate.event_type: fate.row for fate in one.fates if fate.went == "row"} for one in found]
    assert [[*one] for one in rows] == [["customer"], ["purchase"]]
    first, second = rows[0]["customer"] or {}, rows[1]["purchase"] or {}
    assert {**first, **second}.items() >= {"id": 2, "name": "Ada", "amount": 2.0}.items() and first["id"] == 1
    assert {fate.went for one in found for fate in one.fates} == {"row", "filtered"}
