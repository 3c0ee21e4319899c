"""A lake under test: a settings file, tasks in this process or in their own, and readers that are not ours.

    Record(...)s -> produce -> Export.run() -> rows(), positions() -> placed() == expected

The tables are read back with deltalake, the topic with confluent-kafka: nothing that is asserted was
computed by the code under test. A record's key says in which table it has to be.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import confluent_kafka as ck
import deltalake
import pyarrow as pa
import pytest
from kafka import TopicPartition as KafkaTopicPartition

from exporter import faults
from exporter.arrow.own_columns import KAFKA_COLUMN, KAFKA_TYPE
from exporter.core.backoff import Backoff
from exporter.core.order import StagingOrder
from exporter.core.outcome import Report
from exporter.core.routing import DEAD_LETTERS
from exporter.core.writers import StagedFile
from exporter.drill.producer import NOON, TYPES, Load
from exporter.executor.stage import stage
from exporter.faults import InjectedFault
from exporter.formats.schema_columns import FromSchemas
from exporter.kafka.options import kafka_python_options
from exporter.kafka.topics import TopicReader
from exporter.lake.change import Change
from exporter.lake.lake import Lake
from exporter.lake.schema import table_schema
from exporter.operate.audit.report import AuditReport
from exporter.protocol.commit import DeltaCommitter
from exporter.settings.load import load
from exporter.settings.meaning import evolutions, table_options
from exporter.settings.model import Settings
from exporter.stores.parquet import FileOrigin, GrowingFile
from exporter.task.build import build_service
from exporter.workbench import Workbench, open_registry, parse_hints, routing_of
from offsets.names import AppId, event_type_of, table_folder
from offsets.positions import Position, live_position
from offsets.ranges import TopicPartition
from offsets.table_log import TableView
from tests.support.days import partition_of
from tests.support.documents import OURS
from tests.support.places import File, Folder, Place
from tests.support.services import Record, administered, fresh_name, produce

DDL = TYPES
"""The event types of these tests are the drill's; NOON is the Kafka timestamp of records that do not say otherwise."""
RUN_SECS_MAX = 120.0
GONE_SECS_MAX = 60.0


def seldom(*values: Any, id: str | None = None) -> Any:
    """A parameter set that only `-m long` runs: it says little that the others do not."""
    return pytest.param(*values, id=id, marks=pytest.mark.long)


S3_GROUP = pytest.mark.xdist_group("s3")
"""Of whatever needs an S3, so that there is one of it."""
EVERYWHERE = pytest.mark.parametrize("place", ["file", pytest.param("s3", marks=S3_GROUP)], indirect=True)
"""Of a test that takes `place`, or an export of one that does: it runs on a folder and on a bucket."""
EVERYWHERE_SELDOM = pytest.mark.parametrize(
    "place", ["file", pytest.param("s3", marks=[pytest.mark.long, S3_GROUP])], indirect=True
)
"""As EVERYWHERE; on the bucket only with `-m long`."""


def millis(at: datetime) -> int:
    return int(at.timestamp() * 1000)


def event(kind: str, number: int, at: datetime = NOON, stamp: datetime | None = None, **fields: Any) -> Record:
    """A good record of one of DDL's types; its key names its table."""
    fillings: dict[str, dict[str, Any]] = {
        "order": {"amount": f"{number}.25", "note": f"n{number}"},
        "click": {"page": f"/p/{number % 7}"},
        "payment": {"ok": number % 2 == 0},
    }
    text = at.astimezone(timezone.utc).isoformat().replace("+00:00", "Z")
    value = {"type": kind, "at": text, "id": number, **fillings.get(kind, {}), **fields}
    return Record(kind.encode(), json.dumps(value).encode(), timestamp_ms=millis(stamp or max(at, NOON)))


def undeclared(kind: str, **fields: Any) -> Record:
    """A record of just these fields."""
    value = {"type": kind, "at": "2026-01-31T12:00:00Z", **fields}
    return Record(kind.encode(), json.dumps(value).encode(), timestamp_ms=millis(NOON))


def bad(value: bytes | None) -> Record:
    """A record that has to be a dead letter."""
    return Record(DEAD_LETTERS.encode(), value, timestamp_ms=millis(NOON))


def mixed(count: int, first: int = 0, bad_every: int = 17) -> list[Record]:
    """Orders, clicks and payments 6:3:1, five days out of order, some bad."""
    rows = []
    for number in range(first, first + count):
        if bad_every and number % bad_every == bad_every - 1:
            rows.append(bad(b'{"type": "order", "at": "2026-01-31T12:00:00Z", "id": "many"}'))
            continue
        kind = ("order", "click", "order", "order", "click", "payment", "order", "click", "order", "order")[number % 10]
        rows.append(event(kind, number, NOON - timedelta(days=number * 7 % 5)))
    return rows


@dataclass(frozen=True)
class Export:
    """One app's way from a topic to a lake. `group` may differ from one run to the next: FENCE does not need it.

    topic: the only one, unless `scalars` say otherwise; readers look at this one unless they are told another.
    types: event type -> DDL; an empty one declares nothing. log_of: opens the tasks' write-ahead log instead of what
    the settings say. kafka_client, value_format: these tables' lines. more: further tables, with their heads.
    cuts: event type -> more lines of its table. at: where the tables are; else in a folder of the root.
    """

    kafka: str
    topic: str
    root: Path
    app: str
    types: Mapping[str, str] = field(default_factory=lambda: dict(DDL))
    scalars: Mapping[str, Any] = field(default_factory=dict)
    event_time: str = 'kind = "json"\npath = "at"'
    log_of: Any = None
    type_from: str = 'kind = "json"\nname = "type"'
    kafka_client: str = ""
    value_format: str = ""
    more: str = ""
    cuts: Mapping[str, str] = field(default_factory=dict)
    at: Place | None = None

    @property
    def place(self) -> Place:
        return self.at or Folder(self.root / "lake")

    def with_(self, types: Mapping[str, str] | None = None, **scalars: Any) -> Export:
        """The same with other types or settings."""
        return replace(self, types=dict(types or self.types), scalars={**self.scalars, **scalars})

    def write(self) -> Path:
        """Its exporter.toml, a new file for each text."""
        scalars: dict[str, Any] = {
            "brokers": [self.kafka],
            "topics": [self.topic],
            "group": self.app,
            "app": self.app,
            "table_root": self.place.table_root,
            **self.place.settings,
            "spark_master": "local[2]",
            "poll_secs": 0.2,
            "roll_age_max_secs": 1.0,
            "heartbeat_secs": 1.0,
            "session_timeout_secs": 6,
            **self.scalars,
        }
        lines = [f"{name} = {json.dumps(value)}" for name, value in scalars.items() if value is not None]
        lines += ["[type_from]", self.type_from, "[event_time]", self.event_time]
        for name, ddl in self.types.items():
            columns = [f"columns = {json.dumps(ddl)}"] if ddl else []
            lines += [f"[types.{json.dumps(name)}]", *columns, self.cuts.get(name, "")]
        lines += ["[kafka_client]", self.kafka_client] if self.kafka_client else []
        lines += ["[value_format]", self.value_format] if self.value_format else []
        lines.append(self.more)
        path = self.root / f"{fresh_name('exporter')}.toml"
        path.write_text("\n".join(lines) + "\n")
        return path

    def settings(self) -> Settings:
        return load(self.write(), {}, {})

    def send(self, records: Mapping[int, Sequence[Record]]) -> None:
        """Write partition -> records to its topic."""
        produce(self.kafka, self.topic, records)

    @contextmanager
    def bench(self, spark: Any) -> Iterator[Workbench]:
        """What every verb works with, on the shared session."""
        settings = self.settings()
        reader = TopicReader(kafka_python_options(settings), settings.selection, settings.isolation)
        configuration = routing_of(settings, spark)
        lake = Lake(spark, settings.store, settings.app, options=table_options(settings))
        growing, registry = evolutions(settings, parse_hints(settings)), open_registry(settings)
        try:
            yield Workbench(lake, reader, configuration, growing, registry, FromSchemas(configuration))
        finally:
            reader.close()

    @contextmanager
    def service(self, spark: Any, until_caught_up: bool = True, secs_max: float = RUN_SECS_MAX) -> Iterator[Any]:
        """A task on the shared session; its loop fails after `secs_max`."""
        deadline = time.monotonic() + secs_max

        def on_progress(progress: Any) -> None:
            if time.monotonic() > deadline:
                raise TimeoutError(f"not caught up within {secs_max} s: {progress}")

        with self.bench(spark) as bench:
            yield build_service(self.settings(), bench, until_caught_up, on_progress, self.log_of)

    @contextmanager
    def going(self, spark: Any, secs_max: float = RUN_SECS_MAX) -> Iterator[Going]:
        """A task that runs in a thread of this process, stopped at the end; what ended it early is raised there."""
        with self.service(spark, until_caught_up=False, secs_max=secs_max) as service:
            task = Going(service)
            try:
                yield task
            finally:
                task.stop()
            if task.error is not None:
                raise task.error

    def audit(self, spark: Any) -> AuditReport:
        """What `exporter audit` finds."""
        from exporter.operate.audit.audit import audit

        with self.bench(spark) as bench:
            return audit(bench.lake, bench.topics, bench.routing)

    def proven(self, spark: Any) -> AuditReport:
        """The same, which has to be nothing."""
        report = self.audit(spark)
        assert report.clean, report.as_text()
        return report

    def run(self, spark: Any) -> Any:
        """Export in this process until caught up; the finished service, for its totals."""
        with self.service(spark) as service, gone_whole():
            service.run()
        return service

    def lake(self, spark: Any) -> Lake:
        """As verbs open it that need no broker."""
        return Lake(spark, self.settings().store, self.app)

    def table(self, event_type: str) -> deltalake.DeltaTable:
        place = self.place
        return deltalake.DeltaTable(
            f"{place.delta_root}/{table_folder(event_type)}", storage_options=place.delta_options
        )

    def folder(self, event_type: str) -> Path:
        """Of a lake that is in a folder."""
        return self.root / "lake" / table_folder(event_type)

    def uri(self, event_type: str) -> str:
        """The table's folder, as Spark calls it."""
        return f"{self.place.spark_root}/{table_folder(event_type)}"

    def sql_name(self, event_type: str) -> str:
        return f"delta.`{self.uri(event_type)}`"

    def log(self, event_type: str, suffix: str = ".json") -> list[File]:
        """The entries of a table's log, or what else in it ends so, oldest first."""
        found = self.place.files(f"{table_folder(event_type)}/_delta_log")
        return [file for file in found if file.name[0].isdigit() and file.name.endswith(suffix)]

    def tables(self) -> list[str]:
        """The event types that have a table."""
        paths = [file.path.split("/") for file in self.place.files() if file.name.endswith(".json")]
        return sorted({event_type_of(path[0]) for path in paths if len(path) == 3 and path[1] == "_delta_log"})

    def columns(self, event_type: str) -> dict[str, Any]:
        """The users' columns of a table: their names and types."""
        fields = json.loads(self.table(event_type).schema().to_json())["fields"]
        return {one["name"]: one["type"] for one in fields if one["name"] not in OURS}

    def rows(self, event_type: str) -> list[dict[str, Any]]:
        """All rows as dictionaries, in order of partition and offset, through deltalake."""
        found = self.table(event_type).to_pyarrow_table().to_pylist()
        return sorted(found, key=lambda row: (row["_kafka"]["partition"], row["_kafka"]["offset"]))

    def offsets(self, event_type: str) -> list[int]:
        return [row["_kafka"]["offset"] for row in self.rows(event_type)]

    def placed(self, topic: str = "") -> dict[tuple[int, int], list[str]]:
        """(partition, offset) -> every table that holds it, once per row."""
        found: dict[tuple[int, int], list[str]] = defaultdict(list)
        for name in self.tables():
            column = self.table(name).to_pyarrow_dataset().to_table(columns=["_kafka"]).column("_kafka")
            for row in column.to_pylist():
                if row["topic"] == (topic or self.topic):
                    found[row["partition"], row["offset"]].append(name)
        return dict(found)

    def position(self, event_type: str, partition: int = 0, topic: str = "") -> tuple[int, int]:
        """(epoch, offset), from the transactions in the table's log."""
        versions: dict[str, int] = {}
        for file in self.log(event_type):
            for line in self.place.read(file).decode().splitlines():
                if (txn := json.loads(line).get("txn")) is not None:
                    versions[txn["appId"]] = txn["version"]
        found = live_position(versions, self.app, TopicPartition(topic or self.topic, partition))
        assert found is not None, f"{event_type} has no position"
        return found.epoch, found.offset

    def positions(self, partition: int = 0, topic: str = "") -> dict[str, tuple[int, int]]:
        return {name: self.position(name, partition, topic) for name in self.tables()}

    def live(self, event_type: str, version: int | None = None) -> set[str]:
        """The data files that a version of the table names, the newest one without, relative to its folder."""
        root = f"{self.place.delta_root.removeprefix('file://')}/{table_folder(event_type)}/"
        table = self.table(event_type)
        if version is not None:
            table.load_as_version(version)
        return {uri.removeprefix("file://").removeprefix(root) for uri in table.file_uris()}

    def files(self, event_type: str) -> set[str]:
        """Every data file in the table's folder, committed or not."""
        folder = f"{table_folder(event_type)}/"
        found = {file.path.removeprefix(folder) for file in self.place.files(folder.rstrip("/"))}
        return {path for path in found if path.startswith("day=") and path.endswith(".parquet")}


Exports = Callable[..., Export]
"""(partitions=1, config of the topic=None, fields of Export, other settings) -> one of a fresh topic and app."""


def exports_of(kafka: str, topic: Callable[..., str], root: Path, place: Place) -> Exports:
    """See the fixture `exports`."""

    def make(partitions: int = 1, /, config: Mapping[str, str] | None = None, **given: Any) -> Export:
        own = {one.name: given.pop(one.name) for one in fields(Export) if one.name in given}
        known = {"kafka": kafka, "root": root, "app": fresh_name("app"), "at": None if "root" in own else place}
        made = {} if "topic" in own else {"topic": topic(partitions, config)}
        return Export(**{**known, **made, **own, "scalars": {**own.get("scalars", {}), **given}})

    return make


class Going:
    """A service's loop in a thread."""

    def __init__(self, service: Any) -> None:
        self.service = service
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            with gone_whole():
                self.service.run()
        except BaseException as error:  # noqa: BLE001 - raised again in the test's thread
            self.error = error

    def stop(self, secs: float = 60.0) -> None:
        """Stop it and wait for its end."""
        self.service.stop()
        self._thread.join(secs)
        assert not self._thread.is_alive(), f"still running {secs} s after its stop"

    def ended(self, secs: float = 120.0) -> BaseException | None:
        """Wait until it ends by itself; with what it ended is given back and not raised again."""
        self._thread.join(secs)
        assert not self._thread.is_alive(), f"still running after {secs} s"
        error, self.error = self.error, None
        return error


def expected_places(kafka: str, topic: str, isolation: str = "read_committed") -> dict[tuple[int, int], list[str]]:
    """(partition, offset) -> [the table that its key names], of every record that a consumer sees."""
    return {(m.partition(), m.offset()): [(m.key() or b"?").decode()] for m in messages(kafka, topic, isolation)}


def messages(kafka: str, topic: str, isolation: str = "read_committed") -> Iterator[Any]:
    """Every record of the topic, read to the ends that it has now."""
    consumer = ck.Consumer(
        {"bootstrap.servers": kafka, "group.id": fresh_name(), "enable.auto.commit": False,
         "enable.partition.eof": True, "isolation.level": isolation, "fetch.wait.max.ms": 10, "log_level": 3}
    )  # fmt: skip
    try:
        partitions = list(consumer.list_topics(topic, timeout=10).topics[topic].partitions)
        consumer.assign([ck.TopicPartition(topic, partition, ck.OFFSET_BEGINNING) for partition in partitions])
        deadline, open_ = time.monotonic() + 60, set(partitions)
        while open_:
            assert time.monotonic() < deadline, f"{topic}: no end of {sorted(open_)}"
            for message in consumer.consume(1000, timeout=0.05):  # it waits for all 1,000 of them
                if message.error() is None:
                    yield message
                elif message.error().code() == ck.KafkaError._PARTITION_EOF:
                    open_.discard(message.partition())
    finally:
        consumer.close()


def wrong_places(
    export: Export, isolation: str = "read_committed", topic: str = ""
) -> dict[tuple[int, int], tuple[Any, Any]]:
    """ONCE, checked naively: (partition, offset) -> (where it must be, where it is), for all that differ."""
    wanted, found = expected_places(export.kafka, topic or export.topic, isolation), export.placed(topic)
    return {
        at: (wanted.get(at, []), found.get(at, []))
        for at in sorted(wanted.keys() | found.keys())
        if wanted.get(at, []) != found.get(at, [])
    }


def days(rows: Sequence[Mapping[str, Any]]) -> Counter[date]:
    return Counter(row["day"] for row in rows)


def wait_until(true: Callable[[], Any], secs: float, what: str) -> Any:
    """Poll until `true` returns something true, and return it; AssertionError after `secs`."""
    deadline = time.monotonic() + secs
    while not (found := true()):
        assert time.monotonic() < deadline, f"not within {secs} s: {what}"
        time.sleep(0.02)  # pace of the polling, bounded by the deadline
    return found


SMALL_TABLE = '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}'
"""One declared column, for tests that stage files themselves."""


def create_anchored(lake: Lake, event_type: str, positions: Mapping[TopicPartition, Position]) -> None:
    """Create a table of SMALL_TABLE with its positions, in one commit. RuntimeError if there is one."""

    def absent(view: TableView | None) -> None:
        if view is not None:
            raise RuntimeError(f"{event_type} is there already")

    versions = {str(AppId(lake.app, tp, position.epoch)): position.offset for tp, position in positions.items()}
    change = Change(tuple(versions), versions, {}, create=table_schema(SMALL_TABLE))
    lake.table(event_type).commit(change, absent)


def stage_offsets(
    lake: Lake,
    event_type: str,
    tp: TopicPartition,
    offsets: Sequence[int],
    day: date,
    epoch: int = 0,
    ids: Sequence[int] = (),
) -> StagedFile:
    """One file for a table of SMALL_TABLE, staged against the table as it is now; `id` is the offset, or of ids."""
    table = lake.table(event_type)
    view = table.view()
    assert view is not None
    origin = FileOrigin(table.store, lake.app, tp, epoch, event_type, view.fingerprint, {})
    growing = GrowingFile(origin, partition_of(day))
    kafka = [
        {"topic": tp.topic, "partition": tp.partition, "epoch": epoch, "offset": offset, "timestamp": None}
        for offset in offsets
    ]
    columns = {
        KAFKA_COLUMN: pa.array(kafka, KAFKA_TYPE),
        "id": pa.array(ids or offsets, pa.int64()),
        "_rescued": pa.nulls(len(kafka), pa.string()),
    }
    growing.add(pa.table(columns), offsets[0], offsets[-1])
    return growing.finish()


class Crash(BaseException):
    """The process is gone."""


@contextmanager
def gone_whole() -> Iterator[None]:
    """A task that a Crash or an armed fault ends in here has no thread left: none would commit, or be struck, later."""
    before = {*threading.enumerate()}
    try:
        yield
    except (Crash, InjectedFault):
        its = [thread for thread in threading.enumerate() if thread not in before and not thread.daemon]
        wait_until(lambda: not any(thread.is_alive() for thread in its), GONE_SECS_MAX, f"the end of {its}")
        raise


@contextmanager
def crashed_after(landing: str) -> Iterator[None]:
    """In here only the commits of `landing` arrive; when one has, the next other one ends the process."""
    real, there = DeltaCommitter.commit, threading.Event()

    def commit(self: DeltaCommitter, event_type: str, claims: Any) -> Report:
        if event_type != landing:
            there.wait(60)
            raise Crash(event_type)
        report = real(self, event_type, claims)
        there.set()
        return report

    with pytest.raises(Crash), pytest.MonkeyPatch.context() as patch:
        # those that wait must not keep `landing` from its turn
        patch.setattr("exporter.task.service.COMMIT_THREADS", 8)
        patch.setattr(DeltaCommitter, "commit", commit)
        yield


@contextmanager
def armed(points: str, strike: Callable[[faults.Armed], None] = faults._strike) -> Iterator[None]:
    """In here points are armed in this process, and have been passed at last. points: as EXPORTER_FAULTS has them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(faults, "_passed", Counter())
        patch.setattr(faults, "_strike", strike)
        patch.setenv(faults.VARIABLE, points)
        yield
        assert faults._passed.total() > 0, f"{points}: not passed"


@contextmanager
def struck(points: str, by: type[BaseException] = InjectedFault) -> Iterator[None]:
    """What is done in here ends at an armed point, and nowhere else."""

    def strike(found: faults.Armed) -> None:
        raise by(found.name)

    with pytest.raises(by), armed(points, strike):
        yield


class Gate:
    """Holds the commits of some types that carry files, once each, until it is opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
        self.waiting: set[str] = set()
        self._opened = threading.Event()
        real = DeltaCommitter.commit

        def commit(committer: DeltaCommitter, event_type: str, claims: Any) -> Report:
            if event_type in names and any(claim.files for claim in claims):
                self.waiting.add(event_type)
                assert self._opened.wait(60)
            return real(committer, event_type, claims)

        monkeypatch.setattr(DeltaCommitter, "commit", commit)

    def open(self) -> None:
        self._opened.set()


def deadly(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on a record with `boom` in its value ends the process that is to decode it."""

    def task(order: StagingOrder) -> Any:
        spared = {offset for offsets in order.poison_offsets.values() for offset in offsets}

        def run(batches: Iterator[Any]) -> Iterator[Any]:
            for batch in batches:
                if any(b"boom" in (row["value"] or b"") and row["offset"] not in spared for row in batch.to_pylist()):
                    os._exit(1)
                yield from stage(order, iter([batch]))

        return run

    monkeypatch.setattr("exporter.rounds.read._task", task)
    monkeypatch.setattr("exporter.rounds.rounds.PAUSE", Backoff(0.1, 0.1))


def delete_before(export: Export, offset: int, partition: int = 0) -> None:
    """Let the topic lose its records before `offset`, as retention does."""
    with administered(export.kafka) as admin:
        admin.delete_records({KafkaTopicPartition(export.topic, partition): offset})


@contextmanager
def writing(kafka: str, topic: str, partitions: int = 2, per_sec: int = 300) -> Iterator[None]:
    """Somebody else writes to all partitions meanwhile, as in a drill."""
    load = Load({"bootstrap_servers": kafka}, topic, partitions, per_sec)
    load.start()
    try:
        yield
        load.stop()
    finally:
        load.close()
