"""Values that JSON has no types for: MongoDB's extended JSON, Connect's and Debezium's logical types."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from exporter.formats.dead_letter import DeadLetter
from exporter.formats.envelopes.connect import meant, meant_by
from exporter.formats.envelopes.mongo import plain_document
from exporter.formats.envelopes.strict import parsed
from exporter.formats.envelopes.unavailable import PLACEHOLDER, PLACEHOLDER_BASE64, is_unavailable
from exporter.formats.json.parts import compact
from tests.support.envelope_samples import CONNECT, TIME, decimal, structure, typed

NOON_MS = 1_769_860_800_000


@pytest.mark.parametrize(
    ("sent", "plain"),
    [
        ('{"$oid":"5f50d2c2e1d2a1b6a1b6a1b6"}', '"5f50d2c2e1d2a1b6a1b6a1b6"'),
        ('{"$symbol":"x"}', '"x"'),
        ('{"$uuid":"c8edabc3-f738-4ca3-b68d-ab92a91478a3"}', '"c8edabc3-f738-4ca3-b68d-ab92a91478a3"'),
        ('{"$numberInt":"-5"}', "-5"),
        ('{"$numberInt":"2147483648"}', '{"$numberInt":"2147483648"}'),
        ('{"$numberLong":"9223372036854775807"}', "9223372036854775807"),
        ('{"$numberLong":"9223372036854775808"}', '{"$numberLong":"9223372036854775808"}'),
        ('{"$numberLong":5}', '{"$numberLong":5}'),
        ('{"$numberDouble":"1.50"}', "1.50"),
        ('{"$numberDouble":"1.0E+300"}', "1.0E+300"),
        ('{"$numberDouble":"-Infinity"}', '"-Infinity"'),
        ('{"$numberDouble":"x"}', '{"$numberDouble":"x"}'),
        ("NaN", '"NaN"'),
        ('[Infinity,-Infinity,{"NaN":NaN}]', '["Infinity","-Infinity",{"NaN":"NaN"}]'),
        ('["NaN, Infinity","\\"NaN","a\\\\"]', '["NaN, Infinity","\\"NaN","a\\\\"]'),
        ('{"$numberDouble":NaN}', '"NaN"'),
        ('{"$numberDecimal":"1.500"}', '"1.500"'),
        ('{"$date":"2026-01-31T12:00:00.5Z"}', '"2026-01-31T12:00:00.5Z"'),
        (f'{{"$date":{NOON_MS}}}', '"2026-01-31T12:00:00.000Z"'),
        ('{"$date":{"$numberLong":"-1"}}', '"1969-12-31T23:59:59.999Z"'),
        ('{"$date":{"$numberLong":"-62135596800001"}}', '{"$date":-62135596800001}'),
        ('{"$date":1.5}', '{"$date":1.5}'),
        ('{"$binary":{"base64":"aGk=","subType":"00"}}', '"aGk="'),
        ('{"$binary":"aGk=","$type":"00"}', '"aGk="'),
        ('{"$binary":{"base64":"a","subType":"00"}}', '{"$binary":{"base64":"a","subType":"00"}}'),
        ('{"$binary":{"base64":"yO2rw/c4TKO2jauSqRR4ow==","subType":"04"}}', '"c8edabc3-f738-4ca3-b68d-ab92a91478a3"'),
        ('{"$binary":{"base64":"aGk=","subType":"04"}}', '"aGk="'),
        ('{"$timestamp":{"t":5,"i":1}}', '{"t":5,"i":1}'),
        ('{"$timestamp":{"t":5}}', '{"$timestamp":{"t":5}}'),
        ('{"$undefined":true}', "null"),
        ('{"$minKey":1}', '{"$minKey":1}'),
        (
            '{"$regularExpression":{"pattern":"a","options":"i"}}',
            '{"$regularExpression":{"pattern":"a","options":"i"}}',
        ),
        ('{"$oid":"x","more":1}', '{"$oid":"x","more":1}'),
        ('[{"$oid":"x"},{"a":{"$numberLong":"5"}}]', '["x",{"a":5}]'),
        ('{"\\u0024oid":"x"}', '"x"'),
        ('[1e400,12345678901234567890123,-0,0.10,{"$oid":"x"}]', '[1e400,12345678901234567890123,-0,0.10,"x"]'),
    ],
)
def test_extended_json_becomes_plain_json(sent: str, plain: str) -> None:
    """Each form, letter by letter; what is none of them stays. Numbers keep their digits."""
    value, text = plain_document(f'{{"x":{sent}}}')
    assert text == f'{{"x":{plain}}}'.encode() and compact(value) == text


@pytest.mark.parametrize(
    "bare", ["nan", "+Infinity", "-NaN", "1NaN", "NaN1", "NaNNaN", "NaN NaN", "Inf", "NaN.", "--Infinity"]
)
def test_only_the_words_that_debezium_writes_are_numbers(bare: str) -> None:
    """A document with any other is no JSON, nor is one in which they are names."""
    for text in (f'{{"x":{bare}}}', f'{{"x":[1,{bare}]}}', '{NaN:1}', '{"x":1} NaN', '{Infinity :1}', "NaN{}"):
        with pytest.raises(DeadLetter, match="not_json"):
            plain_document(text)


def test_a_document_without_such_forms_is_as_sent() -> None:
    """White space and escapes stay."""
    assert plain_document('{ "a" : [1.0, "\\/"] }')[1] == b'{ "a" : [1.0, "\\/"] }'


def unscaled(number: int, size: int) -> str:
    return base64.b64encode(number.to_bytes(size, "big", signed=True)).decode()


ALL = structure(
    decimal(2, "price"), decimal(0, "whole"), decimal(-2, "hundreds"), typed("int32", "d", f"{CONNECT}.Date"),
    typed("int64", "at", f"{CONNECT}.Timestamp"), typed("int32", "t", f"{CONNECT}.Time"),
    typed("int32", "dd", f"{TIME}.Date"), typed("int64", "ms", f"{TIME}.Timestamp"),
    typed("int64", "us", f"{TIME}.MicroTimestamp"), typed("int64", "ns", f"{TIME}.NanoTimestamp"),
    typed("string", "zoned", f"{TIME}.ZonedTimestamp"), typed("int64", "ut", f"{TIME}.MicroTime"),
    typed("struct", "v", "io.debezium.data.VariableScaleDecimal",
          fields=[typed("int32", "scale"), typed("bytes", "value")]),
    typed("array", "list", items=structure(decimal(1, "p"))),
    typed("map", "map", keys=typed("string"), values=typed("int32", None, f"{CONNECT}.Date")),
    typed("map", "odd", keys=typed("int32"), values=typed("int32", None, f"{CONNECT}.Date")),
    typed("bytes", "raw"), typed("string", "s"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("field", "sent", "connect", "debezium"),
    [
        ("price", unscaled(1234, 2), 12.34, None), ("price", unscaled(-3, 1), -0.03, None),
        ("price", unscaled(0, 1), 0.0, None), ("price", 12.34, 12.34, None), ("price", "?", "?", None),
        ("price", "", "", None), ("price", PLACEHOLDER_BASE64, PLACEHOLDER_BASE64, None),
        ("whole", unscaled(-(10**40), 18), -(10**40), None), ("hundreds", unscaled(5, 1), 500, None),
        ("d", 20484, "2026-01-31", None), ("d", -719163, -719163, None), ("d", 10**7, 10**7, None),
        ("d", True, True, None),
        ("at", NOON_MS + 5, "2026-01-31T12:00:00.005Z", None), ("at", 2**62, 2**62, None), ("t", 5, 5, 5),
        ("dd", 0, 0, "1970-01-01"), ("ms", -1, -1, "1969-12-31T23:59:59.999Z"),
        ("us", 1, 1, "1970-01-01T00:00:00.000001Z"), ("ns", 1, 1, "1970-01-01T00:00:00.000000001Z"),
        ("zoned", "2026-01-31T12:00:00Z", "2026-01-31T12:00:00Z", None), ("ut", 5, 5, 5),
        ("v", {"scale": 3, "value": unscaled(1234, 2)}, {"scale": 3, "value": unscaled(1234, 2)}, 1.234),
        ("list", [{"p": unscaled(15, 1)}, None, 5], [{"p": 1.5}, None, 5], None),
        ("map", {"a": 0, "b": None}, {"a": "1970-01-01", "b": None}, None), ("odd", [[1, 0]], [[1, 0]], None),
        ("raw", "aGk=", "aGk=", None), ("s", "x", "x", None), ("unknown", 5, 5, None),
    ],
)  # fmt: skip
def test_a_schema_says_how_values_are_meant(field: str, sent: Any, connect: Any, debezium: Any) -> None:
    """Connect's own types always, Debezium's if asked for; null stays null, and so does what is of another kind."""
    schema = json.dumps(ALL).encode()
    for types, expected in ((False, connect), (True, connect if debezium is None else debezium)):
        node = meant_by(schema, types)
        assert node is not None and not isinstance(node, str)
        assert json.loads(compact(meant(node, {field: sent}))) == {field: expected}
        assert meant(node, {field: None}) == {field: None}


@pytest.mark.parametrize(
    "schema", [{"type": "int8"}, structure(typed("string", "a")), typed("array", items=typed("bytes"))]
)
def test_a_schema_without_such_types_changes_nothing(schema: Any) -> None:
    """The payload's text is then read as it was sent."""
    assert meant_by(json.dumps(schema).encode(), True) is None and meant_by(b"null", True) is None


@pytest.mark.parametrize(
    "schema",
    [5, {}, {"type": 5}, {"type": "x"}, {"type": "struct"}, {"type": "struct", "fields": [{"type": "int8"}]},
     {"type": "array"}, {"type": "map", "values": 5}, {"type": "bytes", "name": f"{CONNECT}.Decimal"},
     {"type": "bytes", "name": f"{CONNECT}.Decimal", "parameters": {"scale": "x"}},
     {"type": "bytes", "name": f"{CONNECT}.Decimal", "parameters": {"scale": "99999"}}],
)  # fmt: skip
def test_a_schema_that_is_none_is_a_reason(schema: Any) -> None:
    """Of all records that have it."""
    found = meant_by(json.dumps(schema).encode(), False)
    assert isinstance(found, str) and found.startswith("bad_schema: $.schema")


def test_what_stands_for_a_value_that_was_not_sent() -> None:
    """The text, its bytes, either in an array of its own, and a map of it; nothing that only has it in it."""
    for value in (PLACEHOLDER, PLACEHOLDER_BASE64, [PLACEHOLDER], [PLACEHOLDER_BASE64], [*PLACEHOLDER.encode()],
                  {PLACEHOLDER: PLACEHOLDER}):  # fmt: skip
        assert is_unavailable(value)
    for value in (None, "", PLACEHOLDER + "x", [], [PLACEHOLDER, "x"], [[PLACEHOLDER]], {"a": PLACEHOLDER}, 5, [95]):
        assert not is_unavailable(value)


@pytest.mark.parametrize(
    "raw",
    [b"", b" ", b"{", b"{}x", b"{}{}", b"[]", b"5", b'{"a":1,"a":2}', b'{"a":{"b":1,"\\u0062":2}}', b'{"a":\x01}',
     b'{"a":"\x01"}', b'{"a":"\xff"}', b'{"a":01}', b'{"a":1.}', b'{"a":NaN}', b'{"a":-Infinity}', b'{"a":[1,]}',
     b'{"a":1,}', b"\xef\xbb\xbf{}", b'{"a":"\\ud800"}', b'{"a":"\\q"}', b"{'a':1}",
     b'{"a":' * 201 + b"1" + b"}" * 201],
)  # fmt: skip
def test_what_is_not_strictly_json_is_refused(raw: bytes) -> None:
    """Whatever of it is needed."""
    with pytest.raises(DeadLetter, match=r"not_json|duplicate_key|not_utf8|not_object"):
        parsed(raw)


@pytest.mark.parametrize(
    "raw",
    [b"{}", b' {"a" : 1e400 , "b":-0,"c":0.10} ', b'{"a":12345678901234567890123456789012345678901234567890}',
     b'{"\\u0061":"\\u003a\\/\\ud83d\\ude00"}', b'{"a":"\xc3\xa9"}', b'{"a":[true,false,null,"",{"":1E5}]}'],
)  # fmt: skip
def test_what_is_json_is_read_as_python_reads_it(raw: bytes) -> None:
    """And written with each number's own digits."""
    again = compact(parsed(raw))
    assert json.loads(again, parse_float=str, parse_int=str) == json.loads(raw, parse_float=str, parse_int=str)
