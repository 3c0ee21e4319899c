"""The naive checker of valid_through: it finds what is planted, and nothing in a history that is right."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from tests.support.naive_through import Version, findings

NOON = datetime(2026, 11, 26, 12, tzinfo=timezone.utc)
P0, P1 = ("events", 0), ("events", 1)


def at(secs: int) -> datetime:
    return NOON + timedelta(seconds=secs)


def text(secs: float) -> str:
    return (NOON + timedelta(seconds=secs)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


TIMES = {P0: [(0, at(1)), (1, at(3)), (2, at(5))], P1: [(0, at(2)), (1, at(4)), (2, at(9))]}


def claim(expected: int, new: int, secs: int) -> dict[str, Any]:
    return {"epoch": 0, "expected": expected, "new": new, "time": text(secs)}


def version(number: int, through: float | None, *rows: tuple[tuple[str, int], int, int], **more: Any) -> Version:
    """more: the claims of p0 and p1, and the property that it sets."""
    told = more.pop("told", None)
    claims = {f"events-{name[1]}": one for name, one in more.items()}
    said = {"partitions": claims, **({} if through is None else {"valid_through": text(through)})}
    return Version(number, said, [(tp, offset, at(secs)) for tp, offset, secs in rows], told and text(told))


def history() -> list[Version]:
    """Right: both take part, then one alone, then both again."""
    return [
        Version(0),
        version(1, 1.999, (P0, 1, 3), (P1, 0, 2), p0=claim(-1, 1, 3), p1=claim(-1, 0, 2), told=1.999),
        version(2, None, (P1, 1, 4), p1=claim(0, 1, 4)),
        version(3, 4.999, (P0, 2, 5), (P1, 2, 9), p0=claim(1, 2, 5), p1=claim(1, 2, 9), told=4.999),
    ]


def found(versions: list[Version], mode: str = "strict", basis: str = "record") -> list[str]:
    return list(findings("order", versions, mode, basis, TIMES))


def test_a_history_that_is_right_has_no_finding() -> None:
    """Strict says it only where all take part; so does idle_aware, where the other one was idle."""
    assert found(history()) == []
    alone = [*history()[:2], version(2, 3.999, (P1, 1, 4), p1=claim(0, 1, 4))]
    assert found(alone, "idle_aware") == []
    assert any("only 1 of 2 partitions" in line for line in found(alone))


@pytest.mark.parametrize(
    ("place", "wrong", "says"),
    [
        (3, version(3, 4.999, (P0, 2, 1), p0=claim(1, 2, 5), p1=claim(1, 2, 9)), "was said before"),  # a late row
        (3, version(3, 1.5, p0=claim(1, 2, 5), p1=claim(1, 2, 9)), "was said before"),  # it goes back
        (3, version(3, 5, p0=claim(1, 2, 5), p1=claim(1, 2, 9)), "a partition is at"),  # too far
        (3, version(3, 4.999, p0=claim(1, 2, 5), p1=claim(1, 2, 9), told=1), "the property is"),  # so does it
        (3, version(3, 4.999, p0=claim(1, 2, 5), p1=claim(1, 2, 9), told=6), "the property is"),  # is ahead
        (2, version(2, None, p1=claim(0, 1, 9)), "through 1 there is"),  # a time that no record has yet
        (2, version(2, None, p1=claim(0, 1, 2)), "through 1 there is"),  # less than that of its own records
    ],
)
def test_what_is_planted_is_found(place: int, wrong: Version, says: str) -> None:
    """One thing is wrong in each; the finding names table and version."""
    planted = history()
    planted[place] = wrong
    lines = found(planted)
    assert any(says in line and f"order, version {place}" in line for line in lines), lines
