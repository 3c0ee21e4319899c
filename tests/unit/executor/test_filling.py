"""Rows whose columns came later: filled they are what they had been if the columns had been there from the start."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from exporter.core.fillable import fillable_columns
from exporter.core.routing import EventTime, Routing, TypeFrom
from exporter.core.shapes import Shape
from exporter.core.value_format import ValueFormat
from exporter.executor.filling import Filler, FillOrder
from exporter.formats.decoder import Decoder
from exporter.proof.contents.compare import Configured
from exporter.stores.file_rows import in_columns

TIME = datetime(2026, 11, 1, tzinfo=timezone.utc)
KAFKA = pa.timestamp("us", "UTC")
WORDS = ["", "a", "10", "2026-01-31", "2026-01-31T12:00:00Z", "1.5", "ü\u2028\"", "MTI="]


def routing(columns: Mapping[str, str], **more: Any) -> Routing:
    """Of the type `t`, which stands in the topic's name. columns: name -> Spark's type, as JSON text."""
    return Routing(
        type_from=TypeFrom("topic"), event_time=EventTime("record"), types=(("t", struct(columns)),),
        unknown_fields="rescue", new_type="dead_letter", isolation="read_committed", record_bytes_max=1 << 20,
        event_time_min_us=0, event_time_ahead_max_secs=86_400, generation=1, **more,
    )  # fmt: skip


def struct(columns: Mapping[str, str]) -> str:
    """As Spark writes it."""
    fields = [
        {"name": name, "type": json.loads(kind), "nullable": True, "metadata": {}} for name, kind in columns.items()
    ]
    return json.dumps({"type": "struct", "fields": fields})


def table_of(columns: Mapping[str, str]) -> str:
    """A table's schema."""
    own = {"_kafka": struct({"topic": '"string"'}), "_event_time": '"timestamp"'}
    return struct({**own, **columns, "_rescued": '"string"', "day": '"date"'})


def decoded(values: list[bytes], columns: Mapping[str, str]) -> tuple[pa.Table, list[int]]:
    """The rows of a table with these columns, and the numbers of the values that they are of."""
    stamps = pa.array([TIME] * len(values), KAFKA)
    found = Decoder.of("t", routing(columns), json_text="canonical").decode(pa.array(values, pa.binary()), stamps)
    return found.table, found.good.to_pylist()


def filler(was: Mapping[str, str], now: Mapping[str, str], **more: Any) -> tuple[Filler, pa.Schema]:
    """For a table whose columns are those of now, and the columns of its rows as they were staged before."""
    columns = fillable_columns(routing(now, **more), "t", table_of(now), ("day",))
    schema = Decoder.of("t", routing(now)).decode(pa.array([], pa.binary()), pa.array([], KAFKA)).table.schema
    return Filler(FillOrder("t", columns, routing(now, **more), keeps_empty=True)), schema


def widened(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows as their table has them once it has further columns."""
    return in_columns(rows, schema, rows.num_rows)


ODD: list[Any] = [
    0, 7, -1, 2**40, 2**70, 1.5, 0.1, 1e300, True, *WORDS, [], {}, [1, "x"], {"b": 1, "z": [{}]},
]  # fmt: skip
KINDS = {
    "long": '"long"', "int": '"integer"', "double": '"double"', "text": '"string"', "flag": '"boolean"',
    "date": '"date"', "time": '"timestamp"', "dec": '"decimal(6,2)"', "bin": '"binary"', "float": '"float"',
}  # fmt: skip


def kind(rng: Random, depth: int) -> Any:
    """A type, as JSON has it."""
    if depth and (drawn := rng.random()) < 0.45:
        if drawn < 0.25:
            names = rng.sample("abcd", rng.randint(1, 3))
            return json.loads(struct({name: json.dumps(kind(rng, depth - 1)) for name in names}))
        return {"type": "array", "containsNull": True, "elementType": kind(rng, depth - 1)}
    return json.loads(rng.choice([*KINDS.values()]))


def less(rng: Random, of: Any) -> Any | None:
    """What a type may have been before it grew: fields of structs are not there, or all of it."""
    if rng.random() < 0.35:
        return None
    if isinstance(of, dict) and of["type"] == "struct":
        fields = [{**one, "type": was} for one in of["fields"] if (was := less(rng, one["type"])) is not None]
        return {**of, "fields": fields} if fields else None
    if isinstance(of, dict):
        was = less(rng, of["elementType"])
        return None if was is None else {**of, "elementType": was}
    return of


def value(rng: Random, of: Any, depth: int = 3) -> Any:
    """A value, most often one of the type."""
    drawn = rng.random()
    if drawn < 0.1:
        return None
    if drawn < 0.25 or not depth:
        return rng.choice(ODD)
    if isinstance(of, dict) and of["type"] == "struct":
        names = {one["name"]: one["type"] for one in of["fields"]}
        some = {name: value(rng, one, depth - 1) for name, one in names.items() if rng.random() < 0.8}
        return some | ({"z": rng.choice([1, {"y": 2}])} if rng.random() < 0.2 else {})
    if isinstance(of, dict):
        return [value(rng, of["elementType"], depth - 1) for _ in range(rng.randint(0, 3))]
    return {
        "long": 2**40, "integer": 7, "double": 0.1, "float": 0.5, "string": rng.choice(WORDS), "boolean": False,
        "date": "2026-01-31", "timestamp": "2026-01-31T12:00:00.123456+01:00", "binary": "MTI=",
    }.get(of, 12.25)  # fmt: skip


def case(seed: int) -> tuple[dict[str, str], dict[str, str], list[bytes]]:
    """Columns before, columns now, and values."""
    rng = Random(seed)
    kinds = {f"c{number}": kind(rng, 3) for number in range(rng.randint(1, 4))}
    was = {name: one for name, of in kinds.items() if (one := less(rng, of)) is not None}
    values = [{name: value(rng, of) for name, of in kinds.items() if rng.random() < 0.9} for _ in range(12)]
    texts = [json.dumps({**one, "extra": rng.choice([1, None, "x"])}, ensure_ascii=False).encode() for one in values]
    return {n: json.dumps(k) for n, k in was.items()}, {n: json.dumps(k) for n, k in kinds.items()}, texts


@pytest.mark.parametrize("seed", range(60))
def test_filled_rows_hold_their_document_and_are_as_if_the_columns_had_been_there(seed: int) -> None:
    """By the audit's own reading, and by that of an export. A row alone is filled as it is among others."""
    was, now, values = case(seed)
    rows, numbers = decoded(values, was)
    fill, schema = filler(was, now)
    before = widened(rows, schema)
    topics = pa.array(["t"] * len(before), pa.string())
    done = fill.fill(before, topics)
    assert done.rows.schema == before.schema and done.rows.num_rows == before.num_rows
    fresh, good = decoded(values, now)
    expected = dict(zip(good, fresh.to_pylist(), strict=True))
    configured = Configured.of(routing(was), "t", table_of(now), [struct(now)])
    for at, (row, number) in enumerate(zip(done.rows.to_pylist(), numbers, strict=True)):
        columns = {name: plain(row[name]) for name in now}
        assert configured.differences(values[number], columns, row["_rescued"], None) == []
        if number in expected:
            assert said(row) == said(expected[number]), values[number]
        alone = fill.fill(before.slice(at, 1), topics.slice(at, 1)).rows
        assert alone.to_pylist() == [row]
    again = fill.fill(done.rows, topics)
    assert not again.filled.any() and again.rows is done.rows


def said(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row, and of its `_rescued` what says anything."""
    return {**row, "_rescued": row["_rescued"] and spoken(json.loads(row["_rescued"], parse_float=Decimal))}


def spoken(one: Any) -> Any:
    """Without members that are empty; None if nothing is left."""
    if isinstance(one, dict):
        return {name: inner for name, of in one.items() if (inner := spoken(of)) is not None} or None
    if isinstance(one, list):
        items = [spoken(of) for of in one]
        return items if any(of is not None for of in items) else None
    return one


def plain(one: Any) -> Any:
    """A value as the audit has it."""
    if isinstance(one, dict):
        return {name: plain(inner) for name, inner in one.items()}
    if isinstance(one, list):
        return [plain(inner) for inner in one]
    if isinstance(one, datetime):
        return (one - datetime(1970, 1, 1, tzinfo=timezone.utc)) // timedelta(microseconds=1)
    return one.toordinal() - date(1970, 1, 1).toordinal() if isinstance(one, date) else one


AVRO = ValueFormat("avro", frame="confluent")


@pytest.mark.parametrize(
    ("kind", "text", "filled"),
    [
        ("long", "7", 7), ("long", "7.0", None), ("double", "0.5", 0.5), ("double", "0.1", None),
        ("double", "0.12345678901234566", 0.12345678901234566), ("text", '"a"', "a"),
        ("text", '"__debezium_unavailable_value"', None), ("bin", '"MTI="', b"12"), ("bin", '"x"', None),
        ("time", '"2026-01-31T12:00:00.000000Z"', datetime(2026, 1, 31, 12, tzinfo=timezone.utc)),
        ("time", '"2026-01-31T12:00:00Z"', None), ("dec", "1.50", Decimal("1.50")), ("dec", "1.5", None),
        ("date", '"2026-01-31"', date(2026, 1, 31)),
    ],
)  # fmt: skip
def test_values_of_other_formats_are_taken_only_if_they_are_surely_the_same(kind: str, text: str, filled: Any) -> None:
    """0.1 may have been a FLOAT, which is another number as a DOUBLE; and a text may stand for what was not sent."""
    fill, schema = filler({}, {"c": KINDS[kind]}, value_format=AVRO)
    rescued = f'{{"c":{text},"d":1}}'
    before = widened(pa.table({"_rescued": [rescued]}), schema)
    (row,) = fill.fill(before, pa.array(["t"])).rows.to_pylist()
    assert (row["c"], row["_rescued"]) == ((filled, '{"d":1}') if filled is not None else (None, rescued))


def test_what_rules_make_and_what_users_add_is_not_filled() -> None:
    """Nor what the exporter writes itself, nor what cuts the table."""
    now = dict.fromkeys(("a", "k", "moved", "made", "kept"), '"long"')
    shape = Shape(struct(dict.fromkeys(("a", "kept", "from"), '"long"')), names=(("moved", ("from",)),))
    table = table_of({**now, "theirs": '"long"'})
    columns = fillable_columns(routing(now, shapes=(("t", shape),)), "t", table, ("day", "a"))
    assert [*columns] == ["kept"]
