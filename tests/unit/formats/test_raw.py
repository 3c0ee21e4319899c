"""Text and bytes: each value is one column as it is, or a dead letter that says why not."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from exporter.core.columns import EVOLVED, NO_COLUMNS
from exporter.core.routing import RAW_COLUMNS, EventTime, Routing, TypeFrom
from exporter.core.value_format import ValueFormat
from exporter.errors import ConfigError
from exporter.formats.decoded import DecodedBatch
from exporter.formats.decoder import Decoder
from exporter.formats.formats import format_of

US = pa.timestamp("us", "UTC")
NOT_TEXT = b"a\xff"
VALUES = [b"", b"abc", "\u00e9\u4e16".encode(), None, NOT_TEXT, b"\0\x01"]
TIMES = [1_790_000_000_000_000 + row for row in range(len(VALUES))]


def columns(*fields: tuple[str, str], nullable: bool = True, evolved: bool = False) -> str:
    metadata = {EVOLVED: "t/0/1"} if evolved else {}
    return json.dumps({"type": "struct", "fields": [
        {"name": name, "type": kind, "nullable": nullable, "metadata": metadata} for name, kind in fields
    ]})  # fmt: skip


def decoded(kind: Any, wanted: str | None = None, values: list[bytes | None] = VALUES, **given: Any) -> DecodedBatch:
    routing = Routing(TypeFrom("topic"), EventTime("record"), (), value_format=ValueFormat(kind), **given)
    decoder = Decoder.of("log", routing, wanted)
    return decoder.decode(pa.array(values, pa.binary()), pa.array(TIMES[: len(values)], US))


def shown(found: DecodedBatch, *names: str) -> dict[int, Any]:
    """Per input row its columns, or why it has none."""
    cells = zip(*(found.table[name].to_pylist() for name in names), strict=True)
    return dict(zip(found.good.to_pylist(), cells, strict=True)) | {row: why for row, _, why in found.bad}


def test_bytes_are_a_column_as_they_are() -> None:
    """Also what is no text, and what is empty; only a null is none."""
    found = shown(decoded("bytes"), "value", "_rescued")
    assert found == {
        **{row: (value, None) for row, value in enumerate(VALUES) if value is not None},
        3: "tombstone: the value is null",
    }


def test_text_is_a_column_if_it_is_utf_8() -> None:
    """What is not is told with its first byte that is not, and its neighbours are rows."""
    found = shown(decoded("string"), "value")
    assert found == {
        0: ("",), 1: ("abc",), 2: ("\u00e9\u4e16",), 3: "tombstone: the value is null",
        4: "not_utf8: byte 1 of the value", 5: ("\0\x01",),
    }  # fmt: skip
    assert [shown(decoded("string", values=[value]), "value") for value in VALUES] == [
        {0: found[row]} for row in range(len(VALUES))
    ]


def test_the_event_time_is_that_of_the_record() -> None:
    """A value that nobody looks into has no time of its own."""
    assert decoded("bytes").table["_event_time"].cast(pa.int64()).to_pylist() == [
        at for at, value in zip(TIMES, VALUES, strict=True) if value is not None
    ]


def test_the_column_may_be_declared_as_the_other_one() -> None:
    """Bytes as text are checked, text as bytes too: the kind says what a value is."""
    assert shown(decoded("bytes", columns(("value", "string"))), "value")[4] == "not_utf8: byte 1 of the value"
    found = shown(decoded("string", columns(("value", "binary"))), "value")
    assert (found[1], found[4]) == ((b"abc",), "not_utf8: byte 1 of the value")


def test_a_table_without_the_column_keeps_the_value_in_rescued() -> None:
    """As the policy for unknown fields says: kept, counted, or refused."""
    other = columns(("id", "long"))
    kept = shown(decoded("bytes", other), "id", "_rescued")
    assert kept[1] == (None, '{"value":"YWJj"}')
    assert shown(decoded("string", other), "_rescued")[2] == ('{"value":"\u00e9\u4e16"}',)
    ignored = decoded("bytes", other, unknown_fields="ignore")
    assert (ignored.ignored, ignored.table["_rescued"].null_count) == (5, ignored.table.num_rows)
    refused = decoded("bytes", other, unknown_fields="dead_letter")
    assert {why for _, _, why in refused.bad} == {"unknown_field: $.value", "tombstone: the value is null"}
    assert shown(decoded("bytes", NO_COLUMNS, unknown_fields="ignore"), "_rescued")[1] == ('{"value":"YWJj"}',)


def test_an_evolved_column_refuses_no_value() -> None:
    """A value that is no text stays in `_rescued` where nobody declared the column."""
    found = shown(decoded("bytes", columns(("value", "string"), evolved=True)), "value", "_rescued")
    assert (found[1], found[4]) == (("abc", None), (None, '{"value":"Yf8="}'))
    assert shown(decoded("bytes", columns(("value", "long"), evolved=True)), "_rescued")[1] == ('{"value":"YWJj"}',)


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        (columns(("value", "long")), "column value: a raw value is text or bytes, not int64"),
        (columns(("id", "long"), nullable=False), "column id: a raw value is the column `value` and has no other"),
    ],
)
def test_columns_that_no_value_can_fill_are_refused_before_there_is_one(wanted: str, reason: str) -> None:
    """A wrong type, and a column that may not be null."""
    with pytest.raises(ConfigError, match=reason):
        decoded("bytes", wanted)
    with pytest.raises(ConfigError, match="raw values have no fields"):
        format_of(ValueFormat("bytes")).peek(TypeFrom("json", "a"))


def test_a_type_that_nobody_declared_has_the_one_column_too() -> None:
    """Of the kind of the format."""
    routing = Routing(TypeFrom("topic"), EventTime("record"), (), value_format=ValueFormat("string"))
    assert routing.columns_of("anything") == RAW_COLUMNS["string"]
