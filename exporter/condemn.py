"""A single record that no decoder survives becomes a dead letter of its own (protocol 3.7).

    a round fails ── its partitions are read one by one
      one fails ──── its range is halved, down to one record
        that fails ─ the record is read raw, and its row committed under `<app>/condemned/...`
                     before any position passes it; every later plan skips its offset

Trouble keeps the bisection (pure); condemn() is the effect.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timezone
from typing import Any

from exporter import headers
from exporter.errors import InvariantBroken
from exporter.files import FileOrigin, GrowingFile
from exporter.routing import DEAD_LETTERS
from exporter.stage import dead_letter_rows
from exporter.tables import Change, Lake, add_action
from exporter.writers import PartitionPlan, StagedFile
from offsets import Invariant
from offsets.names import AppId
from offsets.positions import condemned_offsets
from offsets.ranges import TopicPartition
from offsets.table_log import TableView

SINGLE_FAILURES_MAX = 3
"""A single record is condemned when it has failed so often on its own, while a raw read of it works."""
FREE_SPAN = 20_000
"""A troubled partition that has read so many offsets in one round is healthy again."""
IN_A_ROW_MAX = 3
"""So many records in a row, none decoded in between, are no poison but a fault of ours: stop."""


@dataclass(frozen=True)
class Trouble:
    """Partitions whose last round failed: how many offsets the next one may span, and how often one alone failed."""

    spans: Mapping[TopicPartition, int] = field(default_factory=dict)
    singles: Mapping[TopicPartition, int] = field(default_factory=dict)

    def failed(self, plans: Sequence[PartitionPlan], readable: bool) -> Trouble:
        """After a failed round: several partitions are tried one by one, one partition by halves.

        readable: a single record could be read right after it failed. Only that counts against the record:
        while the broker is silent everything fails, and nothing is to be condemned for it.
        """
        spans, singles = dict(self.spans), dict(self.singles)
        for plan in plans:
            span = plan.end - plan.start
            spans[plan.tp] = span if len(plans) > 1 else max(1, span // 2)
            if len(plans) == 1 and span == 1:
                singles[plan.tp] = singles.get(plan.tp, 0) + 1 if readable else 0
        return Trouble(spans, singles)

    def passed(self, plans: Sequence[PartitionPlan]) -> Trouble:
        """After a good round: its partitions may span more again, and are free where they were read whole."""
        spans, singles = dict(self.spans), dict(self.singles)
        for plan in plans:
            singles.pop(plan.tp, None)
            if plan.tp in spans:
                spans[plan.tp] *= 4
                if spans[plan.tp] >= FREE_SPAN:
                    del spans[plan.tp]
        return Trouble(spans, singles)

    def limit(self, plans: Sequence[PartitionPlan], turn: int) -> tuple[PartitionPlan, ...]:
        """The plans as they may run now: by turns the healthy partitions together and a troubled one alone."""
        healthy = tuple(plan for plan in plans if plan.tp not in self.spans)
        troubled = [plan for plan in plans if plan.tp in self.spans]
        if not troubled or (healthy and turn % 2 == 0):
            return healthy
        plan = troubled[turn // 2 % len(troubled)]
        return (replace(plan, end=min(plan.end, plan.start + self.spans[plan.tp])),)

    def poison(self) -> TopicPartition | None:
        """A partition whose next record has failed often enough on its own."""
        return next((tp for tp, count in sorted(self.singles.items()) if count >= SINGLE_FAILURES_MAX), None)


def condemn(
    lake: Lake, plan: PartitionPlan, raw: Any, reason: str, origin: FileOrigin, checked_through: int
) -> StagedFile | None:
    """Commit the dead-letter row of the one record in `raw` (an Arrow table), or find it committed already.

    None if the record is not there any more (compacted away). Raises InvariantBroken if the dead letters have
    passed it, or whatever Delta raised.
    """
    if raw.num_rows == 0:
        return None
    batch = headers.joined(raw.combine_chunks().to_batches()[0])
    offset = batch.column("offset")[0].as_py()
    dead = [(0, None, "condemned", f"condemned: {reason}")]
    growing = GrowingFile(origin, batch.column("timestamp")[0].as_py().astimezone(timezone.utc).date())
    growing.add(dead_letter_rows(batch, dead, plan.tp, plan.epoch), offset, offset)
    file = growing.finish()
    app_id = str(AppId(lake.app, plan.tp, plan.epoch, "condemned"))
    position_id = str(AppId(lake.app, plan.tp, plan.epoch))

    def check(view: TableView | None) -> None:
        position = view.position(lake.app, plan.tp) if view is not None else None
        if view is None or position is None or position.epoch != plan.epoch or position.offset >= offset:
            raise InvariantBroken(
                Invariant.ONCE,
                f"{plan.tp}: offset {offset} cannot be condemned, the dead letters are at {position}",
                "another task passed it; start again",
            )
        if offset in condemned_offsets(view.transactions, lake.app, plan.tp):
            raise AlreadyCondemned

    metadata = {
        "commit_id": uuid.uuid4().hex,
        "action": "condemn",
        "app": lake.app,
        "checked_through": checked_through,
        "partitions": {str(plan.tp): {"epoch": plan.epoch, "first": offset, "last": offset, "rows": 1}},
        "reason": reason,
    }
    add = add_action(file, {**origin.tags(file.offsets), "condemned": "true"})
    try:
        lake.table(DEAD_LETTERS).commit(Change((app_id, position_id), {app_id: offset}, metadata, (add,)), check)
    except AlreadyCondemned:
        return file
    return file


class AlreadyCondemned(Exception):
    """Another task was faster; its row is the one that counts."""
