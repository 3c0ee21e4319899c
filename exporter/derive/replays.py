"""Which rows replays of dead letters put below a cursor (protocol 4.9, 9.3): by the commits that brought them.

    the source's log since the cursor ── replays: files, offsets ── coordinates of their rows, as the files had them

OPTIMIZE may have packed the rows since, so it is not by files that they are read. Reads only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any
from urllib.parse import unquote

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from exporter.errors import InvariantBroken, LogCleaned
from exporter.lake.table import DeltaTable
from exporter.stores.many import each
from offsets import Invariant
from offsets.cursors import Cursor, Slice, replayed
from offsets.ranges import TopicPartition
from offsets.table_log import LoggedCommit, own_metadata

COORDINATES = ("topic", "partition", "epoch", "offset")
"""Fields of `_kafka` that tell a row from all others of a source."""


@dataclass(frozen=True)
class ReplayCommit:
    """One commit of a source. paths: of the files that it added, as the log writes them.

    numbers: partition -> that of its replay. spans: of the rows, one a partition.
    """

    version: int
    paths: tuple[str, ...]
    numbers: Mapping[TopicPartition, int]
    spans: tuple[Slice, ...]


def replays_since(table: DeltaTable, since: Cursor, now: Cursor) -> list[ReplayCommit]:
    """Oldest first. Raises InvariantBroken if the log does not tell all of them any more."""
    numbers = replayed(since, now)
    if not numbers:
        return []
    try:
        logged = each(table.logged, range(since.version + 1, now.version + 1))
    except LogCleaned as gone:
        raise _lost(f"{gone.message}, which may be a replay of dead letters") from gone
    found = [one for commit in logged for one in _replays(commit, numbers)]
    told = {(tp, number) for one in found for tp, number in one.numbers.items()}
    for tp, (taken, last) in numbers.items():
        if any((tp, number) not in told for number in range(taken + 1, last + 1)):
            raise _lost(f"the log of table {table.event_type} does not tell all replays of {tp} since {taken}")
    return found


def _replays(commit: LoggedCommit, numbers: Mapping[TopicPartition, Any]) -> Iterator[ReplayCommit]:
    said = own_metadata(commit.user_metadata).get("replayed")
    of = {tp: said[str(tp)] for tp in numbers if said and str(tp) in said}
    if of:
        spans = tuple(Slice(tp, one["first"] - 1, one["last"]) for tp, one in of.items())
        yield ReplayCommit(commit.version, commit.added, {tp: one["replay"] for tp, one in of.items()}, spans)


def coordinates_of(table: DeltaTable, session: Any, replays: list[ReplayCommit]) -> DataFrame:
    """Of all rows that the replays brought, COORDINATES. Raises InvariantBroken if a file is gone."""
    found: list[DataFrame] = []
    for one in replays:
        sizes = zip(one.paths, each(lambda path: table.store.size(unquote(path)), one.paths), strict=True)
        if gone := [path for path, size in sizes if size is None]:
            raise _lost(f"VACUUM took files that a replay of dead letters added to {table.event_type}, as {gone[0]}")
        rows = DataFrame(table.rows_of(one.version, one.paths), session)
        found.append(rows.select(*(sf.col(f"_kafka.{part}") for part in COORDINATES)))
    return reduce(DataFrame.union, found)


def brought(frame: DataFrame, coordinates: DataFrame) -> DataFrame:
    """The rows of a frame that have one of these coordinates."""
    same: list[Column] = [frame["_kafka"][part].eqNullSafe(coordinates[part]) for part in COORDINATES]
    return frame.join(sf.broadcast(coordinates), same, "left_semi")


def _lost(what: str) -> InvariantBroken:
    return InvariantBroken(
        Invariant.ONCE,
        f"{what}: rows below the cursor cannot be told from those that were taken",
        "`exporter derive run <name> --rebuild` begins the job anew, from what the source holds now",
    )
