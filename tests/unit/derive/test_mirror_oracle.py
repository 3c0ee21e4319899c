"""The plain program that mirrors are compared with, held to the sentences of their page by the smallest histories."""

from __future__ import annotations

from typing import Any

from tests.support.mirror_oracle import NESTED, NULL_KEY, UNFIT_KEY, UNKNOWN, UNSENT_TEXT, Page, mirrored

PATCHED = Page(["id"], ["at"], "op", patches=("P",), fields="changed")
CHANGES = Page(["id"], op="_cdc")
COLUMNS = ("id", "at", "op", "changed", "a", "b", "_rescued")


def rows(*given: dict[str, Any]) -> list[dict[str, Any]]:
    kafka = ({"topic": "t", "partition": 0, "epoch": 0, "offset": n} for n in range(len(given)))
    return [{**row, "_kafka": place} for row, place in zip(given, kafka, strict=True)]


def shown(page: Page, *given: dict[str, Any]) -> dict[Any, tuple[Any, Any]]:
    return {key[0]: (row["a"], row["b"]) for key, row in mirrored(page, rows(*given), COLUMNS).shown.items()}


def test_a_patch_of_a_deleted_key_makes_a_row_of_what_it_has() -> None:
    """Nothing of before the delete comes back."""
    insert, gone = {"id": 1, "at": 1, "op": "I", "a": 1, "b": 2}, {"id": 1, "at": 2, "op": "D", "a": 1, "b": 2}
    assert shown(PATCHED, insert, gone) == {}
    assert shown(PATCHED, insert, gone, {"id": 1, "at": 3, "op": "P", "changed": ["b"], "b": 9}) == {1: (None, 9)}


def test_what_was_not_sent_stays_as_it_was() -> None:
    """In rows of an envelope."""
    silent = {"id": 1, "_cdc": {"op": "U"}, "a": None, "b": 3, "_rescued": f'{{"a":"{UNSENT_TEXT}"}}'}
    assert shown(CHANGES, {"id": 1, "_cdc": {"op": "I"}, "a": 1, "b": 2}, silent) == {1: (1, 3)}


def test_late_rows_write_what_no_newer_row_has_written() -> None:
    """By the columns of `order`, then the offset."""
    newer = {"id": 1, "at": 5, "op": "P", "changed": ["b"], "b": 9}
    assert shown(PATCHED, newer, {"id": 1, "at": 4, "op": "I", "a": 1, "b": 2}) == {1: (1, 9)}
    assert shown(PATCHED, {"id": 1, "at": 5, "op": "I", "a": 1}, {"id": 1, "at": None, "op": "I", "a": 2}) == {
        1: (1, None)
    }


def test_rows_that_are_left_out_are_counted_by_what_is_wrong() -> None:
    """A key that is null, one that its column cannot hold, an op of which nothing is said, a nested patch."""
    found = mirrored(PATCHED, rows(
        {"id": None, "op": "I"}, {"id": None, "op": "I", "_rescued": '{"id":18446744073709551616}'},
        {"id": 1, "op": "?"}, {"id": 1, "op": "P", "changed": ["c.x"]},
    ), COLUMNS)  # fmt: skip
    assert found.left_out == {NULL_KEY: 1, UNFIT_KEY: 1, UNKNOWN: 1, NESTED: 1} and not found.keys
