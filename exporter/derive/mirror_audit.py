"""What proves a mirror: the newest row of each key by one query over its whole source, by windows (protocol 9.5).

Nothing here is shared with what makes a mirror: neither how the newest of two rows is told nor who writes a column.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from exporter.column.ddl import ddl_of
from exporter.column.spark_json import field_of
from exporter.derive.audited_rows import rows_through
from exporter.derive.job import AuditLine
from exporter.derive.mirror_audit_truncated import emptied_by
from exporter.derive.mirror_audit_unsent import never_sent
from exporter.derive.source import PinnedSource, readable
from exporter.errors import LogCleaned
from exporter.lake.rows import rows_of
from exporter.lake.table import DeltaTable
from exporter.settings.derive_mirror import MirrorTable
from exporter.sql_text import literals
from offsets.cursors import cursor_of, whole
from offsets.table_log import TableView

OF_A_MIRROR = ("_order", "_deleted", "_base", "_written")
SHOWN_MAX = 3
JSON_TIMES = "map('timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSSXXX')"


def audited(
    job: str, table: MirrorTable, mirror: DeltaTable, view: TableView, source: PinnedSource
) -> Sequence[AuditLine]:
    """Compare them by the rows of the source that were there at the version that the mirror says it has."""
    what = "newest row of each key"
    since = cursor_of(view.transactions, source.lake.app, job, source.name)
    if since.table_id != source.view.table_id:
        return (AuditLine(job, what, False, 0, f"table {source.name} was made anew since: run the job"),)
    try:
        taken = whole(source.table.view_at(since.version), source.lake.app)
    except LogCleaned as cleaned:
        return (AuditLine(job, what, False, 0, f"{cleaned.message}: run the job, then audit it"),)
    then = readable(source, since.version)
    emptied = emptied_by(table, view, source, taken)
    if emptied.trouble:
        return (AuditLine(job, what, False, 0, f"{emptied.trouble}: run the job, then audit it"),)
    rows = rows_through(then, taken)
    return _Audit(job, table, mirror, view, then.session, rows, emptied.younger(rows)).lines()


@dataclass(frozen=True)
class _Audit:
    """younger: the rows of the source that no truncate is newer than."""

    job: str
    table: MirrorTable
    mirror: DeltaTable
    view: TableView
    session: Any
    source: DataFrame
    younger: DataFrame

    def lines(self) -> list[AuditLine]:
        session = self.session
        rows_of(session, self.mirror, self.view.version).createOrReplaceTempView("audit_mirror")
        self.source.createOrReplaceTempView("audit_source")
        self.younger.createOrReplaceTempView("audit_younger")
        session.sql(self._expected()).createOrReplaceTempView("audit_expected")
        compared = session.sql(self._compared()).persist()
        try:
            found = {one["state"]: one["count"] for one in compared.groupBy("state").count().collect()}
            suspects = compared.where("state IN ('differs', 'alone')")
            kept, wrong = self._judged(suspects) if found.keys() & {"differs", "alone"} else (0, [])
        finally:
            compared.unpersist()
        missing = found.get("missing", 0)
        lines = [AuditLine(
            self.job, "newest row of each key", not (missing or wrong), sum(found.values()),
            "; ".join(filter(None, (f"{missing} keys are missing" if missing else "", *wrong[:SHOWN_MAX]))),
        )]  # fmt: skip
        told = (("deleted keys that are purged", found.get("purged", 0)), ("keys whose rows the source lost", kept))
        lines += [AuditLine(self.job, name, True, count) for name, count in told if count]
        if self.younger is not self.source:
            older = self.source.count() - self.younger.count()
            lines.append(AuditLine(self.job, "rows older than a truncate", True, older, "not compared"))
        left = session.sql(
            f"SELECT {self._why_not} AS why, count(*) AS n FROM audit_source WHERE NOT coalesce({self._taken}, false) "
            "GROUP BY why"
        ).collect()
        return [*lines, *(AuditLine(self.job, why, True, count, "left out") for why, count in sorted(left))]

    @property
    def _columns(self) -> list[str]:
        named = [field["name"] for field in json.loads(self.view.schema_json)["fields"]]
        return [name for name in named if name not in OF_A_MIRROR]

    @property
    def _op(self) -> str:
        return "_cdc.op" if self.table.op == "_cdc" else _ticked(self.table.op)

    def _is(self, values: Sequence[str]) -> str:
        return f"coalesce(CAST({self._op} AS STRING) IN ({literals(values)}), false)" if values else "false"

    @property
    def _taken(self) -> str:
        """Which rows of the source count."""
        keys = [f"{_ticked(key)} IS NOT NULL" for key in self.table.keys]
        if not self.table.op:
            return " AND ".join(keys)
        keys.append(self._is((*self.table.upserts, *self.table.deletes, *self.table.patches)))
        if self.table.fields:
            dotted = f"array_join({_ticked(self.table.fields)}, '') LIKE '%.%'"
            keys.append(f"NOT ({self._is(self.table.patches)} AND coalesce({dotted}, false))")
        return " AND ".join(keys)

    @property
    def _why_not(self) -> str:
        """What a row is that does not count."""
        keys = [*map(_ticked, self.table.keys)]
        unfit = "false"
        if "_rescued" in self.source.schema.names:
            kept = [f"({key} IS NULL AND {_as_sent(path)} IS NOT NULL)" for path, key in
                    zip(self.table.keys, keys, strict=True)]  # fmt: skip
            unfit = " OR ".join(kept)
        known = self._is((*self.table.upserts, *self.table.deletes, *self.table.patches)) if self.table.op else "true"
        return (
            f"CASE WHEN {unfit} THEN 'rows whose key its column cannot hold' "
            f"WHEN {' OR '.join(f'{key} IS NULL' for key in keys)} THEN 'rows with a null key' "
            f"WHEN NOT {known} THEN 'rows with an unknown op' ELSE 'patches of nested fields' END"
        )

    def _value(self, name: str, window: str) -> str:
        """A column as its newest writer left it; null where a RESTORE took it from the source."""
        if name not in self.source.schema.names:
            return f"NULL AS {_tick(name)}"
        heads = {path.split(".")[0] for path in (*self.table.keys, *self.table.order, self.table.op, self.table.fields)}
        whole = heads | {"_kafka", "_event_time", "_cdc", "_cdc_before"}
        if name in whole or not (self.table.patches or self.table.op == "_cdc"):
            return f"{_tick(name)}"
        named = f"{_tick(name)} IS NOT NULL"
        if self.table.fields:
            named = f"array_position({_ticked(self.table.fields)}, {literals([name])}) > 0"
        silent = f"{self._is(self.table.patches)} AND NOT coalesce({named}, false)"
        if self.table.op == "_cdc" and name != "_rescued" and "_rescued" in self.source.schema.names:
            never = f"coalesce(array_contains(audit_never, {literals([name])}), false)"
            silent = f"({silent}) OR ({_tick(name)} IS NULL AND {never})"
        gone = f"(audit_moved OR {self._is(self.table.deletes)})"
        value = f"named_struct('value', CASE WHEN NOT {gone} THEN {_tick(name)} END)"  # a delete leaves no value
        writer = f"CASE WHEN {gone} OR NOT ({silent}) THEN {value} END"
        return f"(first_value({writer}) IGNORE NULLS OVER ({window} {_WHOLE})).value AS {_tick(name)}"

    def _expected(self) -> str:
        deleted = f"(audit_moved OR {self._is(self.table.deletes)})" if self.table.op else "false"
        latest = [f"{_ticked(path)} DESC NULLS LAST" for path in self.table.order]
        latest += [f"_kafka.{part} DESC" for part in ("epoch", "offset", "topic", "partition")]
        window = f"PARTITION BY {', '.join(map(_ticked, self.table.keys))} ORDER BY {', '.join(latest)}"
        values = ", ".join(self._value(name, window) for name in self._columns)
        numbered = f"row_number() OVER ({window}) AS audit_number, {deleted} AS audit_deleted"
        names = ", ".join(map(_tick, self.source.schema.names))
        told = f"{names}, {self._never} AS audit_never, false AS audit_moved"
        rows = f"SELECT {told} FROM audit_younger WHERE {self._taken}"
        if self.table.op and "_cdc_before" in self.source.schema.names:
            moved = f"SELECT {names}, CAST(array() AS ARRAY<STRING>), true FROM ({self._moved})"
            rows = f"{rows} UNION ALL {moved}"
        return f"SELECT * FROM (SELECT {values}, {numbered} FROM ({rows})) WHERE audit_number = 1"

    @property
    def _moved(self) -> str:
        """Rows that had another key before, once more with that one; they take it out."""
        heads = [*dict.fromkeys(path.split(".")[0] for path in self.table.keys)]
        was = ", ".join(self._was(head) for head in heads)
        key = f"struct({', '.join(map(_ticked, self.table.keys))})"
        here = f"SELECT *, {key} AS audit_here FROM audit_younger"
        there = f"SELECT * EXCEPT ({', '.join(map(_tick, heads))}), {was} FROM ({here})"
        nulls = " OR ".join(f"{_ticked(key)} IS NULL" for key in self.table.keys)
        writes = self._is((*self.table.upserts, *self.table.patches))
        moved = f"_cdc_before IS NOT NULL AND {writes} AND audit_here <> {key}"
        return f"SELECT * FROM ({there}) WHERE {moved} AND NOT ({nulls})"

    def _was(self, head: str) -> str:
        """What a column held before."""
        kind = f"{_tick(head)} {self.source.schema[head].dataType.simpleString()}"
        told = f"array_contains(json_object_keys(_cdc_before), {literals([head])})"
        return f"IF({told}, from_json(_cdc_before, {literals([kind])}).{_tick(head)}, {_tick(head)}) AS {_tick(head)}"

    @property
    def _never(self) -> str:
        """The names of what a row says was not sent, told once a row: the SQL of it is long."""
        if self.table.op != "_cdc" or "_rescued" not in self.source.schema.names:
            return "array()"
        members = "map_entries(from_json(_rescued, 'MAP<STRING, STRING>'))"
        return f"transform(filter({members}, one -> {never_sent('one.value')}), one -> one.key)"

    def _compared(self) -> str:
        """Per key: state, and where the mirror's row says that it comes from."""
        same = " AND ".join(self._same(field) for field in json.loads(self.view.schema_json)["fields"])
        on = " AND ".join(f"e.{_ticked(key)} = m.{_ticked(key)}" for key in self.table.keys)
        written = "concat(array(m._order, m._base), map_values(m._written))"
        orders = written if "_base" in self.view.schema_json else "array(m._order)"
        keys = enumerate(map(_ticked, self.table.keys))
        key = ", ".join(f"coalesce(m.{path}, e.{path}) AS key{n}" for n, path in keys)
        return (
            f"SELECT CASE WHEN m._order IS NULL THEN CASE WHEN e.audit_deleted THEN 'purged' ELSE 'missing' END "
            f"WHEN e.audit_number IS NULL THEN 'alone' "
            f"WHEN {same} AND e.audit_deleted = m._deleted THEN 'same' ELSE 'differs' END AS state, "
            f"to_json(struct({key})) AS key, {orders} AS orders "
            f"FROM audit_expected AS e FULL OUTER JOIN audit_mirror AS m ON {on}"
        )

    def _same(self, field: dict[str, Any]) -> str:
        sides = [f"{side}.{_tick(field['name'])}" for side in "em"]
        if field["name"] in OF_A_MIRROR:
            return "true"
        same, name = " <=> ".join(_equal(field, side) for side in sides), field["name"]
        if "_rescued" not in self._columns or name.startswith("_"):
            return f"({same} OR {self._rest_is_same})" if name == "_rescued" else same
        return f"({same} OR (m.{_tick(name)} IS NULL AND {_filled_later(field)} <=> {_equal(field, sides[0])}))"

    @property
    def _rest_is_same(self) -> str:
        """Whether the mirror's `_rescued` has what the source's has, and beside it what columns have there by now."""
        mine, theirs = (f"coalesce(from_json({side}._rescued, 'MAP<STRING, STRING>'), map())" for side in "me")
        moved = f"array_contains(array({literals(self._columns)}), one.key)"
        return (
            f"(forall(map_entries({mine}), one -> {theirs}[one.key] <=> one.value OR {moved}) "
            f"AND forall(map_keys({theirs}), one -> map_contains_key({mine}, one)))"
        )

    def _judged(self, suspects: DataFrame) -> tuple[int, list[str]]:
        """How many of these keys come from rows that the source does not have any more; and the others, as text."""
        suspects.createOrReplaceTempView("audit_suspects")
        found = self.session.sql(
            "SELECT s.key, bool_or(s.row IS NOT NULL AND r.offset IS NULL) AS gone "
            "FROM (SELECT key, explode_outer(orders) AS row FROM audit_suspects) AS s "
            "LEFT JOIN (SELECT _kafka.* FROM audit_source) AS r ON r.topic = s.row.topic "
            "AND r.partition = s.row.partition AND r.epoch = s.row.epoch AND r.offset = s.row.offset "
            "GROUP BY s.key"
        ).collect()
        wrong = [f"{key} differs" for key, gone in sorted(found) if not gone]
        return len(found) - len(wrong), wrong


_WHOLE = "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"


def _filled_later(field: dict[str, Any]) -> str:
    """SQL: what a mirror's `_rescued` has for a column that was filled in the source since (protocol 4.15)."""
    (column,) = ddl_of([field_of(field)])
    return _equal(field, f"from_json(m._rescued, {literals([column])}).{_tick(field['name'])}")


def _equal(field: dict[str, Any], value: str) -> str:
    """SQL: what tells two values of a column apart. Maps have no order, so no equality either."""
    is_map = '"map"' in json.dumps(field["type"])
    return f"to_json(struct({value} AS value), {JSON_TIMES})" if is_map else value


def _as_sent(path: str) -> str:
    """SQL: what stands at a dotted path of `_rescued`."""
    *outer, last = [f"`{part}`" for part in path.split(".")]
    kind = "".join(f"STRUCT<{part}: " for part in outer) + f"STRUCT<{last}: STRING>" + ">" * len(outer)
    return f"from_json(_rescued, {literals([kind])}).{_ticked(path)}"


def _tick(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _ticked(path: str) -> str:
    return ".".join(f"`{part}`" for part in path.split("."))
