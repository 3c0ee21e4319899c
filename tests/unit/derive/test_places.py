"""Which rows are of some offsets: as plain Python says it, row by row; and no file is passed over that has one."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest

from exporter.derive.places import (
    PLACED,
    count_of_none,
    may_be_within,
    may_have_others,
    only_of,
    rows_elsewhere,
    rows_within,
)
from offsets.cursors import Slice
from offsets.ranges import TopicPartition

TOPICS = ("a", "b", "a.b")
Place = Mapping[str, Any]


def places(chance: random.Random, count: int) -> list[Place]:
    def one() -> Place:
        found = {
            "topic": chance.choice(TOPICS), "partition": chance.randrange(3),
            "offset": chance.randrange(12), "epoch": chance.choice((None, 0, 1, 2)),
        }  # fmt: skip
        if chance.random() < 0.1:
            found[chance.choice(("topic", "partition", "offset"))] = None
        return found

    return [one() for _ in range(count)]


def spans(chance: random.Random) -> list[Slice]:
    def one() -> Slice:
        tp, after = TopicPartition(chance.choice(TOPICS), chance.randrange(3)), chance.randrange(-1, 8)
        first, before = chance.choice(((0, None), (0, 2), (1, None), (1, 2)))
        return Slice(tp, after, after + chance.randrange(1, 6), first, before)

    return [one() for _ in range(chance.randrange(4))]


def is_in(place: Place, one: Slice) -> bool:
    if None in (place["topic"], place["partition"], place["offset"]):
        return False
    if (place["topic"], place["partition"]) != (one.tp.topic, one.tp.partition):
        return False
    epoch = place["epoch"] or 0
    return one.after < place["offset"] <= one.through and one.first <= epoch and (not one.before or epoch < one.before)


def table(found: Sequence[Place]) -> pa.Table:
    return pa.table({"_kafka": pa.array(found, PLACED.field("_kafka").type)}, schema=PLACED)


def add_of(found: Sequence[Place]) -> dict[str, Any]:
    """The action of a file with these rows, its statistics as Delta writes them."""
    names = [name for name in ("topic", "partition", "offset") if any(one[name] is not None for one in found)]
    least = {name: min(one[name] for one in found if one[name] is not None) for name in names}
    most = {name: max(one[name] for one in found if one[name] is not None) for name in names}
    nulls = {name: sum(one[name] is None for one in found) for name in ("topic", "partition", "offset")}
    stats = {name: {"_kafka": value} for name, value in
             (("minValues", least), ("maxValues", most), ("nullCount", nulls))}  # fmt: skip
    return {"stats": json.dumps(stats)}


@pytest.mark.parametrize("seed", range(200))
def test_rows_and_files_are_of_offsets_as_plain_python_says(seed: int) -> None:
    """Rows without coordinates, of several topics, and of topics that were made again; files of one partition."""
    chance = random.Random(seed)
    found, wanted = places(chance, chance.randrange(1, 40)), spans(chance)
    if chance.random() < 0.5:  # a file of one partition
        found = [{**one, "topic": "a", "partition": 1} for one in found]
    inside = [one for one in found if any(is_in(one, span) for span in wanted)]
    assert rows_within(table(found), wanted)["_kafka"].to_pylist() == inside
    assert may_be_within(add_of(found), wanted) or not inside

    known = {TopicPartition(topic, number) for topic in TOPICS for number in range(3) if chance.random() < 0.6}
    others = [
        one for one in found
        if None in (one["topic"], one["partition"], one["offset"])
        or TopicPartition(one["topic"], one["partition"]) not in known
    ]  # fmt: skip
    assert count_of_none(table(found), known) == len(others)
    assert may_have_others(add_of(found), known) or not others

    tp = TopicPartition("a", 1)
    whole = [one for one in found if one["topic"] is not None and one["partition"] is not None]
    elsewhere = [one for one in whole if (one["topic"], one["partition"]) != ("a", 1)]
    assert rows_elsewhere(table(whole), tp)["_kafka"].to_pylist() == elsewhere
    assert only_of(add_of(found)) != tp or not elsewhere


def test_files_are_passed_over_where_statistics_tell_all() -> None:
    """By its one partition, and by the least and the greatest offset."""
    rows = [{"topic": "a", "partition": 1, "offset": offset, "epoch": 0} for offset in (3, 7)]
    add, a1 = add_of(rows), TopicPartition("a", 1)
    assert only_of(add) == a1 and not may_have_others(add, {a1}) and may_have_others(add, {TopicPartition("a", 2)})
    near = {(-1, 2): False, (-1, 3): True, (6, 9): True, (7, 9): False}
    assert {(after, to): may_be_within(add, [Slice(a1, after, to)]) for after, to in near} == near
    assert not may_be_within(add, [Slice(TopicPartition("a", 2), -1, 9)])


@pytest.mark.parametrize("add", [{}, {"stats": None}, {"stats": "{}"}, {"stats": '{"minValues":{"_kafka":null}}'}])
def test_a_file_of_which_nothing_is_told_may_have_anything(add: dict[str, Any]) -> None:
    """So it is read."""
    a1 = TopicPartition("a", 1)
    assert only_of(add) is None and may_have_others(add, {a1}) and may_be_within(add, [Slice(a1, -1, 0)])


def test_thousands_of_partitions_are_asked_for_at_once() -> None:
    """As one expression, which Arrow takes."""
    wanted = [Slice(TopicPartition("a", number), -1, 5) for number in range(3_000)]
    rows = [{"topic": "a", "partition": number, "offset": 5 + number % 2, "epoch": 0} for number in range(4_000)]
    assert len(rows_within(table(rows), wanted)) == 1_500
    assert count_of_none(table(rows), {one.tp for one in wanted}) == 1_000
