"""Pointers in texts of at most 4096 characters, and back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from exporter.announce.pointers import OFFSET_METADATA_MAX, Pointer, pointers_of, texts_of

VERSIONS = st.integers(-1, 10**9)
POINTERS = st.dictionaries(st.text(min_size=1, max_size=60), st.builds(Pointer, VERSIONS, VERSIONS), max_size=150)


@given(POINTERS, st.integers(1, 8))
def test_what_is_kept_comes_back(pointers: dict[str, Pointer], texts_max: int) -> None:
    """But for the tables that are named as left out; no text is longer than brokers take, and there is one at least."""
    texts, left_out = texts_of(pointers, texts_max)
    assert 1 <= len(texts) <= texts_max
    assert all(len(text.encode("utf-8", "surrogatepass")) <= OFFSET_METADATA_MAX for text in texts)
    assert pointers_of(texts) == {table: one for table, one in pointers.items() if table not in left_out}


def test_a_thousand_tables_find_room_on_twelve_partitions() -> None:
    """With names of 20 letters and versions of six digits."""
    pointers = {f"event_type_number_{number:04d}": Pointer(123_456, 123_457) for number in range(1_000)}
    assert texts_of(pointers, 12)[1] == ()


def test_a_person_can_read_it() -> None:
    """Table -> version, and the version up to which nothing else is to be told if that is another."""
    texts, _ = texts_of({"order": Pointer(17, 17), "click": Pointer(40, 52)}, 1)
    assert texts == ['{"click":[40,52],"order":17}']


def test_nothing_kept_is_something_else_than_no_tables() -> None:
    """Of a new lake it is kept that there was no table: what comes is told from its first version."""
    assert pointers_of(texts_of({}, 1)[0]) == {}
    assert pointers_of([]) is None


def test_texts_of_others_are_passed_over() -> None:
    """A group of that name that somebody else used, or a text that was cut."""
    assert pointers_of(["", "x", "[1]", '{"a":"b"}', '{"a":[1,2,3]}', '{"a":true}', "null"]) is None
    assert pointers_of(["x", '{"a":1}', '{"a":[3,5]}', '{"a":[4,4]}']) == {"a": Pointer(3, 5)}
