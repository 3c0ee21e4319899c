"""What a leader's commits have to do, on the fake and on a Delta table (protocol 4.11)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import pytest

from exporter.core.coordination import Merging, Offer, Preparing
from exporter.core.memory_committer import MemoryCommitter, MemoryTable
from exporter.core.memory_merger import MemoryMerger
from exporter.core.outcome import Landed, Prepared, Refused, Report, Stale, Unknown
from exporter.core.writers import Claim, StagedFile, WriterKey
from offsets.positions import Position
from offsets.ranges import TopicPartition
from tests.support.committed_to import NAME, CommittedTo, InALake, InMemory

P0, P1, P2 = (TopicPartition("events", number) for number in range(3))
NO_END = 1 << 62
MORE = '{"name":"more","type":"%s","nullable":true,"metadata":{}}'


class Place(CommittedTo, Protocol):
    """A table with three partitions, two tasks that trust it, a leader, and what may happen to them."""

    tasks: list[Preparing]
    leader: Merging

    def ends(self, tp: TopicPartition, at: int) -> None:
        """The partition has no record at this offset and beyond; of the others none is known to end."""

    def at(self) -> list[int]:
        """The positions."""

    def version(self) -> int: ...

    def rows(self) -> list[int]:
        """How many of each partition."""


class LeaderInMemory(InMemory):
    """The fake."""

    def __init__(self) -> None:
        tables = {NAME: MemoryTable({tp: Position(0, -1) for tp in (P0, P1, P2)})}
        tasks = [MemoryCommitter(owner=owner, tables=tables) for owner in "ab"]
        super().__init__(tasks)
        self.tasks: list[Preparing] = [*tasks]
        self.leader = MemoryMerger(tables)

    def ends(self, tp: TopicPartition, at: int) -> None:
        self.leader.ends = {**(self.leader.ends or dict.fromkeys((P0, P1, P2), NO_END)), tp: at}

    def reply_is_lost(self, arrived: bool) -> None:
        self.leader.reply_is_lost(arrived)

    def at(self) -> list[int]:
        return [self.table.positions[tp].offset for tp in (P0, P1, P2)]

    def version(self) -> int:
        return self.table.version

    def rows(self) -> list[int]:
        counts = dict.fromkeys((P0, P1, P2), 0)
        for (tp, _), ranges in self.table.rows.items():
            counts[tp] += sum(one.next_offset - one.first_offset for one in ranges)
        return [*counts.values()]


class LeaderOfALake(InALake):
    """A Delta table."""

    def __init__(self, session: Any, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        from exporter.protocol.commit import DeltaCommitter
        from exporter.protocol.merged import MergedCommits

        super().__init__(session, root, (P0, P1, P2), monkeypatch)
        view = self.view()
        committers = [DeltaCommitter(self.lake, owner, {"routing": "r"}, others_commit=True) for owner in "abc"]
        for committer in committers:
            committer.trust(NAME, view)
        self.tasks: list[Preparing] = [*committers[:2]]
        self.high = dict.fromkeys((P0, P1, P2), NO_END)
        self.leader = MergedCommits(self.lake, "c", "r", committers[2].trusted, lambda tps: self.high)
        self.other = lambda: committers[2]

    def ends(self, tp: TopicPartition, at: int) -> None:
        self.high[tp] = at

    def at(self) -> list[int]:
        view = self.view()
        return [view.position("app", tp).offset for tp in (P0, P1, P2)]

    def version(self) -> int:
        return int(self.view().version)

    def rows(self) -> list[int]:
        adds = self.delta.files_at(self.version())
        return [sum(json.loads(add["stats"])["numRecords"] for add in adds if add["tags"]["partition"] == str(number))
                for number in range(3)]  # fmt: skip


@pytest.fixture(params=["memory", pytest.param("lake", marks=pytest.mark.spark)])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """A table, or a model of one."""
    if request.param == "memory":
        yield LeaderInMemory()
    else:
        yield LeaderOfALake(request.getfixturevalue("spark"), tmp_path, monkeypatch)


def claim(place: Place, expected: int, new: int, tp: TopicPartition = P0, *files: StagedFile) -> Claim:
    """(expected, new] of one partition, all of it rows, or with these files."""
    files = files or (place.file(tp, expected + 1, new),)
    return Claim(WriterKey(NAME, tp), 0, expected, new, files, place.version())


def offered(place: Place, task: int, *claims: Claim) -> tuple[Prepared, Offer]:
    """What a task has prepared, and what it says of it."""
    prepared = place.tasks[task].prepare(NAME, claims)
    assert len(prepared.offers) == len(claims)
    return prepared, place.tasks[task].offer(prepared, "round-1")


def outcomes(report: Report | None) -> dict[int, object]:
    assert report is not None
    return {settled.claim.key.tp.partition: settled.outcome for settled in report.settled}


def falls_back(place: Place, mine: Prepared) -> None:
    """Of two claims one has lost its file: its task drops that one, and the other lands when it is offered again."""
    report = place.tasks[0].fall_back(mine)
    found = outcomes(report)
    assert isinstance(found[0], Stale) and found[1] == Unknown() and place.at() == [-1, -1, -1]
    again = [one.claim for one in report.settled if isinstance(one.outcome, Unknown)]
    assert outcomes(place.tasks[0].commit(NAME, again)) == {1: Landed(Position(0, 4))}


def test_offers_of_two_tasks_land_in_one_version(place: Place) -> None:
    """Rows and a heartbeat; each task finds its own by its own id, with the version that holds it."""
    mine, first = offered(place, 0, claim(place, -1, 9), replace(claim(place, -1, 4, P1), files=()))
    yours, second = offered(place, 1, claim(place, -1, 19, P2))
    before = place.version()
    merged = place.leader.commit(NAME, [first, second])
    assert (merged.version, merged.rows, merged.dropped) == (before + 1, 30, {})
    assert set(merged.landed) == {first.id, second.id}
    assert (place.at(), place.rows(), place.version()) == ([9, 4, 19], [10, 0, 20], before + 1)
    found = place.tasks[0].found(mine)
    assert outcomes(found) == {0: Landed(Position(0, 9)), 1: Landed(Position(0, 4))}
    assert found is not None and found.version == before + 1
    assert outcomes(place.tasks[1].found(yours)) == {2: Landed(Position(0, 19))}


def test_of_an_offer_all_lands_or_nothing(place: Place) -> None:
    """One of its partitions has moved: it is left out, the others land; its task then finds out per partition."""
    mine, first = offered(place, 0, claim(place, -1, 9), claim(place, -1, 4, P1))
    _, second = offered(place, 1, claim(place, -1, 19, P2))
    place.others_move(P0, 3)
    merged = place.leader.commit(NAME, [first, second])
    assert (merged.landed, [*merged.dropped]) == ((second.id,), [first.id])
    assert (place.at(), place.rows()) == ([3, -1, 19], [0, 0, 20])
    assert place.tasks[0].found(mine) is None, "it may still land, as far as the other partition goes"
    report = place.tasks[0].fall_back(mine)
    assert outcomes(report) == {0: Refused(Position(0, 3)), 1: Unknown()}
    again = [one.claim for one in report.settled if isinstance(one.outcome, Unknown)]
    assert outcomes(place.tasks[0].commit(NAME, again)) == {1: Landed(Position(0, 4))}
    assert place.rows() == [0, 5, 20]


def test_of_two_offers_on_a_partition_the_first_one_lands(place: Place) -> None:
    """Whoever still takes the partition for his own is refused, and only once (FENCE)."""
    zombie, first = offered(place, 0, claim(place, -1, 9))
    owner, second = offered(place, 1, claim(place, -1, 14))
    merged = place.leader.commit(NAME, [second, first])
    assert (merged.landed, [*merged.dropped]) == ((second.id,), [first.id])
    assert outcomes(place.tasks[0].found(zombie)) == {0: Refused(Position(0, 14))}
    assert outcomes(place.tasks[1].found(owner)) == {0: Landed(Position(0, 14))}
    assert place.rows() == [15, 0, 0]


def test_an_offer_beyond_the_end_of_its_partition_is_left_out(place: Place) -> None:
    """Nobody can have read that far: what comes there would be skipped (COVER). The others land, also at the end."""
    _, far = offered(place, 0, replace(claim(place, -1, 10), files=()))
    _, last = offered(place, 1, claim(place, -1, 9, P1))
    place.ends(P0, 10)
    place.ends(P1, 10)
    merged = place.leader.commit(NAME, [far, last])
    assert (merged.landed, merged.dropped) == ((last.id,), {far.id: f"{P0}: it goes to 10, the partition ends at 10"})
    assert place.at() == [-1, 9, -1]


def test_an_offer_whose_file_is_gone_is_left_out(place: Place) -> None:
    """A commit that names a deleted file would succeed (protocol 4.2)."""
    gone = claim(place, -1, 9)
    _, first = offered(place, 0, gone)
    _, second = offered(place, 1, claim(place, -1, 19, P2))
    place.file_vanishes(gone.files[0])
    merged = place.leader.commit(NAME, [first, second])
    assert (merged.landed, [*merged.dropped], place.at()) == ((second.id,), [first.id], [-1, -1, 19])


def test_an_offer_whose_file_is_gone_its_task_does_not_commit_either(place: Place) -> None:
    """Whole or not at all: what is there of it is offered again, as another offer."""
    gone, there = claim(place, -1, 9), claim(place, -1, 4, P1)
    mine, offer = offered(place, 0, gone, there)
    place.file_vanishes(gone.files[0])
    assert place.leader.commit(NAME, [offer]).landed == ()
    falls_back(place, mine)
    assert place.rows() == [0, 5, 0]


def test_what_does_not_fit_the_table_any_more_is_left_out(place: Place) -> None:
    """The metadata are compared in the transaction; what was staged since lands."""
    _, stale = offered(place, 0, claim(place, -1, 9))
    place.table_changes()
    _, fresh = offered(place, 1, claim(place, -1, 19, P2))
    merged = place.leader.commit(NAME, [stale, fresh])
    assert (merged.landed, [*merged.dropped]) == ((fresh.id,), [stale.id])


def test_offers_that_fit_the_table_and_not_each_other_do_not_go_together(place: Place) -> None:
    """A new column of two types would make a table that nobody can read (protocol 4.2); of one type it is added."""
    schemas = [json.loads(place.schema()) for _ in range(3)]
    for schema, kind in zip(schemas, ("long", "string", "long"), strict=True):
        schema["fields"].append(json.loads(MORE % kind))
    offers = []
    for task, tp, schema in zip((0, 1, 1), (P0, P1, P2), schemas, strict=True):
        file = place.planned(place.file(tp, 0, 9), json.dumps(schema, separators=(",", ":")))
        offers.append(offered(place, task, claim(place, -1, 9, tp, file))[1])
    merged = place.leader.commit(NAME, offers)
    assert (merged.landed, [*merged.dropped]) == ((offers[0].id, offers[2].id), [offers[1].id])
    assert '"more"' in place.schema() and place.rows() == [10, 0, 10]


def test_a_merged_commit_whose_reply_was_lost_has_landed(place: Place) -> None:
    """Protocol 4.4: found by looking, for each offer."""
    mine, first = offered(place, 0, claim(place, -1, 9))
    _, second = offered(place, 1, claim(place, -1, 19, P2))
    place.reply_is_lost(arrived=True)
    merged = place.leader.commit(NAME, [first, second])
    assert (merged.version, set(merged.landed)) == (place.version(), {first.id, second.id})
    assert outcomes(place.tasks[0].found(mine)) == {0: Landed(Position(0, 9))}
    assert place.rows() == [10, 0, 20]


def test_of_one_that_never_arrived_nobody_is_told_and_tasks_commit_by_themselves(place: Place) -> None:
    """Under the same id: whatever comes later of the leader's is refused by the positions, and doubles no row."""
    mine, first = offered(place, 0, claim(place, -1, 9))
    yours, second = offered(place, 1, claim(place, -1, 19, P2))
    place.reply_is_lost(arrived=False)
    merged = place.leader.commit(NAME, [first, second])
    assert (merged.version, merged.landed, merged.dropped) == (None, (), {})
    assert place.tasks[0].found(mine) is None and place.at() == [-1, -1, -1]
    report = place.tasks[0].fall_back(mine)
    assert outcomes(report) == {0: Landed(Position(0, 9))}
    again = place.leader.commit(NAME, [first, second])
    assert (again.landed, [*again.dropped]) == ((second.id,), [first.id])
    assert outcomes(place.tasks[1].found(yours)) == {2: Landed(Position(0, 19))}
    assert place.rows() == [10, 0, 20]


def test_what_the_leader_has_committed_a_task_that_heard_nothing_commits_no_second_time(place: Place) -> None:
    """Its own commit under the same id is refused by the positions, and its look finds the leader's."""
    mine, first = offered(place, 0, claim(place, -1, 9))
    place.leader.commit(NAME, [first])
    before = place.version()
    report = place.tasks[0].fall_back(mine)
    assert outcomes(report) == {0: Landed(Position(0, 9))} and place.version() == before
    assert place.rows() == [10, 0, 0]


def test_a_task_that_falls_back_looks_for_its_files_again(place: Place) -> None:
    """They were there when it said its offer. What is still there it offers under another id; no row is missing."""
    gone, kept = claim(place, -1, 9), claim(place, -1, 4, P1)
    mine, _ = offered(place, 0, gone, kept)
    place.file_vanishes(gone.files[0])
    falls_back(place, mine)
    yours, _ = offered(place, 1, claim(place, -1, 19, P2))
    assert outcomes(place.tasks[1].fall_back(yours)) == {2: Landed(Position(0, 19))}
    assert place.rows() == [0, 5, 20]


def test_offers_of_which_none_can_land_make_no_version(place: Place) -> None:
    """A leader that wakes up after others have committed all that it had collected."""
    _, first = offered(place, 0, claim(place, -1, 9))
    place.others_move(P0, 9)
    before = place.version()
    merged = place.leader.commit(NAME, [first])
    assert (merged.version, merged.rows, merged.landed, [*merged.dropped]) == (None, 0, (), [first.id])
    assert place.version() == before
