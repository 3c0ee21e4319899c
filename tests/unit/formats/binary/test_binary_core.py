"""What the readers of binary formats stand on: cursors, columns of places, decimals; each by itself."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from exporter.formats.binary.columns import Constants, Lists, Numbers, Out, Spans, Structs, in_order, scattered
from exporter.formats.binary.cursor import LockstepCursor, ValueBytes
from exporter.formats.binary.decimals import decimals
from exporter.formats.binary.reasons import TEXTS, WIDTH, Kind, ReasonPaths, number_of
from tests.support.avro_oracle import written

PLACE = 0


def batch_of(*values: bytes | None) -> ValueBytes:
    return ValueBytes(pa.array(values, pa.binary()), ReasonPaths(["$.x"]))


def reasons(cursor: LockstepCursor) -> list[str]:
    return [cursor.batch.places.reason(bad).partition(":")[0] if bad else "" for bad in cursor.bad.tolist()]


def test_numbers_of_any_length_are_read_at_once() -> None:
    """Of 1 to 10 bytes, wherever the array begins; what is behind stays to be read."""
    dice = random.Random(1)
    sent = [dice.choice((1, -1)) * dice.getrandbits(dice.randrange(64)) for _ in range(2_000)] + [2**63 - 1, -(2**63)]
    values = pa.array([b"??", *(b"q" + written(one) + written(3) + b"abc" for one in sent)], pa.binary()).slice(1)
    cursor = ValueBytes(values, ReasonPaths(["$.x"])).cursor(skipped=1)
    assert cursor.zigzag(PLACE).tolist() == sent
    sizes = cursor.zigzag(PLACE)
    column = Spans(cursor.span(sizes, PLACE), sizes, pa.string(), PLACE)
    assert set(column.arrow(Out(cursor.batch), np.arange(len(sent))).to_pylist()) == {"abc"}
    assert not cursor.bad.any() and (cursor.pos == cursor.end).all()


def test_what_is_behind_the_end_of_a_row_is_no_part_of_it() -> None:
    """Alone there are zeros, in a batch its neighbour: the reason is the same."""
    cut = [b"\xff" * count for count in range(11)]
    expected = ["truncated"] * 10 + ["bad_varint"]
    for behind in (b"", b"\x00", b"\x01" * 9, b"\xff" * 12, b"\x7f" * 12):
        cursor = batch_of(*(one for row in cut for one in (row, behind))).cursor(np.arange(0, 2 * len(cut), 2))
        cursor.varint(PLACE)
        assert reasons(cursor) == expected
    last = batch_of(b"\xff" * 9 + b"\x01", b"\xff" * 9 + b"\x02", b"\xff" * 9 + b"\x80").cursor()
    assert last.varint(PLACE)[0] == 2**64 - 1 and reasons(last) == ["", "bad_varint", "bad_varint"]


def test_the_first_reason_stays_and_a_refused_row_touches_no_other() -> None:
    """It goes on at zeros."""
    cursor = batch_of(b"\x02\x02", b"", b"\x02\x04").cursor()
    assert cursor.zigzag(PLACE)[[0, 2]].tolist() == [1, 1]
    cursor.fail(np.array([False, True, False]), PLACE, Kind.TOO_BIG)
    assert cursor.zigzag(PLACE)[[0, 2]].tolist() == [1, 2]
    assert reasons(cursor) == ["", "truncated", ""]


@pytest.mark.parametrize("precision", [1, 5, 18, 19, 20, 25, 37, 38])
@pytest.mark.parametrize("size", [1, 7, 8, 9, 15, 16, 17, 30])
def test_decimals_of_any_length_are_exact(precision: int, size: int) -> None:
    """Up to the bound of their digits, and not beyond."""
    dice, bound = random.Random(precision * 100 + size), 10**precision
    sent = [dice.choice((1, -1)) * dice.getrandbits(dice.randrange(1, 8 * size)) for _ in range(200)]
    sent = [
        one
        for one in [*sent, 0, bound - 1, bound, 1 - bound, -bound]
        if -(2 ** (8 * size - 1)) <= one < 2 ** (8 * size - 1)
    ]
    batch = batch_of(*(one.to_bytes(size, "big", signed=True) for one in sent))
    values, over = decimals(batch, batch.starts, batch.ends - batch.starts, precision)
    assert over.tolist() == [abs(one) >= bound for one in sent]
    kept = [one for one in sent if abs(one) < bound]
    found = Numbers(values[~over], pa.decimal128(38, 0)).arrow(Out(batch), np.arange(len(kept)))
    assert [int(one) for one in found.to_pylist()] == kept


def test_columns_are_taken_scattered_and_put_in_order() -> None:
    """Of each kind: nulls where nothing is, items with their list."""
    batch = batch_of(b"abcdef")
    begins = np.array([64, 65, 66])
    texts = Spans(begins, np.array([1, 1, 1]), pa.string(), PLACE)
    numbers = Numbers(np.array([1, 2, 3]), pa.int64())
    lists = Lists(np.array([2, 0, 1]), Numbers(np.array([7, 8, 9]), pa.int64()), pa.list_(pa.int64()), PLACE)
    same = Constants(pa.array(["x"]), 3)
    fields = (texts, numbers, lists, same)
    both = Structs(fields, pa.struct([(name, one.kind) for name, one in zip("tnls", fields, strict=True)]), 3)
    rows = [
        {"t": "a", "n": 1, "l": [7, 8], "s": "x"},
        {"t": "b", "n": 2, "l": [], "s": "x"},
        {"t": "c", "n": 3, "l": [9], "s": "x"},
    ]
    out = Out(batch)
    assert both.arrow(out, np.arange(3)).to_pylist() == rows
    wide = scattered(np.array([1, 2, 4]), both, 6).arrow(out, np.arange(6))
    wide.validate(full=True)
    assert wide.to_pylist() == [None, rows[0], rows[1], None, rows[2], None]
    first, second = both.take(np.array([0, 2])), both.take(np.array([1]))
    at, joined = in_order([(np.array([0, 5]), first), (np.array([3]), second)])
    assert at.tolist() == [0, 3, 5] and joined.arrow(out, at).to_pylist() == rows


def test_every_kind_of_reason_has_a_text() -> None:
    """And its number, apart from all others."""
    assert TEXTS.keys() == set(Kind) and len(Kind) <= WIDTH
    places = ReasonPaths(["$.a", "$.b[]", "$.b[].c"])
    assert places.reason(number_of(2, Kind.TRUNCATED)) == "truncated: $.b[].c ends before its value does"
    moved = places.numbered(np.array([number_of(2, Kind.TRUNCATED), number_of(0, Kind.TOO_BIG)]), 1, np.array([7, 7]))
    assert places.reason(moved[0]) == "truncated: $.b[7].c ends before its value does"
    assert moved[1] == number_of(0, Kind.TOO_BIG)
