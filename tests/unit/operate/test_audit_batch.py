"""Records and rows side by side as arrays: the same as one by one."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from exporter.core.routing import EventTime, Routing, TypeFrom
from exporter.operate.audit.batch import ComparedBatch
from exporter.operate.audit.job import AuditJob
from exporter.operate.audit.known import Known
from exporter.operate.audit.pin import FOREVER, PinnedTables, Region
from exporter.operate.audit.records import AuditedRecord, AuditedStretch
from offsets.ranges import TopicPartition

TPS = (TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0))
OFFSETS = st.integers(0, 12)


class Rows:
    """Of a table, as Held has them. rows: partition and offset of each."""

    def __init__(self, rows: list[tuple[TopicPartition, int]]) -> None:
        self.rows = rows

    def between(self, tp: TopicPartition, start: int, end: int) -> tuple[Any, Any]:
        there = sorted((at, number) for number, (of, at) in enumerate(self.rows) if of == tp and start <= at < end)
        found = np.array(there, np.int64).reshape(-1, 2)
        return found[:, 0], found[:, 1]


def record(tp: TopicPartition, offset: int) -> AuditedRecord:
    return AuditedRecord(tp, offset, 0, None, None, 0, [])


@st.composite
def stretches(draw: st.DrawFn) -> list[AuditedStretch]:
    """Of some partitions, in pieces; with holes."""
    found = []
    for tp in draw(st.lists(st.sampled_from(TPS), unique=True)):
        bounds = sorted(draw(st.sets(OFFSETS, min_size=1, max_size=4)))
        for start, end in pairwise(bounds):
            offsets = sorted(draw(st.sets(st.integers(start, end - 1))))
            found.append(AuditedStretch(tp, start, end, [record(tp, one) for one in offsets]))
    return found


@given(stretches(), st.lists(st.lists(st.tuples(st.sampled_from(TPS), OFFSETS), max_size=20), max_size=3))
def test_records_and_rows_meet_by_their_offsets(some: list[AuditedStretch], tables: list[list[Any]]) -> None:
    """Rows without a record, several of one, in one table or in more; none of other offsets."""
    batch = ComparedBatch.of(some, [Rows(one) for one in tables])  # type: ignore[misc]  # as much of it as is asked for
    there = {(one.tp, at) for one in some for at in range(one.start, one.end)}
    sent = [(one.tp, each.offset) for one in some for each in one.records]
    assert [batch.at(number) for number in range(len(batch.records))] == sent
    count = Counter(row for rows in tables for row in rows if row in there)
    assert batch.counts.tolist() == [count[at] for at in sent]
    for rows, one in zip(tables, batch.standing, strict=True):
        assert sorted(one.numbers.tolist()) == [number for number, row in enumerate(rows) if row in there]
        places = [rows[number] for number in one.numbers.tolist()]
        assert list(one.places(np.ones(len(places), bool))) == places
        numbers = one.of_record(np.arange(len(sent)), -1).tolist()
        assert numbers == [sent.index(at) if at in sent else -1 for at in places]
        assert one.each(lambda tp, offsets: offsets + TPS.index(tp)).tolist() == [
            offset + TPS.index(tp) for tp, offset in places
        ]


SPANS = st.lists(st.tuples(st.integers(-1, 12), st.integers(0, 12) | st.just(FOREVER)), max_size=3)


@given(SPANS, SPANS, st.none() | OFFSETS)
def test_what_is_known_of_many_offsets_is_what_is_known_of_each(
    regions: list[Any], spans: list[Any], replayed: int | None
) -> None:
    """The configuration that holds, and whether a table may have a row."""
    tp = TPS[0]
    pinned = PinnedTables({}, codes={"t": 1})
    pinned.regions[tp] = [Region(after, through, number) for number, (after, through) in enumerate(regions)]
    pinned.spans["t", tp], pinned.positions["t", tp] = spans, 5
    if replayed is not None:
        pinned.replayed["t", tp] = replayed
    routing = Routing(TypeFrom("header", "t"), EventTime("record"), types=())
    known = Known(AuditJob((), routing, None, {}, frozenset()), pinned, {})
    offsets = np.arange(15)
    held = [known.region(tp, offset) or SimpleNamespace(routing=-1) for offset in offsets.tolist()]
    assert known.routings(tp, offsets).tolist() == [one.routing for one in held]
    for code, of in ((1, tp), (1, TPS[1]), (2, tp)):
        each = [known.may_stand(code, of, offset) for offset in offsets.tolist()]
        assert known.may_stand(code, of, offsets).tolist() == each
        told = [*spans, *([] if replayed is None else [(-1, replayed)])] if (code, of) == (1, tp) else []
        assert each == [any(after < offset <= through for after, through in told) for offset in offsets.tolist()]
