"""What retention took before it was exported is written down, then passed (protocol 5.5). Rules: offsets/gaps.py.

    rows    one commit to the dead letters: a row and a txn of its own for each gap that is not recorded yet
    moves   type by type to exactly the row's last offset, the dead letters last, because a type that is
            anchored now begins where they are

Each is a compare-and-set on what was read; whatever goes wrong, everything is read again (Moved).
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from exporter.arrow.own_columns import DEAD_LETTER_SCHEMA
from exporter.clock import utc_now
from exporter.core.routing import DEAD_LETTERS, dead_letters_last
from exporter.core.writers import StagedFile
from exporter.errors import InvariantBroken
from exporter.faults import Fault, point
from exporter.lake.change import Change, add_action
from exporter.lake.settling import Expect, Failed, Moved
from exporter.log import get_logger
from exporter.log_events import Event
from exporter.protocol.anchor import Anchors
from exporter.protocol.origin import origin
from exporter.stores.parquet import FileOrigin, GrowingFile
from offsets import Invariant
from offsets.gaps import Gap, recorded_gaps
from offsets.names import AppId, gap_file
from offsets.partitions import DAY
from offsets.positions import Position
from offsets.ranges import TopicPartition
from offsets.table_log import TableView

log = get_logger(__name__)

REASON = "gap: Kafka deleted these offsets before they were exported"


def refuse(gaps: Sequence[Gap]) -> None:
    """Raises InvariantBroken for gaps that are not to be recorded (`on_gap = "stop"`)."""
    if not gaps:
        return
    first = gaps[0]
    same = [gap.event_type for gap in gaps if (gap.tp, gap.offsets) == (first.tp, first.offsets)]
    names = ", ".join(same[:5]) + (f" and {len(same) - 5} more" if len(same) > 5 else "")
    raise InvariantBroken(
        Invariant.COVER,
        f"{first.tp}: offsets {first.offsets} were deleted by retention before they were exported to {names}",
        'they are lost; `exporter run --on-gap record` writes that down in the dead letters and goes on after them',
    )


class GapRows:
    """Records and passes gaps for one task."""

    def __init__(self, anchors: Anchors) -> None:
        self._anchors = anchors

    def close(self, views: Mapping[str, TableView], gaps: Sequence[Gap]) -> None:
        """views: of the reading that the gaps were found in. Raises Moved, InvariantBroken."""
        if fresh := [gap for gap in gaps if not gap.recorded]:
            self._record(views[DEAD_LETTERS], fresh)
            point(Fault.AFTER_GAP_ROW)
        by_type: dict[str, list[Gap]] = defaultdict(list)
        for gap in gaps:
            by_type[gap.event_type].append(gap)
        for name in dead_letters_last(by_type):
            self._move(name, views[name], by_type[name])
            point(Fault.AFTER_GAP_MOVE)

    def _record(self, dead_letters: TableView, gaps: Sequence[Gap]) -> None:
        app = self._anchors.lake.app
        table = self._anchors.lake.table(DEAD_LETTERS)
        positions = {gap.tp: position for gap in gaps if (position := dead_letters.position(app, gap.tp)) is not None}
        known = recorded_gaps(dead_letters.transactions, app)
        by_tp: dict[TopicPartition, list[Gap]] = defaultdict(list)
        for gap in gaps:
            by_tp[gap.tp].append(gap)
        files = [self._stage(dead_letters, tp, position, by_tp[tp]) for tp, position in sorted(positions.items())]

        def check(now: TableView) -> None:
            if recorded_gaps(now.transactions, app) != known:
                raise Moved("another task has recorded a gap")
            try:
                for file, _ in files:
                    table.require(file.path, file.size_bytes)
            except (ValueError, OSError) as error:
                raise Moved(f"a file of gap rows is not as it was written: {error}") from error

        expected = [str(gap.app_id(app)) for gap in gaps]
        expected += [str(AppId(app, tp, position.epoch)) for tp, position in positions.items()]
        self._anchors.write(
            DEAD_LETTERS,
            Change(
                expected=tuple(expected),
                positions={str(gap.app_id(app)): gap.offsets.last_offset for gap in gaps},
                user_metadata=self._metadata("gap", dead_letters, gaps),
                adds=tuple(add_action(file, {**origin.tags(file.offsets), "gap": "true"}) for file, origin in files),
            ),
            Expect(dead_letters, app, positions, columns=True, ours=True),
            check,
        )
        for gap in gaps:
            log.error(Event.GAP_RECORDED, table=gap.event_type, partition=str(gap.tp), offsets=str(gap.offsets))

    def _stage(
        self, dead_letters: TableView, tp: TopicPartition, position: Position, mine: Sequence[Gap]
    ) -> tuple[StagedFile, FileOrigin]:
        """The rows of one topic partition as a file of today. mine: its gaps."""
        lake, today = self._anchors.lake, DAY.at(utc_now())
        whose = origin(lake, DEAD_LETTERS, dead_letters.fingerprint, tp, position.epoch, {})
        growing = GrowingFile(whose, today)
        first = min(gap.offsets.first_offset for gap in mine)
        growing.add(gap_table(mine), first, max(gap.offsets.last_offset for gap in mine))
        try:
            return growing.finish(gap_file(today, lake.app, tp, position.epoch, uuid.uuid4().hex)), whose
        except OSError as error:
            raise Failed(lake.table(DEAD_LETTERS), error) from error

    def _move(self, name: str, view: TableView, gaps: Sequence[Gap]) -> None:
        """Move one type past its gaps, all partitions in one commit."""
        app = self._anchors.lake.app
        before = {gap.tp: Position(gap.epoch, gap.offsets.first_offset - 1) for gap in gaps}
        versions = {str(AppId(app, gap.tp, gap.epoch)): gap.offsets.last_offset for gap in gaps}
        metadata = self._metadata("pass_gap", view, gaps)
        self._anchors.write(name, Change(tuple(versions), versions, metadata), Expect(view, app, before, ours=True))
        log.info(Event.GAP_PASSED, table=name, positions={str(gap.tp): gap.offsets.last_offset for gap in gaps})

    def _metadata(self, action: str, view: TableView, gaps: Sequence[Gap]) -> dict[str, Any]:
        """userMetadata; partitions by what is written: for the reader of the table's history."""
        metadata = self._anchors.metadata(action, view, {})
        gone = [
            {"type": gap.event_type, "partition": str(gap.tp), "epoch": gap.epoch,
             "first": gap.offsets.first_offset, "last": gap.offsets.last_offset}
            for gap in gaps
        ]  # fmt: skip
        return {**metadata, "gaps": gone}


def gap_table(gaps: Sequence[Gap]) -> pa.Table:
    """The dead-letter rows of some gaps: coordinates without offset and timestamp, and the lost range."""
    rows = [
        {
            "_kafka": {"topic": gap.tp.topic, "partition": gap.tp.partition, "epoch": gap.epoch},
            "stage": "gap",
            "reason": REASON,
            "event_type": gap.event_type,
            "first_offset": gap.offsets.first_offset,
            "last_offset": gap.offsets.last_offset,
        }
        for gap in gaps
    ]
    return pa.Table.from_pylist(rows, schema=DEAD_LETTER_SCHEMA)
