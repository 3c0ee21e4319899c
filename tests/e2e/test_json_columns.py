"""Columns for any JSON, from the settings to the readers of the table."""

from __future__ import annotations

import json
from typing import Any

import duckdb
import pytest

from exporter.errors import ConfigError
from tests.support.lakes import NOON, Exports, millis
from tests.support.services import Record

pytestmark = [pytest.mark.broker, pytest.mark.spark]

COLUMNS = "id BIGINT, payload JSON, s STRUCT<q: JSON, n: INT>, xs ARRAY<JSON>"
PAYLOADS = ['{"a": [1.10, null]}', '"text"', "7", "null", "[ ]", '{"a":1,"a":2}']


def record(number: int, payload: str) -> Record:
    text = f'{{"type":"order","at":"{NOON.isoformat()}","id":{number},"payload":{payload},' \
           f'"s":{{"q":{payload},"n":1}},"xs":[{payload}],"w":{payload}}}'  # fmt: skip
    return Record(b"k", text.encode(), timestamp_ms=millis(NOON))


@pytest.mark.parametrize("json_text", ["as_sent", "canonical"])
def test_any_value_is_in_its_column_for_every_reader_and_never_a_dead_letter_for_its_kind(
    json_text: str, exports: Exports, spark: Any
) -> None:
    """As it was sent or as in `_rescued`; the table says which texts are JSON, and goes on saying so."""
    e = exports(types={"order": COLUMNS}, json_text=json_text)
    e.send({0: [record(number, payload) for number, payload in enumerate(PAYLOADS)]})
    e.run(spark)
    kept = PAYLOADS[:5] if json_text == "as_sent" else ['{"a":[1.10,null]}', *PAYLOADS[1:4], "[]"]
    texts = [None if text == "null" else text for text in kept]
    read = spark.table(f"delta.`{e.folder('order')}`")
    rows = read.orderBy("id").collect()
    assert [row.payload for row in rows] == [row.s.q for row in rows] == [row.xs[0] for row in rows] == texts
    marks = [read.schema["payload"].metadata, read.schema["s"].dataType["q"].metadata, read.schema["xs"].metadata]
    assert marks == [{"exporter.json": "."}, {"exporter.json": "."}, {"exporter.json": "element"}]
    with duckdb.connect() as connection:
        connection.register("exported", e.table("order").to_pyarrow_dataset())
        asked = "SELECT payload->'$.a[0]' FROM exported WHERE json_type(payload) = 'OBJECT'"
        assert connection.execute(asked).fetchall() == [("1.1",)]
    reasons = [row.reason for row in spark.table(f"delta.`{e.folder('dead_letters')}`").select("reason").collect()]
    assert reasons == ["duplicate_key: 'a' occurs twice in one object"]
    e.proven(spark)
    for column, declared in (("payload JSON", "payload STRING"), ("xs ARRAY<JSON>", "xs ARRAY<STRING>")):
        with pytest.raises(ConfigError, match="are JSON in the table and plain ones in the settings"):
            e.with_({"order": COLUMNS.replace(column, declared)}).run(spark)
    e.with_({"order": f"{COLUMNS}, more JSON"}).run(spark)
    assert spark.table(f"delta.`{e.folder('order')}`").schema["more"].metadata == {"exporter.json": "."}
    assert json.loads(rows[0]._rescued) == {"w": {"a": [1.1, None]}}
