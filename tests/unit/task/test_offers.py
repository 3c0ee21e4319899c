"""What becomes of a claim one of whose files could not be written. No JVM."""

from __future__ import annotations

import errno
import queue
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest

from exporter.core.outcome import Report, Settled, Stale, Unknown, Unwritten
from exporter.core.writers import Claim, StagedFile, Writer, WriterKey, park
from exporter.errors import StorageSilent
from exporter.monitor.outages import Outages
from exporter.monitor.watch import Watch
from exporter.protocol import ready as ready_module
from exporter.protocol.commit import DeltaCommitter
from exporter.stores import parquet as files
from exporter.stores.memory import DISKS, Disk, MemoryStore
from exporter.stores.stores import open_store
from exporter.task.offers import UNKNOWN, UNKNOWNS_MAX, Offers
from exporter.task.own_commits import OwnCommits
from offsets.ranges import OffsetRange, TopicPartition
from tests.support.days import partition_of

KEY = WriterKey("order", TopicPartition("t", 0))
ROWS = StagedFile("day=2026-01-31/x.parquet", OffsetRange(0, 9), 10, 4, body=b"rows")


def offers_of(committer: Any, keeper: Any, watch: Any, pool: ThreadPoolExecutor, wake: Any) -> Offers:
    """Of a task whose tables nobody looks at."""
    nothing: Any = None
    return Offers(
        lake=nothing, committer=committer, known=nothing, keeper=keeper, watch=watch,
        commits=OwnCommits(committer, pool), wake=wake,
    )  # fmt: skip


@pytest.mark.parametrize("outs", [0, 1, 30])
def test_a_commit_of_unknown_outcome_is_offered_as_long_as_the_storage_is_out(outs: int) -> None:
    """At most half a minute late, however long that lasts. Its type is parked after so many others, in seconds."""
    claims: list[Claim] = []

    def commit(name: str, offered: list[Claim]) -> Report:
        claims[:] = [replace(claim, offers=(*claim.offers, f"c{len(claim.offers)}")) for claim in offered]
        return Report(name, None, 0.0, tuple(Settled(claim, Unknown()) for claim in claims), "no connection")

    watch = Watch(probe=lambda: "no connection" if number <= outs else "")
    keeper = SimpleNamespace(take_owed=lambda: None, holds=lambda _: False)
    committer = SimpleNamespace(commit=commit, checked_through=lambda _: 3)
    writers = {KEY: Writer(KEY, 0, 1, -1, 9, 0.0, staged=(ROWS,))}
    now = 100.0
    with ThreadPoolExecutor(1) as pool:
        offers = offers_of(committer, keeper, watch, pool, lambda: None)
        offers.offer(writers, {"order": [KEY]}, now)
        for number in range(1, outs + UNKNOWNS_MAX):
            pool.submit(int).result(10)
            offers.take(writers, now, False)
            writer = writers[KEY]
            assert writer.parked is None and writer.claim is not None and len(writer.claim.offers) == number
            now += 30.0 if number <= outs else UNKNOWN.after(UNKNOWNS_MAX)
            offers.offer(writers, {}, now)
            assert offers.running, "its time has come"
        number = outs + UNKNOWNS_MAX
        pool.submit(int).result(10)
        offers.take(writers, now, False)
        assert writers[KEY].parked is not None and writers[KEY].claim is None


@pytest.mark.parametrize("out", [True, False])
def test_a_parked_type_whose_table_alone_the_storage_does_not_give_stays_parked(out: bool) -> None:
    """As where a store throttles by prefixes: the other types go on. With all of it out, everything is read again."""

    def view() -> None:
        raise StorageSilent("table order cannot be read: SlowDown")

    nothing: Any = None
    lake: Any = SimpleNamespace(table=lambda name: SimpleNamespace(view=view))
    watch: Any = SimpleNamespace(storage_is_out=lambda _: out, totals=None)
    offers = Offers(
        lake=lake, committer=mock.Mock(), known=nothing, keeper=nothing, watch=watch, commits=nothing, wake=nothing
    )  # fmt: skip
    parked = park(Writer(KEY, 0, 1, -1, -1), "a file cannot be written", 100.0)
    assert parked.parked is not None
    writers, due = {KEY: parked}, parked.parked.retry_at
    if out:
        with pytest.raises(StorageSilent):
            offers.refresh_parked(writers, due)
        return
    offers.refresh_parked(writers, due)
    again = writers[KEY].parked
    assert again is not None and "SlowDown" in again.reason and again.retry_at > due


def test_the_table_of_a_parked_type_is_looked_at_once_each_time() -> None:
    """What is planned of its columns meanwhile is for the rows that are read next."""
    nothing: Any = None
    known = mock.Mock()
    known.accept.return_value = ""
    offers = Offers(
        lake=mock.Mock(), committer=mock.Mock(), known=known, keeper=nothing, watch=mock.Mock(), commits=nothing,
        wake=nothing,
    )  # fmt: skip
    writers = {KEY: park(Writer(KEY, 0, 1, -1, -1), "a file cannot be written", 100.0)}
    for times in (1, 2):
        parked = writers[KEY].parked
        assert parked is not None
        offers.refresh_parked(writers, parked.retry_at - 0.1)
        for later in (0.0, 0.1, 5.0):
            offers.refresh_parked(writers, parked.retry_at + later)
            assert known.accept.call_count == times
        writers[KEY] = park(writers[KEY], "a file cannot be written", parked.retry_at + 5.0)


@pytest.mark.parametrize("out", [True, False])
def test_a_file_that_cannot_be_written_waits_for_the_storage_or_parks_its_type(out: bool) -> None:
    """With the whole storage out the rows are kept and offered again a second later; else they are read again later."""
    offered: list[Claim] = []

    def commit(name: str, claims: list[Claim]) -> Report:
        offered.extend(claims)
        return Report(name, None, 0.0, tuple(Settled(claim, Unwritten("no space")) for claim in claims))

    watch = SimpleNamespace(
        totals=mock.Mock(), committed=lambda _: None, storage_is_out=lambda _: out, outages=Outages()
    )  # fmt: skip
    keeper = SimpleNamespace(take_owed=lambda: None, holds=lambda _: False)
    committer = SimpleNamespace(commit=commit, checked_through=lambda _: 3)
    writers = {KEY: Writer(KEY, 0, 1, -1, 9, 0.0, staged=(ROWS,))}
    with ThreadPoolExecutor(1) as pool:
        offers = offers_of(committer, keeper, watch, pool, lambda: None)
        offers.offer(writers, {"order": [KEY]}, 100.0)
        pool.submit(int).result(10)
        assert offers.take(writers, 100.0, False) == set()
        writer = writers[KEY]
        if not out:
            assert (writer.claim, writer.staged, writer.frontier) == (None, (), -1)
            assert writer.parked is not None and writer.parked.reason == "no space"
            return
        assert writer.parked is None and writer.claim is not None and writer.claim.files == writer.staged == (ROWS,)
        offers.offer(writers, {}, 100.5)
        assert not offers.running
        offers.offer(writers, {}, 101.5)
    assert offered == [writer.claim, writer.claim]


@pytest.mark.parametrize(
    ("module", "name"), [(files.GrowingFile, "encode"), (files.GrowingFile, "finish"), (ready_module, "merge")]
)
def test_whatever_merging_ends_in_is_the_trouble_of_its_table_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: Any, name: str
) -> None:
    """The claim is not offered and its type parked; the task and its other tables go on."""

    def fails(*_: Any, **__: Any) -> Any:
        raise OverflowError("date value out of range")

    tp = KEY.tp
    origin = files.FileOrigin(open_store(str(tmp_path)), "app", tp, 0, "order", "f", {})
    growing = files.GrowingFile(origin, partition_of(date(2026, 1, 31)))
    growing.add(pa.table({"n": [1]}), 0, 0)
    carried = growing.carried(1 << 10)
    assert carried is not None
    claim = Claim(KEY, 0, -1, 0, (carried,), 3)
    monkeypatch.setattr(module, name, fails)
    store = open_store(str(tmp_path))
    lake: Any = SimpleNamespace(
        app="app", store=store, compression="", table=lambda name: SimpleNamespace(store=store, event_type=name)
    )  # fmt: skip
    (settled,) = DeltaCommitter(lake, "owner", {}).commit("order", [claim]).settled
    assert isinstance(settled.outcome, Unwritten) and "OverflowError: date value out of range" in settled.outcome.reason
    assert settled.claim == claim


@pytest.mark.parametrize("error", [OSError(errno.EIO, "no connection"), FileNotFoundError(errno.ENOENT, "gone")])
def test_a_staged_file_that_is_not_seen_is_kept_while_the_storage_is_out(error: OSError) -> None:
    """TEMP: of one that is gone the records are read again; of one that nobody can look at nothing is known."""
    said = DISKS.setdefault("staged", Disk())
    said.trouble = "no connection"

    def require(path: str, size_bytes: int) -> None:
        raise error

    store = MemoryStore.at("memory://staged/lake")
    table = SimpleNamespace(store=store, event_type="order", require=require)
    lake: Any = SimpleNamespace(app="app", store=store, table=lambda name: table)
    claim = Claim(KEY, 0, -1, 9, (replace(ROWS, body=b""),), 3, offers=("c",))
    (settled,) = DeltaCommitter(lake, "owner", {}).commit("order", [claim]).settled
    DISKS.pop("staged")
    if isinstance(error, FileNotFoundError):
        assert isinstance(settled.outcome, Stale)
    else:
        assert isinstance(settled.outcome, Unwritten) and settled.outcome.storage == "no connection"


def test_the_last_of_several_commits_wakes_the_loop() -> None:
    """A look after each of them would hold up those that follow."""
    may_end = {name: threading.Event() for name in ("a", "b", "c")}
    woken: queue.Queue[list[str]] = queue.Queue()
    ended: list[str] = []

    def commit(name: str, claims: list[Claim]) -> Report:
        assert may_end[name].wait(10)
        ended.append(name)
        return Report(name, None, 0.0, ())

    keeper = SimpleNamespace(holds=lambda _: False)
    committer = SimpleNamespace(commit=commit, checked_through=lambda _: 3)
    keys = {name: WriterKey(name, KEY.tp) for name in may_end}
    writers = {key: Writer(key, 0, 1, -1, 9, 0.0, staged=(ROWS,)) for key in keys.values()}
    with ThreadPoolExecutor(3) as pool:
        offers = offers_of(committer, keeper, mock.Mock(), pool, lambda: woken.put([*ended]))
        offers.offer(writers, {name: [key] for name, key in keys.items()}, 100.0)
        for one in may_end.values():
            one.set()
    assert sorted(woken.get(timeout=10)) == sorted(may_end)
