"""Which rows of a source are of some offsets: asked of Spark, of Arrow, and of the statistics of a file."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column
from pyspark.sql import functions as sf

from offsets.cursors import Slice
from offsets.ranges import TopicPartition

KAFKA = "_kafka"
PLACED = pa.schema(
    {KAFKA: pa.struct({"topic": pa.string(), "partition": pa.int32(), "offset": pa.int64(), "epoch": pa.int32()})}
)
"""What is read of a row to know its place."""


@dataclass(frozen=True)
class _Place:
    """A row's, as expressions of Spark or of Arrow: the same operators compare and join both.

    epoch: 0 where it is null. literal: makes an expression of a value.
    """

    topic: Any
    partition: Any
    offset: Any
    epoch: Any
    literal: Callable[[Any], Any]


_ARROW = _Place(
    pc.field(KAFKA, "topic"), pc.field(KAFKA, "partition"), pc.field(KAFKA, "offset"),
    pc.coalesce(pc.field(KAFKA, "epoch"), pc.scalar(0)), pc.scalar,
)  # fmt: skip


def within(found: Sequence[Slice]) -> Column:
    """Whether a row is of one of these offsets, asked of Spark. For the session that is active."""
    topic, partition, offset, epoch = (sf.col(f"{KAFKA}.{name}") for name in ("topic", "partition", "offset", "epoch"))
    condition: Column = _within(found, _Place(topic, partition, offset, sf.coalesce(epoch, sf.lit(0)), sf.lit))
    return condition


def rows_within(rows: pa.Table, found: Sequence[Slice]) -> pa.Table:
    """Those of some rows, with what PLACED has, that are of these offsets."""
    return rows.filter(_within(found, _ARROW))


def rows_elsewhere(rows: pa.Table, tp: TopicPartition) -> pa.Table:
    """Those that are of another topic partition."""
    return rows.filter((_ARROW.topic != tp.topic) | (_ARROW.partition != tp.partition))


def _within(found: Sequence[Slice], at: _Place) -> Any:
    """The bounds of all of them first, for skipping files by them."""
    if not found:
        return at.literal(False)
    least, most = min(one.after for one in found), max(one.through for one in found)
    each = reduce(lambda a, b: a | b, (_of(one, at) for one in found))
    return (at.offset > least) & (at.offset <= most) & each


def _of(one: Slice, at: _Place) -> Any:
    here = (at.topic == at.literal(one.tp.topic)) & (at.partition == at.literal(one.tp.partition))
    here = here & (at.offset > one.after) & (at.offset <= one.through)
    here = here & (at.epoch >= one.first) if one.first else here
    return here if one.before is None else here & (at.epoch < one.before)


def count_of_none(rows: pa.Table, known: Iterable[TopicPartition]) -> int:
    """How many of the rows, PLACED, are of no topic partition, or of one that is not among these."""
    of_topic: dict[str, list[int]] = defaultdict(list)
    for tp in known:
        of_topic[tp.topic].append(tp.partition)
    at = _ARROW
    ours = [
        (at.topic == name) & at.partition.isin(pa.array(partitions, pa.int32()))
        for name, partitions in of_topic.items()
    ]
    known_place = reduce(lambda a, b: a | b, ours, pc.scalar(False)) & at.offset.is_valid()
    return len(rows.filter(~pc.coalesce(known_place, pc.scalar(False))))


def may_be_within(add: Mapping[str, Any], found: Sequence[Slice]) -> bool:
    """Whether a file may have a row of these offsets. add: its `add` action."""
    least, most, _ = _told(add)
    only = only_of(add)
    if type(least.get("offset")) is not int or type(most.get("offset")) is not int:
        return True
    return any(
        (only is None or one.tp == only) and most["offset"] > one.after and least["offset"] <= one.through
        for one in found
    )


def may_have_others(add: Mapping[str, Any], known: Container[TopicPartition]) -> bool:
    """Whether a file may have a row of no topic partition, or of one that is not among these."""
    nulls = _told(add)[2]
    return only_of(add) not in known or any(nulls.get(name) != 0 for name in ("topic", "partition", "offset"))


def only_of(add: Mapping[str, Any]) -> TopicPartition | None:
    """The one topic partition of which a file has rows, if its statistics tell one. Rows of none are not told."""
    least, most, _ = _told(add)
    same = [least.get(name) == most.get(name) and least.get(name) is not None for name in ("topic", "partition")]
    return TopicPartition(least["topic"], least["partition"]) if all(same) else None


def _told(add: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """What statistics say of `_kafka`: the least values, the greatest, how many are null; empty where they do not."""
    stats = json.loads(add.get("stats") or "{}")
    return [stats.get(name, {}).get(KAFKA) or {} for name in ("minValues", "maxValues", "nullCount")]
