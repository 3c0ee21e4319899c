"""Rows of which a DuckDB is sure that they are what was sent: the many of a large topic, without an object for each.

    values as text ── yyjson ── the columns of a table as JSON has them ─┐
                                                                         ├─ equal, and nothing else in the value: right
    rows, as pyarrow reads them ─────────────────────────────────────────┘

Of plain JSON alone. What it does not call right is no finding: it is looked at once more, by compare.py. So each
comparison here may be narrower than the rules of a type, and none may be wider. Knows no driver.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from exporter.core.columns import EVENT_TIME, EVOLVED, JSON_TEXT, NO_COLUMNS
from exporter.core.routing import Routing
from exporter.operate.audit.opinion import IN_VALUES, declares_event_time, is_plain, type_beside
from exporter.operate.audit.records import WHOLE_BYTES_MAX, AuditedRecord
from exporter.operate.audit.rows import AuditedTable, Indices, TableRows
from exporter.proof.rules.expressions import engine
from exporter.proof.rules.filters import has_filters
from exporter.proof.rules.routes import has_routes
from exporter.proof.rules.values import DECIMAL, INTEGERS, quoted, sql_of

NOT_JSON = r",\s*[}\]]"
"""A comma behind the last member, which the engine takes, and JSON does not have; or a text that looks so."""
ISO = r'"\d{4}-\d\d-\d\dT([01]\d|2[0-3]):\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)"'
"""A time as nearly all write it."""
EXACT = 2**53
DIGITS = 15
"""Of decimals that a double tells apart: the engine has a number of a value as one, and tells what it is."""
FEW_DIGITS = """NOT regexp_matches(regexp_replace(v, '"([^"\\\\]|\\\\.)*"', '', 'g'), '[0-9.]{17}|[0-9.][eE]')"""
"""No number of a value has more of them, or an exponent; what stands in its texts is left out."""
_WORD = re.compile(r"\w+", re.ASCII)
_UNITS = {"s": "* 1000000", "ms": "* 1000", "us": "* 1", "ns": "// 1000"}
_SENT = pa.schema([("n", pa.int64()), ("us", pa.int64()), ("name", pa.string()), ("v", pa.string())])

Fields: TypeAlias = "Mapping[str, Mapping[str, Any]]"
"""Of a Spark schema, by name."""


class Unplain(Exception):
    """A table, or a column, of which nothing is said here."""


class Plain:
    """The rows of one configuration that are surely right."""

    def __init__(self, routing: Routing, tables: Sequence[AuditedTable]) -> None:
        self._routing = routing
        self._topics: dict[str, bool] = {}
        self._errors: Any = ()
        self._queries: dict[str, tuple[str, dict[str, Any]]] = {}
        self._keys: dict[int, str] = {}
        try:
            import duckdb
        except ImportError:  # there is none for the oldest Python: each row is looked at
            return
        self._errors = duckdb.Error
        if has_routes(routing) or has_filters(routing) or routing.constants or routing.shapes:
            return
        for table in tables:
            try:
                query = _query(routing, table)
            except Unplain:
                continue
            self._keys[table.code] = json.dumps([*query, f"{table.schema}"])
            self._queries[self._keys[table.code]] = query

    def right(self, records: Sequence[AuditedRecord], held: Iterable[tuple[TableRows, Indices, Indices]]) -> set[int]:
        """Which of some records stand rightly in a table. held: rows, and for each the number of its record."""
        some = [one for one in held if one[0].table.code in self._keys]
        if not some:
            return set()
        connection, found = engine(), set[int]()
        connection.register("sent", self._sent(records))
        valid = self._valid(connection)
        connection.unregister("sent")
        place = np.full(len(records), -1)
        place[valid.column("n").to_numpy()] = np.arange(valid.num_rows)
        alike: dict[str, list[pa.Table]] = {}
        for one, numbers, places in some:
            found_at = place[places]
            rows = one.arrow(np.asarray(numbers)[found_at >= 0])
            sent = valid.take(pa.array(found_at[found_at >= 0], pa.int64()))
            name = pa.repeat(one.table.name, rows.num_rows)
            pairs = pa.table([*rows.columns, *sent.columns, name], [*rows.column_names, *sent.column_names, "name"])
            alike.setdefault(self._keys[one.table.code], []).append(pairs)
        for key, parts in alike.items():  # of the same columns at once: a plan costs more than thousands of rows
            connection.register("pairs", pa.concat_tables(parts))
            try:
                found.update(at for (at,) in connection.execute(*self._queries[key]).fetchall())
            except self._errors:  # it has no opinion: each row is looked at
                continue
            finally:
                connection.unregister("pairs")
        return found

    def _sent(self, records: Sequence[AuditedRecord]) -> pa.Table:
        """Those that are plain JSON, their values as text."""
        some = [at for at, one in enumerate(records) if self._is_asked(one)]
        try:
            values = pa.array([records[at].value for at in some], pa.binary()).cast(pa.string())
        except pa.ArrowInvalid:  # one is no text
            some = [at for at in some if _is_text(records[at].value or b"")]
            values = pa.array([records[at].value for at in some], pa.binary()).cast(pa.string())
        source = self._routing.type_from
        beside = source.kind not in IN_VALUES
        names = [type_beside(source, records[at]) for at in some] if beside else [None] * len(some)
        parts = [some, [records[at].micros for at in some], names, values]
        return pa.table([pa.array(part, kind) for part, kind in zip(parts, _SENT.types, strict=True)], schema=_SENT)

    def _is_asked(self, one: AuditedRecord) -> bool:
        """Others are looked at elsewhere."""
        routing, topic = self._routing, one.tp.topic
        if one.value is None or one.micros is None or one.size > min(WHOLE_BYTES_MAX, routing.record_bytes_max):
            return False
        if topic not in self._topics:
            self._topics[topic] = is_plain(routing.format_of(topic))
        return self._topics[topic]

    def _valid(self, connection: Any) -> pa.Table:
        """The values that are objects, with the event type that each says."""
        inside = self._routing.type_from.kind == "json"
        said = "CASE WHEN json_type(v, $path) = 'VARCHAR' THEN json_extract_string(v, $path) END" if inside else "name"
        given = {"path": _path([self._routing.type_from.name])} if inside else {}
        whole = f"json_valid(v) AND NOT regexp_matches(v, '{NOT_JSON}')"
        where = f"CASE WHEN {whole} THEN json_type(v) = 'OBJECT' END"
        query = f"SELECT n, us, v, {said} AS said FROM sent WHERE {where}"
        return connection.sql(query, params=given or None).to_arrow_table()


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _query(routing: Routing, table: AuditedTable) -> tuple[str, dict[str, Any]]:
    """What gives the records of the right rows of a table, by number, and its parameters. Raises Unplain.

    Of rows beside what was sent: c0, c1, ... as the table's schema has them; n, us, v and said; name, of the table.
    """
    if table.is_dead_letters or table.record or not table.has_time or set(table.cut_by) - {"day"}:
        raise Unplain
    is_new = routing.is_new(table.name)
    declared_json = NO_COLUMNS if is_new else dict(routing.types).get(table.name)
    if declared_json is None or declares_event_time(declared_json):
        raise Unplain
    asked, own = PlainAsked(), {name: f"c{at}" for at, name in enumerate(table.schema.names)}
    stored = {one["name"]: one for one in json.loads(table.schema_json)["fields"]}
    declared = {one["name"]: one for one in json.loads(declared_json)["fields"]}
    conditions = asked.columns(declared, stored, [], own.__getitem__)
    members = [name for name in stored if name in declared or _is_evolved(stored[name])]
    excused = [name for name in _excused(routing) if name not in members]
    members += [] if is_new else excused  # of a type that nobody declared everything is kept
    conditions += [
        f"len(json_keys(v)) = {asked.count([[name] for name in members])}",
        f"{own['_rescued']} IS NULL" if "_rescued" in own else "true",
        f"epoch_us({own['_kafka']}.timestamp) = us",
        f"epoch_us({own[EVENT_TIME]}) = {_time(routing, asked)}",
        f"{own['day']} = CAST({own[EVENT_TIME]} AS DATE)" if "day" in own else "true",
    ]
    given: dict[str, Any] = {"paths": asked.paths, **asked.given}
    rows = "SELECT *, json_extract(v, $paths) AS j FROM pairs WHERE said = name"
    return f"SELECT n FROM ({rows}) WHERE " + " AND ".join(f"({one})" for one in conditions), given


def _excused(routing: Routing) -> Iterator[str]:
    """The fields of a value that say its event type and its event time, and may stand in no column. Raises Unplain."""
    names = [routing.type_from.name] if routing.type_from.kind == "json" else []
    names += [routing.event_time.path] if routing.event_time.kind == "json" else []
    if any("." in name for name in names) or routing.type_from.kind not in ("json", "topic", "key", "header"):
        raise Unplain
    yield from names


def _time(routing: Routing, asked: PlainAsked) -> str:
    """SQL for the event time, in microseconds since 1970."""
    source = routing.event_time
    if source.kind == "record":
        return "us"
    raw = asked.raw([source.path])
    if source.unit == "iso":
        return _instant(raw)
    number = f"CASE WHEN regexp_full_match({raw}, '[1-9][0-9]{{0,18}}') THEN TRY_CAST({raw} AS BIGINT) END"
    return f"({number}) {_UNITS[source.unit]}"


def _instant(raw: str) -> str:
    cut = f"TRY_CAST({raw}[2:-2] AS TIMESTAMPTZ)"
    return f"CASE WHEN regexp_full_match({raw}, '{ISO}') THEN epoch_us({cut}) END"


class PlainAsked:
    """What is asked of values, and the parameters of it: no name becomes a part of SQL."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.given: dict[str, str] = {}

    def raw(self, names: Sequence[str]) -> str:
        """What stands at a path of the value, as JSON; null where nothing does."""
        path = _path(names)
        if path not in self.paths:
            self.paths.append(path)
        return f"(j[{self.paths.index(path) + 1}]::VARCHAR)"

    def count(self, members: Iterable[Sequence[str]]) -> str:
        """How many of some members there are."""
        return " + ".join(f"({self.raw(one)} IS NOT NULL)::INT" for one in members) or "0"

    def columns(self, declared: Fields, stored: Fields, at: Sequence[str], column: Callable[[str], str]) -> list[str]:
        """What must hold of the columns of a table, or the fields of a struct. Raises Unplain."""
        evolved = {name: one for name, one in stored.items() if _is_evolved(one) and name not in declared}
        for name, one in declared.items():
            if name not in stored or _bare(one["type"]) != _bare(stored[name]["type"]):
                raise Unplain
        some = {**declared, **evolved}
        if any(JSON_TEXT in (one.get("metadata") or {}) for one in some.values()):
            raise Unplain
        return [self._holds(one["type"], [*at, name], column(name), name in evolved) for name, one in some.items()]

    def _holds(self, kind: Any, at: Sequence[str], column: str, evolved: bool) -> str:
        raw = self.raw(at)
        if isinstance(kind, str) or kind["type"] != "struct":
            scale = DECIMAL.fullmatch(kind) if isinstance(kind, str) else None
            by_name = scale is not None and self._decimal(column, raw, at[-1], int(scale[2]))
            same = by_name or _same(kind, column, raw, evolved)
        elif evolved:
            raise Unplain
        else:
            fields = {one["name"]: one for one in kind["fields"]}
            name = f"p{len(self.given)}"
            self.given[name] = _path(at)
            keys = f"len(json_keys(v, ${name}))"
            inner = self.columns(fields, fields, at, lambda name: f"{column}.{quoted(name)}")
            some = [f"left({raw}, 1) = '{{'", f"{keys} = {self.count([[*at, one] for one in fields])}"]
            same = " AND ".join(f"({one})" for one in [*some, *inner])
        nothing = f"{raw} IS NULL OR {raw} = 'null'"
        return f"CASE WHEN {column} IS NULL THEN {nothing} ELSE coalesce({same}, false) END"

    def _decimal(self, column: str, raw: str, name: str, scale: int) -> str:
        """A number, as it stands in the value and not as a double has it, or a text that is one. Raises Unplain."""
        if not _WORD.fullmatch(name):
            raise Unplain
        pattern = f"p{len(self.given)}"
        self.given[pattern] = f'"{name}"\\s*:\\s*(-?[0-9][0-9.eE+-]*)'
        written = f"regexp_extract_all(v, ${pattern}, 1)"  # under this name, wherever it stands
        text = f"CASE WHEN left({raw}, 1) = '\"' THEN {raw}[2:-2] WHEN len({written}) = 1 THEN {written}[1] END"
        fits = f"regexp_full_match({text}, '-?[0-9]+([.][0-9]{{1,{max(scale, 1)}}})?')"
        number = f"regexp_matches({raw}, '^[-0-9\"]')"
        return f"{number} AND {fits} AND TRY_CAST({text} AS DECIMAL(38, {max(scale, 1)})) = {column}"


def _is_evolved(field: Mapping[str, Any]) -> bool:
    return EVOLVED in (field.get("metadata") or {})


def _same(kind: Any, column: str, raw: str, evolved: bool) -> str:
    """Whether a column that is not null is what stands in the value. Raises Unplain."""
    text = f"to_json({column})::VARCHAR"
    if not isinstance(kind, str):
        if kind["type"] == "struct" or not _is_exact(kind):
            raise Unplain
        if (near := _with_doubles(kind)) != kind:
            text = f"to_json(CAST({column} AS {sql_of(near)}))::VARCHAR AND {FEW_DIGITS}"
        return f"{raw} = {text} AND NOT regexp_matches({raw}, 'NaN|Inf')"  # which the engine takes for numbers
    if kind in INTEGERS or kind == "boolean":
        return f"{raw} = CAST({column} AS VARCHAR)"
    if kind == "string":
        return f"{raw} = {text}"
    if kind in ("double", "float"):
        number = f"TRY_CAST({raw} AS DOUBLE)"
        number = f"TRY_CAST({number} AS FLOAT)" if kind == "float" else number
        exact = f" AND (abs({column}) < {EXACT} OR regexp_matches({raw}, '[.eE]'))" if evolved else ""
        return f"regexp_matches({raw}, '^-?[0-9]') AND {number} = {column}{exact}"
    if kind == "timestamp":
        return f"{_instant(raw)} = epoch_us({column})"
    if kind == "date":
        return f"{raw} = '\"' || CAST({column} AS VARCHAR) || '\"' AND year({column}) BETWEEN 1 AND 9999"
    if kind == "binary":
        return f"{raw} = '\"' || to_base64({column}) || '\"'"
    raise Unplain


def _is_exact(kind: Any) -> bool:
    """Whether a value of JSON is what a column holds if both are written the same."""
    if isinstance(kind, str):
        scale = DECIMAL.fullmatch(kind)
        return kind in ("string", "boolean", "double", "float") or kind in INTEGERS or _is_near(scale)
    if kind["type"] in ("array", "map"):
        return _is_exact(kind["elementType" if kind["type"] == "array" else "valueType"])
    return all(_is_exact(one["type"]) and not one.get("metadata") for one in kind["fields"])


def _is_near(decimal: re.Match[str] | None) -> bool:
    """Whether no two numbers of a type of decimals have one double."""
    return decimal is not None and int(decimal[1]) <= DIGITS


def _with_doubles(kind: Any) -> Any:
    """A Spark type with doubles for its decimals."""
    if isinstance(kind, dict):
        return {key: one if key in ("name", "metadata") else _with_doubles(one) for key, one in kind.items()}
    if isinstance(kind, list):
        return [_with_doubles(one) for one in kind]
    return "double" if isinstance(kind, str) and DECIMAL.fullmatch(kind) else kind


def _bare(kind: Any) -> Any:
    """A Spark type without what does not change its values: nullability and comments."""
    if isinstance(kind, dict):
        dropped = {"nullable", "containsNull", "valueContainsNull"}
        return {key: _bare(value) for key, value in kind.items() if key not in dropped}
    return [_bare(item) for item in kind] if isinstance(kind, list) else kind


def _path(names: Sequence[str]) -> str:
    """A path of JSON. Raises Unplain for names that it would have to escape."""
    if any({*name} & {'"', "\\", "*"} or not name for name in names):
        raise Unplain
    return "$" + "".join(f'."{name}"' for name in names)
