"""The handbook's table of readers, cell by cell: each one reads the whole of such a table, or refuses it."""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any

import deltalake
import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from exporter.arrow.own_columns import KAFKA_COLUMN, KAFKA_TYPE
from exporter.core.columns import EVENT_TIME
from exporter.formats.schema import arrow_schema
from exporter.lake.change import Change, add_action
from exporter.lake.lake import Lake
from exporter.lake.schema import schema_change, table_schema
from exporter.stores.parquet import FileOrigin, GrowingFile
from offsets.names import AppId
from offsets.ranges import TopicPartition
from offsets.table_log import TableView
from tests.support.days import partition_of

pytestmark = pytest.mark.spark

TP = TopicPartition("events", 0)
DAY = date(2026, 1, 31)
PAGE = Path(__file__).parents[2] / "deploy" / "handbook" / "tables.md"
HEAD = "| in a table |"


def cells() -> dict[str, dict[str, str]]:
    """What is in a table -> reader -> what it does."""
    head, _, *rows = PAGE.read_text()[PAGE.read_text().index(HEAD) :].split("\n\n")[0].splitlines()
    names = [cell.strip(" `") for cell in head.split("|")[2:-1]]
    found = {}
    for row in rows:
        what, *says = (cell.strip() for cell in row.split("|")[1:-1])
        found[what] = dict(zip(names, says, strict=True))
    return found


@dataclass(frozen=True)
class Made:
    """A table. rows: its columns of interest, `id` among them. asked: (column, =, > or <, value) of filters."""

    folder: str
    rows: Sequence[Mapping[str, Any]]
    asked: Sequence[tuple[str, str, Any]]


class Ours:
    """A table that is written as a task writes it."""

    def __init__(self, spark: Any, root: Path, ddl: str = "id BIGINT") -> None:
        self.spark = spark
        self.table = Lake(spark, root, "app").table("order")
        self.declared = spark.createDataFrame([], ddl).schema.json()
        self.table.commit(Change((), {}, {}, create=table_schema(self.declared)), lambda view: None)
        self.rows = 0

    def view(self) -> TableView:
        view = self.table.view()
        assert view is not None
        return view

    def fill(self, *rows: dict[str, Any]) -> None:
        """A file by the columns that are declared now."""
        ours = [pa.field(KAFKA_COLUMN, KAFKA_TYPE), pa.field(EVENT_TIME, pa.timestamp("us", "UTC"))]
        schema = pa.schema([*ours, *arrow_schema(self.declared, "order", "JSON"), pa.field("_rescued", pa.string())])
        growing = GrowingFile(FileOrigin(self.table.store, "app", TP, 0, "order", "", {}), partition_of(DAY))
        made = []
        for offset, row in enumerate(rows, self.rows):
            kafka = {"topic": "events", "partition": 0, "epoch": 0, "offset": offset, "timestamp": None}
            noon = datetime(2026, 1, 31, 12, tzinfo=timezone.utc)
            made.append({**row, KAFKA_COLUMN: kafka, EVENT_TIME: noon, "_rescued": None})
        growing.add(pa.Table.from_pylist(made, schema), self.rows, self.rows + len(rows) - 1)
        self.rows += len(rows)
        self.table.commit(Change((), {}, {}, (add_action(growing.finish(), {}),)), lambda view: None)

    def declare(self, ddl: str, **metadata: dict[str, str]) -> None:
        """New columns, or wider ones; metadata: of a column's field."""
        schema = json.loads(self.spark.createDataFrame([], ddl).schema.json())
        self.declared = json.dumps(schema)
        evolved = schema_change(self.view(), table_schema(self.declared), True)
        table = json.loads(evolved.schema_json or self.view().schema_json)
        for field in table["fields"]:
            field["metadata"] |= metadata.get(field["name"], {})
        change = Change((), {}, {}, properties=evolved.properties, evolve=json.dumps(table))
        self.table.commit(change, lambda view: None)


def widened(spark: Any, root: Path) -> Made:
    ours = Ours(spark, root, "id BIGINT, n INT")
    ours.fill({"id": 1, "n": 5})
    ours.declare("id BIGINT, n BIGINT")
    ours.fill({"id": 2, "n": 2**40})
    return Made(ours.table.uri, [{"id": 1, "n": 5}, {"id": 2, "n": 2**40}], [("n", ">", 6), ("n", "=", 5)])


def of_json(spark: Any, root: Path) -> Made:
    ours = Ours(spark, root)
    ours.declare("id BIGINT, payload STRING", payload={"exporter.json": "."})
    rows = [{"id": 1, "payload": '{"a": 1e400}'}, {"id": 2, "payload": "[null]"}, {"id": 3, "payload": None}]
    ours.fill(*rows)
    return Made(ours.table.uri, rows, [("payload", "=", "[null]"), ("payload", ">", "[")])


def evolved(spark: Any, root: Path) -> Made:
    ours = Ours(spark, root)
    ours.fill({"id": 1})
    seen = {"exporter.evolved": "events/0/1"}
    ours.declare("id BIGINT, n BIGINT, s STRUCT<x: STRING>", n=seen, s=seen)
    ours.fill({"id": 2, "n": 7, "s": {"x": "y"}})
    rows = [{"id": 1, "n": None, "s": None}, {"id": 2, "n": 7, "s": {"x": "y"}}]
    return Made(ours.table.uri, rows, [("n", ">", 6), ("n", "<", 7), ("id", "=", 1)])


def marked(spark: Any, root: Path) -> Made:
    ours = Ours(spark, root)
    for offset in (3, 9):
        ours.table.commit(Change((), {str(AppId("app", TP, 0)): offset}, {}), lambda view: None)
    ours.fill({"id": 1})
    ours.table.commit(Change((), {str(AppId("app", TP, 0)): 10}, {}), lambda view: None)
    return Made(ours.table.uri, [{"id": 1}], [("id", "=", 1), ("id", ">", 1)])


def cut_by(*columns: str) -> Callable[[Any, Path], Made]:
    """A table with these partition columns (DDL), of which the last changes from row to row."""

    def made(spark: Any, root: Path) -> Made:
        names = [column.split()[0] for column in columns]
        cut = f"PARTITIONED BY ({', '.join(names)})" if columns else ""
        folder = f"delta.`{root / 'order'}`"
        spark.sql(f"CREATE TABLE {folder} ({', '.join(('id BIGINT', *columns))}) USING delta {cut}")
        values: dict[str, list[Any]] = {"day": [DAY, DAY], "hour": [9, 23], "month": ["2026-01", "2026-02"],
                                        "week": [date(2026, 1, 26), date(2026, 2, 2)]}  # fmt: skip
        rows = [{"id": at + 1, **{name: values[name][at] for name in names}} for at in range(2)]
        for row in rows:
            shown = ", ".join(f"{one}L" if name == "id" else repr(str(one)) for name, one in row.items())
            spark.sql(f"INSERT INTO {folder} VALUES ({shown})")
        asked = [(names[-1], "=", rows[1][names[-1]]), (names[-1], ">", rows[0][names[-1]])] if names else []
        return Made(str(root / "order"), rows, [*asked, ("id", "<", 2)])

    return made


def with_vectors(spark: Any, root: Path) -> Made:
    ours = Ours(spark, root)
    ours.fill({"id": 1}, {"id": 2}, {"id": 3})
    name = f"delta.`{ours.table.uri}`"
    spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    spark.sql(f"DELETE FROM {name} WHERE id = 2")
    log = sorted(Path(ours.table.uri, "_delta_log").glob("*.json"))[-1].read_text()
    assert '"deletionVector"' in log
    return Made(ours.table.uri, [{"id": 1}, {"id": 3}], [("id", ">", 1)])


TABLES: dict[str, Callable[[Any, Path], Made]] = {
    "widened columns": widened,
    "columns of JSON": of_json,
    "partitions by hour": cut_by("day DATE", "hour INT"),
    "partitions by week": cut_by("week DATE"),
    "partitions by month": cut_by("month STRING"),
    "no partitions": cut_by(),
    "evolved columns": evolved,
    "empty markers": marked,
    "deletion vectors": with_vectors,
}


def condition(asked: tuple[str, str, Any]) -> str:
    """In SQL that all of them understand."""
    column, kind, value = asked
    shown = value if isinstance(value, int) else f"DATE '{value}'" if isinstance(value, date) else f"'{value}'"
    return f'"{column}" {kind} {shown}'


def by_spark(spark: Any, made: Made) -> Callable[[str], list[dict[str, Any]]]:
    frame = spark.read.format("delta").load(made.folder).select(*made.rows[0])

    def ask(where: str) -> list[dict[str, Any]]:
        found = frame.where(where.replace('"', "`")) if where else frame
        return [row.asDict(recursive=True) for row in found.collect()]

    return ask


def by_sql(execute: Callable[[str], Any], made: Made) -> Callable[[str], list[dict[str, Any]]]:
    columns = ", ".join(f'"{name}"' for name in made.rows[0])
    return lambda where: execute(f"SELECT {columns} FROM t{where and ' WHERE ' + where}").to_pylist()


def by_query_builder(_: Any, made: Made) -> Callable[[str], list[dict[str, Any]]]:
    ask = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(made.folder)).execute
    return by_sql(lambda query: pa.table(ask(query).read_all()), made)


def by_dataset(_: Any, made: Made) -> Callable[[str], list[dict[str, Any]]]:
    found = deltalake.DeltaTable(made.folder).to_pyarrow_dataset()
    compared = {"=": pc.equal, ">": pc.greater, "<": pc.less}
    filters = {condition(one): compared[one[1]](pc.field(one[0]), pa.scalar(one[2])) for one in made.asked}
    return lambda where: found.to_table(columns=[*made.rows[0]], filter=filters.get(where)).to_pylist()


def by_duckdb(_: Any, made: Made) -> Callable[[str], list[dict[str, Any]]]:
    connection = duckdb.connect()
    connection.register("t", deltalake.DeltaTable(made.folder).to_pyarrow_dataset())
    return by_sql(lambda query: connection.execute(query).to_arrow_table(), made)


READERS = {
    "Spark": by_spark,
    "QueryBuilder": by_query_builder,
    "to_pyarrow_dataset()": by_dataset,
    "DuckDB over that": by_duckdb,
}
HOLDS = {"=": operator.eq, ">": operator.gt, "<": operator.lt}


def what_it_does(reader: str, spark: Any, made: Made) -> str:
    """`reads`, `refuses`, or what it gets wrong."""
    try:
        ask = READERS[reader](spark, made)
        answers = {where: ask(where) for where in ("", *map(condition, made.asked))}
    except Exception as error:  # noqa: BLE001 - each reader has its own
        assert re.search("(?i)unsupported|not supported|deletion|widening|feature|protocol", str(error)), error
        return "refuses"
    wanted = {"": [*made.rows]}
    for column, kind, value in made.asked:
        holds = [row for row in made.rows if row[column] is not None and HOLDS[kind](row[column], value)]
        wanted[condition((column, kind, value))] = holds
    for where, rows in answers.items():
        if (found := sorted(rows, key=lambda row: row["id"])) != wanted[where]:
            return f"{where}: {found}, not {wanted[where]}"
    return "reads"


def test_the_handbook_speaks_of_these_tables_and_readers() -> None:
    """A row or a column more is one that is tried here."""
    assert cells().keys() == TABLES.keys()
    assert {tuple(says) for says in cells().values()} == {tuple(READERS)}


@pytest.mark.parametrize("what", TABLES)
def test_each_reader_does_what_the_handbook_says(what: str, spark: Any, tmp_path: Path) -> None:
    """All rows and values, and no row less under a filter; or an error that says why."""
    made = TABLES[what](spark, tmp_path)
    assert {reader: what_it_does(reader, spark, made) for reader in READERS} == cells()[what]
