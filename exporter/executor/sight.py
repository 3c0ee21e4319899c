"""What the tasks of a round see in `_rescued` of types whose tables may grow. Runs on Spark executors.

Every text is looked at, not some of them: the first record with a field is to have it in its column. In a steady
state there is nothing to look at.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from exporter.arrow.own_columns import KAFKA_COLUMN
from exporter.core.evolve import Evolutions
from exporter.core.seen import At, Seen
from exporter.formats.json.text import rescued_value
from offsets.ranges import TopicPartition


class TaskSight:
    """Of one task: by event type and topic partition."""

    def __init__(self, evolutions: Evolutions) -> None:
        self._evolutions = evolutions
        self._seen: dict[tuple[str, TopicPartition], Seen] = {}

    def look(self, name: str, tp: TopicPartition, table: pa.Table) -> None:
        """Rows as they are staged, with `_kafka` and `_rescued`."""
        rescued = table.column("_rescued")
        evolution = self._evolutions.of(name)
        if rescued.null_count == len(rescued) or evolution is None or not evolution.infers:
            return
        seen = self._seen.setdefault((name, tp), Seen())
        kept = rescued.is_valid()
        offsets = table.column(KAFKA_COLUMN).filter(kept).combine_chunks().field("offset")
        for text, offset in zip(rescued.filter(kept).to_pylist(), offsets.to_pylist(), strict=True):
            seen.add(rescued_value(text), At(tp.topic, tp.partition, offset))

    def rows(self) -> Iterator[dict[str, Any]]:
        """What the manifest says of it."""
        for (name, tp), seen in self._seen.items():
            yield {"topic": tp.topic, "partition": tp.partition, "event_type": name, "seen": seen.to_json()}
