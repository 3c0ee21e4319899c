"""What is NOT NULL, wherever it stands: against a reader that shares no code with the exporter."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from exporter.formats.decoder import Decoder
from exporter.formats.json.format import Json
from tests.support.decoded_rows import codes, rows_of
from tests.unit.formats.test_decoder import PLAIN, TUNINGS, code_of, run, shown
from tests.unit.formats.test_evolved_columns import check_rows, checked

LEAVES: dict[pa.DataType, list[str]] = {
    pa.bool_(): ["true", "false"],
    pa.int32(): ["1", "-7"],
    pa.float64(): ["1.5"],
    pa.string(): ['"x"', '""'],
    pa.timestamp("us", "UTC"): ['"2024-01-05T10:11:12Z"'],
}
OTHER_LEAVES = {
    pa.int8(): "1", pa.int64(): "1", pa.float32(): "1.5", pa.decimal128(10, 2): '"1.5"', pa.binary(): '"AAEC"',
    pa.date32(): '"2024-01-05"', pa.timestamp("us"): '"2024-01-05T10:11:12"',
    pa.list_(pa.bool_()): "[true]", pa.map_(pa.string(), pa.bool_()): '{"a":true}',
}  # fmt: skip
"""And of what a column may be besides: a value."""


@pytest.mark.parametrize("kind", [*LEAVES, *OTHER_LEAVES], ids=str)
@pytest.mark.parametrize("reader", ["any", *TUNINGS])
def test_what_a_null_struct_requires_is_missed_by_nobody(kind: pa.DataType, reader: str) -> None:
    """VERDICT: the record is good; one whose struct is there without it is not. Alone as in a batch."""
    token = OTHER_LEAVES.get(kind) or LEAVES[kind][0]
    required = pa.struct([pa.field("r", kind, nullable=False), ("o", pa.int32())])
    schema = pa.schema([("n", required), ("xs", pa.list_(pa.struct([pa.field("n", required, nullable=False)])))])
    there = f'{{"n":{{"r":{token}}}}}'
    good = ["{}", '{"n":null}', there, '{"xs":[null]}', f'{{"xs":[null,{there}]}}']
    bad = ['{"n":{}}', '{"n":{"r":null}}', '{"xs":[{}]}', '{"xs":[{"n":{}}]}']
    values: list[bytes | None] = [text.encode() for text in (*good, *bad)]
    wanted = ["good"] * len(good) + ["missing_field"] * len(bad)

    def decoder() -> Decoder:
        return Decoder("a", schema, PLAIN, Json(TUNINGS[reader]) if reader in TUNINGS else None)

    batch = run(decoder(), values)
    assert [code_of(batch, row) for row in range(len(values))] == wanted
    alone = [shown(run(decoder(), [value]))[0] for value in values]
    assert shown(batch) == dict(enumerate(alone))


@st.composite
def _kinds(draw: st.DrawFn, depth: int) -> pa.DataType:
    which = draw(st.sampled_from(["leaf", "leaf", "struct", "struct", "list", "map"] if depth else ["leaf"]))
    if which == "leaf":
        return draw(st.sampled_from([*LEAVES]))
    nullable = draw(st.booleans())
    if which == "struct":
        return pa.struct(draw(_fields(depth - 1)))
    inner = draw(_kinds(depth - 1))
    if which == "list":
        return pa.list_(pa.field("element", inner, nullable=nullable))
    return pa.map_(pa.string(), pa.field("value", inner, nullable=nullable))


@st.composite
def _fields(draw: st.DrawFn, depth: int) -> list[pa.Field]:
    """Of a struct or of a record: at least half of them are required."""
    return [
        pa.field(f"c{number}", draw(_kinds(depth)), nullable=draw(st.booleans()) and draw(st.booleans()))
        for number in range(draw(st.integers(1, 3)))
    ]


def _text(draw: Any, kind: pa.DataType, nulls: int) -> str:
    """A value that fits, but that something in it may be null or missing. nulls: of so many one."""
    if draw(st.integers(1, nulls)) == 1:
        return "null"
    if pa.types.is_struct(kind):
        there = [field for field in kind if draw(st.integers(0, nulls))]
        return "{" + ",".join(f'"{one.name}":{_text(draw, one.type, nulls)}' for one in there) + "}"
    if pa.types.is_list(kind):
        return "[" + ",".join(_text(draw, kind.value_type, nulls) for _ in range(draw(st.integers(0, 2)))) + "]"
    if pa.types.is_map(kind):
        keys = ["a", "b"][: draw(st.integers(0, 2))]
        return "{" + ",".join(f'"{key}":{_text(draw, kind.item_type, nulls)}' for key in keys) + "}"
    return str(draw(st.sampled_from(LEAVES[kind])))


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_record_is_refused_for_what_is_required_and_nothing_else(data: st.DataObject) -> None:
    """VERDICT: as the other reader says, and with its columns; alone, by the judge, and in a batch."""
    schema = pa.schema(data.draw(_fields(3)))
    record = pa.struct(list(schema))
    nulls = data.draw(st.sampled_from([3, 6, 30]))
    texts = [_text(data.draw, record, nulls) for _ in range(4)]
    values = [text.encode() for text in texts if text != "null"]
    for form in (Json(), Json(TUNINGS["judge"])):
        batch = checked(schema, values, form)
        check_rows(schema, values, batch)
        assert {*codes(rows_of(batch))} <= {"", "missing_field"}, (values, schema)
