"""What whoever commits can rely on, of the Committer in memory and of that of a lake alike (FENCE, ORDER, TEMP).

tests/spark/test_commit.py makes each accident of a Delta table happen; here is what both must do.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import pytest

from exporter.core.memory_committer import MemoryCommitter, MemoryTable
from exporter.core.outcome import Committer, Landed, Outcome, Refused, Report, Stale, Unknown
from exporter.core.writers import Claim, WriterKey
from exporter.errors import InvariantBroken
from exporter.lake.change import Change
from exporter.stores.store import Store
from offsets.positions import Position
from offsets.ranges import TopicPartition
from tests.support.committed_to import NAME, CommittedTo, InALake, InMemory
from tests.support.places import committing_to
from tests.support.services import fresh_name

P0, P1 = TopicPartition("events", 0), TopicPartition("events", 1)


class Place(CommittedTo, Protocol):
    """A table with two partitions, a committer that trusts it, and what may happen to both."""

    committer: Committer

    def columns_change(self, schema_json: str) -> None: ...

    def position(self, tp: TopicPartition) -> Position | None: ...


class CommitterInMemory(InMemory):
    """The fake."""

    def __init__(self) -> None:
        self.committer = MemoryCommitter("app", {"routing": "r"})
        self.committer.tables[NAME] = MemoryTable({P0: Position(0, -1), P1: Position(0, -1)})
        super().__init__([self.committer])

    def columns_change(self, schema_json: str) -> None:
        self.committer.columns_change(NAME, schema_json)

    def reply_is_lost(self, arrived: bool) -> None:
        self.committer.reply_is_lost(arrived)

    def position(self, tp: TopicPartition) -> Position | None:
        return self.table.positions[tp]


class CommitterOfALake(InALake):
    """A Delta table."""

    def __init__(self, session: Any, root: Path | Store, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(session, root, (P0, P1), monkeypatch)
        self.other = self.another
        self.committer = self.another()

    def another(self) -> Any:
        from exporter.protocol.commit import DeltaCommitter

        committer = DeltaCommitter(self.lake, "test", {"routing": "r"})
        committer.trust(NAME, self.view())
        return committer

    def columns_change(self, schema_json: str) -> None:
        change = Change((), {}, {"commit_id": "another", "app": "app"}, evolve=schema_json)
        self.delta.commit(change, lambda view: None)

    def position(self, tp: TopicPartition) -> Position | None:
        found: Position | None = self.view().position("app", tp)
        return found


IN_S3 = [pytest.mark.spark, pytest.mark.long, pytest.mark.xdist_group("s3")]


@pytest.fixture(params=["memory", pytest.param("lake", marks=pytest.mark.spark), pytest.param("s3", marks=IN_S3)])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """A table, or a model of one."""
    if request.param == "memory":
        yield CommitterInMemory()
    elif request.param == "lake":
        yield CommitterOfALake(request.getfixturevalue("spark"), tmp_path, monkeypatch)
    else:
        session, store = request.getfixturevalue("spark"), request.getfixturevalue("s3").below(fresh_name("lake"))
        with committing_to(session, store):
            yield CommitterOfALake(session, store, monkeypatch)


def claim(place: Place, expected: int, new: int, tp: TopicPartition = P0, rows: bool = True) -> Claim:
    """(expected, new] of one partition, with a file or as a heartbeat."""
    files = (place.file(tp, expected + 1, new),) if rows else ()
    return Claim(WriterKey(NAME, tp), 0, expected, new, files, place.committer.checked_through(NAME))


def outcomes(report: Report) -> dict[TopicPartition, Outcome | object]:
    return {settled.claim.key.tp: settled.outcome for settled in report.settled}


def test_a_claim_lands_where_the_table_is_as_it_expects(place: Place) -> None:
    """Rows and heartbeats of several partitions in one commit, whose version is looked through from then on."""
    before = place.committer.checked_through(NAME)
    report = place.committer.commit(NAME, [claim(place, -1, 9), claim(place, -1, 4, P1, rows=False)])
    assert outcomes(report) == {P0: Landed(Position(0, 9)), P1: Landed(Position(0, 4))}
    assert (place.position(P0), place.position(P1)) == (Position(0, 9), Position(0, 4))
    assert report.version == place.committer.checked_through(NAME) == before + 1
    assert all(len(settled.claim.offers) == 1 for settled in report.settled)


def test_only_the_partition_that_somebody_else_has_moved_is_refused(place: Place) -> None:
    """Protocol 4.3: the rest of the commit may be offered again, and lands."""
    claims = [claim(place, -1, 9), claim(place, -1, 4, P1)]
    place.others_move(P0, 19)
    report = place.committer.commit(NAME, claims)
    assert outcomes(report) == {P0: Refused(Position(0, 19)), P1: Unknown()}
    assert (place.position(P0), place.position(P1)) == (Position(0, 19), Position(0, -1))
    again = [settled.claim for settled in report.settled if settled.claim.key.tp == P1]
    assert outcomes(place.committer.commit(NAME, again)) == {P1: Landed(Position(0, 4))}


def test_a_commit_whose_reply_was_lost_has_landed(place: Place) -> None:
    """Protocol 4.4: found by looking, whatever was raised."""
    place.reply_is_lost(arrived=True)
    report = place.committer.commit(NAME, [claim(place, -1, 9)])
    assert (outcomes(report), report.version) == ({P0: Landed(Position(0, 9))}, None)


def test_a_commit_that_never_arrived_is_offered_again_under_another_id(place: Place) -> None:
    """Unknown: nothing of it is in the table; both ids are remembered, for the first may still arrive."""
    place.reply_is_lost(arrived=False)
    first = place.committer.commit(NAME, [claim(place, -1, 9)])
    assert outcomes(first) == {P0: Unknown()} and place.position(P0) == Position(0, -1)
    second = place.committer.commit(NAME, [first.settled[0].claim])
    assert outcomes(second) == {P0: Landed(Position(0, 9))}
    offers = second.settled[0].claim.offers
    assert len(set(offers)) == 2 and offers[:1] == first.settled[0].claim.offers


def test_a_claim_whose_file_is_gone_is_dropped_and_the_others_land(place: Place) -> None:
    """A commit that names a deleted file would succeed (protocol 4.2)."""
    claims = [claim(place, -1, 9), claim(place, -1, 4, P1)]
    place.file_vanishes(claims[0].files[0])
    found = outcomes(place.committer.commit(NAME, claims))
    assert isinstance(found[P0], Stale) and found[P1] == Landed(Position(0, 4))
    assert place.position(P0) == Position(0, -1)


def test_what_was_staged_against_another_table_is_dropped(place: Place) -> None:
    """The metadata are compared inside the transaction (protocol 4.2); what is staged anew lands."""
    stale = claim(place, -1, 9)
    place.table_changes()
    assert isinstance(outcomes(place.committer.commit(NAME, [stale]))[P0], Stale)
    assert outcomes(place.committer.commit(NAME, [claim(place, -1, 9)])) == {P0: Landed(Position(0, 9))}


def with_columns(schema_json: str, **columns: str) -> str:
    """A table's schema with more columns, of these types."""
    schema = json.loads(schema_json)
    new = ({"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in columns.items())
    schema["fields"] += new
    return json.dumps(schema, separators=(",", ":"))


def test_a_column_that_others_have_added_throws_nothing_away(place: Place) -> None:
    """Protocol 4.2: what was staged for the table as it was fits the wider one; the column is null in it."""
    staged = claim(place, -1, 9)
    narrow = replace(staged, files=(place.planned(staged.files[0], place.schema()),))
    place.columns_change(with_columns(place.schema(), more="long"))
    assert outcomes(place.committer.commit(NAME, [narrow])) == {P0: Landed(Position(0, 9))}
    assert '"more"' in place.schema()


def test_the_commit_of_the_first_file_with_a_column_adds_it(place: Place) -> None:
    """One version for both; what others have added meanwhile stays."""
    staged = claim(place, -1, 9)
    wider = with_columns(place.schema(), mine="long")
    wide = replace(staged, files=(place.planned(staged.files[0], wider),))
    place.columns_change(with_columns(place.schema(), others="string"))
    before = place.committer.commit(NAME, [claim(place, -1, 4, P1, rows=False)]).version
    report = place.committer.commit(NAME, [wide])
    assert outcomes(report) == {P0: Landed(Position(0, 9))}
    assert report.version == (before or 0) + 1
    names = [one["name"] for one in json.loads(place.schema())["fields"]]
    assert {"mine", "others"} <= set(names)


@pytest.mark.parametrize("theirs", [{"mine": "string"}, {"MINE": "long"}])
def test_of_two_types_for_a_column_the_first_one_wins(place: Place, theirs: dict[str, str]) -> None:
    """So does the first of two names that readers take for one: what was staged for the other is staged again."""
    staged = claim(place, -1, 9)
    wide = replace(staged, files=(place.planned(staged.files[0], with_columns(place.schema(), mine="long")),))
    place.columns_change(with_columns(place.schema(), **theirs))
    assert isinstance(outcomes(place.committer.commit(NAME, [wide]))[P0], Stale)
    assert place.position(P0) == Position(0, -1)


@pytest.mark.parametrize(("expected", "new", "first", "last"), [(4, 4, 5, 9), (4, 9, 4, 9), (4, 9, 5, 10)])
def test_a_claim_that_is_not_whole_stops(place: Place, expected: int, new: int, first: int, last: int) -> None:
    """COVER, FENCE: a position that does not rise, rows at or below the expected one, rows beyond the new one."""
    files = (place.file(P0, first, last),)
    with pytest.raises(InvariantBroken):
        place.committer.commit(NAME, [Claim(WriterKey(NAME, P0), 0, expected, new, files, 0)])


def test_a_table_that_is_gone_stops(place: Place) -> None:
    """Nothing is committed into one that somebody made in its place."""
    with pytest.raises(InvariantBroken):
        place.committer.require_ours(NAME, None)


def test_files_carry_the_topic_that_the_tables_know(place: Place) -> None:
    """Once it is known to be the one."""
    assert place.committer.footer(P0) == {"routing": "r"}
    place.committer.trust_topics({"events": "t1"})
    assert place.committer.footer(P0) == {"routing": "r", "topic_id": "t1"}
