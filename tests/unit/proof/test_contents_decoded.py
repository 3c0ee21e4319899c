"""What the exporter makes of a value, the audit finds right: its decoder against the audit's opinion, without Spark."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.core.columns import EVOLVED, JSON_TEXT
from exporter.core.evolved import combined
from exporter.core.routing import EventTime, Routing, TypeFrom
from exporter.executor.empty import without_empty
from exporter.formats.decoder import Decoder
from exporter.operate.audit.rows import values_of
from exporter.proof.contents.compare import Configured

US = pa.timestamp("us", "UTC")


def spark(text: Any) -> Any:
    """A Spark type: a name or JSON, [element], {"*": value of a map}, or {name: field of a struct}."""
    if isinstance(text, str):
        return "string" if text == "JSON" else text
    if isinstance(text, list):
        return {"type": "array", "elementType": spark(text[0]), "containsNull": True}
    if "*" in text:
        return {"type": "map", "keyType": "string", "valueType": spark(text["*"]), "valueContainsNull": True}
    return {"type": "struct", "fields": fields(text)}


def fields(columns: dict[str, Any], marked: bool = False) -> list[Any]:
    """Of a Spark schema. marked: as evolution makes them."""
    marks = {EVOLVED: "t/0/0"} if marked else {}
    return [
        {
            "name": n,
            "type": spark(t),
            "nullable": True,
            "metadata": marks | ({JSON_TEXT: at} if (at := texts(t)) else {}),
        }
        for n, t in columns.items()
    ]


def texts(text: Any, path: str = "") -> str:
    """Where a field holds JSON: here all of it, or what is in one array or map."""
    if isinstance(text, list):
        return texts(text[0], "element")
    if isinstance(text, dict) and "*" in text:
        return texts(text["*"], "value")
    return (path or ".") if text == "JSON" else ""


def texts_of(table: pa.Table, at: int) -> set[str | None]:
    """What a row may have in `_rescued`: with what is empty, and without."""
    return {one["_rescued"][at].as_py() for one in (table, without_empty(table))}


def check(
    columns: dict[str, Any],
    texts: list[str],
    evolved: dict[str, Any] | None = None,
    json_text: Any = "as_sent",
    **changed: Any,
) -> int:
    """Decode them, and compare every row that comes of it; how many do."""
    said: dict[str, Any] = {"type_from": TypeFrom("header", "t"), "event_time": EventTime("record"), **changed}
    schema = json.dumps({"type": "struct", "fields": fields(columns)})
    table_json = json.dumps({"type": "struct", "fields": fields(columns) + fields(evolved or {}, marked=True)})
    routing = Routing(types=(("a", schema),) if columns else (), new_type="table", **said)
    decoder = Decoder.of("a", routing, combined(schema, table_json), json_text)
    form = Configured.of(routing, "a", table_json)
    values = pa.array([text.encode() for text in texts], pa.binary())
    decoded = decoder.decode(values, pa.array([1_741_608_000_000_000] * len(texts), US))
    table = decoded.table.combine_chunks()
    names = table.column_names[:-2]
    held = [values_of(table[name].combine_chunks()) for name in names]
    times = table.column(-1).cast(pa.int64()).to_pylist()
    for at, row in enumerate(decoded.good.to_pylist()):
        columns_of = {name: column[at] for name, column in zip(names, held, strict=True) if column[at] is not None}
        for rescued in texts_of(table, at):
            found = form.differences(values[row].as_py(), columns_of, rescued, times[at])
            assert not found, (texts[row], columns_of, rescued, found)
    return len(decoded.good)


TIMES = [
    "2025-03-10", "2025-03-10T01", "2025-03-10 01:02", "2025-03-10T01:02Z", "2025-03-10T01:02:03",
    "1969-01-01T00:00:00.1", "2025-03-10T01:02:03.123456789Z", "1950-03-10T01:02:03.1234567-05:30",
    "2025-03-10T01:02:03+0530", "0001-01-01T00:00:00Z",
    "2025-03-10T01:02:03+05", "9999-12-31T23:59:59.999999Z", "1600-02-29 12:00:00", "2025-03-10T01:02:03.12+14:00",
    "2025-02-30", "x", "", "2025-03-10Z", "2025-03-10T01:02:03.1234567891Z", "20250310", "2025-03-10T24:00:00Z",
    "2025-03-10T01:02:60Z", "2025-3-1", "2025-W11-1",
]  # fmt: skip
NUMBERS = [
    "0", "-0", "-0.0", "1", "1.0", "1.5", "0.1", "1e2", "1E-2", "1e400", "1e-400", "9007199254740993",
    "0.30000000000000004", "18446744073709551617", "123456789012345678901234567890", "1.7976931348623157e308", "5e-324",
    "3.4028235e38", "1e39",
    "16777217", "1.00000005960464477539062500000000000001", "7.038531e-26", "99999999.99", "0e999999", "12345678.125",
    "9223372036854775807", "-9223372036854775808", "9223372036854775808", "2147483648", "127", "128",
]  # fmt: skip


@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz", "date"])
def test_times_and_dates_of_all_forms(kind: str) -> None:
    """Each text that the exporter takes, at the top, in lists, maps and structs."""
    columns = {"x": kind, "l": [kind], "m": {"*": kind}, "s": {"x": kind}}
    texts = [json.dumps({"x": t, "l": [t, None], "m": {"k": t}, "s": {"x": t}}) for t in TIMES]
    assert check(columns, texts) >= {"date": 1}.get(kind, 13)


@pytest.mark.parametrize("kind", ["byte", "integer", "long", "float", "double", "decimal(10,2)", "decimal(38,18)"])
def test_numbers_of_all_forms(kind: str) -> None:
    """Each number that the exporter takes, and each text of one that it takes for a decimal."""
    texts = [f'{{"x":{n},"l":[{n}],"m":{{"k":{n}}}}}' for n in NUMBERS] + [f'{{"x":"{n}"}}' for n in NUMBERS]
    assert check({"x": kind, "l": [kind], "m": {"*": kind}}, texts) >= 4


def test_texts_and_bytes() -> None:
    """Escapes, surrogate pairs, controls; base64 of all lengths."""
    texts = [
        r'{"x":"\u00e9\ud83d\ude00\u0000\"\\\/\n","b":"AA=="}',
        '{"x":"é😀","b":"AAA="}',
        '{"x":"","b":""}',
        '{"x":" ","b":"AAAA"}',
        '{"b":"AAA"}',
        '{"b":"A A="}',
    ]
    assert check({"x": "string", "b": "binary"}, texts) == 4


def test_what_no_column_holds_and_what_settings_let_go_of() -> None:
    """Under each policy, with a type and a time that stand where no column is, and in a type without columns."""
    columns = {"s": {"x": "long"}, "l": [{"x": "long"}], "m": {"*": {"x": "long"}}}
    texts = [
        '{"type":"a","n":{"at":"2025-01-01","u":1.50},"s":{"x":1,"y":[null,{}]},"l":[{"x":1},{"y":null},null,{}]}',
        '{"type":"a","n":{"at":"2025-01-01"},"s":{},"l":[],"m":{"b":{"x":1,"y":2},"a":null}}',
        '{"type":"a","n":{"at":"2025-01-01T00:00:00.123456789Z"},"u":{"a":1e2,"b":"\\u00e9"},"s":null}',
    ]
    how = {"type_from": TypeFrom("json", "type"), "event_time": EventTime("json", "n.at")}
    for policy, good in (("rescue", 3), ("ignore", 3), ("dead_letter", 0)):
        assert check(columns, texts, unknown_fields=policy, **how) == good
        assert check({}, texts, unknown_fields=policy, **how) >= good
    assert check({"n": {"u": "double"}, **columns}, texts, **how) == 3


@pytest.mark.parametrize(
    ("unit", "sent"), [("s", 1_600_000_000), ("ms", -1), ("us", 5), ("ns", 1_600_000_000_123_456_789)]
)
def test_event_times_in_numbers(unit: str, sent: int) -> None:
    """In each unit; of nanoseconds what is below a microsecond is cut."""
    how = {"event_time": EventTime("json", "t", unit), "event_time_min_us": -(10**15)}  # type: ignore[arg-type]
    assert check({"x": "long"}, [f'{{"x":1,"t":{sent}}}'], **how) == 1


LEAF = st.sampled_from(
    [*(f'"{t}"' for t in TIMES), *NUMBERS, "null", "true", '"AA=="', '"é"', "{}", "[]", '{"x":1,"z":[0.10]}']
)
MEMBER = st.one_of(
    LEAF,
    st.lists(LEAF, max_size=3).map(lambda items: f"[{','.join(items)}]"),
    st.dictionaries(st.sampled_from("xyz"), LEAF, max_size=3).map(
        lambda fields: "{" + ",".join(f'"{name}":{one}' for name, one in fields.items()) + "}"
    ),
)
COLUMNS = {
    "a": "timestamp", "b": "double", "c": "string", "d": ["double"], "e": {"*": "timestamp"},
    "f": {"x": "long", "y": "date"}, "g": [{"x": "decimal(10,2)", "y": "float"}],
}  # fmt: skip


@settings(max_examples=100)
@given(st.lists(st.dictionaries(st.sampled_from("abcdefghi"), MEMBER, max_size=6), min_size=1, max_size=8))
def test_whatever_is_sent(records: list[dict[str, str]]) -> None:
    """Good rows of random records are right, in a batch with whatever else."""
    texts = ["{" + ",".join(f'"{name}":{one}' for name, one in fields.items()) + "}" for fields in records]
    check(COLUMNS, texts)
    check(COLUMNS, texts, unknown_fields="ignore")


@settings(max_examples=100)
@given(
    st.lists(st.dictionaries(st.sampled_from("abcdefghijk"), MEMBER, max_size=7), min_size=1, max_size=8),
    st.sampled_from(["as_sent", "canonical"]),
)
def test_whatever_columns_have_grown(records: list[dict[str, str]], json_text: str) -> None:
    """Columns that nobody declared hold a value or leave it; those of any JSON hold it in either form."""
    texts = ["{" + ",".join(f'"{name}":{one}' for name, one in fields.items()) + "}" for fields in records]
    half = {name: COLUMNS[name] for name in "acf"} | {"h": "JSON", "i": ["JSON"]}
    grown = {name: COLUMNS[name] for name in "bdeg"} | {"j": "JSON", "k": {"*": "JSON"}}
    assert check({}, texts, {**half, **grown}, json_text) == len(texts), "what nobody declared refuses nothing"
    check(half, texts, grown, json_text)
