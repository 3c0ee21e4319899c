"""What one version is announced as, from the lines of its log entry."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from exporter.announce.message import Announcement, Range, Skipped, announced, as_json
from tests.support.announced import MARKER, OPTIMIZED, add, committed

SAID = {
    "partitions": {
        "shop.v1-10": {"epoch": 0, "expected": 4, "new": 9, "first": 5, "last": 8, "rows": 3},
        "shop.v1-2": {"epoch": 0, "expected": 0, "new": 7, "first": None, "last": None, "rows": 0},
    }
}


def read(actions: Iterable[Mapping[str, Any]], app: str = "exp") -> Announcement | None:
    return announced(app, "order", 7, 3, [json.dumps(action) for action in actions])


def test_a_commit_of_rows_is_told_whole() -> None:
    """Rows, offsets of the partitions that have some, days by the partitions of the table, the time of the commit."""
    found = read(committed("c1", add("day=2026-01-02/a.parquet", 2), add("day=2026-01-01/b.parquet", 1), said=SAID))
    assert found == Announcement(
        app="exp", table="order", version=7, after=3, table_id="t-1", commit_id="c1", action="", rows=3,
        ranges=(Range("shop.v1", 10, 5, 8, 3),), days=("2026-01-01", "2026-01-02"), valid_through="",
        at="2026-01-01T00:00:00.123+00:00",
    )  # fmt: skip


@pytest.mark.parametrize(
    "actions",
    [MARKER, OPTIMIZED, committed("c", add("a.parquet", 5), app="other"), [add("a.parquet", 5)],
     [{"commitInfo": {"userMetadata": "by hand"}}, add("a.parquet", 5)], committed("c", add("a.parquet", 0)),
     committed("c", add("a.parquet", 5, data_change=False))],
)  # fmt: skip
def test_no_other_version_is_told(actions: list[Mapping[str, Any]]) -> None:
    """Positions alone, maintenance, other apps, people, statistics that are written anew."""
    assert read(actions) is None


@pytest.mark.parametrize(
    ("path", "day"),
    [("day=2026-01-02/hour=5/x.parquet", "2026-01-02"), ("month=2026-01/x.parquet", "2026-01"), ("x.parquet", None),
     ("day=2026-01-02/country=a%2520b/x.parquet", "2026-01-02"), ("day=never/x.parquet", None)],
)  # fmt: skip
def test_days_are_those_of_the_table_s_partitions(path: str, day: str | None) -> None:
    """Of a table by month its months; where files are not cut by time there is none to be told."""
    found = read(committed("c", add(path, 1)))
    assert found is not None
    assert found.days == ((day,) if day else ())


def test_a_replay_says_that_it_is_one() -> None:
    """Its offsets are those of dead letters that are good now, and lie below the positions."""
    said = {"action": "replay", "replayed": {"t-0": {"replay": 1, "rows": 2, "first": 3, "last": 9}}}
    found = read(committed("c", add("x.parquet", 2), said=said))
    assert found is not None
    assert (found.action, found.ranges) == ("replay", (Range("t", 0, 3, 9, 2),))


def test_a_merged_commit_is_told_as_one() -> None:
    """It names several offers of several tasks; the version is one, and so is its message."""
    said = {"offers": ["o1", "o2"], "valid_through": "2026-01-01T00:00:00.000Z",
            "partitions": {f"t-{p}": {"first": p, "last": p, "rows": 1, "offer": f"o{p}"} for p in (1, 2)}}  # fmt: skip
    found = read(committed("c", add("x.parquet", 1), add("y.parquet", 1), said=said))
    assert found is not None
    assert (found.rows, len(found.ranges), found.valid_through) == (2, 2, "2026-01-01T00:00:00.000Z")


def test_the_same_version_is_the_same_bytes() -> None:
    """Whoever announces it: so consumers may compare what came twice."""
    actions = committed("c", add("day=2026-01-02/ä.parquet", 1), said=SAID)
    first, second = read(actions), read(actions)
    assert first is not None
    assert second is not None
    assert as_json(first) == as_json(second)
    assert json.loads(as_json(Skipped("exp", "order", 4, 6, 3))) == {
        "v": 1, "kind": "skipped", "app": "exp", "table": "order", "first": 4, "version": 6, "after": 3,
    }  # fmt: skip
