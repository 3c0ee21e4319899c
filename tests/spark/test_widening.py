"""A table whose columns were widened: Spark reads old and new files, and no filter loses a row of either."""

from __future__ import annotations

import json
import operator
import struct
from collections.abc import Iterator, Sequence
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from exporter.arrow.own_columns import KAFKA_COLUMN, KAFKA_TYPE
from exporter.core.columns import EVENT_TIME
from exporter.core.outcome import Stale
from exporter.core.routing import EventTime, Routing, TypeFrom
from exporter.core.table_options import TableOptions
from exporter.core.writers import Claim, StagedFile, WriterKey
from exporter.errors import ConfigError
from exporter.formats.schema import arrow_schema
from exporter.kafka.topics import EARLIEST
from exporter.lake.change import Change, add_action
from exporter.lake.gateway import Gateway
from exporter.lake.lake import Lake
from exporter.lake.schema import refuses, schema_change, table_schema
from exporter.protocol.anchor import Anchors
from exporter.protocol.commit import DeltaCommitter
from exporter.protocol.rehearsal import rehearse
from exporter.stores.parquet import FileOrigin, GrowingFile
from offsets.crosscheck import Switch
from offsets.positions import Position
from offsets.ranges import TopicIdentity, TopicPartition
from offsets.table_log import TableView
from tests.support.days import partition_of

pytestmark = pytest.mark.spark

TP = TopicPartition("events", 0)
DAY = date(2026, 1, 31)
COLUMNS = {
    "id": ("BIGINT", "BIGINT"),
    "b": ("TINYINT", "BIGINT"),
    "h": ("SMALLINT", "INT"),
    "i": ("INT", "BIGINT"),
    "n": ("INT", "DOUBLE"),
    "f": ("FLOAT", "DOUBLE"),
    "money": ("DECIMAL(5,2)", "DECIMAL(12,4)"),
    "large": ("DECIMAL(12,2)", "DECIMAL(38,10)"),
    "on": ("DATE", "TIMESTAMP_NTZ"),
    "s": ("STRUCT<x: INT, fs: ARRAY<FLOAT>>", "STRUCT<x: BIGINT, fs: ARRAY<DOUBLE>>"),
    "kv": ("MAP<STRING, INT>", "MAP<STRING, BIGINT>"),
}
"""Name -> the type of before, the wider one."""
ALTERED = {
    "b": "BIGINT", "money": "DECIMAL(12,4)", "on": "TIMESTAMP_NTZ", "s.x": "BIGINT", "s.fs.element": "DOUBLE",
    "kv.value": "BIGINT",
}  # fmt: skip
"""Path in some of the columns -> the wider type there."""
OLD_DDL, NEW_DDL = (", ".join(f"`{name}` {kinds[at]}" for name, kinds in COLUMNS.items()) for at in (0, 1))


def single(number: float) -> float:
    """What a FLOAT holds of a number."""
    return float(struct.unpack("f", struct.pack("f", number))[0])


def old_row(at: int, f: float, **more: Any) -> dict[str, Any]:
    """One that the narrow types hold; the more it is at, the larger its values."""
    made = {
        "b": at * 10 - 128, "h": at * 3000 - 32768, "i": at * 200_000_000 - 2**31, "n": at * 200_000_000 - 2**31,
        "f": single(f), "money": Decimal(at * 50).scaleb(-2) - 500, "large": Decimal(at * 77).scaleb(-2) - 10**9,
        "on": date(2026, 1, 1 + at), "s": {"x": at, "fs": [single(f), None]}, "kv": [("k", at * 1000)],
    }  # fmt: skip
    return {**made, **more}


OLD_FILES = [
    [old_row(1, 0.1), old_row(2, 0.7), old_row(3, -0.3)],
    [old_row(20, 16_777_216.0), dict.fromkeys(COLUMNS)],
    [old_row(7, 1e-45), old_row(8, 3.4028234e38)],
    [old_row(5, 0.1)],
]
"""Each a file of its own: neither their values nor their bounds are those of a DOUBLE that is written so."""
NEW_FILE: list[dict[str, Any]] = [
    {
        "b": 2**40, "h": 2**20, "i": 2**31, "n": 0.5, "f": 0.1, "money": Decimal("12345678.0001"),
        "large": Decimal("9" * 28 + ".0000000001"), "on": datetime(2026, 1, 2, 0, 0, 0, 1),
        "s": {"x": 2**62, "fs": [0.1]}, "kv": [("k", 2**31)],
    },
    {
        "b": -129, "h": -32769, "i": -(2**31) - 1, "n": 1e300, "f": 1e300, "money": Decimal("-500.0001"),
        "large": Decimal(0), "on": datetime(2026, 1, 3), "s": {"x": -1, "fs": None}, "kv": None,
    },
]  # fmt: skip


class Table:
    """One of the exporter's, made under the old types, filled, widened and filled again."""

    def __init__(self, spark: Any, root: Path) -> None:
        self.spark = spark
        self.lake = Lake(spark, root, "app", options=TableOptions(type_widening=True))
        self.delta = self.lake.table("order")
        self.old, self.new = (spark.createDataFrame([], ddl).schema.json() for ddl in (OLD_DDL, NEW_DDL))
        self.anchors = Anchors(self.lake, None, routing(order=self.new), EARLIEST)  # type: ignore[arg-type]
        anchors = Anchors(self.lake, None, routing(order=self.old), EARLIEST)  # type: ignore[arg-type]
        identities = {"events": TopicIdentity("cluster", "topic-id", (0,))}
        anchors.anchor_type("order", None, {TP: Position(0, -1)}, identities)
        self.rows: list[dict[str, Any]] = []

    def fill(self, declared: str, files: Sequence[Sequence[dict[str, Any]]]) -> None:
        staged = [self.staged(declared, rows) for rows in files]
        self.delta.commit(Change((), {}, {}, tuple(add_action(file, {}) for file in staged)), lambda view: None)

    def staged(self, declared: str, rows: Sequence[dict[str, Any]]) -> StagedFile:
        """A file as a task makes it, by the declared types. Its rows count as the table's."""
        ours = [pa.field(KAFKA_COLUMN, KAFKA_TYPE), pa.field(EVENT_TIME, pa.timestamp("us", "UTC"))]
        schema = pa.schema([*ours, *arrow_schema(declared, "order", "JSON"), pa.field("_rescued", pa.string())])
        origin = FileOrigin(self.delta.store, "app", TP, 0, "order", self.view().fingerprint, {})
        growing, first = GrowingFile(origin, partition_of(DAY)), len(self.rows)
        made = []
        for offset, row in enumerate(rows, first):
            kafka = {"topic": "events", "partition": 0, "epoch": 0, "offset": offset, "timestamp": None}
            noon = datetime(2026, 1, 31, 12, tzinfo=timezone.utc)
            made.append({**row, "id": offset, KAFKA_COLUMN: kafka, EVENT_TIME: noon, "_rescued": None})
        growing.add(pa.Table.from_pylist(made, schema), first, first + len(made) - 1)
        self.rows += made
        return growing.finish()

    def widen(self) -> None:
        """As a seal does it."""
        evolved = schema_change(self.view(), table_schema(self.new), True)
        assert len(evolved.widened) == 11
        change = Change((), {}, {}, properties=evolved.properties, evolve=evolved.schema_json)
        self.delta.commit(change, lambda view: None)

    def view(self) -> TableView:
        view = self.delta.view()
        assert view is not None
        return view

    def frame(self) -> Any:
        return self.spark.read.format("delta").load(self.delta.uri)


def routing(**types: str) -> Routing:
    return Routing(TypeFrom("json", "type"), EventTime("record"), tuple(sorted(types.items())))


@pytest.fixture(scope="module")
def table(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Table:
    made = Table(spark, tmp_path_factory.mktemp("widening"))
    made.fill(made.old, OLD_FILES)
    made.widen()
    made.fill(made.new, [NEW_FILE])
    return made


def wide(value: Any) -> Any:
    """A value as the wider type has it."""
    if isinstance(value, date) and not isinstance(value, datetime):
        return datetime(value.year, value.month, value.day)
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return dict(value)
    return value


def test_spark_reads_old_and_new_files_alike(table: Table) -> None:
    """Each value as it was, also in structs, lists and maps; nulls stay null."""
    found = [row.asDict(recursive=True) for row in table.frame().orderBy("id").select(*COLUMNS).collect()]
    assert found == [{name: wide(row[name]) for name in COLUMNS} for row in table.rows]


def test_the_table_says_to_readers_that_it_was_widened(table: Table) -> None:
    """The feature that a reader must know, and the same metadata as ALTER TABLE writes."""
    view = table.view()
    assert (view.writer_version, "typeWidening" in view.writer_features) == (7, True)
    log = sorted(Path(table.delta.uri, "_delta_log").glob("*.json"))
    actions = [json.loads(line) for path in log for line in path.read_text().splitlines()]
    protocol = [action["protocol"] for action in actions if "protocol" in action][-1]
    assert protocol["minReaderVersion"] == 3 and "typeWidening" in protocol["readerFeatures"]
    altered = Path(table.delta.uri).parent / "altered"
    name = f"delta.`{altered}`"
    features = "'delta.enableTypeWidening' = 'true', 'delta.feature.timestampNtz' = 'supported'"
    table.spark.sql(f"CREATE TABLE {name} ({OLD_DDL}) USING delta TBLPROPERTIES ({features})")
    for path, kind in ALTERED.items():
        quoted = ".".join(f"`{part}`" for part in path.split("."))
        table.spark.sql(f"ALTER TABLE {name} CHANGE COLUMN {quoted} TYPE {kind}")
    theirs = table.lake.table("altered").view()
    assert theirs is not None
    ours, by_delta = ({f["name"]: f for f in json.loads(one.schema_json)["fields"]} for one in (view, theirs))
    for column in {path.partition(".")[0] for path in ALTERED}:
        assert ours[column] == by_delta[column]


COMPARED = {"=": operator.eq, "<": operator.lt, ">": operator.gt}


def literal(value: Any) -> str:
    if isinstance(value, datetime):
        return f"TIMESTAMP_NTZ '{value.isoformat(' ')}'"
    if isinstance(value, Decimal):
        return f"CAST('{value}' AS DECIMAL(38,10))"
    if isinstance(value, float):
        return f"CAST('{value!r}' AS DOUBLE)"
    return f"{value}L"


def filters(rows: Sequence[dict[str, Any]]) -> Iterator[tuple[str, str, list[int]]]:
    """Condition, what it is about, the rows for which it holds."""
    for path in ("b", "h", "i", "n", "f", "money", "large", "on", "s.x"):
        values = []
        for row in rows:
            value: Any = row
            for name in path.split("."):
                value = None if value is None else value[name]
            values.append(wide(value))
        asked = sorted({value for value in values if value is not None})
        asked = [0.1, 0.7, single(0.1), single(-0.3), 16_777_217.0] if path == "f" else asked[::4]
        for kind, compare in COMPARED.items():
            for one in asked:
                holds = [at for at, value in enumerate(values) if value is not None and compare(value, one)]
                yield f"{path} {kind} {literal(one)}", path, holds
        yield f"{path} IS NULL", path, [at for at, value in enumerate(values) if value is None]


def lost(table: Table, step: int) -> list[str]:
    """The filters whose answer is not that of a look at each row: of all that were FLOAT, else of each `step` one."""
    asked = [one for at, one in enumerate(filters(table.rows)) if one[1] == "f" or not at % step]
    assert {path for _, path, _ in asked} == {path for _, path, _ in filters(table.rows)}
    table.frame().createOrReplaceTempView("widened")
    selects = [f"SELECT {at} AS filter, id FROM widened WHERE {where}" for at, (where, _, _) in enumerate(asked)]
    answers: list[list[int]] = [[] for _ in asked]
    for begin in range(0, len(selects), 60):
        for found in table.spark.sql(" UNION ALL ".join(selects[begin : begin + 60])).collect():
            answers[found["filter"]].append(found["id"])
    return [
        f"{where}: {sorted(answer)}, not {wanted}"
        for (where, _, wanted), answer in zip(asked, answers, strict=True)
        if sorted(answer) != wanted
    ]


@pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.long)])
def test_no_filter_loses_a_row_in_spark(table: Table, step: int) -> None:
    """By statistics and row groups of the narrower types; also where a number is no FLOAT."""
    assert lost(table, step) == []


def test_what_was_staged_before_is_staged_again(table: Table, spark: Any, tmp_path: Path) -> None:
    """The commit of a task that knows the old columns is given up, not doubled; under the wider types it fits."""
    mine = Table(spark, tmp_path)
    committer = DeltaCommitter(mine.lake, "test", {})
    committer.trust("order", mine.view())
    file = mine.staged(mine.old, OLD_FILES[0])
    mine.widen()
    claim = Claim(WriterKey("order", TP), 0, -1, 2, (file,), committer.checked_through("order"))
    (settled,) = committer.commit("order", [claim]).settled
    assert isinstance(settled.outcome, Stale)
    assert mine.frame().count() == 0
    view = mine.view()
    assert "column b is long in the table and byte in the settings" in refuses(view, table_schema(mine.old))
    assert refuses(view, table_schema(mine.new)) == refuses(view, table_schema(mine.old), widened=False) == ""


def test_a_file_that_goes_while_its_bounds_are_stated_anew_is_not_brought_back(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user's DELETE between the transaction's reading and its commit: it is refused, and reads anew."""
    mine, adds = Table(spark, tmp_path), Gateway.adds
    mine.fill(mine.old, OLD_FILES[:2])

    def meanwhile(self: Gateway, actions: Any) -> Any:
        spark.sql(f"DELETE FROM delta.`{mine.delta.uri}` WHERE id = 0")
        return adds(self, actions)

    with monkeypatch.context() as patch, pytest.raises(Exception, match=r"(?i)concurrent"):
        patch.setattr(Gateway, "adds", meanwhile)
        mine.widen()
    assert mine.frame().count() == 4
    mine.widen()
    assert sorted(row.id for row in mine.frame().collect()) == [1, 2, 3, 4]


def test_the_rehearsal_of_a_switch_says_what_stands_in_the_way(table: Table, spark: Any, tmp_path: Path) -> None:
    """Nothing with the setting; without it the hint names it, and nothing was written."""
    mine = Table(spark, tmp_path)
    switches = {TP: Switch(0, "old", -1, {"order": Position(0, -1)})}
    rehearse(mine.anchors, {"order": mine.view()}, switches, {}, writing=False)
    mine.lake.type_widening = False
    with pytest.raises(ConfigError, match="column b is byte in the table and long in the settings") as refused:
        rehearse(mine.anchors, {"order": mine.view()}, switches, {}, writing=False)
    assert "`type_widening = true`" in str(refused.value)
    assert mine.view().version == 0
