"""What commits say of themselves: the stored keys, which every later version reads."""

from __future__ import annotations

import json

from exporter.core.user_metadata import claimed, moved_to, user_metadata
from exporter.core.writers import Claim, StagedFile, WriterKey
from offsets.positions import Position
from offsets.ranges import OffsetRange, TopicPartition

P0 = TopicPartition("events", 0)


def test_a_commit_of_an_export_says_what_it_claims() -> None:
    """Byte for byte as the lake stores it, keys sorted; with the token of a lease where there is one."""
    files = tuple(StagedFile(f"day=d/{first}", OffsetRange(first, last), 3, 1) for first, last in ((5, 7), (8, 9)))
    claim = Claim(WriterKey("order", P0), 1, 4, 11, files, 0)
    said = user_metadata(
        "c1", app="app", checked_through=7, partitions={P0: claimed(claim, 6)}, more={"owner": "me", "routing": "r"}
    )
    assert json.dumps(said, separators=(",", ":"), sort_keys=True) == (
        '{"app":"app","checked_through":7,"commit_id":"c1","owner":"me","partitions":{"events-0":{"epoch":1,'
        '"expected":4,"first":5,"last":9,"new":11,"rows":6,"token":6}},"routing":"r"}'
    )
    assert claimed(Claim(claim.key, 1, 4, 11, (), 0)) == {
        "epoch": 1, "expected": 4, "new": 11, "first": None, "last": None, "rows": 0
    }  # fmt: skip


def test_a_commit_of_start_up_has_an_action_and_one_without_positions_no_partitions() -> None:
    """A replay moves none; an anchor, a seal and a repair say where each partition begins."""
    anchored = user_metadata(
        "c2", app="app", checked_through=-1, action="anchor", partitions={P0: moved_to(Position(2, 9))}
    )
    assert (anchored["action"], anchored["partitions"]) == ("anchor", {"events-0": {"epoch": 2, "new": 9}})
    replay = user_metadata("c3", app="app", checked_through=3, action="replay", more={"replayed": {}})
    assert replay.keys() == {"commit_id", "app", "action", "checked_through", "replayed"}
