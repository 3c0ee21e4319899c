"""What is known of offsets before anything is compared: whose configuration held, which table must have them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from exporter.core.routing import DEAD_LETTERS
from exporter.operate.audit.job import AuditJob, PartitionLog
from exporter.operate.audit.pin import FOREVER, PinnedTables, Region
from exporter.proof.codes import DEAD_LETTER, EARLIER
from offsets.ranges import TopicPartition

Spans = Sequence[tuple[int, int]]
"""Offsets (after, through]."""


def within(offsets: Any, spans: Spans) -> Any:
    """Whether an offset lies in one of them; of an array, each of its offsets."""
    found = offsets != offsets  # of none: False for each
    for after, through in spans:
        found |= (after < offsets) & (offsets <= through)
    return found


@dataclass(frozen=True)
class Cover:
    """Of a table and a partition. spans: where it may hold rows. gaps: what retention took. replayed: the greatest
    offset that a replay of dead letters has added.
    """

    spans: Spans
    position: int
    gaps: Spans
    replayed: int | None


class Known:
    """What one audit knows before it compares: positions, logs, settings in force."""

    def __init__(self, job: AuditJob, pinned: PinnedTables, logs: Mapping[TopicPartition, PartitionLog]) -> None:
        self._job = job
        self._pinned = pinned
        self._logs = logs
        self._covers = {(pinned.codes[name], tp): _cover(pinned, name, tp) for name, tp in pinned.spans}
        self._aged = {pinned.codes[name]: bound for name, bound in pinned.aged.items()}
        spared = {tp: [(offset - 1, offset) for offset in some] for tp, some in pinned.spared.items()}
        gaps = {tp: some for (name, tp), some in pinned.gaps.items() if name == DEAD_LETTERS}
        self._lost = {tp: [*gaps.get(tp, ()), *spared.get(tp, ())] for tp in {*gaps, *spared}}

    def region(self, tp: TopicPartition, offset: int) -> Region | None:
        """The configuration that holds for an offset; None where none is known."""
        return next((one for one in self._pinned.regions.get(tp, ()) if one.after < offset <= one.through), None)

    def routings(self, tp: TopicPartition, offsets: Any) -> Any:
        """The index of the configuration that holds for each of some offsets, -1 where none is known."""
        found = np.full(len(offsets), -1)
        for one in reversed(self._pinned.regions.get(tp, ())):
            found[(one.after < offsets) & (offsets <= one.through)] = one.routing
        return found

    def since(self, tp: TopicPartition, offset: int) -> list[int]:
        """The configurations that have been in force since an offset was exported."""
        return [one.routing for one in self._pinned.regions.get(tp, ()) if one.through >= offset]

    def may_stand(self, code: int, tp: TopicPartition, offsets: Any) -> Any:
        """Whether a table says that it may have a row at an offset; of an array, at each of its offsets."""
        cover = self._covers.get((code, tp))
        return within(offsets, () if cover is None else cover.spans)

    def is_replayed(self, code: int, tp: TopicPartition, offset: int) -> bool:
        """Whether a replay of dead letters may have added a table's row."""
        cover = self._covers.get((code, tp))
        return cover is not None and cover.replayed is not None and offset <= cover.replayed

    def must(self, expected: int, tp: TopicPartition, offset: int, region: Region) -> bool:
        """Whether a record must have a row: where all that could hold it says that it is complete there.

        A bad record is covered by the dead letters, a good one by its type: only where both are is it certain. Of one
        that an earlier version may have taken it is where its configuration is closed: no table was left behind.
        """
        if expected < DEAD_LETTER and not (expected == EARLIER and region.through < FOREVER):
            return False
        cover, dead_letters = self._covers.get((expected, tp)), self._pinned.spans.get((DEAD_LETTERS, tp), ())
        if not within(offset, dead_letters) or not self._is_complete(region) or within(offset, self._lost.get(tp, ())):
            return False
        if cover is None:
            return True
        return bool(offset <= cover.position or within(offset, cover.spans)) and not within(offset, cover.gaps)

    def has_aged(self, code: int, time_us: int | None) -> bool:
        """Whether a table keeps rows of this time no more (protocol 4.14). None: of no time, which never ages."""
        bound = self._aged.get(code)
        return bound is not None and time_us is not None and time_us < bound

    def is_erased(self, tp: TopicPartition, offset: int) -> bool:
        """Whether the record was erased (protocol 4.16)."""
        return offset in self._pinned.erased.get(tp, ())

    def is_checkable(self, tp: TopicPartition, offset: int) -> bool:
        """Whether the record of an offset can be seen, if there is one."""
        region, log = self.region(tp, offset), self._logs.get(tp)
        if region is None or log is None or not log.first <= offset < log.next:
            return False
        isolation = self._pinned.routings[region.routing].isolation
        return isolation == self._job.routing.isolation and tp.topic not in self._job.compacted

    def _is_complete(self, region: Region) -> bool:
        """Whether each record of a region can be expected to have a row: its isolation hides none that is read here."""
        isolation = self._pinned.routings[region.routing].isolation
        return isolation == "read_uncommitted" or self._job.routing.isolation == "read_committed"


def _cover(pinned: PinnedTables, name: str, tp: TopicPartition) -> Cover:
    """A poison record's row may come before the position does."""
    spans, position = pinned.spans[name, tp], pinned.positions[name, tp]
    poison = max(pinned.poison_offsets.get(tp, ()), default=-1) if name == DEAD_LETTERS else -1
    early = [(position, poison)] if poison > position else []
    replayed = pinned.replayed.get((name, tp))
    again = [(-1, replayed)] if replayed is not None else []
    return Cover([*spans, *early, *again], position, pinned.gaps.get((name, tp), ()), replayed)
