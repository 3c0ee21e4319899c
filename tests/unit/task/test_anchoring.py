"""A manifest with types that were never seen before waits until each has its position (ANCHOR). No Spark."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, cast

import pytest

from exporter.core.manifest import RoundResult
from exporter.core.memory_committer import MemoryCommitter
from exporter.core.routing import DEAD_LETTERS, EventTime, Routing, TypeFrom
from exporter.core.writers import Fragment, PartitionPlan, StagedFile, Writer, WriterKey
from exporter.errors import BrokerSilent, ConfigError, StorageSilent
from exporter.lake.settling import Failed, Moved
from exporter.lake.table import DeltaTable
from exporter.protocol.anchor import Switched
from exporter.protocol.known import KnownTables
from exporter.stores.memory import MemoryStore
from exporter.stores.s3 import S3Store
from exporter.task.anchoring import Anchoring
from offsets.names import AppId
from offsets.positions import Position
from offsets.ranges import OffsetRange, TopicPartition
from offsets.table_log import TableView
from tests.support.java import java, raised
from tests.support.lakes import wait_until
from tests.support.snapshots import P0

DEAD, CLICK = WriterKey(DEAD_LETTERS, P0), WriterKey("click", P0)
ROUTING = Routing(TypeFrom("json", "type"), EventTime("record"), (), new_type="table")
FILE = StagedFile("day=2026-01-31/a", OffsetRange(10, 12), 3, 100)
MANIFEST = RoundResult(
    (Fragment(PartitionPlan(P0, 1, 0, 10, 20, {DEAD_LETTERS: 9}), {"click": (FILE,)}),), {"records": 3}
)


class Place:
    """A manifest that met `click`; whoever anchors it answers with `fails` or with a table that is at `position`."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self.asked: list[Mapping[WriterKey, Position]] = []
        self.fails: Exception | None = None
        self.position = Position(0, 9)
        self.let = threading.Event()
        self.let.set()
        self.again: list[set[TopicPartition]] = []
        self.writers = {DEAD: Writer(DEAD, 0, 1, 9, 9)}
        nothing: Any = None
        committer = MemoryCommitter()
        self.known = KnownTables(app="app", routing=ROUTING, topics=nothing, committer=committer)
        self.machine = Anchoring(
            app="app",
            anchor=self.anchor,
            known=self.known,
            committer=committer,
            read_again=lambda tps: self.again.append(set(tps)),
            pool=pool,
            waking=lambda future: future,
        )
        self.machine.wait_for(MANIFEST)

    def anchor(self, wanted: Mapping[WriterKey, Position]) -> Mapping[str, TableView]:
        assert self.let.wait(10)
        self.asked.append(wanted)
        if self.fails is not None:
            raise self.fails
        versions = {str(AppId("app", P0, self.position.epoch)): self.position.offset}
        return {"click": TableView(1, "id", "fingerprint", versions, schema_json='{"type":"struct","fields":[]}')}

    def tick(self, now: float = 0.0, stopping: bool = False, held: bool = False, owned: bool = True) -> Any:
        """One iteration; what was begun before is done by then."""
        wait_until(lambda: self.machine.idle or not self.let.is_set(), 10, "the anchors")
        return self.machine.tick(now, self.writers, {P0: 1} if owned else {}, stopping, held)


@pytest.fixture
def place() -> Iterator[Place]:
    with ThreadPoolExecutor(1) as pool:
        made = Place(pool)
        yield made
        made.let.set()


def test_a_manifest_is_given_once_every_type_of_it_has_a_writer(place: Place) -> None:
    """At the position that its table has: anchored by us at the dead letters' one, or adopted as it is."""
    place.position = Position(0, 5)
    assert place.tick() is None and place.machine.waits
    assert place.tick() is MANIFEST and not place.machine.waits
    assert place.asked == [{CLICK: Position(0, 9)}]
    assert (place.writers[CLICK].covered, place.writers[CLICK].ownership) == (5, 1)
    assert "click" in place.known.tables


def test_the_dead_letters_are_committed_first(place: Place) -> None:
    """A type is anchored where they are, so that little is read again (protocol 3.1)."""
    place.writers[DEAD] = replace(place.writers[DEAD], frontier=11)
    assert place.machine.dead_letters_waited_for(place.writers, {P0: 1}) == [DEAD]
    assert place.tick() is None and place.machine.idle and not place.asked
    place.writers[DEAD] = Writer(DEAD, 0, 1, 11, 11)
    assert place.machine.dead_letters_waited_for(place.writers, {P0: 1}) == []
    assert place.tick() is None and place.tick() is MANIFEST
    assert place.asked == [{CLICK: Position(0, 11)}]


def test_nothing_is_anchored_while_tables_are_read(place: Place) -> None:
    """It waits for that reading."""
    assert place.tick(held=True) is None and place.machine.idle and not place.asked
    assert place.tick() is None and place.tick() is MANIFEST


@pytest.mark.parametrize("error", [Moved("another task was faster"), BrokerSilent("nothing", "wait")])
def test_what_passes_by_itself_is_tried_again_a_second_later(place: Place, error: Exception) -> None:
    """However long that takes, the manifest waits (protocol 3.6)."""
    place.fails = error
    assert place.tick(0.0) is None and place.tick(10.0) is None
    assert place.tick(10.9) is None and len(place.asked) == 1
    place.fails = None
    assert place.tick(11.0) is None and place.tick(11.1) is MANIFEST and place.again == []


def test_what_no_waiting_changes_ends_the_task_once_it_has_lasted(place: Place) -> None:
    """As at a start, with what is in the way: exit 2. An outage is waited for, however long (protocol 3.6)."""
    nothing: Any = None
    table = DeltaTable(lambda: nothing, MemoryStore.at("memory://anchoring"), "app", "click")
    place.fails = Failed(table, OSError("Input/output error"))
    for second in range(20):
        assert place.tick(second) is None
    place.fails = Failed(table, ValueError("[DELTA_RESERVED] not this name"))
    with pytest.raises(ConfigError, match="Delta refuses it"):
        for second in range(20, 40):
            assert place.tick(second) is None


def test_what_the_storage_did_not_do_is_no_refusal_of_delta_s() -> None:
    """Delta has words of its own for a folder that could not be made, as with keys that had ended: it ended with 2."""
    table = DeltaTable(lambda: cast(Any, None), S3Store.at("s3://lake/click"), "app", "click")
    says = "[DELTA_CANNOT_CREATE_LOG_PATH] Cannot create s3a://lake/click/_delta_log"
    for cause, kind in ("fs.s3a.AWSBadRequestException", StorageSilent), ("fs.FileAlreadyExistsException", ConfigError):
        error = raised(java("org.apache.spark.sql.delta.DeltaIOException", java(f"org.apache.hadoop.{cause}"), says))
        assert type(Failed(table, error).said()) is kind


def test_after_a_switch_its_partitions_are_read_again(place: Place) -> None:
    """The type is not theirs any more as it was; without writers nothing is waited for, and nothing is integrated."""
    place.fails = Switched("in epoch 1")
    assert place.tick() is None and place.tick() is None
    assert place.again == [{P0}]
    del place.writers[DEAD]
    assert place.tick() is MANIFEST


def test_a_partition_that_is_gone_is_waited_for_by_nobody(place: Place) -> None:
    """Its fragment is discarded where it is integrated."""
    assert place.tick(owned=False) is MANIFEST and not place.asked


def test_a_stop_gives_the_manifest_up(place: Place) -> None:
    """But not one that lacks nothing."""
    assert place.tick(stopping=True) is None and not place.machine.waits
    place.writers[CLICK] = Writer(CLICK, 0, 1, 9, 9)
    place.machine.wait_for(MANIFEST)
    assert place.tick(stopping=True) is MANIFEST
