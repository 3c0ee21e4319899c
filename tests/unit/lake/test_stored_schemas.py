"""The texts of schemas that are stored, byte for byte: in a table's metadata, in its fingerprint, in a configuration.

Each is what the version before any such test made of the same columns (tests/golden/stored_schemas.json). The order of
keys counts too: fingerprints are of texts.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from exporter.column.ddl import ddl_schema
from exporter.column.spark_json import field_of
from exporter.column.types import JSON, ScalarType
from exporter.core.evolve import Evolution, grown, known_beforehand
from exporter.core.evolved import combined, union
from exporter.core.naming import decoded_schema, named_columns
from exporter.core.record_columns import RecordColumns
from exporter.core.routing import EventTime, Routing, TypeFrom
from exporter.core.seen import At, Seen
from exporter.core.shapes import constant_fields, with_fields
from exporter.lake.promoting import promoted
from exporter.lake.record_fields import record_fields, with_record_fields
from exporter.lake.schema import schema_change, table_schema, with_event_time
from offsets.partitions import Spec
from offsets.table_log import TableView, fingerprint_of
from tests.support.schemas import fields, names

FILE = Path(__file__).parents[2] / "golden" / "stored_schemas.json"
CASES: dict[str, dict[str, str]] = json.loads(FILE.read_text("utf-8"))
DECLARED = {
    "no columns": "",
    "scalars": "a BOOLEAN, b TINYINT, c SMALLINT, d INT, e BIGINT, f FLOAT, g DOUBLE, h STRING, i BINARY, j DATE, "
    "k TIMESTAMP, l TIMESTAMP_NTZ, m DECIMAL(38,18), n DECIMAL",
    "nothing is null": "id BIGINT NOT NULL COMMENT 'the key, \"as sent\"', s STRUCT<x: INT NOT NULL, y: DECIMAL(9,2) "
    "NOT NULL> NOT NULL, xs ARRAY<STRUCT<x: BIGINT NOT NULL>>",
    "in one another": "m MAP<STRING, ARRAY<MAP<STRING, STRUCT<a: INT, b: DECIMAL(5,0) COMMENT 'b'>>>>, xs "
    "ARRAY<ARRAY<STRUCT<s: STRUCT<f: FLOAT, d: DATE NOT NULL>>>>",
    "texts of JSON": "j JSON, js ARRAY<JSON> NOT NULL, jm MAP<STRING, ARRAY<JSON>> COMMENT 'any', s STRUCT<j: JSON, t: "
    "ARRAY<STRUCT<j: MAP<STRING, JSON>>>>",
    "odd names": "`a.b` BIGINT, `Preis-\u20ac` DECIMAL(10,2), `\U0001f600` STRUCT<`x.y`: INT, `z-1`: STRING>, "
    "`with\u0301` STRING, `Stra\u00dfe` MAP<STRING, STRING>",
}
"""Columns as the settings have them."""
WHOLE = ("table", "record", "seen", "decoded", "widened")
VALUES = (
    {"id": 1, "new": {"a": [1, "x"], "b": {"c": 1.5, "d": [{"e": True}]}}, "s": {"z": 2**70}, "\u20ac": None},
    {"xs": [{"more": 1}], "new": {"a": [2]}, "at": "2026-11-25T00:00:00Z", "m": {"k": [{"l": {"c": "t"}}]}},
    {"many": {f"k{number}": number for number in range(8)}, "mixed": 1, "\u20ac": {"x": [[1]]}},
    {"mixed": "t", "a.c": 1, "A": 1, "day": 1, "s": {"y": {"deep": 1}}},
)
KNOWN = [field_of(one) for one in (
    {"name": "reg", "nullable": False, "metadata": {"comment": "of a schema"},
     "type": {"type": "map", "keyType": "string", "valueType": "decimal(12,3)", "valueContainsNull": True}},
    {"name": "s", "nullable": True, "metadata": {}, "type": {"type": "struct", "fields": [
        {"name": "of_schema", "type": {"type": "array", "elementType": "date", "containsNull": True}, "nullable": True,
         "metadata": {}}]}},
    {"name": "wide", "type": "integer", "nullable": True, "metadata": {}},
)]  # fmt: skip
WIDER = fields("wide BIGINT")
SPARKS = {
    "as Spark writes it": '{"type":"struct","fields":[{"name":"_kafka","type":{"type":"struct","fields":[{"name":"x",'
    '"type":"long","nullable":true,"metadata":{}}]},"nullable":true,"metadata":{}},{"name":"users","type":{"type":'
    '"array","elementType":{"type":"map","keyType":"integer","valueType":"variant","valueContainsNull":false},'
    '"containsNull":false},"nullable":true,"metadata":{"comment":"\u00fc \\\\ \\"","n":1.5,"x":{"y":[1,null]}}},'
    '{"name":"t","type":"varchar(10)","nullable":false,"metadata":{"__CHAR_VARCHAR_TYPE_STRING":"varchar(10)"}},'
    '{"name":"_rescued","type":"string","nullable":true,"metadata":{}},{"name":"day","type":"date","nullable":true,'
    '"metadata":{}}]}',
}
"""Schemas of tables that others have altered."""


def told(declared: str) -> dict[str, str]:
    """What is stored of columns, by what it is stored for."""
    found = {"table": table_schema(declared), "table by hour": table_schema(declared, Spec("hour"))}
    found |= {"declared with a constant": with_fields(declared, constant_fields([("site", "x"), ("n", 1)]))}
    if plain := [name for name in names(declared) if "." not in name]:
        moved = [(plain[0], ("way.to.it", "other")), (plain[-1], ("way.last",))][: len(plain)]
        found["decoded by names"] = decoded_schema(declared, moved, "order")
        found["named again"] = named_columns(found["decoded by names"], moved)
    return found | grown_of(declared, found["table"])


def grown_of(declared: str, table: str) -> dict[str, str]:
    """What is stored of a table that grows."""
    seen = Seen()
    for offset, value in enumerate(VALUES):
        seen.add(value, At("t", 0, offset))
    evolution = Evolution({"at": ScalarType("timestamp"), "new.a[]": JSON}, keys_max=7)
    routing = Routing(TypeFrom("header", "t"), EventTime("record"), (("order", declared),))
    kept = record_fields(RecordColumns(key="key", headers="headers"), routing)
    found = {"record": with_record_fields(table, kept), "by schema": known_beforehand(table, KNOWN, "schema 7")}
    found["seen"] = grown(found["by schema"], seen, evolution)
    found["union"] = union(found["record"], found["seen"]) or "none"
    found["union, other way"] = union(found["seen"], found["record"]) or "none"
    found["promoted"] = promoted(found["seen"], [WIDER])[0]
    found["decoded"] = combined(declared, found["seen"])
    view = TableView(1, "id", "f", {}, schema_json=found["seen"], partition_columns=("day",))
    wider = table_schema(ddl_schema("wide BIGINT, new_one STRUCT<x: INT>, reg MAP<STRING, DECIMAL(14,4)>"))
    found["widened"] = schema_change(view, wider, widens=True).schema_json or "as it is"
    return found


def all_texts() -> dict[str, dict[str, str]]:
    """Of each case all that is stored: WHOLE as the text that it is, the rest as its fingerprint."""
    made = {name: told(ddl_schema(ddl)) for name, ddl in DECLARED.items()}
    for name, text in SPARKS.items():
        made[name] = {"event time": with_event_time(text), **grown_of(ddl_schema("id BIGINT"), text)}
    return {
        name: {key: text if key in WHOLE else fingerprint_of("", text) for key, text in texts.items()}
        for name, texts in made.items()
    }


MADE = all_texts()


@pytest.mark.parametrize("name", [*DECLARED, *SPARKS])
def test_what_is_stored_of_columns_is_the_text_that_it_always_was(name: str) -> None:
    """An upgrade alone changes no table's schema, no fingerprint and no configuration."""
    assert MADE[name] == CASES[name]


def test_the_cases_have_what_columns_can_have() -> None:
    """Else they prove little: each kind of a type, in one another, with what is noted of it, null and not."""
    texts = " ".join(text for case in CASES.values() for text in case.values())
    wanted = ["decimal(38,18)", '"nullable":false', "exporter.json", "exporter.evolved", "typeChanges"]
    wanted += ["comment", "\\u20ac", "\\ud83d", "valueContainsNull", "timestamp_ntz", "exporter.record", "variant"]
    assert [one for one in wanted if one not in texts] == []
    assert CASES.keys() == {*DECLARED, *SPARKS}
