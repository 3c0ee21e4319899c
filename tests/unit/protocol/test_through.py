"""What commits say of valid_through: what is asked of brokers and log for it; what if they do not tell (4.12)."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

import pytest

from exporter.core.valid_through import Mode, as_text
from exporter.errors import BrokerSilent, LogCleaned, TableUnreadable
from exporter.lake.said import LOOKED_BACK
from exporter.protocol.through import SILENT_SECS, ThroughSaid, ThroughTimes, said_later
from offsets.names import AppId
from offsets.ranges import TopicPartition
from offsets.table_log import THROUGH, THROUGH_PROPERTY, LoggedCommit, TableView

P = [TopicPartition("events", number) for number in range(3)]
ALL = [ThroughSaid(P[0], 9, 500), ThroughSaid(P[1], 19, 400), ThroughSaid(P[2], 29, 600)]


class Topics:
    """Of three partitions. ends: high watermarks. asked: what was asked."""

    def __init__(self, ends: Mapping[int, int] | None = None) -> None:
        self.ends = {P[number]: end for number, end in (ends or {}).items()}
        self.asked: list[str] = []
        self.silent = False
        self.number = 3

    def partitions(self) -> Collection[TopicPartition]:
        self.asked.append("partitions")
        if self.silent:
            raise BrokerSilent("the broker did not answer")
        return P[: self.number]

    def high_watermarks(self, tps: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        self.asked.append(f"ends of {len(tps)}")
        return {tp: self.ends[tp] for tp in tps}


class Table:
    """A table by its log. told: version -> the valid_through of its commit. gone: versions up to there."""

    event_type = "order"

    def __init__(self, positions: Mapping[int, int] | None = None) -> None:
        self.positions = dict(positions or {})
        self.version = 10
        self.told: dict[int, int] = {}
        self.properties: dict[str, str] = {}
        self.gone = -1
        self.read: list[int] = []
        self.unreadable = False

    def view(self) -> TableView:
        if self.unreadable:
            raise TableUnreadable("table order cannot be read")
        versions = {str(AppId("app", P[number], 0)): at for number, at in self.positions.items()}
        return TableView(self.version, "id", "f", versions, self.properties)

    def logged(self, version: int) -> LoggedCommit:
        self.read.append(version)
        if version <= self.gone:
            raise LogCleaned("cleaned up")
        said = {"commit_id": "c", **({THROUGH: as_text(self.told[version])} if version in self.told else {})}
        return LoggedCommit(version, "STREAMING UPDATE", json.dumps(said), (), (), False)


class Clock:
    secs = 100.0

    def __call__(self) -> float:
        return self.secs


def through(mode: Mode, topics: Topics, clock: Clock | None = None, **more: Any) -> ThroughTimes:
    return ThroughTimes("app", mode, topics, clock or Clock(), **more)


def tell(times: ThroughTimes, table: Any, claims: Collection[ThroughSaid]) -> dict[str, str]:
    """What a commit of the claims says; it lands."""
    told = times.metadata(table, None, claims)
    times.landed(table.event_type, told)
    return told


def test_all_partitions_in_one_commit_are_enough_by_themselves() -> None:
    """The least, less a millisecond; nobody's end is looked at."""
    for mode in ("strict", "idle_aware"):
        topics = Topics()
        assert tell(through(mode, topics), Table(), ALL) == {THROUGH: as_text(399)}
        assert topics.asked == ["partitions"]


def test_a_partition_that_takes_no_part_keeps_strict_from_saying_it() -> None:
    """Also one that takes part without the time of a record."""
    topics = Topics({2: 30})
    assert tell(through("strict", topics), Table({2: 29}), ALL[:2]) == {}
    assert tell(through("strict", topics), Table(), [*ALL[:2], ThroughSaid(P[2], 29, 0)]) == {}


@pytest.mark.parametrize(
    ("position", "end", "said"),
    [({2: 29}, 30, 399), ({2: 29}, 31, 0), ({}, 0, 399), ({}, 1, 0), ({2: -1}, 0, 399)],
)
def test_idle_aware_leaves_out_what_has_nothing_beyond_its_position(
    position: dict[int, int], end: int, said: int
) -> None:
    """Looked at when it is asked, after the claims were frozen; a single record more, readable or not, forbids it."""
    topics = Topics({2: end})
    told = tell(through("idle_aware", topics), Table(position), ALL[:2])
    assert told == ({THROUGH: as_text(said)} if said else {})
    assert topics.asked == ["partitions", "ends of 1"]


def test_idle_aware_goes_by_the_new_position_of_who_moved_over_holes_alone() -> None:
    """A partition with markers of transactions only: its claim has a position and no time."""
    claims = [*ALL[:2], ThroughSaid(P[2], 34, 0)]
    assert tell(through("idle_aware", Topics({2: 35})), Table({2: 29}), claims) == {THROUGH: as_text(399)}
    assert tell(through("idle_aware", Topics({2: 36})), Table({2: 29}), claims) == {}


def test_a_new_partition_takes_part_before_anything_is_said() -> None:
    """Partitions are asked for with each commit: a record in a new one may be older than all that is committed."""
    topics = Topics({2: 1})
    topics.number = 2
    times = through("idle_aware", topics)
    assert tell(times, Table(), ALL[:2]) == {THROUGH: as_text(399)}
    topics.number = 3
    assert tell(times, Table(), ALL[:2]) == {}


def test_empty_markers_alone_ask_nobody() -> None:
    """Without any time there is nothing to say."""
    topics = Topics()
    assert tell(through("idle_aware", topics), Table(), [ThroughSaid(P[0], 9, 0)]) == {}
    assert topics.asked == []


def test_it_never_goes_back_whoever_said_it() -> None:
    """Times out of order, what another task said meanwhile, and what a property or an earlier process said."""
    table, times = Table(), through("strict", Topics())
    assert tell(times, table, ALL) == {THROUGH: as_text(399)}
    late = [one._replace(time_ms=one.time_ms - 300) for one in ALL]
    assert tell(times, table, late) == {THROUGH: as_text(399)}
    table.version, table.told = 12, {11: 450}
    assert tell(times, table, ALL) == {THROUGH: as_text(450)}
    table.properties = {THROUGH_PROPERTY: as_text(460)}
    assert tell(times, table, ALL) == {THROUGH: as_text(460)}
    assert times.said == {"order": 460}
    assert tell(through("strict", Topics()), table, late) == {THROUGH: as_text(460)}


def test_an_earlier_process_is_read_from_the_log_once() -> None:
    """So far as it is there, and not from its beginning; afterwards only what is new."""
    table, times = Table(), through("strict", Topics())
    table.version, table.told = 200, {150: 1_000}
    assert tell(times, table, ALL) == {THROUGH: as_text(1_000)}
    assert table.read == list(range(200, 149, -1))
    table.read, table.version = [], 202
    tell(times, table, ALL)
    assert table.read == [202, 201]
    long_ago = Table()
    long_ago.version, long_ago.told = 10 + LOOKED_BACK, {10: 1_000}
    assert tell(through("strict", Topics()), long_ago, ALL) == {THROUGH: as_text(399)}
    cleaned = Table()
    cleaned.gone, cleaned.told = 7, {7: 1_000}
    assert tell(through("strict", Topics()), cleaned, ALL) == {THROUGH: as_text(399)}


def test_brokers_or_a_log_that_do_not_tell_keep_no_commit() -> None:
    """It is not said, and they are left alone for a while: each commit would wait for them."""
    clock, topics, table = Clock(), Topics(), Table()
    times = through("strict", topics, clock)
    topics.silent = True
    assert tell(times, table, ALL) == {}
    topics.silent = False
    assert tell(times, table, ALL) == {}
    assert topics.asked == ["partitions"]
    clock.secs += SILENT_SECS
    assert tell(times, table, ALL) == {THROUGH: as_text(399)}
    table.unreadable = True
    assert tell(times, table, ALL) == {}


def test_the_property_is_set_as_often_as_it_may_be_and_never_back() -> None:
    """With each commit that says more, or once in property_secs; what a commit does not say changes nothing."""
    clock = Clock()
    view, told = Table().view(), {THROUGH: as_text(399)}
    each = through("strict", Topics(), clock)
    assert each.properties("order", view, told) == {THROUGH_PROPERTY: as_text(399)}
    assert each.properties("order", view, {}) == {}
    table = Table()
    table.properties = {THROUGH_PROPERTY: as_text(399)}
    assert each.properties("order", table.view(), told) == {}
    now_and_then = through("strict", Topics(), clock, property_secs=60)
    assert now_and_then.properties("order", view, told)
    assert now_and_then.properties("order", view, told) == {}
    assert now_and_then.properties("click", view, told)
    clock.secs += 60
    assert now_and_then.properties("order", view, told)
    for said, later in ((398, False), (399, False), (400, True)):
        table.properties = {THROUGH_PROPERTY: as_text(said)}
        assert said_later(table.view(), {THROUGH_PROPERTY: as_text(399)}) is later
        assert not said_later(table.view(), {})
