"""Random records of random types, read as random columns: what an oracle of plain Python says is what is read."""

from __future__ import annotations

import math
from decimal import Decimal
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from exporter.core.routing import EventTime, Routing, TypeFrom
from exporter.formats.evolving import never_refusing
from exporter.formats.format import Read
from exporter.formats.marks import JSON_MARK, bare, declared_only, evolved_mark, is_evolved
from exporter.formats.typed.asked import TypedAsked
from exporter.formats.typed.fit import Fit
from exporter.formats.typed.typed import Typed
from tests.support import fit_oracle as oracle

NAME = "order"
PLAIN = Routing(TypeFrom("topic"), EventTime("record"), ())
TYPED = Routing(TypeFrom("json", "t"), EventTime("json", "m.at", "ms"), ())
SCALARS = (
    pa.string(), pa.string(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.bool_(),
    pa.binary(), pa.date32(), pa.timestamp("us", "UTC"), pa.timestamp("us"), pa.decimal128(4, 2),
    pa.decimal128(20, 0), pa.decimal128(38, 12),
)  # fmt: skip
LARGE = (0, 1, -1, 127, -129, 2**24 + 1, 2**31, 2**53 + 1, -(2**53) - 1, 2**62 + 1, 2**63 - 1, -(2**63))


def a_type(draw: Random, depth: int) -> pa.DataType:
    """A writer's type."""
    kind = draw.randrange(8)
    if depth and kind == 0:
        return pa.struct([(name, a_type(draw, depth - 1)) for name in draw.sample("abx", draw.randrange(1, 4))])
    if depth and kind == 1:
        return pa.list_(pa.field("element", a_type(draw, depth - 1)))
    if depth and kind == 2:
        return pa.map_(pa.string(), pa.field("value", a_type(draw, depth - 1)))
    return pa.null() if draw.random() < 0.03 else draw.choice(SCALARS)


def a_value(draw: Random, kind: pa.DataType) -> Any:
    """A value of a type, as the oracle has it; often null."""
    types = pa.types
    if draw.random() < 0.15 or types.is_null(kind):
        return None
    if types.is_struct(kind):
        return {one.name: a_value(draw, one.type) for one in kind}
    if types.is_list(kind):
        return [a_value(draw, kind.value_type) for _ in range(draw.randrange(4))]
    if types.is_map(kind):
        return [(key, a_value(draw, kind.item_type)) for key in draw.sample(["k", 'q"', "\u00e9\n"], draw.randrange(4))]
    if types.is_integer(kind):
        fits = [one for one in LARGE if -(2 ** (kind.bit_width - 1)) <= one < 2 ** (kind.bit_width - 1)]
        return draw.choice(fits)
    if types.is_floating(kind):
        number = draw.choice([0.0, -0.0, 1.5, 0.1, 1e20, 1e-7, 1e16, 3e38, 1e300, 16777217.0, math.inf, math.nan])
        return oracle.rounded(number, kind)
    if types.is_decimal(kind):
        digits = draw.randrange(-(10 ** draw.randrange(1, kind.precision + 1)) + 1, 10**kind.precision)
        return Decimal(digits).scaleb(-kind.scale, oracle.WIDE)
    if types.is_date(kind):
        return draw.choice([0, 20_000, -719_162, 2_932_896, -719_163, 2_932_897, 10**8])
    if types.is_timestamp(kind):
        return draw.choice([0, 1_769_860_800_000_001, -62_135_596_800_000_000, 253_402_300_800_000_000, 2**62])
    if types.is_boolean(kind):
        return draw.random() < 0.5
    text = draw.choice(["", "x", 'a"b\\', "\u00e9\t\x01\x7f", "5"])
    return text.encode() + b"\xff" if types.is_binary(kind) else text


def a_field(draw: Random, name: str, kind: pa.DataType, depth: int, free: bool = False) -> pa.Field:
    """A wanted field, of a writer's type or of another."""
    marks: dict[bytes, bytes] = {}
    if name not in ("element", "value") and draw.random() < 0.3:
        marks |= evolved_mark("t/0/1")
        free = True
    if draw.random() < 0.1:
        return pa.field(name, pa.string(), free or draw.random() < 0.8, metadata={**marks, **JSON_MARK})
    target = draw.choice(SCALARS) if draw.random() < 0.15 else wanted_type(draw, kind, depth, free)
    target = draw.choice(SCALARS) if pa.types.is_null(target) else target
    return pa.field(name, target, free or draw.random() < 0.85, metadata=marks or None)


def wanted_type(draw: Random, kind: pa.DataType, depth: int, free: bool) -> pa.DataType:
    if pa.types.is_struct(kind):
        inside = wanted_fields(draw, kind, depth, free)
        declared = free or any(not is_evolved(one) for one in inside)
        return pa.struct(inside if inside and declared else [*inside, pa.field("y", pa.int64())])
    if pa.types.is_list(kind):
        return pa.list_(a_field(draw, "element", kind.value_type, depth, free))
    if pa.types.is_map(kind):
        return pa.map_(pa.string(), a_field(draw, "value", kind.item_type, depth, free))
    if pa.types.is_integer(kind) and draw.random() < 0.5:
        return draw.choice([pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.decimal128(20, 0)])
    if pa.types.is_decimal(kind) and draw.random() < 0.3:
        return draw.choice([pa.decimal128(38, 12), pa.decimal128(22, 2), pa.decimal128(6, 1)])
    return pa.float64() if kind == pa.float32() and draw.random() < 0.5 else kind


def wanted_fields(draw: Random, kind: pa.DataType, depth: int, free: bool = False) -> list[pa.Field]:
    there = [a_field(draw, one.name, one.type, depth, free) for one in kind if draw.random() < 0.75]
    more = [a_field(draw, "z", draw.choice(SCALARS), depth, free)] if draw.random() < 0.3 else []
    draw.shuffle(there)
    return there + more


def a_record_type(draw: Random) -> pa.DataType:
    fields = [(name, a_type(draw, 3)) for name in draw.sample("abcdef", draw.randrange(1, 6))]
    if draw.random() < 0.8:
        fields.append(("t", pa.string() if draw.random() < 0.9 else pa.int64()))
    if draw.random() < 0.8:
        at = draw.choice([pa.int64(), pa.int64(), pa.int32(), pa.timestamp("us", "UTC"), pa.date32(), pa.bool_()])
        fields.append(("m", draw.choice([pa.struct([("at", at), ("u", pa.int32())]), pa.struct([("at", at)]), at])))
    draw.shuffle(fields)
    return pa.struct(fields)


def a_record(draw: Random, kind: pa.DataType) -> dict[str, Any]:
    record = {one.name: a_value(draw, one.type) for one in kind}
    if isinstance(record.get("t"), str) and draw.random() < 0.8:
        record["t"] = NAME
    return record


def read(fit: Fit, record: pa.DataType, values: list[dict[str, Any]]) -> Read:
    return fit.read(Typed(np.arange(len(values)) * 2, oracle.arrow(values, record)))


def shown(found: Read, schema: pa.Schema) -> dict[int, Any]:
    """Per record its columns, unknown fields and event time, or the code and path of its reason."""
    columns = [oracle.plain(column) for column in found.columns]
    assert [column.type for column in found.columns] == [bare(field.type) for field in schema]
    times = [None] * len(found.rows) if found.time is None else found.time.cast(pa.int64()).to_pylist()
    rows = {}
    for at, row in enumerate(found.rows.to_pylist()):
        held = {field.name: _told(field, column[at]) for field, column in zip(schema, columns, strict=True)}
        rest = found.rescued[at].as_py()
        told = "none" if rest is None else oracle.dumped(oracle.parsed(rest))
        rows[row] = (repr(held), told, found.ignored[at].as_py(), times[at])
    reasons = {row: " ".join(reason.split(" ")[:2]).rstrip(":") for row, reason in found.refused.items()}
    return {**rows, **reasons}


def _told(field: pa.Field, value: Any) -> Any:
    """A column's value with each JSON text in one spelling."""
    types = pa.types
    if value is None:
        return None
    if oracle.marked(field, "json"):
        return oracle.dumped(oracle.parsed(value))
    if types.is_struct(field.type):
        return {one.name: _told(one, value[one.name]) for one in field.type}
    if types.is_list(field.type):
        return [_told(field.type.value_field, one) for one in value]
    return [(key, _told(field.type.item_field, one)) for key, one in value] if types.is_map(field.type) else value


def expected(record: dict[str, Any], kind: pa.DataType, schema: pa.Schema, routing: Routing) -> Any:
    """What the oracle says."""
    typed, policy = routing.type_from.kind == "json", routing.unknown_fields
    known = [("t",), ("m", "at")] if typed else []
    fields = [*(schema if policy == "rescue" else declared_only(schema))]
    try:
        if typed and oracle.never(kind, pa.struct(fields), False) is None:
            _check_types(kind)
        found = oracle.read(record, kind, fields, known)
        time = _time_of(record, kind) if typed else None
        if typed and record.get("t") != NAME:
            raise oracle.Refused("type_mismatch", "the")
        if policy == "dead_letter" and found.paths and fields:
            raise oracle.Refused("unknown_field", found.paths[0])
    except oracle.Refused as bad:
        return f"{bad.code}: {bad.path}"
    rest = oracle.as_json(record, kind) if not fields else found.unknown
    kept = "none" if rest is oracle.NO or (policy != "rescue" and fields) else oracle.dumped(rest)
    columns = {field.name: _widened(field.type, found.columns.get(field.name)) for field in schema}
    ignored = (len(found.paths) or None) if policy == "ignore" and fields else None
    return repr(columns), kept, ignored, time


def _widened(kind: pa.DataType, value: Any) -> Any:
    """A value with null for the fields that are not read."""
    if value is None or not pa.types.is_nested(kind):
        return value
    if pa.types.is_struct(kind):
        return {one.name: _widened(one.type, value.get(one.name)) for one in kind}
    if pa.types.is_list(kind):
        return [_widened(kind.value_type, one) for one in value]
    return [(key, _widened(kind.item_type, one)) for key, one in value]


def _check_types(kind: pa.DataType) -> None:
    """Whether an event type and an event time may stand where they are looked for."""
    at = kind.get_field_index("t")
    if at >= 0 and kind.field(at).type != pa.string():
        raise oracle.Refused("unresolvable_schema", "$.t")
    at = kind.get_field_index("m")
    if at >= 0 and not pa.types.is_struct(kind.field(at).type):
        raise oracle.Refused("unresolvable_schema", "$.m")
    if at >= 0 and pa.types.is_boolean(kind.field(at).type.field(0).type):
        raise oracle.Refused("unresolvable_schema", "$.m.at")


def _time_of(record: dict[str, Any], kind: pa.DataType) -> int | None:
    """The event time as a number; a date's is in microseconds."""
    sent: int | None = oracle.at(record, ("m", "at"))
    is_date = sent is not None and pa.types.is_date(kind.field("m").type.field(0).type)
    return sent * 86_400_000_000 if sent is not None and is_date else sent


def unresolvable_first(said: list[Any]) -> list[Any]:
    """What the writer's type says of one record it says of all."""
    first = next((one for one in said if isinstance(one, str) and one.startswith("unresolvable")), None)
    return said if first is None else [first] * len(said)


@pytest.mark.parametrize("policy", ["rescue", "ignore", "dead_letter"])
@pytest.mark.parametrize("routing", [PLAIN, TYPED], ids=["plain", "typed"])
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32))
def test_any_record_is_read_as_the_oracle_says(policy: Any, routing: Routing, seed: int) -> None:
    """Columns, unknown fields, event time, counts and refusals; alone as in a batch, and from within an array."""
    draw = Random(seed)
    kind = a_record_type(draw)
    wanted = [one for one in wanted_fields(draw, kind, 3) if one.name not in ("t", "m") or is_evolved(one)]
    schema = pa.schema(wanted if draw.random() < 0.95 else [])
    config = Routing(routing.type_from, routing.event_time, (), policy)
    records = [a_record(draw, kind) for _ in range(draw.randrange(1, 9))]
    fit = Fit(kind, TypedAsked.by(NAME, schema, config))
    found = shown(read(fit, kind, records), schema)
    said = unresolvable_first([expected(one, kind, schema, config) for one in records])
    assert [found[row * 2] for row in range(len(records))] == said
    alone = [shown(read(fit, kind, [one]), schema)[0] for one in records]
    assert alone == said
    array = oracle.arrow([records[-1], *records, records[0]], kind).slice(1, len(records))
    inside = fit.read(Typed(np.arange(len(records)) * 2, array))
    assert shown(inside, schema) == found


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32))
def test_what_nobody_declared_changes_no_verdict(seed: int) -> None:
    """VERDICT: with such columns the same records are good, and the others bad for the same reason."""
    draw = Random(seed)
    kind = a_record_type(draw)
    schema = pa.schema([one for one in wanted_fields(draw, kind, 3) if one.name not in ("t", "m")])
    records = [a_record(draw, kind) for _ in range(draw.randrange(1, 9))]
    config = draw.choice([PLAIN, TYPED])
    grown = read(Fit(kind, TypedAsked.by(NAME, schema, config)), kind, records)
    plain = read(Fit(kind, TypedAsked.by(NAME, declared_only(schema), config)), kind, records)
    assert (grown.rows, grown.refused) == (plain.rows, plain.refused)


class _Values:
    """A reader of the numbers of records."""

    def __init__(self, fit: Fit, records: pa.StructArray) -> None:
        self._fit, self._records = fit, records

    def read(self, values: pa.BinaryArray) -> Read:
        """Each value is the number of a record."""
        at = pa.array([int(one) for one in values.to_pylist()], pa.int64())
        return self._fit.read(Typed(np.arange(len(at)), self._records.take(at)))


def test_readers_of_all_columns_and_of_the_declared_ones_agree() -> None:
    """What decoder.py puts around a format's reader finds nothing to say."""
    kind = pa.struct([("a", pa.string()), ("b", pa.int64())])
    schema = pa.schema([pa.field("a", pa.int64(), metadata=evolved_mark("t/0/1")), pa.field("b", pa.float64())])
    records = oracle.arrow([{"a": "x", "b": 1}, {"a": None, "b": 2**53 + 1}], kind)
    made = never_refusing(lambda one: _Values(Fit(kind, TypedAsked.by(NAME, one, PLAIN)), records), schema)
    found = made.read(pa.array([b"0", b"1"]))
    assert found.refused == {1: f"inexact: $.b = {2**53 + 1} would be rounded"}
    assert (found.rescued.to_pylist(), [one.to_pylist() for one in found.columns]) == (['{"a":"x"}'], [[None], [1.0]])
