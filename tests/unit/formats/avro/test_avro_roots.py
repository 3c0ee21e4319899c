"""Schemas that are a union at their root: the branch is the record. Several types in a topic, optional records."""

from __future__ import annotations

import io
import json
import random
from dataclasses import replace
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from exporter.column.spark_json import text_of
from exporter.column.types import StructType
from exporter.core.routing import EventTime, Routing, TypeFrom
from exporter.core.schemas import KnownSchemas, SchemaText
from exporter.core.value_format import ValueFormat
from exporter.errors import ConfigError
from exporter.formats.avro.format import Avro
from exporter.formats.avro.writers import Writers
from exporter.formats.format import Read
from exporter.formats.frames import confluent_ids, row_schemas
from exporter.formats.places import emptied, places_of
from exporter.formats.registered import places, registered, registered_files
from tests.support.avro_oracle import Bad, damaged, random_body, random_spec, value_of, written
from tests.support.typed_values import comparable, plain
from tests.unit.formats.avro.test_avro_format import body_of, files, framed, record, single, types

FRAMED = ValueFormat("avro", "confluent")
PLAIN = Routing(TypeFrom("topic"), EventTime("record"), ())
SHORT = TypeFrom("schema", "short")
A, B = record("ns.A", id="long", kind="string"), record("ns.B", id="long", price="double")
TEXT_A, TEXT_B = SchemaText("AVRO", json.dumps(A)), SchemaText("AVRO", json.dumps(B))
UNION = SchemaText("AVRO", '["ns.A","ns.B"]', (("ns.A", TEXT_A), ("ns.B", TEXT_B)))
OPTIONAL = SchemaText("AVRO", json.dumps(["null", A]))
KNOWN = KnownSchemas({1: [UNION], 2: [OPTIONAL], 3: [TEXT_A], 4: [SchemaText("AVRO", json.dumps([B]))]})
OF_A, OF_B = body_of(A, {"id": 1, "kind": "x"}), body_of(B, {"id": 2, "price": 0.5})
VALUES = [framed(1, b"\0" + OF_A), framed(1, b"\2" + OF_B), framed(2, b"\2" + OF_A), framed(3, OF_A),
          framed(4, b"\0" + OF_B)]  # fmt: skip
NULL = framed(2, b"\0")


def read(form: Avro, values: list[bytes | None], **kinds: str) -> Read:
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in kinds.items()]
    schema = form.schema(json.dumps({"type": "struct", "fields": fields}), "order") if kinds else pa.schema([])
    return form.reader("order", schema, PLAIN).read(pa.array(values, pa.binary()))


def test_the_branch_is_the_event_type_and_the_record() -> None:
    """Of a union of references, of an optional record, of one branch; beside a record that is no union."""
    form = Avro(FRAMED, KNOWN)
    assert types(form, SHORT, [*VALUES]) == (["A", "B", "A", "A", "B"], {})
    assert types(form, TypeFrom("schema", "full"), VALUES[:2])[0] == ["ns.A", "ns.B"]
    found = read(form, [*VALUES], id="long", price="double")
    assert not found.refused and [column.to_pylist() for column in found.columns] == [
        [1, 2, 1, 1, 2], [None, 0.5, None, None, 0.5],
    ]  # fmt: skip
    assert found.rescued.to_pylist() == ['{"kind":"x"}', None, '{"kind":"x"}', '{"kind":"x"}', None]


def test_a_field_of_the_branch_may_be_the_event_type() -> None:
    """Of a branch without it there is none."""
    found, reasons = types(Avro(FRAMED, KNOWN), TypeFrom("json", "kind"), [*VALUES])
    assert found == ["x", None, "x", "x", None]
    assert reasons == dict.fromkeys((1, 4), "no_type: $.kind is missing")


def test_the_null_of_a_union_is_a_record_without_a_value() -> None:
    """As a null value is; with bytes behind it, it is damaged. No other value is one."""
    values = [*VALUES, NULL, framed(2, b"\0\0"), framed(2, b"\x80\0"), None, b"x"]
    batch = pa.record_batch({"offset": list(range(len(values))), "value": pa.array(values, pa.binary())})
    left = emptied(batch, FRAMED, KNOWN)["value"].to_pylist()
    assert left == [*VALUES, None, values[6], None, None, b"x"]
    form = Avro(FRAMED, KNOWN)
    names, reasons = types(form, SHORT, values)
    assert names[5:] == [None] * 5
    found = read(form, values, id="long")
    assert found.rows.to_pylist() == [0, 1, 2, 3, 4]
    for told in (reasons, found.refused):
        assert {told[row].partition(" ")[0] for row in (5, 7)} == {"tombstone:"}
        assert told[6] == "trailing_bytes: $ is followed by bytes that belong to no field"


def test_a_branch_that_there_is_not_is_refused_by_its_row() -> None:
    """Cut off, beyond the last, negative, of too many bits; no neighbour is touched."""
    odd = [b"", b"\4", b"\1", b"\x80", b"\x80\1", b"\xff" * 9 + b"\1", b"\xff" * 11, b"\0", b"\2\2"]
    values = [x for one in odd for x in (framed(1, one), VALUES[0])]
    form = Avro(FRAMED, KNOWN)
    found = read(form, values, id="long")
    assert found.rows.to_pylist() == list(range(1, len(values), 2))
    codes = [found.refused[row].partition(":")[0] for row in range(0, len(values), 2)]
    assert codes == ["truncated", "bad_branch", "bad_branch", "truncated", "bad_branch", "bad_branch", "bad_branch",
                     "truncated", "truncated"]  # fmt: skip
    assert types(form, SHORT, values)[0][1::2] == ["A"] * len(odd)


def test_a_branch_that_is_no_record_refuses_its_own_rows_alone() -> None:
    """With the id; a union of such branches only refuses each."""
    known = KnownSchemas({1: [SchemaText("AVRO", json.dumps(["string", A]))], 2: [SchemaText("AVRO", '["int"]')]})
    values = [framed(1, b"\0\2x"), framed(1, b"\2" + OF_A), framed(2, b"\0\2")]
    found = read(Avro(FRAMED, known), values, id="long")
    assert found.rows.to_pylist() == [1]
    assert found.refused == {
        0: "unresolvable_schema: id 1: $: string is no record",
        2: "unresolvable_schema: id 2: $: int is no record",
    }
    assert types(Avro(FRAMED, known), SHORT, values)[0] == [None, "A", None]


def test_each_branch_gives_its_own_columns() -> None:
    """By its number; an optional record also by its id alone, several records by none."""
    assert [one.name for one in registered(UNION, "0").fields] == ["id", "kind"]
    found = registered(UNION, "1")
    assert (found.name, [one.name for one in found.fields]) == ("ns.B", ["id", "price"])
    assert registered(OPTIONAL).name == registered(OPTIONAL, "1").name == "ns.A"
    assert [places(one) for one in (UNION, OPTIONAL, TEXT_A)] == [["0", "1"], ["1"], ("",)]
    with pytest.raises(ConfigError, match="union of 2 records"):
        registered(UNION)


def test_rows_tell_the_branch_that_they_were_written_by() -> None:
    """Behind the id; what is no union has no branch."""
    values = pa.array([*VALUES, NULL, framed(1, b"\4"), b"x"], pa.binary())
    ids = confluent_ids(values)
    found = row_schemas(ids, places_of(values, ids, FRAMED, KNOWN))
    told = [found.of(pa.array([row], pa.int32())) for row in range(len(values))]
    assert told == [["1:0"], ["1:1"], ["2:1"], ["3"], ["4:0"], ["2:0"], ["1"], []]
    plain_ids = confluent_ids(pa.array(VALUES[3:4], pa.binary()))
    assert places_of(pa.array(VALUES[3:4], pa.binary()), plain_ids, FRAMED, KNOWN) is None


def test_a_union_of_many_branches_has_tags_of_two_bytes() -> None:
    """Beyond 64 of them."""
    specs = [record(f"m.R{number}", x="int") for number in range(200)]
    known = KnownSchemas({1: [SchemaText("AVRO", json.dumps(specs))]})
    values = [framed(1, written(number) + written(number * 3)) for number in range(200)]
    form = Avro(FRAMED, known)
    assert types(form, SHORT, [*values])[0] == [f"R{number}" for number in range(200)]
    assert read(form, [*values], x="integer").columns[0].to_pylist() == [number * 3 for number in range(200)]


def test_a_schema_file_of_the_branch_s_name_is_its_reader() -> None:
    """Its defaults and aliases count, as of a record alone."""
    reader = {**A, "fields": [*A["fields"], {"name": "level", "type": "int", "default": 3}]}
    form = replace(files(reader), frame="confluent")
    found = read(Avro(form, KNOWN), VALUES[:2], level="integer")
    assert found.columns[0].to_pylist() == [3, None]


def test_single_objects_and_bare_values_may_be_of_a_union() -> None:
    """By its fingerprint; bare ones by the one union of the files, unless `message` names a record."""
    union: Any = [A, B]
    form = files(union, frame="single_object")
    head = single(union, ("ns.A", {"id": 1, "kind": "x"}))[:10]
    assert types(Avro(form, KnownSchemas()), SHORT, [head + b"\0" + OF_A, head + b"\2" + OF_B])[0] == ["A", "B"]
    assert sorted(registered_files(form)) == ["ns.A", "ns.B"]
    bare = files(A, B, ["ns.A", "ns.B", "null"])
    values: list[bytes | None] = [b"\2" + OF_B, b"\0" + OF_A, b"\4"]
    assert types(Avro(bare, KnownSchemas()), SHORT, values)[0] == ["B", "A", None]
    assert Writers(bare, KnownSchemas()).nulls(pa.array(values, pa.binary())).tolist() == [2]
    named = replace(bare, message="ns.B")
    assert read(Avro(named, KnownSchemas()), [OF_B], id="long").columns[0].to_pylist() == [2]


# --- at random, against fastavro -------------------------------------------------------------------------------


def _union(dice: random.Random) -> list[Any]:
    """A root union: records of random fields, at times a null or a number among them."""
    specs: list[Any] = []
    for number in range(dice.randint(1, 4)):
        spec = json.loads(json.dumps(random_spec(dice, 2)).replace('"R', f'"U{number}R').replace('"N', f'"U{number}N'))
        specs.append(spec)
    specs += dice.sample(["null", "int"], dice.randint(0, 2))
    dice.shuffle(specs)
    return specs


@pytest.mark.parametrize("seed", range(60))
def test_both_readers_say_the_same_of_the_branches_of_random_unions(seed: int) -> None:
    """Which type, which values, which verdict; alone as in a batch. fastavro names the branch of each good one."""
    dice = random.Random(seed)
    union = _union(dice)
    form = Avro(FRAMED, KnownSchemas({1: [SchemaText("AVRO", json.dumps(union))]}))
    theirs = fastavro.parse_schema(json.loads(json.dumps(union).replace("logicalType", "_")))  # what is stored
    bodies = [random_body(dice, union) for _ in range(40)]
    bodies = [damaged(dice, one) if dice.random() < 0.3 else one for one in bodies]
    names, _ = types(form, TypeFrom("schema", "full"), [framed(1, one) for one in bodies])
    found = read(form, [framed(1, one) for one in bodies])
    values = dict(zip(found.rows.to_pylist(), found.rescued.to_pylist(), strict=True))
    for row, body in enumerate(bodies):
        branch = _branch_of(union, body)
        assert names[row] == (branch["name"] if isinstance(branch, dict) else None), (seed, body.hex())
        assert (row in values) == _is_good(branch, union, body), (seed, body.hex(), found.refused.get(row))
        if row in values:
            told: Any = fastavro.schemaless_reader(io.BytesIO(body), theirs, None, return_record_name=True)
            assert told[0] == names[row]
        alone = read(form, [framed(1, body)])
        assert alone.refused.get(0) == found.refused.get(row)
        assert alone.rescued.to_pylist() == ([values[row]] if row in values else [])


def _branch_of(union: list[Any], body: bytes) -> Any:
    """The branch that a body says; None where it says none."""
    found = 0
    for at, byte in enumerate(body[:10]):
        found += byte % 128 << 7 * at
        if byte < 128:
            return union[found // 2] if found % 2 == 0 and found // 2 < len(union) else None
    return None


def _is_good(branch: Any, union: list[Any], body: bytes) -> bool:
    if not isinstance(branch, dict):
        return False
    try:
        value_of(union, body)
    except Bad:
        return False
    return True


def test_columns_of_a_branch_hold_what_the_oracle_reads() -> None:
    """Each row of each branch, in exactly the columns that it gives."""
    for seed in range(30):
        dice = random.Random(seed)
        union = [one for one in _union(dice) if isinstance(one, dict)]
        text = SchemaText("AVRO", json.dumps(union))
        for number, spec in enumerate(union):
            fields = registered(text, str(number)).fields
            columns = text_of(StructType(tuple(fields)))
            form = Avro(FRAMED, KnownSchemas({1: [text]}))
            bodies = [random_body(dice, spec) for _ in range(10)]
            values = pa.array([framed(1, written(number) + one) for one in bodies], pa.binary())
            got = form.reader("order", form.schema(columns, "order"), PLAIN).read(values)
            for at, row in enumerate(got.rows.to_pylist()):
                said = value_of(spec, bodies[row])
                names = [one.name for one in fields]
                mine = {name: plain(column)[at] for name, column in zip(names, got.columns, strict=True)}
                assert comparable(mine) == comparable({name: said[name] for name in names}), seed
