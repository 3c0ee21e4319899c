"""Which rows of a source a job with a cursor has taken, for its audit: told apart from how runs take them.

    source, pinned ── rows at or below the cursor, by their topic, epoch and offset ── but for those of later replays
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from exporter.derive.replays import COORDINATES, coordinates_of, replays_since
from exporter.derive.source import PinnedSource
from offsets.cursors import Cursor, FormerTopic

KAFKA = "_kafka"


def rows_through(source: PinnedSource, taken: Cursor) -> DataFrame:
    """Raises InvariantBroken if it cannot be told any more which rows later replays have put there."""
    kafka = sf.col(KAFKA)
    found = sf.lit(False)
    for tp, position in taken.positions.items():
        topics = source.now.former.get(tp, ())
        before = _nth(kafka["epoch"], topics) < sum(position.epoch >= one.before for one in topics)
        same = _nth(kafka["epoch"], topics) == sum(position.epoch >= one.before for one in topics)
        here = (kafka["topic"] == tp.topic) & (kafka["partition"] == tp.partition)
        found = found | (here & (before | (same & (kafka["offset"] <= position.offset))))
    rows = source.frame().where(found)
    if not (later := replays_since(source.table, taken, source.now)):
        return rows
    coordinates = coordinates_of(source.table, source.session, later)
    same = [rows[KAFKA][part].eqNullSafe(coordinates[part]) for part in COORDINATES]
    return rows.join(coordinates, same, "left_anti")


def _nth(epoch: Column, topics: tuple[FormerTopic, ...]) -> Column:
    """Of which topic of its name a row is, from 0."""
    nth = sf.lit(0)
    for one in topics:
        nth = nth + sf.when(sf.coalesce(epoch, sf.lit(0)) >= one.before, 1).otherwise(0)
    return nth
