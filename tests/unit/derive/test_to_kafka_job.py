"""A to_kafka job over made-up sources and a topic in memory: each row once and in order, whatever happens."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import pytest

from exporter.derive.target import new_owner
from exporter.derive.to_kafka import Surroundings, ToKafkaJob
from exporter.derive.to_kafka_progress import SendProgress, as_texts, progress_from
from exporter.derive.to_kafka_rows import RowPlace, RowToSend, whole_rows
from exporter.derive.to_kafka_source import ByOffset, BySequence
from exporter.errors import Fenced, InvariantBroken
from exporter.kafka.transactions import Outgoing, Overtaken
from exporter.settings.derive_to_kafka import ToKafkaTable
from offsets.cursors import NOTHING, Cursor, replayed, slices
from offsets.positions import Position
from offsets.ranges import TopicPartition
from tests.support.sending import without_spark

TPS = [TopicPartition("in", 0), TopicPartition("in", 1), TopicPartition("on", 0)]


class Lost(Exception):
    """An answer that did not come."""


@dataclass
class MemoryTopic:
    """A topic whose transactions are as Kafka's. lose: of a transaction, whether it fails: before, after or not."""

    name = "out"
    group = "app.derive.out"
    id = "id-1"
    partitions = 2
    chance: random.Random
    trouble: float = 0.0
    records: list[Outgoing] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    owner: object = None

    def fence(self, partitions: int, replication: int) -> None:
        self.owner = object()

    def close(self) -> None:
        """Nothing is open."""

    def written(self) -> int:
        return len(self.records)

    def progress(self, settled: bool = False) -> SendProgress | None:
        return progress_from(self.texts) if self.texts else None

    def send(self, records: Any, progress: SendProgress, job: str, flush_every: int) -> None:
        drawn = self.chance.random()
        if drawn < self.trouble / 2:
            raise Lost
        self.records += records
        self.texts = as_texts(progress)
        if drawn < self.trouble:
            raise Lost


@dataclass
class World:
    """An exported table over time. waiting: rows that are dead letters as yet. replays: partition -> the last one."""

    rows: list[tuple[RowToSend, int]] = field(default_factory=list)
    waiting: list[RowToSend] = field(default_factory=list)
    ends: dict[TopicPartition, int] = field(default_factory=lambda: defaultdict(lambda: -1))
    replays: dict[TopicPartition, int] = field(default_factory=lambda: defaultdict(int))
    version: int = 0

    def grow(self, chance: random.Random) -> None:
        """An export of some records, of which some are dead letters; or a replay of one partition's."""
        self.version += 1
        tp = chance.choice(TPS)
        late = [row for row in self.waiting if row.place.tp == tp]
        if late and chance.random() < 0.4:
            self.replays[tp] += 1
            self.rows += [(row, self.replays[tp]) for row in late]
            self.waiting = [row for row in self.waiting if row not in late]
            return
        for _ in range(chance.randint(1, 9)):
            self.ends[tp] += chance.randint(1, 3)
            text = f"{tp}/{self.ends[tp]}".encode()
            row = RowToSend(RowPlace(tp, 0, self.ends[tp]), text, text, ())
            if chance.random() < 0.2:
                self.waiting.append(row)
            else:
                self.rows.append((row, 0))

    def pinned(self) -> Seen:
        positions = {tp: Position(0, end) for tp, end in self.ends.items()}
        return Seen([*self.rows], Cursor(positions, dict(self.replays), self.version, "t"))


@dataclass
class Seen:
    """It at a version, as Pinned is."""

    held: list[tuple[RowToSend, int]]
    now: Cursor

    def has_new(self, since: Cursor) -> bool:
        return bool(slices(since, self.now) or replayed(since, self.now))

    def require_kept(self, since: Cursor, job: str) -> None:
        """It takes nothing back."""

    def rows(self, since: Cursor = NOTHING, until: Cursor | None = None) -> list[RowToSend]:
        """As Pinned's: new ones through `until`, and those of replays below `since`, sorted."""

        def within(row: RowToSend, to: Cursor) -> bool:
            return any(row.place.tp == one.tp and one.after < row.place.at <= one.through for one in slices(since, to))

        found = [row for row, _ in self.held if within(row, until or self.now)]
        numbers = replayed(since, self.now)
        for row, number in self.held:
            after, through = numbers.get(row.place.tp, (0, 0)) if row.place.tp else (0, 0)
            if after < number <= through and not within(row, self.now):
                found.append(row)
        return sorted(found, key=lambda row: row.place)


class WorldJob(ToKafkaJob):
    """Over a world, to a topic in memory."""

    def __init__(self, world: World, topic: Any) -> None:
        table = ToKafkaTable(kind="to_kafka", source="made", topic="out", key="k", rows_max=3)
        around = Surroundings(mock.Mock(), mock.Mock(), {}, new_owner())
        super().__init__("out", table, around, topic, mock.Mock())
        self.world = world

    def _source(self, version: int | None = None) -> Any:
        return ByOffset(self.world.pinned(), mock.Mock(version=self.world.version))  # type: ignore[arg-type]

    def _shape(self, source: Any, texts: bool | None = None) -> Any:
        return mock.Mock(shaped=lambda rows, place: rows)


@pytest.fixture(autouse=True)
def no_spark() -> Iterator[None]:
    streams, orders = without_spark()
    with streams, orders:
        yield


@pytest.mark.parametrize("seed", range(60))
def test_each_row_once_whatever_fails_and_whatever_is_replayed_meanwhile(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ONCE: transactions whose answers are lost, before or after; restarts; replays within a run and between runs."""
    monkeypatch.setattr("exporter.derive.to_kafka_source.OFFSETS_MAX", 12)
    chance = random.Random(seed)
    world, topic = World(), MemoryTopic(chance, trouble=0.3)
    job = WorldJob(world, topic)
    for _ in range(40):
        for _ in range(chance.randint(0, 3)):
            world.grow(chance)
        if chance.random() < 0.2:
            job = WorldJob(world, topic)
        try:
            job.run()
        except Lost:
            continue
    topic.trouble = 0.0
    while job.run().more:
        pass
    assert job.run().idle
    sent = [record.value for record in topic.records]
    assert sorted(sent, key=str) == sorted((row.value for row, _ in world.rows), key=str)
    for tp in TPS:
        line = [row.value for row, number in sorted(world.rows, key=lambda one: one[0].place) if row.place.tp == tp
                and not number]  # fmt: skip
        assert [value for value in sent if value in line] == line
    progress = topic.progress()
    assert progress and progress.rows == len(sent)


def test_a_table_in_order_of_a_sequence_is_sent_by_it() -> None:
    """From where the progress is; what took numbers back, or is another table, stops the job."""
    frame, view = mock.Mock(), mock.Mock(version=4, table_id="t")
    source = BySequence(mock.Mock(), "uri", view, 10, 0)
    start = SendProgress("b", "id", 1, "o", 1, seq=3)
    with mock.patch.object(BySequence, "frame", lambda self: frame), mock.patch(
        "exporter.derive.to_kafka_source.sf"
    ), mock.patch("exporter.derive.to_kafka_source.by_sequence", lambda: ()):  # fmt: skip
        (part,), more = source.parts(start)
        assert part.after is not None
        assert (part.after([RowPlace(None, 0, 4), RowPlace(None, 0, 7)]).seq, part.done.seq, more) == (7, 10, False)
        assert source.parts(part.done) == ([], False)
    assert (source.behind(start), source.ranges(start)) == (7, {"_seq": "4..10"})
    source.require_kept(part.done, "out")
    with pytest.raises(InvariantBroken, match="took back rows"):
        BySequence(mock.Mock(), "uri", view, 9, 0).require_kept(part.done, "out")
    with pytest.raises(InvariantBroken, match="made anew by a rebuild"):
        BySequence(mock.Mock(), "uri", view, 11, 5).require_kept(part.done.then("o", 1, rows=1), "out")


def test_whoever_is_overtaken_ends_fenced_and_names_the_other() -> None:
    """FENCE: by the owner that the progress has."""
    world, topic = World(), MemoryTopic(random.Random(1))
    world.grow(random.Random(1))
    first, second = WorldJob(world, topic), WorldJob(world, topic)
    first.run()
    second.run()
    world.grow(random.Random(2))
    with mock.patch.object(topic, "send", side_effect=Overtaken), pytest.raises(Fenced, match=second._around.owner):
        first.run()


def test_rows_of_one_place_are_never_divided() -> None:
    """A cursor knows places only; one that has more rows than a transaction is one."""
    places = [RowPlace(TPS[0], 0, at) for at in (1, 1, 1, 2, 3, 3, 4, 4, 4, 4, 4, 5)]
    parts = [
        [row.place.at for row in part] for part in whole_rows((RowToSend(one, None, None, ()) for one in places), 4)
    ]
    assert parts == [[1, 1, 1, 2], [3, 3], [4, 4, 4, 4, 4], [5]]
