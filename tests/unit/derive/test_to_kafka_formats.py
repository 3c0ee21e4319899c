"""Rows as Avro and Protobuf, read back by fastavro and by Google's library."""

from __future__ import annotations

import io
import json
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pytest
from google.protobuf import descriptor_pb2

from exporter.column.ddl import struct_of_ddl as columns
from exporter.column.types import Field, ScalarType, StructType
from exporter.derive.to_kafka_audit import UNREADABLE
from exporter.derive.to_kafka_avro import avro_schema, record_name, writer
from exporter.derive.to_kafka_formats import RegisteredForms
from exporter.derive.to_kafka_protobuf import derived, given
from exporter.derive.to_kafka_readers import reader_of, since_1970
from exporter.errors import ConfigError
from exporter.registry.client import connect
from exporter.registry.options import RegistryOptions
from exporter.settings.derive_to_kafka import ToKafkaTable
from tests.support.fake_registry import FakeRegistry
from tests.support.schemas import schema

ALL_DDL = (
    "a TINYINT, b SMALLINT, c INT, d BIGINT, e FLOAT, f DOUBLE, g STRING, h BINARY, i BOOLEAN, j DATE, k TIMESTAMP, "
    "m TIMESTAMP_NTZ, n DECIMAL(12,2), o DECIMAL(38,0), p ARRAY<STRING>, q MAP<STRING, INT>, "
    "r STRUCT<x: BIGINT, y: STRUCT<z: STRING>>, s ARRAY<STRUCT<t: BIGINT>>"
)
ALL = columns(f"{ALL_DDL}, u MAP<STRING, ARRAY<BIGINT>>")
ROW: dict[str, Any] = {
    "a": -128, "b": 32767, "c": -(2**31), "d": 2**63 - 1, "e": 0.5, "f": -1e300, "g": "ü🙂", "h": b"\0\xff", "i": True,
    "j": -719_162, "k": -62_135_596_800_000_000, "m": 1, "n": Decimal("-1.27"), "o": Decimal(-(10**38 - 1)),
    "p": ["x", None, ""], "q": [("k", 1), ("l", None)], "r": {"x": None, "y": {"z": "q"}}, "s": [{"t": 1}, None],
    "u": [("m", [1, None])],
}  # fmt: skip


def without_times(schema: Any) -> Any:
    """fastavro would make Python's times of them, which have years 1 to 9999."""
    if isinstance(schema, list):
        return [without_times(one) for one in schema]
    if isinstance(schema, dict):
        keeps = schema.get("logicalType") == "decimal"
        return {name: without_times(one) for name, one in schema.items() if keeps or name != "logicalType"}
    return schema


def avro(struct: StructType, row: dict[str, Any]) -> bytes:
    out = bytearray()
    writer(struct)(out, row)
    return bytes(out)


def as_avro(value: Any) -> Any:
    """As fastavro tells it: a map as a dictionary."""
    if isinstance(value, dict):
        return {name: as_avro(one) for name, one in value.items()}
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return {name: as_avro(one) for name, one in value}
    return [as_avro(one) for one in value] if isinstance(value, list) else value


def test_avro_is_what_fastavro_reads_and_writes() -> None:
    """Every type, at its edges and null, byte for byte as another library writes it."""
    schema = fastavro.parse_schema(without_times(avro_schema(ALL, "all")))
    for row in (ROW, dict.fromkeys(ROW), {**ROW, "p": [], "q": [], "s": []}):
        data = avro(ALL, row)
        expected = {**as_avro(row), **{name: {} for name in "qu" if row[name] == []}}
        assert fastavro.schemaless_reader(io.BytesIO(data), schema, None) == expected
        sink = io.BytesIO()
        fastavro.schemaless_writer(sink, schema, expected)
        assert sink.getvalue() == data


def test_avro_of_random_numbers_is_right() -> None:
    """Longs of every length, and decimals whose bytes begin with either sign's bit."""
    chance = random.Random(42)
    two = columns("d BIGINT, n DECIMAL(38,6)")
    schema = fastavro.parse_schema(avro_schema(two, "n"))
    for bits in [*range(64)] * 3:
        number = chance.getrandbits(bits) * chance.choice((1, -1))
        row = {"d": number, "n": Decimal(number * 3).scaleb(-6)}
        assert fastavro.schemaless_reader(io.BytesIO(avro(two, row)), schema, None) == row


def test_a_schema_with_more_columns_reads_what_fewer_wrote_and_the_other_way_round() -> None:
    """So a registry takes it as compatible, full, as long as no column changes its type."""
    old, new = columns("a BIGINT, r STRUCT<x: BIGINT>"), columns("a BIGINT, r STRUCT<x: BIGINT, y: STRING>, z DATE")
    schemas = [fastavro.parse_schema(avro_schema(one, "t")) for one in (old, new)]
    row = {"a": 1, "r": {"x": 2}}
    more = {"a": 1, "r": {"x": 2, "y": "q"}, "z": 3}
    read = fastavro.schemaless_reader(io.BytesIO(avro(old, row)), schemas[0], schemas[1])
    assert read == {"a": 1, "r": {"x": 2, "y": None}, "z": None}
    assert fastavro.schemaless_reader(io.BytesIO(avro(new, more)), schemas[1], schemas[0]) == row


@pytest.mark.parametrize(
    "struct",
    [columns("`a b` BIGINT"), StructType((Field("a", ScalarType("void")),)), columns("a MAP<BIGINT, BIGINT>")],
    ids=["its name", "its type", "its keys"],
)
def test_what_avro_cannot_say_is_refused_with_a_way_out(struct: StructType) -> None:
    """By its name or its type."""
    with pytest.raises(ConfigError) as told:
        avro_schema(struct, "t")
    assert "value" in told.value.hint


def test_a_record_is_called_as_its_subject() -> None:
    """As far as Avro lets it."""
    assert record_name("orders.v1-value") == "orders_v1_value"
    assert record_name("1st") == "_1st"


def test_protobuf_of_columns_is_what_its_message_says() -> None:
    """Each type; a number is the column's place; a null is not there, an empty text is."""
    form = derived(columns(ALL_DDL), "all-value")
    message = form._message.FromString(form.encoded(ROW)[1:])
    assert (message.a, message.d, message.g, message.h, message.i) == (-128, 2**63 - 1, "ü🙂", b"\0\xff", True)
    assert (message.j, message.n, message.o) == ("0001-01-01", "-1.27", str(-(10**38 - 1)))
    assert (message.k.seconds, message.k.nanos, message.m.nanos) == (-62_135_596_800, 0, 1_000)
    assert (list(message.p), dict(message.q), message.r.y.z, len(message.s)) == (["x", ""], {"k": 1}, "q", 1)
    none = form._message.FromString(form.encoded(dict.fromkeys(ROW))[1:])
    assert none.ListFields() == []
    assert form._message.FromString(form.encoded({**dict.fromkeys(ROW), "g": ""})[1:]).HasField("g")
    assert [field.number for field in form._message.DESCRIPTOR.fields] == list(range(1, 19))


def test_protobuf_of_columns_is_a_file_that_compiles() -> None:
    """What is registered is a descriptor that others can use."""
    import base64

    text = derived(columns("a BIGINT"), "t-value").text()
    file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text))
    assert (file.syntax, file.message_type[0].name, file.message_type[0].field[0].name) == ("proto3", "t_value", "a")


def test_a_number_of_a_derived_message_never_means_another_column() -> None:
    """A registry takes that for a new name; more columns come last, in structs too."""
    with FakeRegistry() as registry:
        table = ToKafkaTable(kind="to_kafka", source="o", topic="t", format="protobuf")

        def encoder(ddl: str) -> Any:
            made = RegisteredForms(table, lambda: connect(RegistryOptions(urls=(registry.url,))))
            return made.encoder("t-value", schema(ddl))

        first = encoder("a BIGINT, r STRUCT<x: BIGINT>")
        more = encoder("a BIGINT, r STRUCT<x: BIGINT, y: STRING>, b STRING")
        row = {"a": 1, "r": {"x": 2}}
        assert first(row) == b"\0\0\0\0\1\0\x08\x01\x12\x02\x08\x02"
        assert more({**row, "r": {"x": 2, "y": None}, "b": None})[:5] == b"\0\0\0\0\2"
        with pytest.raises(ConfigError, match="field 1 of message t_value would be b, and was a"):
            encoder("b STRING, a BIGINT")
        with pytest.raises(ConfigError, match="field 1 of message r_struct would be y, and was x"):
            encoder("a BIGINT, r STRUCT<y: STRING, x: BIGINT>, b STRING")
        assert len(registry.schemas) == 2


@pytest.mark.parametrize("form", ["avro", "protobuf"])
def test_the_audit_reads_of_each_row_what_was_written(form: str) -> None:
    """By the schema that the registry has; each type, at its edges and null."""
    table = ToKafkaTable.model_validate({"kind": "to_kafka", "source": "o", "topic": "t", "format": form})
    with FakeRegistry() as registry:
        client = connect(RegistryOptions(urls=(registry.url,)))
        encode = RegisteredForms(table, lambda: client).encoder("t-value", schema(ALL_DDL))
        reader = reader_of(form, json.loads(schema(ALL_DDL)), lambda: client)
        for row in (ROW, dict.fromkeys(ROW), {**ROW, "g": "", "d": 0, "p": [], "q": []}):
            assert reader.read(encode(row)) == reader.plain(row)
            assert reader.read(encode(row)) != reader.plain({**row, "a": 5})
        cut = [encode(ROW)[:size] for size in (0, 4, 5, 9)]
        for data in (*cut, b"\1" + encode(ROW)[1:], b"\0\0\0\0\x63" + encode(ROW)[5:]):
            with pytest.raises(UNREADABLE):
                reader.read(data)


PROTO = """
syntax = "proto3"; package shop; import "google/protobuf/timestamp.proto";
message Other { int32 x = 1; }
message Order { int64 id = 7; optional string amount = 2; google.protobuf.Timestamp at = 3; repeated string tags = 9; }
"""


def test_a_given_message_is_filled_by_name(tmp_path: Path) -> None:
    """Whatever the numbers are; which message of the file it is stands in front of it."""
    path = tmp_path / "order.proto"
    path.write_text(PROTO)
    form = given(path, "shop.Order", columns("id BIGINT, at TIMESTAMP, amount DECIMAL(12,2), tags ARRAY<STRING>"))
    data = form.encoded({"id": 5, "at": 1_500_000, "amount": Decimal("1.50"), "tags": ["a"]})
    assert data[:2] == b"\x02\x02"
    message = form._message.FromString(data[2:])
    assert (message.id, message.amount, message.at.nanos, list(message.tags)) == (5, "1.50", 500_000_000, ["a"])
    assert given(path, "", columns("x INT")).encoded({"x": 1}) == b"\0\x08\x01"


def test_a_column_without_a_field_is_refused(tmp_path: Path) -> None:
    """It would be lost in silence; so is a message that the file has not."""
    path = tmp_path / "order.proto"
    path.write_text(PROTO)
    with pytest.raises(ConfigError, match="no field 'note'"):
        given(path, "shop.Order", columns("note STRING"))
    with pytest.raises(ConfigError, match=r"no message 'shop\.Nothing'"):
        given(path, "shop.Nothing", columns("id BIGINT"))
    with pytest.raises(ConfigError, match="cannot be read"):
        given(tmp_path / "none.proto", "", columns("id BIGINT"))


@pytest.mark.parametrize(("text", "days", "micros"), [
    ("1970-01-01T00:00:00.000001Z", 0, 1),
    ("1969-12-31T23:59:59.000000Z", -1, -1_000_000),
    ("0001-01-01T00:00:00.000000Z", -719_162, -62_135_596_800_000_000),
    ("2024-02-29T12:00:00.500000Z", 19_782, 1_709_208_000_500_000),
    ("+10000-01-01T00:00:00.000000Z", 2_932_897, 253_402_300_800_000_000),
])  # fmt: skip
def test_times_of_any_year_are_read(text: str, days: int, micros: int) -> None:
    """As Spark writes them, by the audit's own reading."""
    assert since_1970(text, days=False) == micros
    assert since_1970(text.partition("T")[0], days=True) == days


def test_the_schema_is_json_that_stays_the_same() -> None:
    """The same columns are the same text, so that a registry gives the same id."""
    assert json.dumps(avro_schema(ALL, "t")) == json.dumps(avro_schema(ALL, "t"))
