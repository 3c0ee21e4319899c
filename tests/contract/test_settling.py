"""What became of a commit, whatever its call said, of a table in memory and of Delta tables alike (protocol 4.2, 4.4).

Whoever commits what is no claim calls this: anchors, switches, gaps, repairs, poison records, replays and jobs.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from exporter.errors import InvariantBroken, StorageSilent, TableUnreadable
from exporter.lake.change import Change
from exporter.lake.settling import Expect, Failed, Moved, Unseen, commit_or_moved, settled, told
from exporter.lake.table import Check, DeltaTable
from offsets import Invariant
from offsets.names import AppId
from offsets.positions import Position
from offsets.ranges import TopicPartition
from offsets.table_log import APP_PROPERTY, TableView
from tests.support.memory_tables import MemoryTable
from tests.support.places import committing_to
from tests.support.services import fresh_name

P0 = TopicPartition("events", 0)
AT = str(AppId("app", P0, 0))
NAME = "order"


class Place:
    """A table at offset 9 of one partition, and what may happen to it."""

    def __init__(self, table: DeltaTable, patch: pytest.MonkeyPatch) -> None:
        self.table = table
        self.patch = patch
        view = table.view()
        assert view is not None
        self.read: TableView = view

    def change(self, to: int = 19) -> Change:
        """From offset 9 to another one."""
        return Change((AT,), {AT: to}, {"commit_id": uuid.uuid4().hex, "app": "app"})

    def others_write(self, to: int | None = None) -> None:
        """Another process; to: it moves the position."""
        positions = {} if to is None else {AT: to}
        says = {"commit_id": uuid.uuid4().hex, "app": "app"}
        type(self.table).commit(self.table, Change(tuple(positions), positions, says), lambda view: None)

    def reply_is_lost(self, arrived: bool, error: Exception | None = None) -> None:
        """The next commit arrives or not, and its call raises."""
        real = self.table.commit

        def commit(change: Change, check: Check) -> int:
            self.patch.setattr(self.table, "commit", real)
            if arrived:
                real(change, check)
            else:
                check(self.table.view())
            raise error or ConnectionError("the reply was lost")

        self.patch.setattr(self.table, "commit", commit)

    def at(self) -> int:
        view = self.table.view()
        assert view is not None
        return view.transactions[AT]


IN_S3 = [pytest.mark.spark, pytest.mark.long, pytest.mark.xdist_group("s3")]


@pytest.fixture(params=["memory", pytest.param("lake", marks=pytest.mark.spark), pytest.param("s3", marks=IN_S3)])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """A table, or a model of one."""
    if request.param == "memory":
        yield Place(cast("DeltaTable", MemoryTable(NAME, {P0: 9})), monkeypatch)
        return
    session = request.getfixturevalue("spark")
    if request.param == "lake":
        yield Place(made(session, tmp_path), monkeypatch)
        return
    store = request.getfixturevalue("s3").below(fresh_name("lake"))
    with committing_to(session, store):
        yield Place(made(session, store), monkeypatch)


def made(session: Any, root: Any) -> DeltaTable:
    """A Delta table with its one position."""
    from exporter.lake.lake import Lake
    from tests.support.lakes import create_anchored

    lake = Lake(session, root, "app")
    create_anchored(lake, NAME, {P0: Position(0, 9)})
    return lake.table(NAME)


def as_read(view: TableView | None) -> None:
    """A check that asks nothing."""


def test_a_commit_of_a_table_that_is_as_expected_is_told_by_its_version(place: Place) -> None:
    """Once."""
    ended = settled(
        place.table,
        place.change(),
        Expect(place.read, "app", {P0: Position(0, 9)}, True, True, True).check(NAME),
        place.read,
    )
    assert (ended, place.at()) == (place.read.version + 1, 19)


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside another"])
def test_one_whose_answer_was_lost_is_found_in_the_log(place: Place, beside: bool) -> None:
    """Also behind what another process has committed meanwhile (protocol 4.4)."""
    if beside:
        place.others_write()
    place.reply_is_lost(arrived=True)
    assert settled(place.table, place.change(), as_read, place.read) == place.read.version + 1 + beside
    assert place.at() == 19


def test_one_that_did_not_arrive_is_unseen_and_lands_when_it_is_offered_again(place: Place) -> None:
    """Its error is told, and that nobody else has written the table."""
    place.reply_is_lost(arrived=False)
    ended = settled(place.table, place.change(), as_read, place.read)
    assert isinstance(ended, Unseen) and isinstance(ended.error, ConnectionError) and not ended.gone_on
    assert ended.view is not None and ended.view.version == place.read.version and [*ended.since] == []
    assert settled(place.table, place.change(), as_read, place.read) == place.read.version + 1


def test_one_that_another_process_has_overtaken_is_unseen_with_what_that_says(place: Place) -> None:
    """The compare-and-set of its position refuses it (FENCE)."""

    def check(view: TableView | None) -> None:
        place.others_write(14)

    ended = settled(place.table, place.change(), check, place.read)
    assert isinstance(ended, Unseen) and ended.gone_on and len(ended.since) == 1 and place.at() == 14


def test_what_the_check_raises_passes_and_nothing_is_written(place: Place) -> None:
    """Whatever it is: the table is not looked at again for it."""
    broken = InvariantBroken(Invariant.ONCE, "another's", "look")
    for refusal in (Moved("another was faster"), broken, ValueError("damaged"), FileNotFoundError("gone")):

        def check(view: TableView | None, refusal: Exception = refusal) -> None:
            raise refusal

        with pytest.raises(type(refusal)) as raised:
            settled(place.table, place.change(), check, place.read)
        assert raised.value is refusal and place.at() == 9


def test_where_the_table_cannot_be_looked_at_nothing_is_decided(place: Place) -> None:
    """Neither that it landed nor that it did not."""
    place.reply_is_lost(arrived=True)
    real = place.table.view

    def unreadable() -> TableView | None:
        raise TableUnreadable("the store is out")

    place.patch.setattr(place.table, "view", unreadable)
    with pytest.raises(TableUnreadable, match="the store is out"):
        settled(place.table, place.change(), as_read, place.read)
    place.patch.setattr(place.table, "view", real)
    assert place.at() == 19


def test_a_call_that_tells_no_version_is_looked_for_too(place: Place) -> None:
    """A statement of Spark's tells none; one that came to nothing is an error by itself."""
    change = place.change()
    offers: list[Callable[[], Any]] = [lambda: None, lambda: place.table.commit(change, as_read) and None]
    ended = [told(place.table, change.user_metadata["commit_id"], place.read, offer) for offer in offers]
    assert isinstance(ended[0], Unseen) and "table order: the commit is not in the table's log" in str(ended[0].error)
    assert ended[1] == place.read.version + 1


def test_who_may_read_again_is_told_whether_anybody_else_was_at_work(place: Place) -> None:
    """Moved for ever, Failed not: nobody waits for a table that cannot be written."""
    place.reply_is_lost(arrived=False)
    with pytest.raises(Failed, match="the reply was lost"):
        commit_or_moved(place.table, place.change(), Expect(place.read))
    with pytest.raises(Moved, match="table order: ") as moved:
        commit_or_moved(place.table, place.change(), Expect(place.read), lambda now: place.others_write(14))
    assert not isinstance(moved.value, Failed) and place.at() == 14
    place.reply_is_lost(arrived=False, error=StorageSilent("the store is out"))
    with pytest.raises(StorageSilent):
        commit_or_moved(place.table, place.change(), Expect(place.table.view()))


@pytest.mark.parametrize(
    ("now", "expect", "says"),
    [
        (None, {}, "was created or removed meanwhile"),
        ({"table_id": "t2"}, {}, "was replaced meanwhile"),
        ({"version": 1}, {"alone": True}, "was written meanwhile"),
        ({"version": 1}, {}, ""),
        ({"fingerprint": "f2"}, {"columns": True}, "was changed meanwhile"),
        ({"fingerprint": "f2"}, {}, ""),
        ({"transactions": {AT: 8}}, {"positions": {P0: Position(0, 9)}}, "events-0: "),
        ({"transactions": {}}, {"positions": {P0: Position(0, 9)}}, "events-0: None instead of"),
        ({"transactions": {AT: 9}}, {"positions": {P0: None}}, "instead of None"),
        ({"transactions": {AT: 8}}, {}, ""),
        ({"properties": {APP_PROPERTY: "other"}}, {}, ""),
    ],
)
def test_a_table_is_as_it_was_read_or_it_is_told_what_is_not(now: Any, expect: dict[str, Any], says: str) -> None:
    """What nobody asks of it may have changed."""
    was = TableView(0, "t1", "f1", {AT: 9}, {APP_PROPERTY: "app"})
    expected = Expect(was, "app", **expect)
    if not says:
        expected.require(NAME, replace(was, **now))
        return
    with pytest.raises(Moved, match=says):
        expected.require(NAME, None if now is None else replace(was, **now))


def test_a_table_of_another_app_ends_whoever_asks_for_its_own() -> None:
    """ONCE; and one that is to be made is not there yet."""
    was = TableView(0, "t1", "f1", {AT: 9}, {APP_PROPERTY: "app"})
    with pytest.raises(InvariantBroken, match="belongs to app 'other'"):
        Expect(was, "app", ours=True).require(NAME, replace(was, properties={APP_PROPERTY: "other"}))
    Expect(None).require(NAME, None)
    with pytest.raises(Moved, match="created or removed"):
        Expect(None).require(NAME, was)
