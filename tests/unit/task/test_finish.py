"""When a task is done: stopped, at its end, or with something that it could not export. No Spark, no group."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from exporter.core.writers import Parked, Writer, WriterKey
from exporter.errors import BrokerSilent, FoundProblem
from exporter.kafka.assignment import Assigned
from exporter.monitor.outages import KAFKA
from exporter.monitor.watch import Watch
from exporter.task.finish import PARKED_MAX, Finish
from exporter.task.ownership import Ownership
from tests.support.snapshots import P0, writer

KEY = WriterKey("order", P0)


class Place:
    """A run with an end, at offset 10, that owns P0 and has recovered it."""

    def __init__(self, with_an_end: bool = True) -> None:
        self.watch = Watch()
        self.ends = SimpleNamespace(frozen={P0: 10})
        self.group = SimpleNamespace(waits=lambda: self.waits, is_spare=self.is_spare)
        self.waits = self.spare = self.silent = False
        self.others_done = True
        self.ownership = Ownership(totals=self.watch.totals, drop=lambda tps: {})
        self.ownership.take([Assigned(P0, 1)])
        self.ownership.begin_reading()
        self.ownership.end_reading()
        given: Any = SimpleNamespace(finished=lambda mine, ends, now: self.others_done)
        ends: Any = self.ends
        group: Any = self.group
        self.finish = Finish(
            with_an_end=with_an_end, ends=ends, ownership=self.ownership, membership=group, others=given,
            watch=self.watch, poll_secs=1.0,
        )  # fmt: skip

    def is_spare(self) -> bool:
        if self.silent:
            raise BrokerSilent("nothing", "wait")
        return self.spare

    def done(self, *writers: Writer, idle: bool = True, told: bool = True, now: float = 0.0) -> bool:
        return self.finish.done(now, {one.key: one for one in writers}, idle, told)


def test_a_run_with_an_end_ends_when_all_is_committed_and_told() -> None:
    """Here and at the others'; nothing may be under way, and no partition on its way to writers."""
    place = Place()
    assert place.done(writer("order", P0, 9))
    assert not place.done(writer("order", P0, 8, 9))
    assert not place.done(writer("order", P0, 9), idle=False)
    assert not place.done(writer("order", P0, 9), told=False)
    place.others_done = False
    assert not place.done(writer("order", P0, 9))
    place.others_done, place.waits = True, True
    assert not place.done(writer("order", P0, 9))
    place.waits = False
    place.ownership.read_again([P0])
    assert not place.done(writer("order", P0, 9))


def test_one_without_an_end_never_does() -> None:
    """Whatever it has committed."""
    assert not Place(with_an_end=False).done(writer("order", P0, 9))


def test_a_task_for_which_there_is_nothing_ends_with_the_others() -> None:
    """It asks the group now and then; a silent broker is an outage."""
    place = Place()
    place.ownership.owned.clear()
    place.silent = True
    assert not place.done() and KAFKA in place.watch.outages.open
    place.silent, place.spare = False, True
    assert not place.done(now=0.5), "it was asked just now"
    assert place.done(now=1.5)


def test_a_table_that_was_given_up_is_named_at_the_end() -> None:
    """After everything else was committed."""
    place = Place()
    parked = replace(writer("click", P0, 3), parked=Parked("full", 0.0), failures=PARKED_MAX)
    assert not place.done(parked, writer("order", P0, 5, 9))
    with pytest.raises(FoundProblem, match="table click cannot be written: full"):
        place.done(parked, writer("order", P0, 9))
    assert not place.done(replace(parked, failures=PARKED_MAX - 1), writer("order", P0, 9)), "it is tried again"


def test_a_partition_that_cannot_be_read_is_named_as_well() -> None:
    """Recovered or not, and also where only a record of it is left that was spared."""
    place = Place()
    place.watch.hopeless = {P0: "the worker died"}
    with pytest.raises(FoundProblem, match="the worker died"):
        place.done(writer("order", P0, 4))
    with pytest.raises(FoundProblem, match="the worker died"):
        place.done(writer("order", P0, 9))
    place.ownership.read_again([P0])
    with pytest.raises(FoundProblem, match="the worker died"):
        place.done()


def test_a_stop_ends_when_all_is_committed_or_its_budget_is_over() -> None:
    """A table that cannot be written is not waited for."""
    finish = Place(with_an_end=False).finish
    behind = {KEY: writer("order", P0, 4, 9)}
    assert not finish.stopped(1.0, 5.0, behind, idle=True)
    assert finish.stopped(5.0, 5.0, behind, idle=False)
    assert finish.stopped(1.0, 5.0, {KEY: writer("order", P0, 9)}, idle=True)
    assert not finish.stopped(1.0, 5.0, {KEY: writer("order", P0, 9)}, idle=False)
    assert finish.stopped(1.0, 5.0, {KEY: replace(behind[KEY], parked=Parked("full", 9.0))}, idle=True)
