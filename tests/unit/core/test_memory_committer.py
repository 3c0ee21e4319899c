"""Where the committer in memory is stricter than a lake's: what no caller may do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from exporter.core.memory_committer import MemoryCommitter, MemoryTable
from exporter.core.writers import Claim, StagedFile, WriterKey
from exporter.errors import InvariantBroken
from offsets.positions import Position
from offsets.ranges import OffsetRange, TopicPartition

P0 = TopicPartition("events", 0)
KEY = WriterKey("order", P0)
FINGERPRINT = MemoryTable({}).fingerprint
FILE = StagedFile("day=2026-01-31/a", OffsetRange(0, 9), 10, 100, fingerprint=FINGERPRINT)
CLAIM = Claim(KEY, 0, -1, 9, (FILE,), 0)


def committer(trusting: bool = True) -> MemoryCommitter:
    made = MemoryCommitter()
    made.tables["order"] = MemoryTable({P0: Position(0, -1)})
    view = made.view("order")
    if trusting and view is not None:
        made.trust("order", view)
    return made


def test_a_table_that_was_never_trusted_takes_nothing() -> None:
    """Its operations have not been looked at."""
    with pytest.raises(InvariantBroken, match="never trusted"):
        committer(trusting=False).commit("order", [CLAIM])


def test_a_writer_has_one_claim_and_a_table_its_own_ones() -> None:
    """At most one commit of a writer is unresolved (protocol 4.1)."""
    for wrong in ([CLAIM, CLAIM], [], [replace(CLAIM, key=WriterKey("click", P0))]):
        with pytest.raises(InvariantBroken):
            committer().commit("order", wrong)


def test_what_is_offered_again_is_what_was_offered() -> None:
    """Files may be merged before the first offer, never between two."""
    made = committer()
    made.reply_is_lost(arrived=False)
    (settled,) = made.commit("order", [CLAIM]).settled
    with pytest.raises(InvariantBroken, match="another claim"):
        made.commit("order", [replace(settled.claim, new=12)])


def test_no_row_lands_twice() -> None:
    """ONCE: even if a position were taken back."""
    made = committer()
    made.commit("order", [CLAIM])
    made.others_move("order", P0, Position(0, -1))
    with pytest.raises(InvariantBroken, match="in the table"):
        made.commit("order", [replace(CLAIM, base_version=made.checked_through("order"))])
