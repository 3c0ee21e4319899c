"""derive/query.py and columns.py: which queries a job may have, and how the table follows their columns."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql.types import StructType

from exporter.derive.columns import UnfitCell, grown
from exporter.derive.query import Query
from exporter.errors import ConfigError
from exporter.lake.later import Later

pytestmark = pytest.mark.spark

KAFKA = "_kafka struct<topic:string,partition:int,epoch:int,offset:bigint,timestamp:timestamp>"
SOURCE = f"id bigint, amount decimal(12,2), note string, items array<struct<sku:string,n:int>>, {KAFKA}"


@pytest.fixture(scope="module")
def session(spark: Any) -> Iterator[Any]:
    yield spark.newSession()


@pytest.mark.parametrize(
    "text, columns",
    [
        ("SELECT id, amount FROM source WHERE id % 2 = 0", ["id", "amount"]),
        ("SELECT id, _kafka FROM source", ["id"]),
        ("SELECT * FROM source", ["id", "amount", "note", "items"]),
        ("SELECT id, item.sku FROM source LATERAL VIEW explode(items) AS item", ["id", "sku"]),
        ("SELECT id, explode(items) AS item FROM source", ["id", "item"]),
        ("FROM source |> WHERE id > 1 |> SELECT id", ["id"]),
        ("SELECT transform(items, i -> i.n) AS n, id::string AS t, 1 AS one FROM source", ["n", "t", "one"]),
        ("SELECT id, amount AS a FROM (SELECT * FROM source) AS s", ["id", "a"]),
        ("WITH some AS (SELECT * FROM source WHERE id > 1) SELECT id, _kafka FROM some", ["id"]),
        ("SELECT id, _kafka FROM source UNION ALL SELECT id + 1, _kafka FROM source", ["id"]),
    ],
)
def test_what_is_made_of_each_row_alone_is_taken_and_has_the_row_s_place(
    session: Any, text: str, columns: list[str]
) -> None:
    """`_kafka` comes first, by itself where the outermost SELECT leaves it out; every column may be null."""
    made = Query("job", text, Later.of(session)).schema(StructType.fromDDL(SOURCE))
    assert made.names == ["_kafka", *columns]
    assert all(field.nullable and not field.metadata for field in made)


@pytest.mark.parametrize(
    "text, says",
    [
        ("SELECT nothing FROM source", "nothing"),
        ("SELECT (id FROM source", "PARSE_SYNTAX_ERROR"),
        ("SELECT count(*) AS c FROM source", "an aggregate"),
        ("SELECT id FROM source GROUP BY ALL", "an aggregate"),
        ("SELECT DISTINCT id FROM source", "DISTINCT"),
        ("SELECT id FROM source UNION SELECT id FROM source", "DISTINCT"),
        ("SELECT id, row_number() OVER (ORDER BY id) AS r FROM source", "a window"),
        ("SELECT id FROM source ORDER BY id", "ORDER BY"),
        ("SELECT id FROM source LIMIT 3", "LIMIT"),
        ("SELECT id, (SELECT max(n) FROM VALUES (1) AS t(n)) AS m FROM source", "a subquery|an aggregate"),
        ("SELECT id FROM source WHERE id IN (SELECT 1)", "a subquery|not of the source"),
        ("SELECT s.id FROM source AS s JOIN source AS t ON s.id = t.id", "a join"),
        ("SELECT n FROM VALUES (1) AS t(n)", "not of the source"),
        ("SELECT 1 AS one", "not of the source"),
        ("SELECT id FROM range(3)", "another table"),
        ("SELECT id FROM source TABLESAMPLE (10 PERCENT)", "TABLESAMPLE"),
        ("SELECT rand() AS r FROM source", "the function Rand"),
        ("SELECT uuid() AS r FROM source", "the function Uuid"),
        ("SELECT current_timestamp() - _kafka.timestamp AS age FROM source", "the function CurrentTimestamp"),
        ("SELECT now() AS at FROM source", "the function Now"),
        ("SELECT unix_timestamp() AS at FROM source", "the function CurrentTimestamp"),
        ("SELECT current_user() AS me FROM source", "the function CurrentUser"),
        ("SELECT shuffle(items) AS s FROM source", "the function Shuffle"),
        ("SELECT monotonically_increasing_id() AS i FROM source", "the function Monotonically"),
        ("SELECT input_file_name() AS f FROM source", "the function InputFileName"),
        ("SELECT id AS a, note AS A FROM source", "two columns are called"),
        ("SELECT id + 1 FROM source", "a column is called"),
        ("SELECT id, NULL AS x FROM source", "has no type"),
        ("SELECT id, note AS _kafka FROM source", "is not the source's"),
        ("SELECT id FROM (SELECT id FROM source) AS s", "select _kafka too"),
        ("SELECT id FROM source UNION ALL SELECT id FROM source", "select _kafka too"),
        ("INSERT INTO nowhere SELECT * FROM source", "nowhere"),
    ],
)
def test_what_looks_at_more_than_one_row_or_changes_by_itself_is_refused(session: Any, text: str, says: str) -> None:
    """Before anything is read or written, as a mistake in the settings, and in words."""
    with pytest.raises(ConfigError) as refused:
        Query("job", text, Later.of(session)).schema(StructType.fromDDL(SOURCE))
    assert re.search(says, str(refused.value)), str(refused.value)
    assert refused.value.exit_code == 2 and refused.value.hint
    assert refused.value.message.startswith("[derive.job] query: ")


HAS = "a BIGINT, s STRUCT<x: INT, y: ARRAY<STRUCT<z: STRING>>>, m MAP<STRING, STRUCT<n: INT>>"


@pytest.mark.parametrize(
    "gets, becomes",
    [
        ("a BIGINT", None),
        (HAS, None),
        ("A BIGINT, s STRUCT<x: INT>", None),
        ("b STRING, a BIGINT", f"{HAS}, b STRING"),
        ("s STRUCT<w: DATE, x: INT>", HAS.replace("STRING>>>", "STRING>>, w: DATE>")),
        ("s STRUCT<y: ARRAY<STRUCT<q: INT>>>", HAS.replace("z: STRING", "z: STRING, q: INT")),
        ("m MAP<STRING, STRUCT<n: INT, o: INT>>", HAS.replace("n: INT", "n: INT, o: INT")),
    ],
)
def test_a_table_gains_what_its_rows_have_and_keeps_the_rest(
    session: Any, gets: str, becomes: str | None
) -> None:
    """At every level; a name that differs by case only is the same."""
    found = grown(StructType.fromDDL(HAS), StructType.fromDDL(gets))
    assert found == (None if becomes is None else StructType.fromDDL(becomes))


@pytest.mark.parametrize(
    "gets, place",
    [
        ("a STRING", "column a is bigint"),
        ("a DECIMAL(5,0)", "column a is bigint"),
        ("s STRING", "column s is struct"),
        ("s STRUCT<x: BIGINT>", r"column s\.x is int"),
        ("s STRUCT<y: ARRAY<STRUCT<z: INT>>>", r"column s\.y\.element\.z is string"),
        ("m MAP<INT, STRUCT<n: INT>>", r"column m\.key is string"),
    ],
)
def test_another_type_is_told_with_its_place(session: Any, gets: str, place: str) -> None:
    """Wider ones too: Delta itself would take any, and the table could not be read."""
    with pytest.raises(UnfitCell, match=place):
        grown(StructType.fromDDL(HAS), StructType.fromDDL(gets))
