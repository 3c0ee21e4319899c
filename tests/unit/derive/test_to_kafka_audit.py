"""How the audit tells whether records are in order."""

from __future__ import annotations

import itertools

import pytest

from exporter.derive.to_kafka_audit import first_out_of_order


def naive(lines: list[list[bytes]], records: list[bytes]) -> bool:
    """Whether the records are an interleaving of the lines' beginnings, by trying all."""
    if not records:
        return True
    return any(
        line and line[0] == records[0] and naive([*lines[:number], line[1:], *lines[number + 1 :]], records[1:])
        for number, line in enumerate(lines)
    )


def test_all_small_cases_are_as_trying_all_ways_tells() -> None:
    """Lines with equal rows among them: what is taken for which of them must not matter."""
    rows = [b"x", b"y"]
    lines = [list(one) for count in range(3) for one in itertools.product(rows, repeat=count)]
    for left, right in itertools.product(lines, repeat=2):
        for records in itertools.product(rows, repeat=len(left) + len(right)):
            found = first_out_of_order([left, right], records)
            assert (found is None) == naive([left, right], [*records])


@pytest.mark.parametrize(("records", "wrong"), [("abcd", None), ("acbd", None), ("badc", 0), ("abdc", 2)])
def test_the_first_record_out_of_order_is_told(records: str, wrong: int | None) -> None:
    """Of lines ab and cd."""
    assert first_out_of_order([[b"a", b"b"], [b"c", b"d"]], [one.encode() for one in records]) == wrong
