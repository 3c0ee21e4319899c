"""A source with positions, as exports make it, and the rows of its mirror, by readers that are not ours.

Raw.append ─ restore, rewound, delete ... ── the table, and `rows`: what it has to hold
applied(rows) ── mirror_oracle.py ── key -> columns == shown(mirror_rows(path))
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa

from exporter.derive.job import AuditLine
from exporter.derive.mirror import MirrorJob
from exporter.lake.change import Change
from exporter.lake.lake import Lake
from exporter.lake.later import Later
from exporter.lake.schema import table_schema
from exporter.settings.derive_mirror import MirrorTable
from offsets.names import AppId
from offsets.positions import TOMBSTONE
from offsets.ranges import TopicPartition
from tests.support.mirror_oracle import UNSENT_TEXT, Mirrored, Page, coordinates, mirrored
from tests.support.mirror_oracle import at as value_at
from tests.support.staging import staged

BEGIN = datetime(2026, 1, 31, 12, tzinfo=timezone.utc)
DDL = "id BIGINT, at BIGINT, op STRING, changed ARRAY<STRING>, a STRING, b BIGINT, c STRUCT<x: BIGINT>"
VALUES = ("a", "b", "c")
Row = dict[str, Any]


PAGE = Page(["id"], ["at"], "op", upserts=("I", "U"), patches=("P",), fields="changed")
"""Of mirrors over DDL."""
CDC = "_cdc STRUCT<op: STRING, ts: TIMESTAMP, source: STRING, key: STRING, pos: STRING>"
ORDERS = Page(["id"], ["_cdc.ts"], "_cdc")
"""Of mirrors of an envelope."""


def changed(op: str, seconds: int, **columns: Any) -> Row:
    """A row of an envelope."""
    at = BEGIN + timedelta(seconds=seconds)
    return {"_cdc": {"op": op, "ts": at, "source": "public.orders", "key": None, "pos": None}, **columns}


def silent_of(name: str) -> str:
    """`_rescued` of a row that did not send a column."""
    return json.dumps({name: UNSENT_TEXT})


def applied(rows: Iterable[Row]) -> dict[Any, Row]:
    """Key -> columns and `deleted`, after all rows in their order."""
    found = mirrored(PAGE, rows, ("id", "at", *VALUES))
    return {
        key[0]: {**{name: row[name] for name in ("at", *VALUES)}, "deleted": key in found.deleted,
                 "from": found.newest[key]}
        for key, row in found.keys.items()
    }  # fmt: skip


@dataclass
class Raw:
    """One exported table of two partitions. rows: that it holds. epochs, ends: of each partition, the next offset."""

    lake: Lake
    session: Any
    name: str = "customer"
    rows: list[Row] = field(default_factory=list)
    epochs: dict[int, int] = field(default_factory=lambda: {0: 0, 1: 0})
    ends: dict[int, int] = field(default_factory=lambda: {0: 0, 1: 0})
    ddl: str = DDL
    history: dict[int, tuple[list[Row], dict[int, int]]] = field(default_factory=dict)
    """Version -> the rows and the ends of then."""
    emptied: list[Row] = field(default_factory=list)
    """Its truncates: `_kafka` and `ts` of each, and whether it is `told`, as a dead letter."""

    @property
    def table(self) -> Any:
        return self.lake.table(self.name)

    @property
    def sql_name(self) -> str:
        return str(self.table.sql_name)

    def id_of(self, partition: int, kind: Any = None, epoch: int | None = None) -> str:
        at = self.epochs[partition] if epoch is None else epoch
        return str(AppId(self.lake.app, TopicPartition("t", partition), at, kind))

    def create(self) -> None:
        from pyspark.sql.types import StructType

        positions = {self.id_of(tp, kind): -1 for tp in self.ends for kind in (None, "anchor")}
        create = table_schema(StructType.fromDDL(self.ddl).json())
        self._commit(positions, create=create)

    def append(self, rows: Sequence[Row]) -> None:
        """Commit rows behind the positions. Each has `partition` beside its columns, and maybe `days` after BEGIN."""
        made = []
        for row in rows:
            tp = row.get("partition", 0)
            at = BEGIN + timedelta(days=row.get("days", 0), seconds=self.ends[tp])
            kafka = {"topic": "t", "partition": tp, "epoch": self.epochs[tp], "offset": self.ends[tp], "timestamp": at}
            self.ends[tp] += 1
            columns = {name: value for name, value in row.items() if name not in ("partition", "days")}
            empty = dict.fromkeys(self.columns)
            made.append({**empty, **columns, "_kafka": kafka, "_event_time": at, "day": at.date()})
        self.rows += made
        self._commit({self.id_of(tp): end - 1 for tp, end in self.ends.items()}, made)

    def truncate(self, partition: int = 0, ts: datetime | None = None, told: bool = True, value: bytes = b"") -> None:
        """The source says that the table was emptied: a dead letter, which all positions pass.

        told: whether the dead letters have it yet. value: of the record; without `ts` the reason has no time.
        """
        at = BEGIN + timedelta(seconds=self.ends[partition])
        kafka = {"topic": "t", "partition": partition, "epoch": self.epochs[partition], "offset": self.ends[partition],
                 "timestamp": at}  # fmt: skip
        self.ends[partition] += 1
        self.emptied.append({"_kafka": kafka, "ts": ts, "value": value, "told": False})
        self._commit({self.id_of(tp): end - 1 for tp, end in self.ends.items()})
        if told:
            self.tell()

    @property
    def dead_letters(self) -> Any:
        return self.lake.table("dead_letters")

    def tell(self) -> None:
        """The dead letters come to where the table is, with the truncates that they lack."""
        positions = {self.id_of(tp): end - 1 for tp, end in self.ends.items()}
        if self.dead_letters.view() is None:
            anchors = {self.id_of(tp, kind): -1 for tp in self.ends for kind in (None, "anchor")}
            self._commit_to(self.dead_letters, anchors, create=table_schema(None))
        dead_letters = [
            {"_kafka": one["_kafka"], "value": one["value"], "stage": "decode", "event_type": self.name,
             "day": at.date(), "reason": f"cdc_truncate: of {self.name}{f' at {at.isoformat()}' if one['ts'] else ''}"}
            for one in self.emptied if not one["told"]
            for at in [one["ts"] or BEGIN]
        ]  # fmt: skip
        self._commit_to(self.dead_letters, positions, dead_letters)
        self.emptied = [{**one, "told": True} for one in self.emptied]

    def _commit(self, positions: Mapping[str, int], rows: Sequence[Row] = (), create: str | None = None) -> None:
        self.history[self._commit_to(self.table, positions, rows, create)] = [*self.rows], {**self.ends}

    def _commit_to(
        self, table: Any, positions: Mapping[str, int], rows: Sequence[Row] = (), create: str | None = None
    ) -> int:
        view = table.view()
        adds = staged(table, rows) if rows else ()
        says = {"commit_id": uuid.uuid4().hex, "app": self.lake.app, "checked_through": view.version if view else -1}
        change = Change(tuple(positions), positions, says, adds, create=create)
        return int(table.commit(change, lambda now: None))

    def sql(self, text: str) -> None:
        """A user's statement; {t} is the table. What it takes out of the table is the caller's to say."""
        self.session.sql(text.format(t=self.sql_name))
        self.history[self.version] = [*self.rows], {**self.ends}

    @property
    def columns(self) -> list[str]:
        return [one["name"] for one in json.loads(self.table.view().schema_json)["fields"]]

    @property
    def version(self) -> int:
        return int(self.table.view().version)

    def by_others(self, table: Any) -> deltalake.DeltaTable:
        """A table of the lake as delta-rs has it, by which users delete and RESTORE as well: within milliseconds."""
        return deltalake.DeltaTable(str(table.uri).removeprefix("file://"))

    def delete(self, doomed: Callable[[Row], bool], condition: str) -> None:
        """A user deletes rows. condition: as DataFusion has it."""
        self.rows = [row for row in self.rows if not doomed(row)]
        self.by_others(self.table).delete(condition)
        self.history[self.version] = [*self.rows], {**self.ends}

    def restore(self, version: int) -> None:
        """RESTORE, and nothing else: the positions stay ahead of the rows."""
        self.rows = [*self.history[version][0]]
        self.by_others(self.table).restore(version)
        self.history[self.version] = [*self.rows], {**self.ends}

    def rewind(self, ends: Mapping[int, int]) -> list[Row]:
        """As a repair does: rows from these offsets on go, an epoch begins there. What the topic still has of them."""
        gone = [row for row in self.rows if row["_kafka"]["offset"] >= ends.get(row["_kafka"]["partition"], 1 << 60)]
        places = {coordinates(row) for row in gone}
        self.rows = [row for row in self.rows if coordinates(row) not in places]
        beyond = " OR ".join(f"(_kafka['partition'] = {tp} AND _kafka['offset'] >= {end})" for tp, end in ends.items())
        self.by_others(self.table).delete(beyond)
        positions: dict[str, int] = {}
        for tp, end in ends.items():
            positions |= {self.id_of(tp): TOMBSTONE, self.id_of(tp, "sealed"): end - 1}
            self.epochs[tp] += 1
            positions |= {self.id_of(tp, "anchor"): end - 1, self.id_of(tp): end - 1}
            self.ends[tp] = end
        self._commit(positions)
        if self.dead_letters.view() is not None:
            self.emptied = [
                one for one in self.emptied if one["_kafka"]["offset"] < ends.get(one["_kafka"]["partition"], 1 << 60)
            ]  # fmt: skip
            self.by_others(self.dead_letters).delete(beyond)
            self._commit_to(self.dead_letters, positions)
        return gone

    def clean_log(self) -> int:
        """A checkpoint, and the entries before it go, as Delta's own clean-up does; the first version that is left."""
        self.table.checkpoint(0, apply=True)
        log = Path(str(self.table.uri).removeprefix("file://")) / "_delta_log"
        kept = int(json.loads((log / "_last_checkpoint").read_text())["version"])
        for file in log.iterdir():
            if file.name[:20].isdigit() and int(file.name[:20]) < kept:
                file.unlink()
        return kept


def mirror_rows(path: Path | str) -> list[Row]:
    """What a mirror has, by a reader that is not ours."""
    return deltalake.DeltaTable(str(path)).to_pyarrow_table().to_pylist()


def shown(rows: Iterable[Row]) -> dict[Any, Row]:
    """The rows of a mirror as applied() has them. Raises AssertionError if a key is there twice."""
    found: dict[Any, Row] = {}
    for row in rows:
        assert row["id"] not in found, f"{row['id']} is there twice"
        found[row["id"]] = {
            **{name: row[name] for name in VALUES}, "at": row["at"], "deleted": row["_deleted"],
            "from": coordinates(row),
        }  # fmt: skip
    return found


def held(page: Page, rows: Iterable[Row], columns: Sequence[str]) -> Mirrored:
    """The rows of a mirror as the oracle has them. Raises AssertionError if a key is there twice."""
    found = Mirrored()
    for row in rows:
        key = tuple(value_at(row, path) for path in page.keys)
        assert key not in found.keys, f"{key} is there twice"
        found.keys[key], found.newest[key] = {name: row.get(name) for name in columns}, coordinates(row)
        if row["_deleted"]:
            found.deleted.add(key)
    return found


def path_of(raw: Raw, job: str = "customers") -> str:
    """Of a mirror's table."""
    return str(raw.lake.derived(job).store.uri().removeprefix("file://"))


def rows_of(raw: Raw, job: str, *columns: str) -> dict[Any, tuple[Any, ...]]:
    """Id -> columns of the rows that are to be seen."""
    rows = (row for row in by_delta_rs(path_of(raw, job)) if not row["_deleted"])
    return {row["id"]: tuple(row[name] for name in columns) for row in rows}


def require_clean(job: MirrorJob) -> Sequence[AuditLine]:
    """What its audit says, which has nothing against it."""
    lines = job.audit()
    assert [line for line in lines if not line.clean] == []
    return lines


def raw_table(lake: Lake, *more: Any, **settings: Any) -> Raw:
    """A source that is there."""
    raw = Raw(lake, lake.session, *more, **settings)
    raw.create()
    return raw


def mirror_job(raw: Raw, page: Page = PAGE, name: str = "customers", owner: str = "me", **more: Any) -> MirrorJob:
    """The job of such a mirror, as a process that starts has it. more: other settings."""
    session = raw.session.newSession()
    session.conf.set("spark.sql.shuffle.partitions", "1")
    table = MirrorTable(kind="mirror", source=raw.name, **vars(page), **more)
    made = MirrorJob(name, table, raw.lake, Later.of(session), owner)
    made._purge._looked = time.monotonic()  # else the first run of each looks, which costs half as much as the run
    return made


def by_spark(session: Any, path: str) -> list[Row]:
    return [row.asDict(recursive=True) for row in session.read.format("delta").load(path).collect()]


def by_delta_rs(path: str) -> list[Row]:
    """By DataFusion, which reads deletion vectors as well."""
    query = deltalake.QueryBuilder().register("mirror", deltalake.DeltaTable(path))
    rows: list[Row] = pa.table(query.execute("SELECT * FROM mirror").read_all()).to_pylist()
    return rows


def by_duckdb(path: str) -> list[Row]:
    import duckdb

    connection = duckdb.connect()
    connection.register("mirror", deltalake.DeltaTable(path).to_pyarrow_dataset())
    rows: list[Row] = connection.sql("SELECT * FROM mirror").arrow().read_all().to_pylist()
    return rows
