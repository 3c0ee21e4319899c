"""What a mirror has to take of its source: what is new, all of it, or all of it anew (protocol 9.3, 9.5)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import functions as sf

from exporter.derive.mirror_merge import BASED_ON, IN_ALL, PURGED
from exporter.derive.mirror_rows import BASE, DELETED, ORDER, WRITTEN, keyed
from exporter.derive.source import PinnedSource
from exporter.errors import LogCleaned
from exporter.lake.rows import rows_of
from exporter.lake.table import DeltaTable
from offsets.cursors import NOTHING, Cursor, CursorSetback, Slice, cursor_of, replayed, setbacks, slices, whole
from offsets.positions import Position
from offsets.ranges import TopicPartition
from offsets.table_log import TableView, own_metadata


@dataclass(frozen=True)
class Todo:
    """What the next run takes. since: the version that the mirror has; negative if none.

    found: what is new; all offsets for a full pass. says: why it is one. rewound: why rows were taken back, if they
    were. forgets: whether the mirror has to say first that it has nothing. back: through which offset the source has
    kept those of a partition.
    """

    since: int = -1
    found: tuple[Slice, ...] = ()
    says: str = ""
    rewound: str = ""
    forgets: bool = False
    back: Mapping[TopicPartition, int] = field(default_factory=dict)

    @property
    def nothing(self) -> bool:
        return not self.found and not self.rewound

    @property
    def again(self) -> bool:
        """Whether rows may be among them that the mirror has taken before."""
        return bool(self.says) or any(one.after < 0 for one in self.found)


def todo(mirror: DeltaTable, view: TableView, source: PinnedSource, job: str) -> Todo:
    """What a mirror lacks of its source. Raises InvariantBroken while rows of this are missing, TableUnreadable."""
    app = source.lake.app
    since = cursor_of(view.transactions, app, job, source.name)
    everything = Todo(since.version, slices(NOTHING, source.now))
    with suppress(LogCleaned):  # then it is not known, and all rows are looked at
        source.require_whole()
    if since.table_id != source.view.table_id:
        return replace(everything, rewound=f"table {source.name} was made anew")
    if own := restored(mirror, view) or overtaken(mirror, view, job):
        everything = replace(everything, says=f"all rows once more: {own}", forgets=True)
        return _all_after(mirror, view, source, everything)
    if since.version < 0:
        return _all_after(mirror, view, source, replace(everything, says="all rows once more, as was begun"))
    if since.version == source.view.version:
        return Todo(since.version)
    try:
        before = whole(source.table.view_at(since.version), app)
        taken_back = [one for one in source.table.commits(since.version, source.view.version) if one.rewinds]
    except LogCleaned as cleaned:
        return _all_after(mirror, view, source, replace(everything, says=f"all rows once more: {cleaned.message}"))
    if back := setbacks(before, source.view, app):
        return _rewound(everything, source.name, back)
    if taken_back:  # what it brought back may be below the positions
        last = taken_back[-1]
        return replace(everything, says=f"all rows once more: version {last.version} is a {last.operation}")
    again = replayed(before, source.now)
    lacking = {tp: at for tp, at in before.positions.items() if tp not in again}
    return replace(everything, found=slices(replace(before, positions=lacking), source.now))


def _all_after(mirror: DeltaTable, view: TableView, source: PinnedSource, everything: Todo) -> Todo:
    """All rows; or all anew, if the mirror has a value of one beyond where a later epoch of the source begins.

    Each value counts, not the newest row of its key alone: a patch may have come over it.
    """
    rows = rows_of(source.session, mirror, view.version)
    written = f"concat(array({ORDER}, {BASE}), map_values({WRITTEN}))" if BASE in rows.columns else f"array({ORDER})"
    orders = rows.select(sf.explode(sf.expr(written)).alias("at")).where("at IS NOT NULL").select("at.*")
    by = orders.groupBy("topic", "partition", "epoch").agg(sf.max("offset"))
    held = [
        Cursor({TopicPartition(topic, partition): Position(epoch, offset)})
        for topic, partition, epoch, offset in by.collect()
    ]
    back = [one for cursor in held for one in setbacks(cursor, source.view, source.lake.app)]
    return _rewound(everything, source.name, back) if back else everything


def _rewound(everything: Todo, name: str, back: Sequence[CursorSetback]) -> Todo:
    took = f"table {name} took back {back[0].tp} offsets {back[0].through + 1}..{back[0].taken}"
    kept: dict[TopicPartition, int] = {}
    for one in back:
        kept[one.tp] = min(one.through, kept.get(one.tp, one.through))
    return replace(everything, rewound=took, back=kept)


def lost_keys(
    mirror: DeltaTable, view: TableView, source: PinnedSource, keys: Sequence[str], back: Mapping[TopicPartition, int]
) -> int:
    """How many keys of a mirror, deleted ones apart, have no row in the source, though none of theirs was taken back.

    back: through which offset the source has kept those of a partition, all of others.
    """
    kafka = sf.col("_kafka")
    kept = sf.lit(True)
    for tp, through in back.items():
        here = (kafka["topic"] == tp.topic) & (kafka["partition"] == tp.partition)
        kept &= ~here | (kafka["offset"] <= through)
    named = keyed(keys)
    mine = rows_of(source.session, mirror, view.version).where(kept & ~sf.col(DELETED)).select(*named)
    return int(mine.join(source.own().select(*named), mine.columns, "left_anti").count())


def overtaken(mirror: DeltaTable, view: TableView, job: str) -> str:
    """Whether the job's last statement landed on another commit of the job than it was made of; empty if not.

    Then it took no account of what the source has taken back of the rows that the one beneath brought (protocol 9.5).
    A purge looks at nothing of the source, so what it lies on is looked at.
    """
    based_on: int | None = None
    for version, said in _said_by(mirror, view, job):
        if based_on is not None and version <= based_on:
            return ""
        if said.get(PURGED):
            continue
        if based_on is not None:
            return f"version {version} of the mirror lies beneath a statement that did not know it"
        based_on = int(said.get(BASED_ON, version - 1))
    return ""


def left_in_all(mirror: DeltaTable, view: TableView, job: str) -> Mapping[str, int] | None:
    """Why -> how many of all rows that a mirror has taken are left out, as its newest run says; None if it does not."""
    for _, said in _said_by(mirror, view, job):
        if IN_ALL in said or "rows" in said:  # earlier versions told the rows alone
            counts: Mapping[str, int] | None = said.get(IN_ALL)
            return counts
    return None


def _said_by(mirror: DeltaTable, view: TableView, job: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The versions that a job made, newest first, as far back as the log goes; what each says of itself."""
    with suppress(LogCleaned):
        for version in range(view.version, -1, -1):
            said = own_metadata(mirror.logged(version).user_metadata)
            if said.get("derive") == job:
                yield version, said


def restored(mirror: DeltaTable, view: TableView) -> str:
    """What somebody did to a mirror since its job's last commit, if that may have taken rows; empty if nothing."""
    for version in range(view.version, -1, -1):
        try:
            logged = mirror.logged(version)
        except LogCleaned:
            return f"version {version} of the mirror is no longer in its log"
        if own_metadata(logged.user_metadata):
            return ""
        if logged.rewinds:
            return f"version {version} of the mirror is a {logged.operation}"
    return ""
