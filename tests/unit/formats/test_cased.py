"""`case = "insensitive"`: fields whose names differ from a column's by case only fill it, in every format of values."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from exporter.core.columns import folded
from exporter.core.routing import EventTime, Routing, TypeFrom
from exporter.core.shapes import Shape
from exporter.formats.cased import Spelling, spelled_type
from exporter.formats.dead_letter import DeadLetter
from exporter.formats.decoder import Decoder
from exporter.formats.format import Format
from exporter.formats.json import cased, judge
from exporter.formats.json.format import Json
from tests.support.decoded_rows import rows_of
from tests.unit.formats.oracle import Refused, dumped, parsed, rescued, same, split
from tests.unit.formats.test_decoder import PLAIN, TUNINGS, run, shown
from tests.unit.formats.test_evolved_columns import any_json, evolved, list_of, map_of
from tests.unit.formats.test_evolved_columns import rows as held_rows
from tests.unit.formats.typed.test_fit import fit

ANY_CASE = replace(PLAIN, shapes=(("a", Shape("", case="insensitive")),))
INNER = pa.struct([("k", pa.string()), ("Deep", pa.struct([("x", pa.int64())]))])
COLUMNS = pa.schema([
    ("id", pa.int64()),
    ("Name", pa.string()),
    pa.field("skin", pa.struct([("id", pa.int64()), ("Tags", list_of(INNER))])),
    ("m", map_of(INNER)),
    any_json("any"),
    evolved("grown", pa.struct([("id", pa.int64())])),
])  # fmt: skip


def rows(values: Sequence[bytes | None], schema: pa.Schema = COLUMNS, config: Routing = ANY_CASE) -> list[Any]:
    """Of each record its columns and `_rescued`, those with something in them; or its reason."""
    return held_rows(schema, values, config)


@pytest.mark.parametrize(
    ("sent", "found"),
    [
        (b'{"id":1,"Name":"n"}', {"id": 1, "Name": "n"}),
        (b'{"ID":1,"name":"n"}', {"id": 1, "Name": "n"}),
        (b' {"iD" :1, "NAME"\n:"n" } ', {"id": 1, "Name": "n"}),
        ('{"\u0131d":1,"\\u006eame":"n"}'.encode(), {"id": 1, "Name": "n"}),
        ('{"\u0130D":1,"name":"n"}'.encode(), {"id": 1, "Name": "n"}),
        ('{"i\u0307D":1}'.encode(), {"id": 1}),
        ('{"\u017f\u212aIN":{"ID":5}}'.encode(), {"skin": {"id": 5, "Tags": None}}),
        (b'{"SKIN":{"ID":5,"q":1},"Q":2}', {"skin": {"id": 5, "Tags": None}, "_rescued": '{"skin":{"q":1},"Q":2}'}),
        (b'{"Skin":{"tags":[{"K":"k","DEEP":{"X":1}},null]}}',
         {"skin": {"id": None, "Tags": [{"k": "k", "Deep": {"x": 1}}, None]}}),
        (b'{"M":{"k":{"K":"v"},"K":{"deep":{"Y":1}}}}',
         {"m": [("K", {"k": None, "Deep": {"x": None}}), ("k", {"k": "v", "Deep": None})],
          "_rescued": '{"m":{"K":{"Deep":{"Y":1}}}}'}),
        (b'{"ANY": {"ID": 1 , "id":2}}', {"any": '{"ID": 1 , "id":2}'}),
        (b'{"text":"\\"ID\\":1","o":{"ID":1}}', {"_rescued": '{"text":"\\"ID\\":1","o":{"ID":1}}'}),
        (b'{"ID":1,"grown":{"ID":1,"id":2},"GROWN":3}',
         {"id": 1, "grown": {"id": 2}, "_rescued": '{"grown":{"ID":1},"GROWN":3}'}),
        (b'{"ID":1,"a\\u003a":2}', {"id": 1, "_rescued": '{"a:":2}'}),
        (b'{"ID":null,"NAME":null}', {}),
    ],
)  # fmt: skip
def test_a_field_fills_the_column_that_differs_by_case_only(sent: bytes, found: dict[str, Any]) -> None:
    """At every level; it is in no `_rescued`, what is unknown keeps its own name, and so do the keys of maps."""
    others = [b'{"id":7}', b'{"u":1}', b'{"ID":8,"z":1}', b"{", b'{"Id":9}']
    assert rows([sent]) == [found]
    assert rows([*others, sent, *others])[len(others)] == found


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b'{"id":1,"ID":2}', "ambiguous_field: $.id is filled by 'id' and 'ID'"),
        (b'{"Id":null,"ID":null}', "ambiguous_field: $.id is filled by 'Id' and 'ID'"),
        (b'{"skin":{"ID":1,"iD":1}}', "ambiguous_field: $.skin.id is filled by 'ID' and 'iD'"),
        (b'{"SKIN":null,"skin":{}}', "ambiguous_field: $.skin is filled by 'SKIN' and 'skin'"),
        (b'{"skin":{"TAGS":[{},{"K":"1","k":"2"}]}}', "ambiguous_field: $.skin.Tags[1].k is filled by 'K' and 'k'"),
        (b'{"m":{"Y":{"k":"1","K":"2"}}}', "ambiguous_field: $.m.Y.k is filled by 'k' and 'K'"),
        (b'{"ID":1,"ID":2}', "duplicate_key: 'ID' occurs twice in one object"),
        (b'{"ID":1,"u":{"x":1,"x":2}}', "duplicate_key: 'x' occurs twice in one object"),
        (b'{"ID":1,"u:":1,"u\\u003a":2}', "duplicate_key: 'u:' occurs twice in one object"),
        (b'{"ID":"x"}', "type_mismatch: $.id expected an integer, got a string"),
        (b'{"ID":1', "not_json: Expecting ',' delimiter: line 1 column 8 (char 7)"),
        (b'{"ID":1}}', "not_json: Extra data: line 1 column 9 (char 8)"),
        (b'{"ID":1,"u":' + b"[" * 250 + b"]" * 250 + b"}", "not_json: nested deeper than 200 levels"),
    ],
)  # fmt: skip
def test_two_fields_of_one_column_are_a_dead_letter(sent: bytes, reason: str) -> None:
    """Whatever they hold; what is wrong with a record otherwise is told as ever."""
    others = [b'{"id":7}', b'{"u":1}', b'{"ID":8,"z":1}', b'{"Id":9}']
    told = rows([*others, sent, *others])
    assert told[len(others)] == rows([sent])[0]
    assert told[len(others)] == reason
    assert [one for at, one in enumerate(told) if at != len(others)] == rows([*others, *others])


@pytest.mark.parametrize(
    ("sent", "found"),
    [
        ('{"k":1,"\u0131":2}', {"k": 1, "i": 2}),
        ('{"k":1,"\u017f":{"A":2}}', {"k": 1, "s": {"A": 2}}),
        ('{"i":1,"\u212a":3}', {"i": 1, "k": 3}),
        ('{"k":1,"\\u0049":2}', {"k": 1, "i": 2}),
        ('{"k":1,"x\\/Y":2}', {"k": 1, "x/y": 2}),
        ('{"A":1}', {"a": 1}),
        ('{"s":{"a":1}}', {"s": {"A": 1}}),
        ('{"A":1,"":2}', {"a": 1, "_rescued": '{"":2}'}),
        ('{"I":1,"u":1,"u":2,"v\\u003a":3}', "duplicate_key: 'u' occurs twice in one object"),
    ],
)
def test_the_one_field_that_is_spelled_otherwise_is_seen(sent: str, found: Any) -> None:
    """By letters beyond ASCII, by escapes, and where a name is spelled in two ways at two levels."""
    kinds = [("a", pa.int64()), ("s", pa.struct([("A", pa.int64())])), ("i", pa.int64()), ("k", pa.int64())]
    schema = pa.schema([*kinds, ("x/y", pa.int64())])
    assert rows([sent.encode()], schema) == [found]


def test_a_name_that_is_spelled_in_two_ways_is_no_other_name() -> None:
    """Where all are: an empty name is none of them."""
    schema = pa.schema([("a", pa.struct([("A", pa.int64())]))])
    assert rows([b'{"A":{"a":1},"":2}', b'{"A":null,"":2}'], schema) == [
        {"a": {"A": 1}, "_rescued": '{"":2}'}, {"_rescued": '{"":2}'},
    ]  # fmt: skip


def test_with_case_as_ever_a_field_that_differs_is_unknown() -> None:
    """The default, and what it reads is no other reader."""
    assert rows([b'{"ID":1,"id":2}'], config=PLAIN) == [{"id": 2, "_rescued": '{"ID":1}'}]
    assert not isinstance(Decoder("a", pa.schema([("id", pa.int64())]), PLAIN).reader, cased.CasedReader)


def test_the_fields_of_event_type_and_time_are_columns_too() -> None:
    """They are found at the column that differs from their path by case only, as it is in the value."""
    config = replace(ANY_CASE, type_from=TypeFrom("json", "meta.type"), event_time=EventTime("json", "meta.at", "ms"))
    schema = pa.schema([("META", pa.struct([("TYPE", pa.string()), ("At", pa.int64())]))])
    at = 1_700_000_000_000
    good = f'{{"meta":{{"type":"a","AT":{at}}}}}'.encode()
    other = good.replace(b'"a"', b'"b"')
    both = f'{{"meta":{{"type":"a","TYPE":"a","AT":{at}}}}}'.encode()
    decoded = run(Decoder("a", schema, config), [good, other, both])
    assert decoded.table.to_pylist()[0]["META"] == {"TYPE": "a", "At": at}
    assert decoded.table["_event_time"].cast(pa.int64()).to_pylist() == [at * 1000]
    assert [reason.partition(":")[0] for _, _, reason in decoded.bad] == ["type_mismatch", "ambiguous_field"]


def test_four_letters_beyond_ascii_differ_from_letters_of_ascii_by_case() -> None:
    """Those that the pattern knows; all others fold to something beyond ASCII."""
    found = {char: folded(char) for char in map(chr, range(128, sys.maxunicode + 1)) if folded(char).isascii()}
    assert found == {
        char.encode().decode("unicode_escape").encode("latin-1").decode(): letter
        for letter, also in cased._ALSO.items()
        for char in also.split("|")
    }


def test_a_record_of_too_many_values_is_refused_only_where_it_is_in_doubt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody makes an object of each of its values to look for a key that occurs twice."""
    monkeypatch.setattr(judge, "VALUES_MAX", 10)
    schema = pa.schema([("id", pa.int64()), ("xs", list_of(pa.int64()))])
    sure, unsure = b'{"ID":1,"xs":[0,1,2,3,4,5,6,7,8,9]}', b'{"ID":1,"a\\u003a":1,"xs":[0,1,2,3,4,5,6,7,8,9]}'
    found = rows([sure, unsure], schema)
    assert found[0] == {"id": 1, "xs": [*range(10)]}
    assert found[1] == judge.TOO_MANY


# --- against plain Python -----------------------------------------------------------------------------


class Twice(Exception):
    """Two fields fill one column."""


def alike(one: str, other: str) -> bool:
    """As Java's equalsIgnoreCase says it."""
    pairs = zip(one, other, strict=False)
    return len(one) == len(other) and all(a == b or a.upper() == b.upper() or a.lower() == b.lower() for a, b in pairs)


def respelled(value: Any, fields: Any) -> Any:
    """A value with the names of declared columns, by a walk over all of it."""
    if not isinstance(value, dict):
        return value
    declared = [one for one in fields if b"exporter.evolved" not in (one.metadata or {})]
    made: dict[str, Any] = {}
    for name, item in value.items():
        field = next((one for one in declared if alike(one.name, name)), None)
        if field is not None and field.name in made:
            raise Twice
        made[name if field is None else field.name] = item if field is None else below(item, field)
    return made


def below(value: Any, field: pa.Field) -> Any:
    kind = field.type
    if pa.types.is_struct(kind):
        return respelled(value, kind)
    if pa.types.is_list(kind) and isinstance(value, list):
        return [below(one, kind.value_field) for one in value]
    if pa.types.is_map(kind) and isinstance(value, dict):
        return {key: below(one, kind.item_field) for key, one in value.items()}
    return value


def any_case(rng: Random, name: str) -> str:
    if rng.random() < 0.4:
        return name
    exotic = {"i": "\u0131", "s": "\u017f", "k": "\u212a"}
    swapped = [char.swapcase() if rng.random() < 0.5 else char for char in name]
    return "".join(exotic.get(char, char) if rng.random() < 0.05 else char for char in swapped)


def key_of(rng: Random, name: str) -> str:
    """As a text of JSON, now and then with escapes."""
    if rng.random() < 0.1 and name:
        at = rng.randrange(len(name))
        return f'"{json.dumps(name[:at])[1:-1]}\\u{ord(name[at]):04x}{json.dumps(name[at + 1 :])[1:-1]}"'
    return json.dumps(name, ensure_ascii=rng.random() < 0.2)


def a_text(rng: Random, kind: pa.DataType) -> str:
    if rng.random() < 0.05:
        others = ["null", "1", '"x"', "[]", "{}", "tru", '{"ID":1,"id":2}', '"\\"ID\\":"', "-0", "1e5", '"\xe9"']
        return rng.choice(others)
    if pa.types.is_struct(kind):
        return an_object(rng, [*kind])
    if pa.types.is_list(kind):
        return "[" + ",".join(a_text(rng, kind.value_type) for _ in range(rng.randrange(3))) + "]"
    if pa.types.is_map(kind):
        keys = rng.sample(["k", "K", "ID", "id", "x:"], rng.randrange(3))
        return "{" + ",".join(f"{key_of(rng, key)}:{a_text(rng, kind.item_type)}" for key in keys) + "}"
    return rng.choice(["5", "70"] if pa.types.is_integer(kind) else ['"s"', '"\\"ID\\" : 1"', '"\u017f"'])


def an_object(rng: Random, fields: list[pa.Field]) -> str:
    members = [(any_case(rng, one.name), a_text(rng, one.type)) for one in fields if rng.random() < 0.6]
    while rng.random() < 0.15:
        members.append((any_case(rng, rng.choice(fields).name), a_text(rng, rng.choice(fields).type)))
    while rng.random() < 0.2:
        members.append((rng.choice(["u", "U", "u:", "", "größe", "Größe", "xs"]), a_text(rng, INNER)))
    rng.shuffle(members)
    gap = rng.choice(["", "", " ", "\n"])
    return "{" + f"{gap},".join(f"{key_of(rng, key)}{gap}:{gap}{text}" for key, text in members) + "}"


def expected(raw: bytes, schema: pa.Schema) -> Any:
    """The columns and what is left, `ambiguous_field` or None for a dead letter of another kind."""
    try:
        return split(dumped(respelled(parsed(raw), schema)).encode(), schema)
    except Twice:
        return "ambiguous_field"
    except Refused:
        return None


def check_any_records(tuning: str | None, seeds: range) -> None:
    """Records of any kind, with a column beyond ASCII and without, read as plain Python reads them."""
    form: Format = Json(TUNINGS[tuning] if tuning else None)
    seen = {"good": 0, "bad": 0, "ambiguous_field": 0}
    for seed in seeds:
        rng = Random(f"{tuning}{seed}")
        schema = COLUMNS.append(pa.field("größe", pa.float64())) if seed % 2 else COLUMNS
        values = [an_object(rng, [*schema]).encode() for _ in range(rng.randrange(10, 30))]
        values = [value[: rng.randrange(len(value))] if rng.random() < 0.02 else value for value in values]
        decoder, one_by_one = (Decoder("a", schema, ANY_CASE, form) for _ in range(2))
        run(decoder, values)
        batch = run(decoder, values)
        together = shown(batch)
        for row, (raw, found) in enumerate(zip(values, rows_of(batch), strict=True)):
            assert shown(run(one_by_one, [raw]))[0] == together[row], raw
            wanted = expected(raw, schema)
            if not isinstance(wanted, tuple):
                assert isinstance(found, str), raw
                assert (wanted is None) or found.startswith("ambiguous_field: "), raw
                seen[wanted or "bad"] += 1
                continue
            seen["good"] += 1
            columns, rest = wanted
            assert isinstance(found, dict), (raw, found)
            assert rescued(found["_rescued"]) == rest, raw
            assert all(same(columns.get(one.name), found[one.name], one) for one in schema), raw
    assert min(seen.values()) > 0, seen


@pytest.mark.parametrize("tuning", [None, *TUNINGS], ids=str)
def test_any_records_are_read_as_plain_python_reads_them(tuning: str | None) -> None:
    """Whichever reader reads them; each alone as in a batch."""
    check_any_records(tuning, range(4))


@pytest.mark.long
@pytest.mark.parametrize("tuning", [None, *TUNINGS], ids=str)
def test_many_more_records_are(tuning: str | None) -> None:
    """As above."""
    check_any_records(tuning, range(4, 100))


def test_most_values_are_told_to_need_nothing_by_their_pattern(monkeypatch: pytest.MonkeyPatch) -> None:
    """Speed: a record that is spelled as its columns are is not taken apart."""
    looked: list[bytes] = []
    monkeypatch.setattr(cased, "spelled", lambda raw, spelling: looked.append(raw) or raw)
    values = [b'{"id":1,"Name":"ID","skin":{"id":2},"text":"\\"ID\\":"}', b'{"iD":1}']
    rows(values)
    assert looked == values[1:]


# --- values that say their types ----------------------------------------------------------------------


def fitted(kind: pa.StructType, values: list[dict[str, Any]], schema: pa.Schema, config: Routing = ANY_CASE) -> Any:
    """The rows of one writer's records, and the reasons of others."""
    read = fit(kind, schema, values, config, "a")
    columns = dict(zip(schema.names, [column.to_pylist() for column in read.columns], strict=True))
    return columns, read.rescued.to_pylist(), read.refused


def test_a_writer_s_fields_are_called_as_the_columns_are() -> None:
    """Once for its schema, at every level; what is unknown keeps its own name."""
    inner = pa.struct([("K", pa.string()), ("dEEp", pa.struct([("X", pa.int64()), ("Y", pa.int64())]))])
    kind = pa.struct([
        ("ID", pa.int64()),
        ("name", pa.string()),
        ("SKIN", pa.struct([("iD", pa.int64()), ("tags", list_of(inner)), ("Zz", pa.bool_())])),
        ("M", map_of(inner)),
        ("GROWN", pa.struct([("id", pa.int64())])),
        ("U", pa.string()),
    ])  # fmt: skip
    schema = pa.schema([one for one in COLUMNS if one.name != "any"])
    value = {
        "ID": 1, "name": "n", "U": "u", "GROWN": {"id": 1}, "M": [("K", {"K": "k", "dEEp": None})],
        "SKIN": {"iD": 2, "tags": [{"K": None, "dEEp": {"X": 3, "Y": 4}}], "Zz": True},
    }  # fmt: skip
    columns, kept, refused = fitted(kind, [value, dict.fromkeys(value), value], schema)
    assert not refused
    assert [one[0] for one in columns.values()] == [
        1, "n", {"id": 2, "Tags": [{"k": None, "Deep": {"x": 3}}]}, [("K", {"k": "k", "Deep": None})], None,
    ]  # fmt: skip
    assert json.loads(kept[0]) == {
        "skin": {"Tags": [{"Deep": {"Y": 4}}], "Zz": True}, "GROWN": {"id": 1}, "U": "u",
    }  # fmt: skip
    assert [one[2] for one in columns.values()] == [one[0] for one in columns.values()]
    assert kept[1:] == [None, kept[0]]


@pytest.mark.parametrize(
    ("kind", "where"),
    [
        (pa.struct([("ID", pa.int64()), ("id", pa.int64())]), "$.id is filled by 'ID' and 'id'"),
        (pa.struct([("SKIN", pa.struct([("id", pa.int64()), ("Id", pa.int64())]))]),
         "$.skin.id is filled by 'id' and 'Id'"),
        (pa.struct([("m", map_of(pa.struct([("K", pa.string()), ("k", pa.string())])))]),
         "$.m{}.k is filled by 'K' and 'k'"),
    ],
)  # fmt: skip
def test_a_writer_with_two_fields_of_one_column_has_no_good_record(kind: pa.StructType, where: str) -> None:
    """Whatever they hold: its schema is the reason. With case as ever it may be read."""
    schema = pa.schema([one for one in COLUMNS if one.name != "any"])
    nothing = dict.fromkeys(one.name for one in kind)
    columns, _, refused = fitted(kind, [nothing, nothing], schema)
    assert refused == dict.fromkeys(range(2), f"ambiguous_field: id 7: {where}")
    assert columns["id"] == []
    assert fitted(kind, [nothing, nothing], schema, PLAIN)[2] == {}


def test_event_type_and_time_of_a_writer_are_columns_too() -> None:
    """At the column that differs from their path by case only."""
    config = replace(ANY_CASE, type_from=TypeFrom("json", "meta.type"), event_time=EventTime("json", "meta.at", "ms"))
    schema = pa.schema([("META", pa.struct([("TYPE", pa.string()), ("At", pa.int64())]))])
    kind = pa.struct([("meta", pa.struct([("type", pa.string()), ("AT", pa.int64())]))])
    read = fit(kind, schema, [{"meta": {"type": "a", "AT": 5}}, {"meta": {"type": "b", "AT": 5}}], config, "a")
    assert read.time is not None
    assert (read.columns[0].to_pylist(), read.time.to_pylist()) == ([{"TYPE": "a", "At": 5}], [5])
    assert read.refused[1].startswith("type_mismatch: ")


def test_types_that_are_no_column_s_stay_as_they_are() -> None:
    """A struct where the column is a list, or nothing is declared."""
    spelling = Spelling.of(COLUMNS)
    kind = pa.struct([("skin", list_of(pa.struct([("ID", pa.int64())]))), ("x", pa.struct([("ID", pa.int64())]))])
    assert spelled_type(kind, spelling) == kind
    with pytest.raises(DeadLetter):
        spelled_type(pa.struct([("id", pa.int64()), ("Id", pa.int64())]), spelling)
