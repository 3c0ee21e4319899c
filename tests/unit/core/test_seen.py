"""What values looked like: the same whatever the order in which they came, and however they were divided."""

from __future__ import annotations

import random

import pytest

from exporter.core.seen import FIELDS_KEPT, KEYS_KEPT, At, Seen


def seen_of(*values: object, partition: int = 0) -> Seen:
    seen = Seen()
    for offset, value in enumerate(values):
        seen.add(value, At("t", partition, offset))
    return seen


def a_value(rng: random.Random, depth: int = 0) -> object:
    kind = rng.randrange(9 if depth < 3 else 7)
    if kind == 7:
        return {rng.choice("abcde"): a_value(rng, depth + 1) for _ in range(rng.randrange(4))}
    if kind == 8:
        return [a_value(rng, depth + 1) for _ in range(rng.randrange(3))]
    return (None, True, 7, 2**63, 1.5, "text", float("inf"))[kind]


@pytest.mark.parametrize("seed", range(20))
def test_neither_order_nor_division_matters(seed):
    """Two tasks that have seen the same records in any order say the same."""
    rng = random.Random(seed)
    values = [{"v": a_value(rng)} for _ in range(30)]
    records = [(value, At("t", rng.randrange(2), offset)) for offset, value in enumerate(values)]
    whole, parts = Seen(), [Seen(), Seen(), Seen()]
    for value, at in records:
        whole.add(value, at)
    for value, at in rng.sample(records, len(records)):
        rng.choice(parts).add(value, at)
    rng.shuffle(parts)
    for part in parts[1:]:
        parts[0].merge(Seen.from_json(part.to_json()))
    assert parts[0] == whole
    assert Seen.from_json(whole.to_json()) == whole


def test_the_kinds_are_those_of_json_with_integers_by_size():
    """Null is none; an integer of more than 64 bits and a number that no double holds are kinds of their own."""
    seen = seen_of(None, True, 1, -(2**63), 2**63, 1.0, float("inf"), "", {}, [])
    assert dict(seen.kinds) == {"boolean": 1, "integer": 2, "big": 2, "number": 1, "text": 1, "object": 1, "array": 1}
    assert not seen_of(None)


def test_the_first_record_is_the_least_by_its_coordinates():
    """So it is the same however tasks are cut."""
    one, other = seen_of({"a": 1}, partition=1), seen_of({"b": 1}, {"a": 1}, partition=0)
    one.merge(other)
    assert one.fields["a"].first == At("t", 0, 1)
    assert str(one.fields["a"].first) == "t/0/1"


def test_an_object_with_too_many_keys_is_crowded_and_tells_none():
    """Ten thousand keys take no room; whichever part saw them."""
    crowded = seen_of({"o": {str(number): 1 for number in range(KEYS_KEPT + 1)}})
    assert crowded.fields["o"].crowded
    assert not crowded.fields["o"].fields
    halves = [seen_of({"o": {f"{side}{number}": 1 for number in range(KEYS_KEPT)}}) for side in "ab"]
    halves[0].merge(halves[1])
    assert halves[0].fields["o"].crowded
    assert len(seen_of({str(number): 1 for number in range(FIELDS_KEPT)}).fields) == FIELDS_KEPT


def test_what_is_no_value_of_json_is_refused():
    """A reader that gives other objects is a fault of the program."""
    with pytest.raises(TypeError):
        seen_of((1, 2))
