"""Truncates of a source's table, and what they leave of its mirror (protocol 9.5, EMPTIED).

    dead letters ── `cdc_truncate` of the type, at or below the cursor ── the newest ──> rows that are older go

The record of a truncate is a dead letter, and stays one. What a mirror has taken of them stands in a property of its
table, so that nothing comes back where somebody clears the dead letters.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from exporter.core.routing import DEAD_LETTERS
from exporter.derive.mirror_rows import BASE, ENVELOPE, ORDER, WRITTEN, MirrorShape, deviating
from exporter.derive.mirror_sql import order_of
from exporter.derive.places import KAFKA, PLACED, may_be_within, only_of, rows_elsewhere, rows_within
from exporter.derive.source import REBUILD, PinnedSource
from exporter.errors import ConfigError
from exporter.formats.dead_letter import DeadLetter
from exporter.formats.envelopes.connect import PARTS
from exporter.formats.envelopes.debezium import TRUNCATED, time_of
from exporter.formats.envelopes.strict import parsed
from exporter.formats.envelopes.times import micros_of
from exporter.lake.rows import arrow_rows
from exporter.settings.derive_mirror import MirrorTable
from exporter.sql_text import column, literal, quoted
from offsets.cursors import NOTHING, Cursor, slices, whole
from offsets.ranges import TopicPartition
from offsets.table_log import TableView

TRUNCATED_PROPERTY = "exporter.derive.mirror.truncated"
"""Of a mirror: the truncate that its rows were taken through, as JSON; not there, or empty: none."""
TIMES = {f"{ENVELOPE}.ts": "ts", "_kafka.timestamp": "timestamp"}
"""Columns of `order` that a truncate has a value of -> where that is."""
DEAD_LETTER_COLUMNS = pa.schema(
    {
        KAFKA: pa.struct([*PLACED.field(KAFKA).type, pa.field("timestamp", pa.int64())]),
        "event_type": pa.string(), "reason": pa.string(), "value": pa.binary(),
    }
)  # fmt: skip
"""Of a dead letter, what is read; its timestamp in microseconds since 1970, UTC."""
_AT = re.compile(r" at (\S+)\Z")


@dataclass(frozen=True)
class Truncate:
    """A record that says that the source's table was emptied. timestamp: the record's; ts: when the table was, None if
    nobody says it. Both in microseconds since 1970, UTC."""

    topic: str
    partition: int
    epoch: int
    offset: int
    timestamp: int
    ts: int | None

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    def __str__(self) -> str:
        micros = self.timestamp if self.ts is None else self.ts
        when = datetime.fromtimestamp(micros // 1_000_000, timezone.utc)
        return f"the truncate of {when:%Y-%m-%dT%H:%M:%SZ} ({self.tp} offset {self.offset})"


def taken_of(view: TableView | None) -> Truncate | None:
    """The one that a mirror was taken through."""
    said = view.properties.get(TRUNCATED_PROPERTY) if view is not None else ""
    return Truncate(**json.loads(said)) if said else None


def property_of(one: Truncate | None) -> dict[str, str]:
    return {TRUNCATED_PROPERTY: json.dumps(asdict(one), sort_keys=True) if one else ""}


class Truncates:
    """Finds those of one mirror. Looks at each dead letter once in a process."""

    def __init__(self, job: str, table: MirrorTable) -> None:
        self._job = job
        self._table = table
        self._found: list[Truncate] = []
        self._looked = NOTHING
        self._alone: tuple[TopicPartition, int] | None = None

    def newest(self, source: PinnedSource, view: TableView | None) -> Truncate | None:
        """The one that leaves least, of those at or below the cursor of a pinned source; also what the mirror was taken
        through. None of a source without change data. Raises ConfigError where the settings, or nothing, say how."""
        if self._table.truncates == "ignore" or not _has_changes(source.schema):
            return None
        self._look(source)
        taken = taken_of(view)
        below = [one for one in {*self._found, *([taken] if taken else [])} if _is_below(one, source.now)]
        if not below:
            return None
        newest = max(below, key=self._rank)
        if not self._table.order:
            self._require_one_partition(newest, source)
        if newest != taken and self._table.truncates == "stop":
            what = f"{newest} empties table {source.name}, and `truncates` says to stop"
            raise ConfigError(
                f"derive {self._job}: {what}",
                '`truncates = "delete"` takes out the rows that are older; "ignore" with --rebuild keeps all rows',
            )
        return newest

    def taken_back(self, source: PinnedSource, view: TableView) -> str:
        """Whether a source ends before what its mirror was taken through; empty if it does not."""
        taken = taken_of(view)
        if taken is None or self._table.truncates == "ignore" or _is_below(taken, source.now):
            return ""
        return f"table {source.name} does not reach {taken} any more"

    def _look(self, source: PinnedSource) -> None:
        view = source.lake.table(DEAD_LETTERS).view()
        if view is None:
            return
        now = whole(view, source.lake.app)
        new = slices(self._looked, now)
        if new:
            columns = DEAD_LETTER_COLUMNS
            dead_letters = arrow_rows(source.lake, DEAD_LETTERS, view, columns, lambda add: may_be_within(add, new))
            emptied = (pc.field("event_type") == source.name) & pc.starts_with(pc.field("reason"), f"{TRUNCATED}:")
            for rows in dead_letters:
                self._found += map(_truncate, rows_within(rows, new).filter(emptied).to_pylist())
        self._looked = now

    def _rank(self, one: Truncate) -> tuple[Any, ...]:
        """Of two the one with the greater rank leaves less. Raises ConfigError."""
        if not self._table.order:
            return one.epoch, one.offset
        return [self._value(one, path) for path in self._table.order], one.epoch, one.offset

    def _value(self, one: Truncate, path: str) -> int:
        value = getattr(one, TIMES[path]) if path in TIMES else None
        if type(value) is not int:
            what = f"{one} has no {path}, so that nothing tells which rows are older"
            raise ConfigError(f"derive {self._job}: {what}", ORDERED.format(rebuild=REBUILD.format(job=self._job)))
        return value

    def _require_one_partition(self, one: Truncate, source: PinnedSource) -> None:
        """An offset says nothing of another partition's. Files of one partition are skipped by their statistics."""
        if self._alone == (one.tp, source.view.version):
            return
        own = slices(NOTHING, source.now)
        for rows in source.placed(lambda add: only_of(add) != one.tp):
            others = rows_elsewhere(rows_within(rows, own), one.tp)
            if not len(others):
                continue
            at = others[KAFKA][0].as_py()
            other = TopicPartition(at["topic"], at["partition"])
            what = f"{one} stands in another partition than rows of {other}: no offset tells which are older"
            raise ConfigError(f"derive {self._job}: {what}", ORDERED.format(rebuild=REBUILD.format(job=self._job)))
        self._alone = (one.tp, source.view.version)

    def without_older(self, rows: DataFrame, one: Truncate | None, now: Cursor) -> DataFrame:
        """Of rows of a source those that are not older than a truncate."""
        if one is None:
            return rows
        own = [*map(quoted, self._table.order)]
        return rows.where(f"NOT {self.older(one, now, own, '_kafka.epoch', '_kafka.offset')}")

    # -- what is older, as SQL

    def older(self, one: Truncate, now: Cursor, order: Sequence[str], epoch: str, offset: str) -> str:
        """SQL: whether a row is older than a truncate. now: of the source. order: SQL of its columns of `order`.

        By these alone where there are any: a row of the same moment stays, for it may have come after. Else by the
        offset in one topic, whichever epoch a repair gave it.
        """
        if not self._table.order:
            befores = [former.before for former in now.former.get(one.tp, ())]
            first = max((before for before in befores if before <= one.epoch), default=0)
            later = [before for before in befores if before > one.epoch]
            here = f"{offset} < {int(one.offset)}" + (f" AND {epoch} < {int(min(later))}" if later else "")
            return f"(({here}) OR {epoch} < {int(first)})" if first else f"({here})"
        told = ""
        for nth, at in reversed([*enumerate(order)]):
            value = f"timestamp_micros({int(self._value(one, self._table.order[nth]))})"
            least = f"{at} < {value} OR {at} IS NULL"
            told = f"({least} OR ({at} = {value} AND {told}))" if told else f"({least})"
        return told

    def older_order(self, one: Truncate, now: Cursor, at: str) -> str:
        """The same of an order, as rows of a mirror have them. at: SQL of it; of null it is null or true."""
        own = [f"{at}.o{int(n)}" for n in range(len(self._table.order))]
        return self.older(one, now, own, f"{at}.epoch", f"{at}.offset")

    def touched_sql(self, shape: MirrorShape, one: Truncate, now: Cursor) -> str:
        """SQL: whether a row `t` of a mirror has anything of a row that is older."""
        parts = [self.older_order(one, now, f"t.{ORDER}")]
        if shape.own_writers:
            parts += [
                f"coalesce(t.{BASE} IS NOT NULL AND {self.older_order(one, now, f't.{BASE}')}, false)",
                f"exists(map_values(t.{WRITTEN}), at -> at IS NOT NULL AND {self.older_order(one, now, 'at')})",
            ]
        return f"({' OR '.join(parts)})"

    def emptied_sql(self, shape: MirrorShape, target: str, one: Truncate, now: Cursor) -> str:
        """SQL that leaves of a mirror what rows that are not older made: whole rows go, else single columns."""
        lines = [
            f"MERGE INTO {target} AS t USING (SELECT 1) AS s ON {self.touched_sql(shape, one, now)}",
            f"WHEN MATCHED AND {self.older_order(one, now, f't.{ORDER}')} THEN DELETE",
        ]
        if shape.own_writers:
            sets = ", ".join(f"t.{name} = {to}" for name, to in self._kept(shape, one, now).items())
            lines.append(f"WHEN MATCHED THEN UPDATE SET {sets}")
        return "\n".join(lines)

    def _kept(self, shape: MirrorShape, one: Truncate, now: Cursor) -> dict[str, str]:
        """Column -> SQL: its value if the row that wrote it is not older; then the orders that stay."""
        base = f"CASE WHEN NOT {self.older_order(one, now, f't.{BASE}')} THEN t.{BASE} END"
        at = f"CASE WHEN NOT {self.older_order(one, now, 'at')} THEN at END"
        sets = {}
        for name in shape.own_writers:
            stays = f"exists(array({order_of('t', literal(name))}), at -> NOT {self.older_order(one, now, 'at')})"
            sets[column(name)] = f"CASE WHEN {stays} THEN t.{column(name)} END"
        orders = f"transform_values(t.{WRITTEN}, (name, at) -> {at})"
        return {**sets, BASE: base, WRITTEN: deviating(orders, base)}


ORDERED = (
    'set `order = ["_cdc.ts"]`, of which a truncate has a value, and then {rebuild}; or, the same way, '
    '`truncates = "ignore"`, which keeps all rows'
)


def _is_below(one: Truncate, now: Cursor) -> bool:
    """Whether a source has come to it, in the topic of its epoch."""
    return any(
        span.tp == one.tp and span.after < one.offset <= span.through
        and span.first <= one.epoch and (span.before is None or one.epoch < span.before)
        for span in slices(NOTHING, now)
    )  # fmt: skip


def _has_changes(schema: StructType) -> bool:
    return ENVELOPE in schema.names and isinstance(schema[ENVELOPE].dataType, StructType)


def _truncate(dead_letter: Mapping[str, Any]) -> Truncate:
    """The truncate that a dead letter records. dead_letter: with DEAD_LETTER_COLUMNS."""
    found, at = _AT.search(dead_letter["reason"]), dead_letter[KAFKA]
    told = micros_of(found[1]) if found else None
    ts = told[0] if told else _time_in(dead_letter["value"])
    return Truncate(at["topic"], at["partition"], at["epoch"] or 0, at["offset"], at["timestamp"], ts)


def _time_in(value: bytes | None) -> int | None:
    """When a truncate was made, of JSON: in reasons of earlier versions it is not told."""
    try:
        doc: Any = parsed(value or b"")
        doc = doc["payload"] if doc.keys() == PARTS else doc
        return time_of(doc, doc.get("source") or {})
    except (DeadLetter, AttributeError):
        return None
