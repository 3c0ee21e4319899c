"""What is inferred from records: the event type, the event time, columns, hints, and what is told of each place."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from exporter.cli.verbs.infer import ASSUMED
from exporter.column.ddl import ddl_of, ddl_schema, quoted
from exporter.column.spark_json import field_of
from exporter.core.columns import EVOLVED, JSON_TEXT
from exporter.core.evolve import Evolution
from exporter.core.routing import EventTime, TypeFrom
from exporter.core.seen import At
from exporter.errors import ConfigError, FoundProblem
from exporter.kafka.sample import SampledRecord
from exporter.operate.infer.columns import InferredType, hints_of, inferred_fields
from exporter.operate.infer.forms import form_of, millis_of, shown
from exporter.operate.infer.infer import Inference, infer, inferred
from exporter.operate.infer.looks import Looks
from exporter.operate.infer.proposal import first_of
from exporter.operate.infer.told import head_lines
from exporter.operate.infer.values import NoRow, document
from exporter.settings.first import write_first
from exporter.settings.load import load
from exporter.settings.model import Settings
from offsets.ranges import TopicPartition
from tests.support import webhooks
from tests.support.services import Record

NOON_MS = 1_769_860_800_000


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Of a user who has no file yet."""
    monkeypatch.chdir(tmp_path)
    return load(None, {"brokers": "127.0.0.1:1", "topics": "events"}, {}, ASSUMED)


def taken(records: Iterable[Record], topic: str = "events") -> list[SampledRecord]:
    return [
        SampledRecord(TopicPartition(topic, at % 4), at // 4, one.timestamp_ms, one.key, one.value,
              None if one.value is None else len(one.value), tuple(one.headers))
        for at, one in enumerate(records)
    ]  # fmt: skip


def values(*found: Any) -> list[Record]:
    """One record for each, all at noon."""
    return [Record(None, json.dumps(one).encode(), timestamp_ms=NOON_MS) for one in found]


def hooks(count: int = 600, with_header: bool = False) -> list[SampledRecord]:
    return taken(webhooks.record(one, with_header) for one in webhooks.payloads(count))


def of_type(found: Inference, name: str) -> InferredType:
    return next(one for one in found.types if one.event_type == name)


@pytest.mark.parametrize("with_header", [False, True], ids=["in the value", "in a header"])
def test_the_field_that_tells_which_fields_there_are_is_the_event_type(settings: Settings, with_header: bool) -> None:
    """Beside ids, logins, names of repositories and flags; the header where the value does not say it."""
    found = inferred(settings, hooks(with_header=with_header))
    assert found.type_from == (TypeFrom("header", webhooks.HEADER) if with_header else TypeFrom("json", "event"))
    best = found.type_candidates[0]
    assert (best.values, best.share, best.explains > 0.7) == (10, 1.0, True)
    assert {one.event_type for one in found.types} == {*webhooks.KINDS}
    assert "takes 10 values, in 100.0% of the records" in "\n".join(head_lines(found))


@pytest.mark.parametrize("seed", range(5))
def test_a_field_is_no_event_type_for_having_many_values(settings: Settings, seed: int) -> None:
    """Records with optional fields that nothing decides: each topic is its own type, and it is told."""
    made = random.Random(seed)
    rows = [{"user": f"u{made.randrange(220)}", "id": f"{made.getrandbits(40)}", "flag": made.choice(["a", "b"]),
             **{name: 1 for name in "opqrs" if made.random() < 0.5}} for _ in range(500)]  # fmt: skip
    found = inferred(settings, taken(values(*rows)))
    assert (found.type_from, found.type_candidates) == (TypeFrom("topic"), ())
    assert [one.event_type for one in found.types] == ["events"]
    assert any("looks like an event type" in note for note in found.notes)


def test_where_all_records_are_alike_a_name_decides(settings: Settings) -> None:
    """`type`, at the top; not a `type` of something else."""
    rows = [{"type": f"t{at % 3}", "user": {"type": "bot"}, "n": at} for at in range(60)]
    assert inferred(settings, taken(values(*rows))).type_from == TypeFrom("json", "type")
    for row in rows:
        del row["type"]
    assert inferred(settings, taken(values(*rows))).type_from == TypeFrom("topic")


def test_the_time_that_is_nearest_to_the_records_own_is_the_event_time(settings: Settings) -> None:
    """Of those that nearly every record has; with its unit."""
    found = inferred(settings, hooks())
    assert found.event_time == EventTime("json", "sent_ms", "ms")
    assert found.time_candidates[0].lag_secs == pytest.approx(0.25)
    assert "`sent_ms` looks like milliseconds since 1970" in "\n".join(head_lines(found))
    assert inferred(settings, taken(values({"at": "soon"}, {"n": 1}))).event_time == EventTime("record")


def test_a_time_that_would_make_dead_letters_is_none(settings: Settings) -> None:
    """Before `event_time_min`, or long after the Kafka timestamp."""
    rows = values(*[{"type": "a", "ts": "1999-01-01T00:00:00Z", "until": "2036-01-01T00:00:00Z"}] * 20)
    assert inferred(settings, taken(rows)).event_time == EventTime("record")


def test_what_the_settings_say_is_taken(tmp_path: Path, settings: Settings) -> None:
    """Of a file that is not whole: what stands in it is not looked for."""
    (tmp_path / "exporter.toml").write_text('[type_from]\nkind = "json"\nname = "sender.login"\n')
    told = load(None, {"brokers": "127.0.0.1:1", "topics": "events"}, {}, ASSUMED)
    found = inferred(told, hooks())
    assert (found.type_from, found.given) == (TypeFrom("json", "sender.login"), (True, False))
    assert len(found.types) > 100


def test_columns_are_those_that_evolution_would_make(settings: Settings) -> None:
    """Structs, arrays, any JSON where kinds clash, a map where keys have no end; times and dates by their looks."""
    found = inferred(settings, hooks())
    push, release, fork = (of_type(found, name) for name in ("push", "release", "fork"))
    assert "stats MAP<STRING, JSON>" in push.columns
    assert (
        "commits ARRAY<STRUCT<added: ARRAY<STRING>, author: STRUCT<email: STRING, name: STRING>, id: STRING, "
        "timestamp: TIMESTAMP>>" in push.columns
    )
    assert {"published_on DATE", "assets ARRAY<STRUCT<name: STRING, size: JSON>>"} <= {*release.columns}
    assert "milestone JSON" in of_type(found, "issue.opened").columns
    assert "forkee STRUCT<id: BIGINT, owner: STRUCT<login: STRING>>" in fork.columns
    assert "review STRUCT<lines: ARRAY<ARRAY<BIGINT>>, state: STRING>" in of_type(found, "review").columns
    assert (push.hints["commits[].timestamp"], release.hints["published_on"]) == ("TIMESTAMP", "DATE")


@pytest.mark.parametrize(
    ("lines", "hint"),
    [
        ('kind = "string"', "one column"),
        ('kind = "json"\nframe = "confluent"', "declare the columns"),
        ('kind = "avro"\n[schema_registry]\nurls = ["http://127.0.0.1:1"]', "leave the columns out"),
    ],
)
def test_values_that_are_no_plain_json_are_not_looked_at(tmp_path: Path, lines: str, hint: str) -> None:
    """Before any broker is asked; what to do instead is told."""
    file = tmp_path / "e.toml"
    file.write_text(f"[value_format]\n{lines}\n")
    with pytest.raises(ConfigError) as error:
        infer(load(file, {"brokers": "127.0.0.1:1", "topics": "events"}, {}, ASSUMED), 10)
    assert hint in error.value.hint


def test_values_with_the_id_of_a_schema_are_told(settings: Settings) -> None:
    """A sample without any settings says what they look like."""
    found = inferred(settings, taken([Record(b"k", b"\0\0\0\0\7" + b"x" * 9, (), 0)] * 3))
    assert any("Confluent's serialisers" in note for note in found.notes)
    assert not any("Confluent" in note for note in inferred(settings, hooks()).notes)
    of_glue = inferred(settings, taken([Record(b"k", b"\3\5" + bytes(range(16)) + b"x" * 9, (), 0)] * 3))
    assert any("AWS Glue's serialisers" in note and 'kind = "glue"' in note for note in of_glue.notes)


def test_of_each_place_it_is_told_what_was_seen(settings: Settings) -> None:
    """The share of records, kinds, masked examples, and why it is a column of that type, or none."""
    found = inferred(settings, hooks(1000))
    rows = {row.path: row for row in of_type(found, "issue.opened").paths}
    assert rows["milestone"].says == "kinds that do not meet: any JSON"
    assert 0.3 < rows["issue.body"].share < 0.7
    assert rows["issue.title"].examples[0] in ('"a 9"', '"a 99"', '"a 999"')
    assert rows["sent_ms"].says == "looks like milliseconds since 1970"
    assert rows["issue.labels[].name"].kinds == {"text": rows["issue.labels"].kinds["array"]}
    push = {row.path: row for row in of_type(found, "push").paths}
    assert push["stats"].says == "more keys than become columns (20 in one object), or too many columns: a map"
    assert not any(path.startswith("stats.") for path in push)
    fork = {row.path: row for row in of_type(found, "fork").paths}
    assert fork["empty"].says == fork["forkee.owner.plan"].says == "no column yet: nothing is in it"
    shown_as_is = inferred(settings, hooks(20), plain=True)
    assert {row.path: row for row in of_type(shown_as_is, "push").paths}["ref"].examples == ('"refs/heads/main"',)
    assert json.loads(json.dumps(found.as_dict()))["types"][0]["paths"]


BAD = {
    "tombstone": None, "not_json": b"{", "not_object": b"[1]", "not_utf8": b'{"a": "\xff"}',
    "duplicate_key": b'{"a": {"b": 1, "b": 2}}',
}  # fmt: skip


def test_what_is_no_object_is_counted_and_told(settings: Settings) -> None:
    """By the codes that dead letters have; the sample goes on."""
    rows = [*BAD.values(), b'{"type": NaN}', b"[" * 100_000, b'{"type": "\\ud800"}', b'{"type": 5}', b'{"type": "a"}']
    found = inferred(settings, taken([Record(None, value, timestamp_ms=NOON_MS) for value in rows]))
    assert found.unusable == {**dict.fromkeys(BAD, 1), "not_json": 4}
    long = [*hooks(20), SampledRecord(TopicPartition("events", 0), 99, NOON_MS, None, None, 20_000_000)]
    assert inferred(settings, long).unusable == {"too_long": 1}
    assert inferred(settings, []).types == ()


@pytest.mark.parametrize(("value", "code"), [(value, code) for code, value in BAD.items() if value is not None])
def test_a_value_that_is_no_object_has_the_code_of_its_dead_letter(value: bytes, code: str) -> None:
    """Each by itself."""
    with pytest.raises(NoRow) as caught:
        document(value)
    assert caught.value.code == code


def test_nesting_is_counted_as_the_decoder_counts(settings: Settings) -> None:
    """200 levels pass, 201 do not."""
    nested = lambda levels: b'{"a": ' * levels + b"1" + b"}" * levels  # noqa: E731
    assert document(nested(200))
    with pytest.raises(NoRow):
        document(nested(201))


@pytest.mark.parametrize(
    ("value", "form"),
    [("2026-01-31T12:00:00Z", "time"), ("2026-01-31 12:00:00.123456789+05:30", "time"), ("2026-02-31T12:00:00Z", ""),
     ("2026-01-31T12:00", ""), ("2026-01-31", "date"), ("2026-13-01", ""), ("9999-12-31", ""), ("٢٠٢٦-01-31", ""),
     (1_769_860_800, "s"), (NOON_MS, "ms"), (NOON_MS * 1000, "us"), (NOON_MS * 10**6, "ns"), (5, ""), (True, ""),
     (-5, ""), (1.5, "")],
)  # fmt: skip
def test_forms_are_told_from_what_only_looks_like_them(value: Any, form: str) -> None:
    """Of a text: as a whole, and a day that there is."""
    assert form_of(value) == form
    if form and form != "date" and not str(value).endswith("05:30"):
        assert millis_of(value, form) == NOON_MS


def test_an_example_says_nothing_of_a_value_but_its_look() -> None:
    """Unless it is asked for."""
    assert shown("Anna.Müller+7@x.example", False) == '"Aaaa.Aaaaaa+9@a.aaaaaaa"'
    assert (shown(-12.5, False), shown(True, False), shown("x", True)) == ("-99.9", "true", '"x"')
    assert len(shown("x" * 1000, True)) < 50


def test_types_that_cannot_have_a_table_are_left_out_with_the_reason(settings: Settings) -> None:
    """Bad names, names that differ by case only, the name of the dead letters, and no fields at all."""
    names = ["order", "order", "Order", "x" * 201, "dead_letters", "_delta_log"]
    rows = [{"type": name, "n": at} for at, name in enumerate(names * 10)]
    found = inferred(settings, taken(values(*rows)))
    assert [one.event_type for one in found.types if not one.left_out] == ["order"]
    assert of_type(found, "Order").left_out == "its table would be that of order"
    assert len(found.types) == 5


def test_a_column_that_would_hide_the_event_type_is_not_declared(tmp_path: Path, settings: Settings) -> None:
    """Neither would a run start with it."""
    (tmp_path / "exporter.toml").write_text('[type_from]\nkind = "json"\nname = "meta.type"\n')
    told = load(None, {"brokers": "127.0.0.1:1", "topics": "events"}, {}, ASSUMED)
    rows = values(*({"meta": {"type": "a", f"k{at}": 1}} for at in range(200)), {"meta": {"type": "b"}, "x": 1})
    found = inferred(told, taken(rows))
    assert of_type(found, "a").left_out == "its column meta hides meta.type, which is read for every record"
    assert not of_type(found, "b").left_out


def test_only_the_types_that_are_asked_for_are_told(settings: Settings) -> None:
    """And which of them were not met."""
    found = inferred(settings, hooks(), only=["push", "nope"])
    assert [one.event_type for one in found.types] == ["push"]
    assert "not met in the sample: nope" in found.notes


@pytest.mark.parametrize("folder", ["", "schemas"], ids=["in the file", "in files"])
def test_the_settings_that_are_written_can_be_loaded(settings: Settings, tmp_path: Path, folder: str) -> None:
    """They say what was found, and every type has its columns."""
    found = inferred(settings, hooks())
    path, columns = tmp_path / "first.toml", tmp_path / folder if folder else None
    written = write_first(first_of(settings, found, path), path, None, columns)
    assert written[-1] == path
    assert len(written) == (11 if folder else 1)
    made = load(path, {}, {})
    assert (made.brokers, made.topics, made.group) == (("127.0.0.1:1",), ("events",), "events-exporter")
    assert made.table_root == str(tmp_path / "lake")
    assert (made.type_from.name, made.event_time.path, made.event_time.unit) == ("event", "sent_ms", "ms")
    plain = {name: re.sub("(?m)^--.*\n", "", ddl) for name, ddl in made.declared.items()}
    assert {name: ddl.strip().split(",\n") for name, ddl in plain.items()} == {
        one.event_type: list(one.columns) for one in found.types
    }


def test_nothing_is_ever_overwritten(settings: Settings, tmp_path: Path) -> None:
    """Neither the settings nor a file of columns; then nothing is written at all."""
    path, folder = tmp_path / "first.toml", tmp_path / "schemas"
    first = first_of(settings, inferred(settings, hooks()), path)
    folder.mkdir()
    (folder / "push.ddl").write_text("mine")
    with pytest.raises(ConfigError, match=r"push\.ddl is there already: nothing was written"):
        write_first(first, path, None, folder)
    assert [*folder.iterdir()] == [folder / "push.ddl"]
    path.symlink_to(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match="is there already"):
        write_first(first, path, None, None)


def test_a_file_that_has_some_of_the_settings_is_completed(tmp_path: Path, settings: Settings) -> None:
    """Its text stands in the new one, login and comments among it, readable for as many; what it has is kept."""
    base = tmp_path / "exporter.toml"
    base.write_text('brokers = ["127.0.0.1:1"]  # ours\ntable_root = "/data"\n[types."a.b"]\ncolumns = "mine INT"\n'
                    '[kafka_client]\nsecurity_protocol = "SASL_PLAINTEXT"\nsasl_mechanism = "PLAIN"\n'
                    'sasl_plain_username = "u"\nsasl_plain_password = "p"\n')  # fmt: skip
    base.chmod(0o600)
    told = load(None, {"topics": "events"}, {}, ASSUMED)
    found = inferred(told, taken(values(*({"type": name, "n": 1} for name in ["a.b", "c d"] * 9))))
    path = tmp_path / "whole.toml"
    write_first(first_of(told, found, path), path, told.file, None)
    assert path.stat().st_mode & 0o777 == 0o600
    made = load(path, {}, {})
    assert made.declared == {"a.b": "mine INT", "c d": "n BIGINT,\ntype STRING\n"}
    assert (made.table_root, made.kafka_client.sasl_plain_username, made.group) == ("/data", "u", "events-exporter")
    assert 'brokers = ["127.0.0.1:1"]  # ours' in path.read_text()
    other = load(None, {"topics": "events", "brokers": "127.0.0.1:2"}, {}, ASSUMED)
    with pytest.raises(ConfigError, match="brokers is"):
        write_first(first_of(other, found, path), tmp_path / "x.toml", other.file, None)
    with pytest.raises(ConfigError, match="relative to its own folder"):
        write_first(first_of(told, found, path), tmp_path / "sub" / "x.toml", told.file, None)


def test_a_sample_without_a_row_makes_no_settings(settings: Settings, tmp_path: Path) -> None:
    """It is told instead."""
    with pytest.raises(FoundProblem, match="could be a row"):
        first_of(settings, inferred(settings, taken([Record(None, b"{")])), tmp_path / "x.toml")


HOSTILE = ["a.b", "día 日", "x]y", "'q'", "c d", "😀", "a#b", "tab\there", "new\nline", "del\x7f", 'quo"te', "bs\\"]


def test_hostile_names_of_types_and_columns_stand_in_the_file_as_they_are(settings: Settings, tmp_path: Path) -> None:
    """Quoted as TOML and DDL have it; a name that no column can have stays in `_rescued`."""
    rows = [{"type": kind, "ts": "2026-01-31T12:00:00Z", **dict.fromkeys(HOSTILE, 1)} for kind in HOSTILE * 5]
    found = inferred(settings, taken(values(*rows)))
    path = tmp_path / "first.toml"
    write_first(first_of(settings, found, path), path, None, tmp_path / "s")
    assert {*load(path, {}, {}).declared} == {*HOSTILE}
    columns = [quoted(name) for name in ("a.b", "x]y", "'q'", "😀", "a#b")]
    assert [one.split(" BIGINT")[0] for one in found.types[0].columns if "BIGINT" in one] == sorted(columns)


def test_ddl_names_any_json_wherever_it_stands() -> None:
    """In arrays, in maps, in both; marked by the metadata of the nearest field."""
    looks = Looks()
    for at, value in enumerate([{"a": [[1, "x"]], "b": {"c": 1}}, {"b": {"c": "x"}, "d": 2**70}]):
        looks.add(value, At("t", 0, at), 1)
    fields = inferred_fields(looks, Evolution(hints_of(looks)))
    assert ddl_of(fields) == ["a ARRAY<ARRAY<JSON>>", "b STRUCT<c: JSON>", "d JSON"]
    kind = {"type": "map", "keyType": "string", "valueType": {"type": "array", "elementType": "string"}}
    read = field_of({"name": "m", "type": kind, "metadata": {JSON_TEXT: "value.element", EVOLVED: ""}})
    assert ddl_of([read]) == ["m MAP<STRING, ARRAY<JSON>>"]


def test_a_kind_that_hardly_ever_comes_is_told(settings: Settings) -> None:
    """The column takes it all the same: no record is refused for what a person has not decided."""
    rows = [{"type": "a", "user": at or {"x": 1}} for at in range(200)]
    (found,) = inferred(settings, taken(values(*rows))).types
    assert found.columns == ("type STRING", "user JSON")
    assert [row.says for row in found.paths if row.path == "user"] == [
        "kinds that do not meet: any JSON; 1 of 200 may be mistakes"
    ]


def test_the_file_tells_its_doubts_beside_the_columns(tmp_path: Path, settings: Settings) -> None:
    """As comments; what fewer than one record in a thousand has is one itself. What is plain has none; all is read."""
    rows: list[dict[str, Any]] = [
        {"type": "a", "user": at or {"x": 1}, "in": {"at": 1_700_000_000 + at, "a b": at or "x"}} for at in range(2000)
    ]
    rows[7]["user_id"] = "u"
    found = inferred(settings, taken(values(*rows)))
    path = tmp_path / "exporter.toml"
    write_first(first_of(settings, found, path), path, None, None)
    text = path.read_text()
    written = text[text.index('columns = """') :].splitlines()[1:-1]
    assert written == [
        "-- at: looks like seconds since 1970",
        "in STRUCT<at: BIGINT>,",
        "type STRING,",
        "-- kinds that do not meet: any JSON; 1 of 2,000 may be mistakes",
        "user JSON",
        "-- in 1 of 2,000 records",
        "-- user_id STRING,",
    ]
    schema = ddl_schema(load(path, {}, {}).declared["a"])
    assert schema is not None and [one["name"] for one in json.loads(schema)["fields"]] == ["in", "type", "user"]


def test_with_evolve_no_column_is_declared(tmp_path: Path, settings: Settings) -> None:
    """The types that were seen, the times in them as hints, and a table for whatever type comes."""
    flags = {"brokers": "127.0.0.1:1", "topics": "events", "evolve": "add", "keys_max": "250"}
    evolving = load(None, flags, {}, ASSUMED)
    found = inferred(evolving, hooks(2000))
    path = tmp_path / "first.toml"
    write_first(first_of(evolving, found, path), path, None, tmp_path / "unused")
    made = load(path, {}, {})
    assert (made.evolve, made.new_type, made.keys_max, made.declared) == ("add", "table", 250, {})
    assert {*made.types} == {*webhooks.KINDS}
    assert made.types["release"].hints == {"published_on": "DATE", "repository.created_at": "TIMESTAMP"}
    assert not (tmp_path / "unused").exists()


def test_a_field_called_as_a_column_that_cuts_the_table_is_no_column(tmp_path: Path, settings: Settings) -> None:
    """It stays in `_rescued`: the exporter writes a column of that name itself."""
    rows = values(*[{"type": "a", "day": 1, "hour": 2}] * 20)
    assert of_type(inferred(settings, taken(rows)), "a").columns == ("hour BIGINT", "type STRING")
    (tmp_path / "exporter.toml").write_text('partition_by = "hour"\n')
    hourly = load(None, {"brokers": "127.0.0.1:1", "topics": "events"}, {}, ASSUMED)
    assert of_type(inferred(hourly, taken(rows)), "a").columns == ("type STRING",)
