"""What a commit can rely on, each case made to happen on a real Delta table: fences, lost replies, accidents."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import deltalake
import pytest
from py4j.clientserver import ClientServerConnection
from py4j.protocol import MEMORY_COMMAND_NAME

from exporter.core.outcome import Landed, Outcome, Refused, Report, Stale, Unknown
from exporter.core.routing import DEAD_LETTERS, EventTime, Routing, TypeFrom
from exporter.core.writers import Claim, WriterKey
from exporter.errors import InvariantBroken, TableUnreadable
from exporter.lake import log_files
from exporter.lake.change import Change
from exporter.lake.lake import Lake
from exporter.lake.schema import table_schema
from exporter.lake.settling import Failed
from exporter.lake.table import DeltaTable
from exporter.protocol.anchor import Anchors
from exporter.protocol.commit import DeltaCommitter
from offsets import Invariant
from offsets.names import AppId
from offsets.positions import Position
from offsets.ranges import TopicIdentity, TopicPartition
from offsets.table_log import TableView
from tests.support.lakes import SMALL_TABLE, create_anchored, stage_offsets
from tests.support.recovering import Started

pytestmark = pytest.mark.spark

P0, P1 = TopicPartition("events", 0), TopicPartition("events", 1)
DAY, NEXT_DAY = date(2026, 1, 31), date(2026, 2, 1)
APP = "committing"


class Table:
    """A table with two anchored partitions and a committer that trusts it."""

    def __init__(self, session: Any, root: Path, name: str = "order") -> None:
        self.session, self.name = session, name
        self.lake = Lake(session, root, APP)
        self.delta = self.lake.table(name)
        create_anchored(self.lake, name, {P0: Position(0, -1), P1: Position(0, -1)})
        self.committer = self.another()

    def another(self) -> DeltaCommitter:
        """A committer of another task."""
        committer = DeltaCommitter(self.lake, "test", {})
        view = self.delta.view()
        assert view is not None
        committer.trust(self.name, view)
        return committer

    def claim(self, expected: int, new: int, *days: date, tp: TopicPartition = P0) -> Claim:
        """Claims (expected, new], every offset a row of each day in turn; no day: a heartbeat."""
        files = [
            stage_offsets(self.lake, self.name, tp, list(range(expected + 1 + at, new + 1, len(days))), day)
            for at, day in enumerate(days)
        ]
        base = self.committer.checked_through(self.name)
        return Claim(WriterKey(self.name, tp), 0, expected, new, tuple(files), base)

    def sql(self, statement: str) -> None:
        self.session.sql(statement.format(table=f"delta.`{self.delta.uri}`"))

    def ids(self) -> list[int]:
        """The rows, as deltalake reads them; `id` is the offset."""
        column = deltalake.DeltaTable(self.delta.uri).to_pyarrow_table(columns=["id"]).column("id")
        return sorted(column.to_pylist())

    def position(self, tp: TopicPartition = P0) -> Position | None:
        view = self.delta.view()
        assert view is not None
        return view.position(APP, tp)

    def files(self) -> set[Path]:
        return set(Path(self.delta.uri).glob("day=*/*.parquet"))


def described(table: DeltaTable, through: int) -> list[int]:
    """The versions that say what the table is: its creation, and each change of that."""
    texts = (table.store.read(log_files.entry(version)) for version in range(through + 1))
    return [version for version, text in enumerate(texts) if b'{"metaData":' in text]


@pytest.fixture
def table(spark: Any, tmp_path: Path) -> Table:
    return Table(spark, tmp_path)


def outcomes(report: Report) -> list[Outcome | Stale]:
    return [settled.outcome for settled in report.settled]


@contextmanager
def around_commit(
    monkeypatch: pytest.MonkeyPatch, before: Callable[[], object] = lambda: None, after: BaseException | None = None
) -> Iterator[None]:
    """The next commit meets `before` between its snapshot and its writing, and `after` instead of its reply."""
    real, left = DeltaTable.commit, [None]

    def commit(self: DeltaTable, change: Any, check: Any) -> int:
        if not left:
            return real(self, change, check)
        left.pop()

        def checked(view: Any) -> Any:
            evolve = check(view)
            before()
            return evolve

        version = real(self, change, checked)
        if after is not None:
            raise after
        return version

    with monkeypatch.context() as patch:
        patch.setattr(DeltaTable, "commit", commit)
        yield
    assert not left, "no commit was made"


@pytest.mark.parametrize("mine, other", [(50, 30), (30, 50), (30, 30)], ids=["ahead", "behind", "level"])
@pytest.mark.parametrize("race", [False, True], ids=["seen-before", "while-committing"])
def test_a_zombie_is_refused_whether_it_is_ahead_or_behind(
    table: Table, monkeypatch: pytest.MonkeyPatch, mine: int, other: int, race: bool
) -> None:
    """FENCE: whoever commits second is refused, with a lower and with a HIGHER offset; its files stay (TEMP)."""
    zombie = table.claim(-1, mine, DAY)
    owner = table.claim(-1, other, DAY)
    before = table.files()
    if race:
        rival = table.another()
        with around_commit(monkeypatch, before=lambda: rival_lands(rival, owner)):
            report = table.committer.commit("order", [zombie])
    else:
        rival_lands(table.another(), owner)
        report = table.committer.commit("order", [zombie])
    assert outcomes(report) == [Refused(Position(0, other))]
    assert report.version is None
    assert table.ids() == list(range(other + 1))
    assert before <= table.files()


def rival_lands(committer: DeltaCommitter, claim: Claim) -> None:
    assert isinstance(outcomes(committer.commit("order", [claim]))[0], Landed)


@pytest.mark.parametrize("kind", [RuntimeError, OSError, ConnectionError, MemoryError])
def test_a_lost_reply_is_landed_and_deletes_nothing(
    table: Table, monkeypatch: pytest.MonkeyPatch, kind: type[BaseException]
) -> None:
    """The commit arrived, its answer did not: Landed for every partition in it, whatever the exception."""
    claims = [table.claim(-1, 9, DAY), table.claim(-1, 4, DAY, NEXT_DAY, tp=P1)]
    before = table.files()
    with around_commit(monkeypatch, after=kind("the reply was lost")):
        report = table.committer.commit("order", claims)
    assert outcomes(report) == [Landed(Position(0, 9)), Landed(Position(0, 4))]
    assert table.ids() == sorted([*range(10), *range(5)])
    assert before <= table.files()


def test_a_lost_reply_is_landed_even_if_the_position_has_moved_on_since(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Our commit is in the log, another owner is already past it: Landed at the newer position, not refused."""
    claim = table.claim(-1, 9, DAY)
    real = DeltaCommitter._look

    def look(self: DeltaCommitter, *args: Any) -> Any:
        monkeypatch.setattr(DeltaCommitter, "_look", real)
        rival_lands(table.another(), table.claim(9, 19, DAY))
        return real(self, *args)

    monkeypatch.setattr(DeltaCommitter, "_look", look)
    with around_commit(monkeypatch, after=RuntimeError("the reply was lost")):
        report = table.committer.commit("order", [claim])
    assert outcomes(report) == [Landed(Position(0, 19))]
    assert table.ids() == list(range(20))


def test_a_commit_that_never_arrived_may_be_offered_again_under_another_id(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unknown deletes nothing; the second offer of the same files lands; both commit ids are remembered."""
    before = table.claim(-1, 9, DAY)

    def lost() -> None:
        raise ConnectionError("the request was lost")

    with around_commit(monkeypatch, before=lost):
        first = table.committer.commit("order", [before])
    assert outcomes(first) == [Unknown()]
    assert table.ids() == []
    second = table.committer.commit("order", [first.settled[0].claim])
    assert outcomes(second) == [Landed(Position(0, 9))]
    assert len(set(second.settled[0].claim.offers)) == 2
    assert table.ids() == list(range(10))


def test_an_offer_whose_lost_reply_was_taken_for_a_lost_request_is_not_doubled(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first offer landed but the table could not be read: Unknown; the second offer finds it under the first id."""
    claim = table.claim(-1, 9, DAY)

    def unreadable(*_: Any) -> Any:
        raise TableUnreadable("the table cannot be read now")

    with around_commit(monkeypatch, after=OSError("the reply was lost")), monkeypatch.context() as patch:
        patch.setattr(DeltaCommitter, "_look", unreadable)
        first = table.committer.commit("order", [claim])
    assert outcomes(first) == [Unknown()]
    second = table.committer.commit("order", [first.settled[0].claim])
    assert outcomes(second) == [Landed(Position(0, 9))]
    assert table.ids() == list(range(10))


def test_of_one_commit_only_the_partition_that_moved_is_refused(table: Table) -> None:
    """The other partition's claim is Unknown: its files are kept and land with the next offer."""
    zombie, innocent = table.claim(-1, 9, DAY), table.claim(-1, 4, DAY, tp=P1)
    rival_lands(table.another(), table.claim(-1, 5, DAY))
    report = table.committer.commit("order", [zombie, innocent])
    assert outcomes(report) == [Refused(Position(0, 5)), Unknown()]
    again = table.committer.commit("order", [report.settled[1].claim])
    assert outcomes(again) == [Landed(Position(0, 4))]
    assert table.ids() == sorted([*range(6), *range(5)])


@pytest.mark.parametrize("accident", ["gone", "cut"])
def test_a_missing_staged_file_makes_only_its_own_claim_stale(table: Table, accident: str) -> None:
    """VACUUM may delete staged files: the commit never names one that is gone or not as it was written."""
    broken, whole = table.claim(-1, 9, DAY), table.claim(-1, 4, DAY, tp=P1)
    path = Path(table.delta.uri) / broken.files[0].path
    if accident == "gone":
        path.unlink()
    else:
        os.truncate(path, 10)
    report = table.committer.commit("order", [broken, whole])
    by_claim = {settled.claim.key.tp: settled.outcome for settled in report.settled}
    assert isinstance(by_claim[P0], Stale)
    assert by_claim[P1] == Landed(Position(0, 4))
    assert table.position() == Position(0, -1)
    assert table.ids() == list(range(5))


def test_a_column_added_since_staging_makes_the_files_stale_and_new_ones_land(table: Table) -> None:
    """Of files whose columns nobody remembers: they are staged again for the table as it is."""
    claim = table.claim(-1, 9, DAY)
    table.sql("ALTER TABLE {table} ADD COLUMN (extra STRING)")
    assert isinstance(outcomes(table.committer.commit("order", [claim]))[0], Stale)
    assert table.ids() == []
    assert outcomes(table.committer.commit("order", [table.claim(-1, 9, DAY)])) == [Landed(Position(0, 9))]
    assert table.ids() == list(range(10))


@pytest.mark.parametrize("known", [True, False])
def test_a_column_added_while_committing_is_seen_by_the_second_offer(
    known: bool, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Delta refuses the first offer; the second, made at once, runs all checks again: the files fit, or are stale.

    known: whether it is remembered which columns they were staged for (protocol 4.2, 4.3).
    """
    claim = table.claim(-1, 9, DAY)
    if known:
        schema = table.lake.table("order").view().schema_json
        claim = replace(claim, files=tuple(replace(file, columns=schema) for file in claim.files))
    with around_commit(monkeypatch, before=lambda: table.sql("ALTER TABLE {table} ADD COLUMN (extra STRING)")):
        (outcome,) = outcomes(table.committer.commit("order", [claim]))
    assert isinstance(outcome, Landed if known else Stale)
    assert table.ids() == (list(range(10)) if known else [])


@pytest.mark.parametrize("race", [False, True], ids=["between-commits", "while-committing"])
def test_a_restore_is_noticed_at_the_next_commit(table: Table, monkeypatch: pytest.MonkeyPatch, race: bool) -> None:
    """MONOTONE: RESTORE takes rows back but not positions, and does not conflict; the next commit stops the task."""
    rival_lands(table.committer, table.claim(-1, 9, DAY))
    claim = table.claim(9, 19, DAY)

    def restore() -> None:
        table.sql("RESTORE TABLE {table} TO VERSION AS OF 0")

    if not race:
        deltalake.DeltaTable(table.delta.uri).restore(0)
    racing = around_commit(monkeypatch, before=restore if race else lambda: None)
    with racing, pytest.raises(InvariantBroken, match=r"MONOTONE.*RESTORE") as stopped:
        table.committer.commit("order", [claim])
    assert stopped.value.invariant is Invariant.MONOTONE
    assert stopped.value.exit_code == 70


@pytest.mark.parametrize(
    "statement, race",
    [
        ("OPTIMIZE {table}", False),
        ("OPTIMIZE {table}", True),
        ("DELETE FROM {table} WHERE id = 3", True),
        ("UPDATE {table} SET id = 3 WHERE id = 3", False),
        ("VACUUM {table}", False),
    ],
    ids=lambda value: value.split()[0] if isinstance(value, str) else "while-committing" if value else "before",
)
def test_what_users_do_to_rows_is_no_alarm(
    table: Table, monkeypatch: pytest.MonkeyPatch, statement: str, race: bool
) -> None:
    """OPTIMIZE, DELETE, UPDATE and VACUUM neither stop nor refuse a commit."""
    for expected, new in ((-1, 4), (4, 9)):
        rival_lands(table.committer, table.claim(expected, new, DAY))
    claim = table.claim(9, 19, DAY)
    if not race:
        table.sql(statement)
    with around_commit(monkeypatch, before=(lambda: table.sql(statement)) if race else lambda: None):
        report = table.committer.commit("order", [claim])
    assert outcomes(report) == [Landed(Position(0, 19))]
    assert [number for number in range(20) if number not in table.ids()] == ([3] if "DELETE" in statement else [])


@pytest.mark.parametrize(
    "prop, value, invariant",
    [
        ("exporter.app", "somebody_else", Invariant.ONCE),
        ("delta.setTransactionRetentionDuration", "interval 30 days", Invariant.MONOTONE),
        ("delta.deletedFileRetentionDuration", "interval 1 hours", Invariant.TEMP),
    ],
)
def test_a_table_that_may_not_be_written_stops_the_task(
    table: Table, prop: str, value: str, invariant: Invariant
) -> None:
    """Another app's table, expiring positions, a VACUUM that takes staged files: exit 70, a hint, nothing written."""
    claim = table.claim(-1, 9, DAY)
    table.sql(f"ALTER TABLE {{table}} SET TBLPROPERTIES ('{prop}' = '{value}')")
    with pytest.raises(InvariantBroken) as stopped:
        table.committer.commit("order", [claim])
    assert stopped.value.invariant is invariant
    assert stopped.value.hint
    assert table.ids() == []


def test_a_table_that_was_dropped_and_made_anew_stops_the_task(table: Table) -> None:
    """The same name with another table id is not the table whose positions we know."""
    claim = table.claim(-1, 9, DAY)
    Path(table.delta.uri).rename(Path(table.delta.uri).with_name("~elsewhere"))
    table.session._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    create_anchored(table.lake, "order", {P0: Position(0, -1), P1: Position(0, -1)})
    for folder in {file.folder for file in claim.files}:
        shutil.copytree(Path(table.delta.uri).with_name("~elsewhere") / folder, Path(table.delta.uri) / folder)
    with pytest.raises(InvariantBroken) as stopped:
        table.committer.commit("order", [claim])
    assert stopped.value.invariant is Invariant.MONOTONE


def test_small_files_of_a_day_are_merged_and_the_inputs_stay(table: Table) -> None:
    """One committed file per day; the merged inputs are left for the sweep (TEMP)."""
    days = (DAY, NEXT_DAY)
    parts = [table.claim(low, low + 4, *days) for low in (-1, 3, 7)]
    claim = replace(parts[0], new=parts[-1].new, files=tuple(file for part in parts for file in part.files))
    inputs = table.files()
    assert outcomes(table.committer.commit("order", [claim])) == [Landed(Position(0, 11))]
    assert len(deltalake.DeltaTable(table.delta.uri).file_uris()) == 2
    assert inputs < table.files()
    assert table.ids() == list(range(12))


def test_a_heartbeat_moves_the_position_and_adds_no_file(table: Table) -> None:
    """An empty marker: no row, no file, the position moved; also in one commit with another partition's files."""
    marker, claim = table.claim(-1, 99), table.claim(-1, 4, DAY, tp=P1)
    files = table.files()
    report = table.committer.commit("order", [marker, claim])
    assert outcomes(report) == [Landed(Position(0, 99)), Landed(Position(0, 4))]
    assert table.files() == files
    assert table.ids() == list(range(5))


def test_a_commit_asks_the_jvm_as_often_for_many_partitions_as_for_one(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each question costs as much as a hundred rows; the positions of all partitions are handed over together."""
    calls = []
    for count in (1, 40):
        lake, tps = Lake(spark, tmp_path, APP), [TopicPartition("events", number) for number in range(count)]
        create_anchored(lake, f"order_{count}", dict.fromkeys(tps, Position(0, -1)))
        ids = [str(AppId(APP, tp, 0)) for tp in tps]
        table, change = lake.table(f"order_{count}"), Change(tuple(ids), dict.fromkeys(ids, 7), {})
        with monkeypatch.context() as patch:
            asked = asked_of_the_jvm(patch)
            table.commit(change, lambda view: None)
        calls.append(len(asked))
        view = table.view()
        assert view is not None
        assert [view.position(APP, tp) for tp in tps] == [Position(0, 7)] * count
    assert calls[0] == calls[1] > 0


def asked_of_the_jvm(patch: pytest.MonkeyPatch) -> list[str]:
    """The calls over the gateway from now on, but for its own that objects are garbage."""
    asked: list[str] = []
    send = ClientServerConnection.send_command

    def counted(connection: Any, command: str) -> str:
        if not command.startswith(MEMORY_COMMAND_NAME):
            asked.append(command)
        reply: str = send(connection, command)
        return reply

    patch.setattr(ClientServerConnection, "send_command", counted)
    return asked


class QuietTopic:
    """A topic of two partitions in which nothing happens."""

    def identities_of(self, topics: Any) -> dict[str, TopicIdentity]:
        return {topic: TopicIdentity("cluster", "topic-id", (0, 1)) for topic in topics}

    def first_offsets(self, tps: Any) -> dict[TopicPartition, int]:
        return dict.fromkeys(tps, 0)

    def high_watermarks(self, tps: Any) -> dict[TopicPartition, int]:
        return dict.fromkeys(tps, 1_000)


ROUTING = Routing(TypeFrom("json", "type"), EventTime("record"), (("click", SMALL_TABLE), ("order", SMALL_TABLE)))


def recovery(lake: Lake, routing: Routing = ROUTING) -> Started:
    topic: Any = QuietTopic()
    return Started(lake, topic, routing, DeltaCommitter(lake, "test", {}))


@pytest.mark.parametrize("attempt", range(3))
def test_two_tasks_that_create_the_tables_at_once_agree(spark: Any, tmp_path: Path, attempt: int) -> None:
    """Creating and anchoring is one commit: one task wins each table, the other adopts its anchors."""
    found: dict[int, Any] = {}
    start = threading.Barrier(2)

    def task(number: int, tp: TopicPartition) -> None:
        lake = Lake(spark, tmp_path, APP)
        start.wait(10)
        found[number] = recovery(lake).recover({tp: 1, P0: 1})

    threads = [threading.Thread(target=task, args=(number, tp)) for number, tp in enumerate((P0, P1))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(found) == [0, 1]
    for name in (DEAD_LETTERS, "click", "order"):
        assert found[0][WriterKey(name, P0)].covered == found[1][WriterKey(name, P0)].covered == -1
        log = Lake(spark, tmp_path, APP).table(name)
        view = log.view()
        assert view is not None
        assert described(log, view.version)[0] == 0
        assert view.position(APP, P1) == Position(0, -1)


@pytest.fixture
def earlier(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """A lake with anchored tables as an earlier version made them, without event times."""
    lake = Lake(spark, tmp_path, APP)
    with monkeypatch.context() as patch:
        patch.setattr(
            "exporter.protocol.anchor.table_schema",
            lambda declared, *spec: without_event_time(table_schema(declared, *spec)),
        )
        patch.setattr("exporter.protocol.advancing.lacking_event_time", lambda views: set())
        recovery(lake).recover({P0: 1, P1: 1})
    return lake


def without_event_time(schema: str) -> str:
    fields = [field for field in json.loads(schema)["fields"] if field["name"] != "_event_time"]
    return json.dumps({"type": "struct", "fields": fields})


def test_two_tasks_that_meet_tables_of_an_earlier_version_change_each_once(earlier: Lake) -> None:
    """Whoever comes second finds the column there; positions stay, the dead letters are as they were."""
    found: dict[int, Any] = {}
    start = threading.Barrier(2)

    def task(number: int, tp: TopicPartition) -> None:
        lake = Lake(earlier.session, earlier.root, APP)
        start.wait(10)
        found[number] = recovery(lake).recover({tp: 1})

    threads = [threading.Thread(target=task, args=(number, tp)) for number, tp in enumerate((P0, P1))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert {key: writer.covered for of_task in found.values() for key, writer in of_task.items()} == {
        WriterKey(name, tp): -1 for name in (DEAD_LETTERS, "click", "order") for tp in (P0, P1)
    }
    for name, changes in (("click", 2), ("order", 2), (DEAD_LETTERS, None)):
        table = earlier.table(name)
        view = table.view()
        assert view is not None
        columns = [field["name"] for field in json.loads(view.schema_json)["fields"]]
        assert (columns[:2] == ["_kafka", "_event_time"]) == (name != DEAD_LETTERS)
        assert changes is None or len(described(table, view.version)) == changes


def test_what_an_earlier_version_has_staged_is_staged_again_once_its_table_has_event_times(earlier: Lake) -> None:
    """A rolling upgrade: its files are dropped, not lost; it goes on beside the new task, and its rows have null."""
    old = DeltaCommitter(earlier, "old", {})
    view = earlier.table("order").view()
    assert view is not None
    old.trust("order", view)

    def claim() -> Claim:
        files = (stage_offsets(earlier, "order", P0, [0, 9], DAY),)
        return Claim(WriterKey("order", P0), 0, -1, 9, files, old.checked_through("order"))

    staged = claim()
    recovery(earlier).recover({P0: 1})
    assert isinstance(outcomes(old.commit("order", [staged]))[0], Stale)
    assert outcomes(old.commit("order", [claim()])) == [Landed(Position(0, 9))]
    rows = deltalake.DeltaTable(earlier.table("order").uri).to_pyarrow_table().to_pylist()
    assert [(row["_kafka"]["offset"], row["_event_time"]) for row in rows] == [(0, None), (9, None)]


def test_a_table_that_cannot_be_changed_is_filled_all_the_same(
    earlier: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gets its event times at a later start: files have them already, and readers go by the table's columns."""
    with monkeypatch.context() as patch:
        patch.setattr(Anchors, "add_event_time", failing(Anchors.add_event_time, "click"))
        writers = recovery(earlier).recover({P0: 1})
    assert {key.event_type for key, w in writers.items() if w.parked is None} == {DEAD_LETTERS, "click", "order"}
    assert [name for name in ("click", "order") if has_event_time(earlier, name)] == ["order"]
    recovery(earlier).recover({P0: 1})
    assert has_event_time(earlier, "click")


def has_event_time(lake: Lake, name: str) -> bool:
    return "_event_time" in deltalake.DeltaTable(lake.table(name).uri).to_pyarrow_dataset().schema.names


def failing(real: Callable[..., None], table: str) -> Callable[..., None]:
    """The change of one table fails, though nobody else has written it."""

    def add(anchors: Anchors, name: str, view: TableView) -> None:
        if name == table:
            raise Failed(anchors.lake.table(name), OSError("no space"))
        real(anchors, name, view)

    return add


def test_a_start_refuses_tables_of_another_app(spark: Any, tmp_path: Path) -> None:
    """A renamed app would export everything twice: it stops at its start and writes nothing."""
    recovery(Lake(spark, tmp_path, APP)).recover({P0: 1})
    before = sorted(tmp_path.glob("*/_delta_log/*.json"))
    with pytest.raises(InvariantBroken, match="belongs to app 'committing', not to 'renamed'") as stopped:
        recovery(Lake(spark, tmp_path, "renamed")).recover({P0: 1})
    assert stopped.value.invariant is Invariant.ONCE
    assert sorted(tmp_path.glob("*/_delta_log/*.json")) == before


def test_a_start_notices_a_restore_that_happened_while_no_task_ran(spark: Any, tmp_path: Path) -> None:
    """MONOTONE: the operations since our last commit are looked at before anything is read."""
    lake = Lake(spark, tmp_path, APP)
    recovery(lake).recover({P0: 1})
    committer = DeltaCommitter(lake, "test", {})
    claim = Claim(WriterKey("order", P0), 0, -1, 9, (stage_offsets(lake, "order", P0, [0, 9], DAY),), 0)
    assert isinstance(outcomes(committer.commit("order", [claim]))[0], Landed)
    deltalake.DeltaTable(lake.table("order").uri).restore(0)
    with pytest.raises(InvariantBroken, match=r"MONOTONE.*order.*RESTORE"):
        recovery(lake).recover({P0: 1})


def test_a_start_notices_a_table_that_is_gone(spark: Any, tmp_path: Path) -> None:
    """The dead letters list each table's id: a folder that was removed is not made anew behind the positions."""
    lake = Lake(spark, tmp_path, APP)
    recovery(lake).recover({P0: 1})
    Path(lake.table("order").uri).rename(tmp_path / "~elsewhere")
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    with pytest.raises(InvariantBroken, match="table order is gone"):
        recovery(lake).recover({P0: 1})
