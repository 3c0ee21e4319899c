"""What no column can hold refuses nothing: it is kept in `_rescued`, by the name of its branch, and bounded."""

from __future__ import annotations

import json
import random
from typing import Any

import pyarrow as pa
import pytest

from exporter.column.spark_json import field_of, text_of
from exporter.column.types import StructType
from exporter.core.routing import EventTime, Routing, TypeFrom
from exporter.core.schemas import KnownSchemas, SchemaText
from exporter.core.value_format import ValueFormat
from exporter.formats.avro.format import Avro
from exporter.formats.avro.nested import FEW
from exporter.formats.format import Read
from exporter.formats.registered import registered
from tests.support.avro_oracle import damaged, written
from tests.unit.formats.avro.test_avro_format import framed, record

EMPTY = {"type": "record", "name": "n.Empty", "fields": []}
TREE = record("Tree", v="int", below={"type": "array", "items": "Tree"}, next=["null", "Tree"])


def read(spec: Any, bodies: list[bytes], columns: Any = None, **more: Any) -> Read:
    """In exactly the columns that the schema gives, unless others are given."""
    text = SchemaText("AVRO", json.dumps(spec))
    form = Avro(ValueFormat("avro", "confluent"), KnownSchemas({1: [text]}))
    fields = tuple(registered(text).fields if columns is None else map(field_of, columns))
    schema = form.schema(text_of(StructType(fields)), "t") if fields else pa.schema([])
    routing = Routing(TypeFrom("topic"), EventTime("record"), (), **more)
    return form.reader("t", schema, routing).read(pa.array([framed(1, one) for one in bodies], pa.binary()))


def test_a_branch_without_fields_is_kept_by_its_name() -> None:
    """Beside others, whose columns are as ever; alone beside null it is what its field has."""
    inside = record("In", a="int")
    spec = record("R", x=["null", inside, EMPTY], y=["null", "n.Empty"], id="long")
    text = SchemaText("AVRO", json.dumps(spec))
    found = registered(text)
    assert [one.name for one in found.fields] == ["x", "id"]
    assert found.refused["$.x.member_empty"] == found.refused["$.y"] == "a record without fields"
    got = read(spec, [b"\2\4\0\2", b"\4\2\4", b"\0\2\6", b"\4\0\x08"])
    assert not got.refused
    assert got.columns[0].to_pylist() == [{"member_in": {"a": 2}}, {"member_in": None}, None, {"member_in": None}]
    empty = '{"x":{"member_empty":{}}}'
    assert got.rescued.to_pylist() == [None, empty[:-1] + ',"y":{}}', '{"y":{}}', empty]


def test_of_branches_with_one_name_the_first_has_the_column() -> None:
    """The others are kept by their full names: a name in a table ignores namespace and case."""
    same = [{"type": "record", "name": f"{space}.Same", "fields": [{"name": "x", "type": "int"}]} for space in "ab"]
    same.append({"type": "fixed", "name": "a.SAME", "size": 1})
    got = read(record("R", x=same), [b"\0\2", b"\2\4", b"\4z"])
    assert got.columns[0].to_pylist() == [{"member_same": {"x": 1}}, {"member_same": None}, {"member_same": None}]
    assert got.rescued.to_pylist() == [None, '{"x":{"member_b.Same":{"x":2}}}', '{"x":{"member_a.SAME":"eg=="}}']


def test_a_record_in_itself_is_read_level_by_level() -> None:
    """The outer one has columns; what is inside is JSON, in lists and branches, as deep as it goes."""
    leaf = written(3) + b"\0\0"
    got = read(TREE, [written(1) + b"\4" + leaf + written(4) + b"\2" + leaf + b"\0\0\0\2" + leaf, leaf])
    assert not got.refused and [column.to_pylist() for column in got.columns] == [[1, 3]]
    told = [None if one is None else json.loads(one) for one in got.rescued.to_pylist()]
    small = {"v": 3, "below": []}
    assert told == [{"below": [small, {"v": 4, "below": [small]}], "next": small}, {"below": []}]


def test_a_column_for_any_json_takes_it() -> None:
    """Declared or evolved; with other policies it is an unknown field as any other."""
    spec = record("R", id="int", x=["null", EMPTY])
    json_column = [{"name": "x", "type": "string", "nullable": True, "metadata": {"exporter.json": "."}}]
    assert read(spec, [b"\2\2", b"\2\0"], json_column).columns[0].to_pylist() == ["{}", None]
    id_column = [{"name": "id", "type": "integer", "nullable": True, "metadata": {}}]
    ignored = read(spec, [b"\2\2", b"\2\0"], id_column, unknown_fields="ignore")
    assert ignored.ignored.to_pylist() == [1, None]
    refused = read(spec, [b"\2\2", b"\2\0"], id_column, unknown_fields="dead_letter")
    assert refused.refused == {0: "unknown_field: $.x"}
    declared = [{**id_column[0], "name": "x"}]
    never = read(spec, [b"\2\2", b"\2\0"], declared)
    assert never.refused[0].startswith("unresolvable_schema: id 1: $.x: the writer has what no column can hold")


def nested(levels: int) -> bytes:
    """A tree that is one chain."""
    return b"".join(written(1) + b"\0\2" for _ in range(levels)) + written(2) + b"\0\0"


@pytest.mark.parametrize("beside", [0, 2 * FEW])
def test_how_deep_a_record_is_in_itself_is_bounded(beside: int) -> None:
    """As is how often it is there in one value; of each row by itself."""
    got = read(TREE, [nested(50), nested(51), nested(0)] + [nested(3)] * beside)
    assert got.refused == {1: "too_deep: $.next is nested too deep"}
    many = written(1) + written(200_000) + (written(5) + b"\0\0") * 200_000 + b"\0\0"
    assert read(TREE, [many, nested(1)] + [nested(3)] * beside).refused == {
        0: "too_big: $.below brings the items of one record above what is taken"
    }


def _tree(dice: random.Random, depth: int) -> bytes:
    count = dice.choice((0, 0, 1, 3)) if depth else 0
    below = (written(count) + b"".join(_tree(dice, depth - 1) for _ in range(count)) if count else b"") + b"\0"
    then = b"\2" + _tree(dice, depth - 1) if depth and dice.random() < 0.5 else b"\0"
    return written(dice.randrange(-100, 100)) + below + then


def test_damaged_trees_are_refused_alone_as_in_a_batch() -> None:
    """With the same reason, and the same text of those that are good."""
    for seed in range(25):
        dice = random.Random(seed)
        bodies = [_tree(dice, 4) for _ in range(60)]
        bodies = [damaged(dice, one) if dice.random() < 0.4 else one for one in bodies]
        whole = read(TREE, bodies, ())
        texts = dict(zip(whole.rows.to_pylist(), whole.rescued.to_pylist(), strict=True))
        for row in dice.sample(range(60), 10):
            alone = read(TREE, [bodies[row]], ())
            assert (alone.refused.get(0), alone.rescued.to_pylist()) == (
                whole.refused.get(row), [texts[row]] if row in texts else [],
            ), (seed, bodies[row].hex())  # fmt: skip


def test_what_is_nested_too_deep_for_a_column_is_kept() -> None:
    """Below it all is as ever."""
    kind: Any = "int"
    for _ in range(60):
        kind = {"type": "array", "items": kind}
    spec = record("R", id="int", x=kind)
    assert [one.name for one in registered(SchemaText("AVRO", json.dumps(spec))).fields] == ["id"]
    got = read(spec, [b"\2" + b"\2" * 60 + b"\6" + b"\0" * 60, b"\2\0"])
    assert got.rescued.to_pylist() == [f'{{"x":{"[" * 60}3{"]" * 60}}}', '{"x":[]}']
