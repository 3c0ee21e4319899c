"""How late records came, from commits and topic alone."""

from __future__ import annotations

from exporter.drill.lateness import Arrival, Period, Turn, arrivals, handovers, versions
from exporter.local.plain import PlainCommit


def commit(table: str, version: int, at: float, expected: int, new: int, partition: int = 0) -> PlainCommit:
    """A commit that moves one partition."""
    return PlainCommit(table, version, at, "host:1:a", "", "WRITE", 1, {f"t-{partition}": (expected, new)})


COMMITS = [
    commit("order", 1, 10.0, -1, 1),
    commit("order", 2, 20.0, 1, 4),
    commit("order", 3, 25.0, 4, 4),
    commit("click", 1, 11.0, -1, 9),
    commit("order", 4, 30.0, -1, 0, partition=1),
]


def test_a_record_has_arrived_with_the_commit_that_moves_the_position_past_it() -> None:
    """In each of its tables; the latest is last, one that no commit has is later than all; a marker brings none."""
    wanted = {(0, 1): "order+click", (0, 2): "order+-click", (0, 4): "order", (1, 0): "order", (1, 1): "order"}
    sent_at = {(0, 1): 9.0, (0, 2): 9.5, (0, 4): 19.0, (1, 0): 29.5, (1, 1): 12.0}
    found = arrivals(COMMITS, wanted, sent_at, "t", Period(9.0, 29.5))
    assert found == [
        Arrival("order", (0, 1), 9.0, 1.0),
        Arrival("order", (0, 4), 19.0, 1.0),
        Arrival("click", (0, 1), 9.0, 2.0),
        Arrival("order", (0, 2), 9.5, 10.5),
        Arrival("order", (1, 1), 12.0, float("inf")),
    ]


def test_versions_are_counted_by_table_and_time() -> None:
    """Those of markers too."""
    assert versions(COMMITS, Period(10.0, 30.0)) == {"order": 3, "click": 1}


def test_a_partition_is_handed_over_until_another_task_has_read_of_it() -> None:
    """Whoever gets it in between and gives it on, and whoever reads again what is his, changes nothing."""
    turns = [
        Turn(1.0, "t-0", True), Turn(1.0, "t-1", True), Turn(2.0, "t-0", True),
        Turn(5.0, "t-0", False), Turn(6.0, "t-0", False), Turn(9.5, "t-0", True),
        Turn(11.0, "t-1", False),
    ]  # fmt: skip
    assert handovers(reversed(turns), Period(0.0, 20.0)) == [4.5]
    assert handovers(turns, Period(5.5, 20.0)) == []
