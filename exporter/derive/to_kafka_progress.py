"""How far a job has sent its source: what its consumer group has of the topic, as text of people's own (protocol 9.7).

    group <app>.derive.<job>     of partition 0 of the topic: the head, and as many positions as there is room for
    group <app>.derive.<job>.1   more of them, and so on

Brokers take 4,096 bytes of an offset's metadata. All texts of one transaction have its number. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from offsets.cursors import NOTHING, Cursor
from offsets.positions import Position
from offsets.ranges import TopicPartition

TEXT_BYTES_MAX = 4_000
"""Of one text, below what brokers take by default (offset.metadata.max.bytes)."""
HEAD = ("number", "source", "topic_id", "partitions", "owner", "at", "rows", "seq", "rebuilt")
"""Fields of a progress, as its first text begins with them; those of its cursor follow."""


@dataclass(frozen=True)
class SendProgress:
    """All rows at or below the cursor are in the topic, or the source had them taken out. number: of the transaction.

    source: what the settings call it. topic_id: of the topic that has the rows. partitions: of the topic, among which
    keys are shared out. seq: of a source of kind bundles, the last one. rows: that were sent. owner: who sent last.
    at: when, in seconds since 1970. rebuilt: of a source that is a job's table, the run that began it anew last.
    """

    source: str
    topic_id: str
    partitions: int
    owner: str
    at: int
    number: int = 0
    cursor: Cursor = field(default=NOTHING)
    seq: int = 0
    rows: int = 0
    rebuilt: int = 0

    def then(self, owner: str, at: int, rows: int = 0) -> SendProgress:
        """That of the next transaction, which sends so many rows."""
        return replace(self, owner=owner, at=at, number=self.number + 1, rows=self.rows + rows)


class Torn(Exception):
    """Texts that are not those of one transaction."""


def groups_of(group: str, count: int) -> list[str]:
    """The consumer groups that have the texts of one progress."""
    return [group, *(f"{group}.{number}" for number in range(1, count))]


def as_texts(progress: SendProgress) -> list[str]:
    """What the groups are to have, in order; the first one says how many there are."""
    cursor = progress.cursor
    head = {name: getattr(progress, name) for name in HEAD} | {"version": cursor.version, "table": cursor.table_id}
    room = TEXT_BYTES_MAX - len(_dumped({**head, "texts": 10_000, "taken": {}}))
    parts = list(_packed(_said(cursor), room)) or [[]]
    texts = [{"number": progress.number, "taken": _nested(part)} for part in parts]
    texts[0] = {**head, "texts": len(parts), **texts[0]}
    return [_dumped(one) for one in texts]


def texts_of(first: str) -> int:
    """How many texts there are, by the first one."""
    return int(json.loads(first)["texts"])


def progress_from(texts: Sequence[str]) -> SendProgress:
    """The inverse of as_texts(). Raises Torn for texts of several transactions."""
    parsed = [json.loads(text) for text in texts]
    head = parsed[0]
    if head["texts"] != len(parsed) or {one["number"] for one in parsed} != {head["number"]}:
        raise Torn
    positions: dict[TopicPartition, Position] = {}
    replays: dict[TopicPartition, int] = {}
    for one in parsed:
        for topic, partitions in one["taken"].items():
            for partition, (offset, epoch, replay) in partitions.items():
                tp = TopicPartition(topic, int(partition))
                positions[tp] = Position(epoch, offset)
                replays |= {tp: replay} if replay else {}
    cursor = Cursor(positions, replays, head["version"], head["table"])
    return SendProgress(**{name: head[name] for name in HEAD}, cursor=cursor)


def _said(cursor: Cursor) -> Iterator[tuple[str, str, list[int]]]:
    """Topic, partition and [offset, epoch, replay] of each; a replay of a partition without a position says nothing."""
    for tp, at in sorted(cursor.positions.items()):
        yield tp.topic, str(tp.partition), [at.offset, at.epoch, cursor.replays.get(tp, 0)]


def _packed(said: Iterator[tuple[str, str, list[int]]], room: int) -> Iterator[list[tuple[str, str, list[int]]]]:
    """As many in one part as there is room for, in bytes; a topic's name counts once a part."""
    part: list[tuple[str, str, list[int]]] = []
    size, topic = 0, None
    for one in said:
        bytes_ = len(_dumped({one[1]: one[2]})) + (len(_dumped(one[0])) + 4 if one[0] != topic else 0)
        if part and size + bytes_ > room:
            yield part
            part, size = [], 0
            bytes_ = len(_dumped({one[1]: one[2]})) + len(_dumped(one[0])) + 4
        part.append(one)
        size, topic = size + bytes_, one[0]
    if part:
        yield part


def _nested(part: Sequence[tuple[str, str, list[int]]]) -> dict[str, dict[str, list[int]]]:
    found: dict[str, dict[str, list[int]]] = {}
    for topic, partition, at in part:
        found.setdefault(topic, {})[partition] = at
    return found


def _dumped(value: Mapping[str, Any] | str) -> str:
    return json.dumps(value, separators=(",", ":"))
