"""What the drill of many members makes of what it has seen."""

from __future__ import annotations

from dataclasses import replace

import pytest

from exporter.drill.crowd import TABLES, figures, judge, record
from exporter.drill.lateness import Period
from exporter.drill.run import NotAsItMust
from exporter.local.plain import PlainCommit

MERGED = PlainCommit("a", 1, 10.0, "host:1:x", "", "WRITE", 9, {"t-0": (-1, 5), "t-1": (-1, 3)}, {"t-0": "host:2:y"}, 2)
OWN = PlainCommit("a", 2, 12.0, "host:2:y", "", "WRITE", 9, {"t-0": (5, 6)})


def test_only_the_span_is_measured_by_the_round() -> None:
    """The table with most versions counts, and the latest record."""
    commits = [MERGED, OWN, replace(MERGED, table="b"), replace(OWN, at=20.0), replace(OWN, at=9.0)]
    assert figures(commits, [0.5, 1.0, 7.0], [2.0], Period(10.0, 20.0), 2, [4.0, 6.0]) == {
        "secs": 10.0,
        "rounds": 2,
        "versions_per_table_and_round": {"median": 0.75, "max": 1.0},
        "claims_per_commit": 1.7,
        "by_itself": 0.333,
        "handover_secs": {"min": 4.0, "median": 5.0, "p90": 6.0, "max": 6.0},
        "calm_late_secs": {"min": 2.0, "median": 2.0, "p90": 2.0, "max": 2.0},
        "late_secs": {"min": 0.5, "median": 1.0, "p90": 7.0, "max": 7.0},
    }


def test_too_many_versions_and_late_records_are_found() -> None:
    """A record may be late by two rounds of 5 s, or of what a round takes here, and the longest handover."""
    commits, span = [MERGED, OWN], Period(0.0, 20.0)
    judge(figures(commits, [15.9], [], span, 2, [6.0]))
    judge(figures(commits, [21.9], [8.0], span, 2, [6.0]))
    with pytest.raises(NotAsItMust, match=r"after more than 16\.0 s"):
        judge(figures(commits, [1.0, 16.1], [4.0], span, 2, [6.0]))
    with pytest.raises(NotAsItMust, match=r"after more than 22\.0 s"):
        judge(figures(commits, [1.0, 22.1], [4.0, 8.0], span, 2, [6.0]))
    with pytest.raises(NotAsItMust, match=r"2\.0 versions per table and round"):
        judge(figures(commits, [1.0], [], span, 1, [6.0]))


def test_each_table_gets_a_record_in_turn() -> None:
    """As the key says."""
    assert len({record(number).key for number in range(TABLES)}) == TABLES
