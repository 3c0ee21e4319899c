"""What readers do with the statistics of data files: Delta's own are the same, and no filter loses a row by them."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import duckdb
import pyarrow as pa
import pytest

from exporter.arrow.own_columns import KAFKA_COLUMN, KAFKA_TYPE
from exporter.core.columns import EVENT_TIME
from exporter.core.writers import StagedFile
from exporter.formats.schema import arrow_schema
from exporter.lake.change import Change, add_action
from exporter.lake.lake import Lake
from exporter.lake.schema import table_schema
from exporter.stores.parquet import FileOrigin, GrowingFile
from exporter.stores.stores import open_store
from offsets.ranges import TopicPartition
from tests.support.days import partition_of

pytestmark = pytest.mark.spark

TP = TopicPartition("events", 0)
DDL = """
    id BIGINT, money DECIMAL(12,2), tiny DECIMAL(38,18), b TINYINT, h SMALLINT, i INT, f FLOAT, d DOUBLE, ok BOOLEAN,
    txt STRING, at TIMESTAMP, wall TIMESTAMP_NTZ, on DATE, bin BINARY, xs ARRAY<INT>, m MAP<STRING, INT>,
    s STRUCT<n: INT, t: TIMESTAMP, ok: BOOLEAN, deep: STRUCT<money: DECIMAL(5,1), txt: STRING>>, `p.q` INT, last INT
"""
COMPARABLE = [
    (name,) for name in ("money", "tiny", "b", "h", "i", "f", "d", "ok", "txt", "at", "wall", "on", "bin", "p.q")
]
COMPARABLE += [("s", "n"), ("s", "t"), ("s", "ok"), ("s", "deep", "money"), ("s", "deep", "txt")]
NULLABLE = [("xs",), ("m",), ("_rescued",)]
"""Paths of the columns of which nothing but this is asked."""
UTC = timezone.utc
FIRST, LAST = datetime(1, 1, 1, 0, 0, 0, 1, UTC), datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC)


def row(number: int, at: datetime, text: str) -> dict[str, Any]:
    """One in which each column follows from these."""
    money, wall = Decimal(number) / 10, at.replace(tzinfo=None)
    struct = {"n": -number, "t": at, "ok": number % 3 == 0, "deep": {"money": money, "txt": text}}
    return {
        "money": money, "tiny": Decimal(number).scaleb(-18) + number // 7 * 10**18, "b": number % 100, "h": number * 50,
        "i": number, "f": pa.scalar(number / 10, pa.float32()).as_py(), "d": number * 1e200, "ok": number % 2 == 0,
        "txt": text, "at": at, "wall": wall, "on": at.date(), "bin": text.encode(), "xs": [number],
        "m": [(text, number)], "s": struct, "p.q": number * 7, "last": number,
    }  # fmt: skip


NOON = datetime(2026, 1, 1, 12, 0, 0, 123_456, UTC)
CLOSE = [NOON + timedelta(microseconds=micros) for micros in (0, 1, 543)]
"""Instants of one millisecond."""
DAYS: list[list[list[dict[str, Any]]]] = [
    [[row(1, CLOSE[0], "a"), row(2, CLOSE[1], "b")]],
    [[row(-7, CLOSE[2], "x" * 100)], [row(-8, datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC), "x" * 100 + "y")]],
    [[{}, {}]],
    [[{}], [row(9, CLOSE[1], ""), {}], [{}], [row(5, NOON + timedelta(days=9), "\x7f" * 40)]],
    [[row(11, FIRST, "\u00e9" * 40), row(12, datetime(1582, 10, 10, tzinfo=UTC), "z"), row(13, CLOSE[0], "z")]],
    [[row(14, LAST, "\U0001f600" * 40)], [row(15, datetime(1899, 12, 31, 1, tzinfo=UTC), "\U0001f600" * 16)]],
    [[row(16, CLOSE[0], "\U0010ffff" * 40)]],
    [[row(17, CLOSE[0], "q" * 9000), row(17, CLOSE[0], "q" * 8000)]],
]
"""Per day one file: its row groups."""
OLD_DAY = len(DAYS)
OLD = [row(1, CLOSE[0], "b"), row(50, CLOSE[1], "x" * 100)]
"""In a file with statistics as earlier versions made them."""


def day_of(number: int) -> date:
    return date(2026, 1, 1) + timedelta(days=number)


class Table:
    """The exporter's own, with the same rows again in one that Delta has written."""

    def __init__(self, spark: Any, root: Path) -> None:
        self.spark, self.root = spark, root
        self.ours, self.theirs = root / "ours", root / "theirs"
        declared = spark.createDataFrame([], DDL).schema.json()
        schema = arrow_schema(declared, "ours", "JSON")
        ours = [pa.field(KAFKA_COLUMN, KAFKA_TYPE), pa.field(EVENT_TIME, pa.timestamp("us", "UTC"))]
        self.schema = pa.schema([*ours, *schema, pa.field("_rescued", pa.string())])
        lake = Lake(spark, root, "app")
        table = lake.table("ours")
        table.commit(Change((), {}, {}, create=table_schema(declared)), lambda view: None)
        self.rows: list[dict[str, Any]] = []
        files = [self.written(number, groups) for number, groups in enumerate(DAYS)]
        files.append(replace(old := self.written(OLD_DAY, [OLD]), stats=as_before(old.stats)))
        table.commit(Change((), {}, {}, tuple(add_action(file, {}) for file in files)), lambda view: None)
        frame = spark.read.format("delta").load(str(self.ours)).where(f"day < '{day_of(OLD_DAY)}'")
        frame.repartition("day").write.format("delta").partitionBy("day").save(str(self.theirs))

    def written(self, number: int, groups: list[list[dict[str, Any]]]) -> StagedFile:
        origin = FileOrigin(open_store(str(self.ours)), "app", TP, 0, "ours", "f", {})
        growing = GrowingFile(origin, partition_of(day_of(number)))
        for group in groups:
            first = len(self.rows)
            kafka = {"topic": TP.topic, "partition": TP.partition, "epoch": 0, "timestamp": NOON}
            rows = [{**one, "id": first + at, "day": day_of(number), EVENT_TIME: NOON + timedelta(seconds=at),
                     KAFKA_COLUMN: {**kafka, "offset": first + at}} for at, one in enumerate(group)]  # fmt: skip
            growing.add(pa.Table.from_pylist(rows, self.schema), first, first + len(rows) - 1)
            growing.encode()
            self.rows += rows
        return growing.finish()


def as_before(text: str) -> str:
    """Statistics without what earlier versions did not write: of decimals, of texts over 32 characters, of lists."""
    stats = json.loads(text)
    for side in ("minValues", "maxValues"):
        for name in ("money", "tiny", "txt"):
            stats[side].pop(name, None)
        stats[side]["s"].pop("deep", None)
    for name in ("xs", "m"):
        stats["nullCount"].pop(name, None)
    return json.dumps(stats)


@pytest.fixture(scope="module")
def table(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Table:
    return Table(spark, tmp_path_factory.mktemp("statistics"))


def statistics(folder: Path) -> dict[str, Any]:
    """Day -> what the log says of its file; numbers exact."""
    lines = [json.loads(line) for path in folder.glob("_delta_log/*.json") for line in path.read_text().splitlines()]
    adds = [line["add"] for line in lines if "add" in line]
    assert len({add["partitionValues"]["day"] for add in adds}) == len(adds)
    return {add["partitionValues"]["day"]: json.loads(add["stats"], parse_float=Decimal) for add in adds}


def test_statistics_are_the_same_that_delta_writes(table: Table) -> None:
    """Of the same rows, file by file, of columns of every type: bounds, null counts, and which columns have any.

    But for a FLOAT: Delta's bound is the shortest text of it, which is none of the same number as a DOUBLE.
    """
    ours, theirs = statistics(table.ours), statistics(table.theirs)
    assert len(theirs) == len(DAYS)
    for day, stats in theirs.items():
        for side in ("minValues", "maxValues"):
            if "f" in stats[side]:
                assert Decimal(float(ours[day][side].pop("f"))) == Decimal(single(stats[side].pop("f")))
        assert ours[day] == stats, day


def single(number: Decimal) -> float:
    return float(pa.scalar(float(number), pa.float32()).as_py())


COMPARED = {"=": operator.eq, "<>": operator.ne, "<": operator.lt, ">": operator.gt, "<=": operator.le,
            ">=": operator.ge}  # fmt: skip
KINDS = (*COMPARED, "IN", "BETWEEN", "IS NULL", "IS NOT NULL")


@dataclass(frozen=True)
class Filter:
    """A condition on the column at a path. values: its literals."""

    path: tuple[str, ...]
    kind: str
    values: tuple[Any, ...] = ()

    def holds(self, found: dict[str, Any]) -> bool:
        """For a row, by Python alone."""
        value = at_path(found, self.path)
        if value is None or not self.values:
            return (value is None) == (self.kind == "IS NULL")
        if self.kind in ("IN", "BETWEEN"):
            return value in self.values if self.kind == "IN" else self.values[0] <= value <= self.values[1]
        return bool(COMPARED[self.kind](value, self.values[0]))

    def sql(self, column: str, literal: Callable[[Any], str]) -> str:
        """In words of a reader. column: as it calls it. literal: how it writes a value."""
        joined = {"IN": "({}, {})", "BETWEEN": "{} AND {}"}.get(self.kind, "{}" if self.values else "")
        return f"{column} {self.kind} " + joined.format(*map(literal, self.values))


def at_path(found: dict[str, Any], path: Sequence[str]) -> Any:
    value: Any = found
    for name in path:
        value = None if value is None else value.get(name)
    return value


def kind_of(schema: pa.Schema, path: Sequence[str]) -> pa.DataType:
    kind = schema.field(path[0]).type
    for name in path[1:]:
        kind = kind.field(name).type
    return kind


def filters(rows: Sequence[dict[str, Any]], values_max: int) -> Iterator[Filter]:
    """Each kind on each column, with so many of the values that stand in it."""
    for path in [*COMPARABLE, *NULLABLE]:
        yield Filter(path, "IS NULL")
        yield Filter(path, "IS NOT NULL")
    for path in COMPARABLE:
        values = sorted({value for found in rows if (value := at_path(found, path)) is not None})
        for at in range(0, len(values), -(-len(values) // values_max)):
            for kind in COMPARED:
                yield Filter(path, kind, (values[at],))
            yield Filter(path, "IN", (values[at], values[at - 1]))
            yield Filter(path, "BETWEEN", (values[at], values[min(at + 1, len(values) - 1)]))


def spark_literal(kind: pa.DataType) -> Callable[[Any], str]:
    if pa.types.is_timestamp(kind):
        name = "TIMESTAMP" if kind.tz else "TIMESTAMP_NTZ"
        return lambda value: f"{name} '{value.replace(tzinfo=None).isoformat(' ')}'"
    if pa.types.is_date(kind):
        return lambda value: f"DATE '{value.isoformat()}'"
    if pa.types.is_string(kind):
        return lambda value: f"'{value}'"
    if pa.types.is_binary(kind):
        return lambda value: f"X'{value.hex()}'"
    if pa.types.is_decimal(kind):
        return lambda value: f"CAST('{value}' AS DECIMAL({kind.precision},{kind.scale}))"
    if pa.types.is_floating(kind):
        return lambda value: f"CAST('{value!r}' AS {'FLOAT' if pa.types.is_float32(kind) else 'DOUBLE'})"
    return lambda value: str(value).lower()


def delta_rs_literal(kind: pa.DataType) -> Callable[[Any], str]:
    """As DataFusion writes it, whose own literals of times are of nanoseconds, from 1677 to 2262."""
    if pa.types.is_timestamp(kind):
        zone = 'Some("UTC")' if kind.tz else "None"
        return lambda value: f"arrow_cast('{value.isoformat()}', 'Timestamp(Microsecond, {zone})')"
    if pa.types.is_decimal(kind):
        return lambda value: f"arrow_cast('{value:f}', 'Decimal128({kind.precision}, {kind.scale})')"
    if pa.types.is_floating(kind):
        return lambda value: f"arrow_cast({value!r}, '{'Float32' if pa.types.is_float32(kind) else 'Float64'}')"
    return spark_literal(kind)


def differences(table: Table, chosen: Sequence[Filter], answers: Sequence[list[int]]) -> list[str]:
    """The filters that have another answer than a look at every row."""
    found = []
    for one, answer in zip(chosen, answers, strict=True):
        wanted = [row["id"] for row in table.rows if one.holds(row)]
        if sorted(answer) != wanted:
            found.append(f"{one.path} {one.kind} {str(one.values)[:60]}: {sorted(answer)}, not {wanted}")
    return found


@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.long)])
def test_no_filter_loses_a_row_in_spark(table: Table, step: int) -> None:
    """Every kind on every column, in files as Delta's and as earlier versions described them.

    Of the eight kinds of each column every seventh filter: each column and each kind now and again.
    """
    chosen = [*filters(table.rows, 1)][::step]
    assert {one.kind for one in chosen} == {*KINDS} and {one.path for one in chosen} >= {*COMPARABLE}
    selects = []
    for number, one in enumerate(chosen):
        column = ".".join(f"`{name}`" for name in one.path)
        where = one.sql(column, spark_literal(kind_of(table.schema, one.path)))
        selects.append(f"SELECT {number} AS filter, id FROM ours WHERE {where}")
    table.spark.read.format("delta").load(str(table.ours)).createOrReplaceTempView("ours")
    answers: list[list[int]] = [[] for _ in chosen]
    for found in table.spark.sql(" UNION ALL ".join(selects)).collect():
        answers[found["filter"]].append(found["id"])
    assert differences(table, chosen, answers) == []


def test_no_filter_loses_a_row_in_delta_rs(table: Table) -> None:
    """The same with more values, by the QueryBuilder that the handbook names."""
    chosen = [*filters(table.rows, 9)]
    ask = deltalake.QueryBuilder().register("ours", deltalake.DeltaTable(table.ours)).execute
    answers = []
    for one in chosen:
        top, *below = one.path
        column = f'ours."{top}"' + "".join(f"['{name}']" for name in below)
        where = one.sql(column, delta_rs_literal(kind_of(table.schema, one.path)))
        answers.append(pa.table(ask(f"SELECT id FROM ours WHERE {where}").read_all())["id"].to_pylist())
    assert differences(table, chosen, answers) == []


def duckdb_literal(kind: pa.DataType) -> Callable[[Any], str]:
    if pa.types.is_timestamp(kind):
        return lambda value: f"'{value.isoformat(' ')}'::{'TIMESTAMPTZ' if kind.tz else 'TIMESTAMP'}"
    if pa.types.is_binary(kind):
        return lambda value: "'" + "".join(f"\\x{byte:02x}" for byte in value) + "'::BLOB"
    return spark_literal(kind)


def test_no_filter_loses_a_row_in_duckdb(table: Table) -> None:
    """Over a table that deltalake has read whole."""
    chosen = [*filters(table.rows, 9)]
    answers = []
    with duckdb.connect() as connection:
        connection.register("ours", deltalake.DeltaTable(table.ours).to_pyarrow_table())
        for one in chosen:
            column = ".".join(f'"{name}"' for name in one.path)
            where = one.sql(column, duckdb_literal(kind_of(table.schema, one.path)))
            found = connection.execute(f"SELECT id FROM ours WHERE {where}").fetchall()
            answers.append([number for (number,) in found])
    assert differences(table, chosen, answers) == []


def test_the_queries_of_the_handbook_see_each_row(table: Table) -> None:
    """As they stand there, on this table."""
    page = (Path(__file__).parents[2] / "deploy" / "handbook" / "tables.md").read_text()
    text = page[page.index("from deltalake import") :].split("```")[0]
    text = text.replace("/data/lake/payment", str(table.ours)).replace("amount", "money")
    said: dict[str, Any] = {}
    exec(text.replace("\nask(", "\nby_delta_rs = ask(").replace("\nduckdb.sql(", "\nby_duckdb = duckdb.sql("), said)
    wanted = []
    for day in sorted({found["day"] for found in table.rows}):
        money = [found.get("money") for found in table.rows if found["day"] == day]
        total = sum(filter(None, money), Decimal(0)) if any(one is not None for one in money) else None
        wanted.append((day, len(money), total))
    assert [tuple(found.values()) for found in pa.table(said["by_delta_rs"]).to_pylist()] == wanted
    assert said["by_duckdb"].fetchall() == wanted


@pytest.mark.parametrize("asked", ["EXCEPTION", "LEGACY", "CORRECTED"])
def test_old_dates_and_times_come_back_equal_whatever_spark_takes_unnamed_ones_for(table: Table, asked: str) -> None:
    """Those before 1900, which Spark 3 refuses by default, and before 1582, where the calendars differ by days."""
    names = [f"spark.sql.parquet.{kind}RebaseModeInRead" for kind in ("datetime", "int96")]
    before = {name: table.spark.conf.get(name) for name in names}
    try:
        for name in names:
            table.spark.conf.set(name, asked)
        frame = table.spark.read.format("delta").load(str(table.ours))
        wall = "unix_micros(cast(wall AS timestamp)) AS wall"  # the session's zone is UTC
        found = frame.selectExpr("id", "unix_micros(at) AS at", "unix_date(on) AS on", wall, "unix_micros(s.t) AS t")
        found = found.where("on IS NOT NULL").collect()
    finally:
        for name, value in before.items():
            table.spark.conf.set(name, value)
    wanted = []
    for one in table.rows:
        if one.get("on"):
            micros = (one["at"] - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
            days = one["on"].toordinal() - date(1970, 1, 1).toordinal()
            wanted.append((one["id"], micros, days, micros, micros))
    assert sorted(map(tuple, found)) == wanted
