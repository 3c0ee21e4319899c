"""Batches that are joined for many event types: the same records, no larger than said."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from exporter.executor import gathered as gathered_module
from exporter.executor.gathered import GATHERED_BYTES_MAX, TYPE_BYTES, gathered

HALF = TYPE_BYTES // 2


def batch(first: int, rows: int, bytes_each: int = 1) -> pa.RecordBatch:
    """Records with headers, the first of them at an offset."""
    return pa.RecordBatch.from_pydict(
        {
            "offset": pa.array(range(first, first + rows), pa.int64()),
            "value": pa.array([b"x" * bytes_each] * rows, pa.binary()),
            "header_names": pa.array([[str(at)] * (at % 3) for at in range(rows)], pa.list_(pa.string())),
        }
    )


def sizes(rows: list[int], types: int, bytes_each: int) -> list[int]:
    """Rows of the batches that come out where so many go in."""
    return [one.num_rows for one in gathered((batch(0, count, bytes_each) for count in rows), types)]


@pytest.mark.parametrize(
    "rows, types, bytes_each, expected",
    [
        pytest.param([3, 2], 1, TYPE_BYTES, [3, 2], id="enough for one type"),
        pytest.param([1] * 5, 1, HALF, [2, 2, 1], id="too few bytes"),
        pytest.param([1] * 9, 2, HALF, [4, 4, 1], id="two types need twice as many"),
        pytest.param([1] * 3, 1000, GATHERED_BYTES_MAX, [1, 1, 1], id="never more than the limit"),
        pytest.param([0, 0, 1, 0], 1, 1, [1], id="empty batches are left out"),
        pytest.param([0], 0, 1, [], id="nothing but an empty one"),
        pytest.param([], 1, 1, [], id="nothing"),
    ],
)
def test_batches_are_joined_until_each_type_has_enough(
    rows: list[int], types: int, bytes_each: int, expected: list[int]
) -> None:
    """By bytes per event type, up to a limit; what is left comes at the end."""
    assert sizes(rows, types, bytes_each) == expected


def test_records_stay_whole_and_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Offsets of a partition have to rise within a task; lists in a column keep their rows."""
    monkeypatch.setattr(gathered_module, "TYPE_BYTES", 200)
    made = [batch(first, rows) for first, rows in ((0, 20), (20, 1), (21, 0), (21, 60), (81, 7))]
    joined = [*gathered(iter(made), 3)]
    assert 1 < len(joined) < len(made)
    assert pa.Table.from_batches(joined).to_pylist() == pa.Table.from_batches(made).to_pylist()


def test_a_batch_is_not_asked_for_before_the_one_before_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory: nothing is held beyond what is being joined."""
    monkeypatch.setattr(gathered_module, "TYPE_BYTES", 1)
    asked = []

    def made() -> Iterator[pa.RecordBatch]:
        for at in range(3):
            asked.append(at)
            yield batch(at, 1)

    taken = gathered(made(), 1)
    next(taken)
    assert asked == [0]
