"""From rows of a source to rows of a mirror: one per key, as SQL texts and as a DataFrame (protocol 9.5).

    rows ── left out: keys that are null, unknown ops  ── of one key ──> its columns, each as its newest writer left it
         └─ order, op, names not sent: what each does to its key

`_order` is that of the newest row, `_deleted` what that one did. Where rows need not write all columns (patches, values
that Debezium did not send) each column has an order of its own: that in `_written`, or else `_base`, the order of the
newest row that was whole. Both forms merge to the same whatever comes first, and however often. A name that rows speak
of and that is no column yet has its order in `_written` too (WROTE): it may be one tomorrow.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import MapType, StringType, StructType

from exporter.column.spark_json import struct_of, text_of
from exporter.column.types import JSON, ScalarType, all_nullable
from exporter.core.record_columns import BEFORE
from exporter.derive.mirror_unsent import is_unsent
from exporter.errors import ConfigError
from exporter.settings.derive_mirror import MirrorTable
from exporter.sql_text import column, literal, quoted

ORDER, DELETED, BASE, WRITTEN = "_order", "_deleted", "_base", "_written"
OP, SILENT, WHY = "_mirror_op", "_mirror_silent", "_mirror_why"
OWN = frozenset({ORDER, DELETED, BASE, WRITTEN, OP, SILENT, WHY})
OF_THE_ROW = frozenset({"_kafka", "_event_time", "_cdc", BEFORE})
"""Columns that say something of the newest row itself: no row lets them be."""
RESCUED = "_rescued"
ENVELOPE = "_cdc"
NO_NAMES = "CAST(array() AS ARRAY<STRING>)"
POSITION = ("epoch", "offset", "topic", "partition")
"""Of `_kafka`, at the end of each order: in a partition the newest is last, and no two rows are equal."""


@dataclass(frozen=True)
class MirrorCounts:
    """What rows of a source are. left: why -> how many are in no mirror. speaks: of names that are no columns.

    bounds: the least and the greatest value of the first part of a key; null where they were not looked for.
    """

    rows: int
    left: Mapping[str, int]
    speaks: bool
    bounds: tuple[Any, Any] = (None, None)


@dataclass(frozen=True)
class MirrorShape:
    """How rows of one source become rows of a mirror. columns: of both, those with keys first."""

    table: MirrorTable
    columns: tuple[str, ...]

    @classmethod
    def of(cls, job: str, table: MirrorTable, schema: StructType, cut_by: Iterable[str]) -> MirrorShape:
        """schema: of the source. cut_by: its columns that are there for its partitions alone. Raises ConfigError."""
        _require(job, table, schema)
        names = [name for name in schema.names if name not in {*cut_by}]
        heads = [path.split(".")[0] for path in table.keys]
        return cls(table, (*dict.fromkeys(heads), *(name for name in names if name not in heads)))

    @property
    def op_path(self) -> str:
        return f"{ENVELOPE}.op" if self.table.op == ENVELOPE else self.table.op

    @cached_property
    def own_writers(self) -> tuple[str, ...]:
        """The columns that have an order of their own; none where each row writes all."""
        if not self.table.patches and self.table.op != ENVELOPE:
            return ()
        paths = (*self.table.keys, *self.table.order, self.table.op, self.table.fields)
        whole = {path.split(".")[0] for path in paths} | OF_THE_ROW
        return tuple(name for name in self.columns if name not in whole)

    @property
    def by(self) -> list[str]:
        """What keyed() calls the parts of a key."""
        return [f"_key{n}" for n in range(len(self.table.keys))]

    @property
    def of_the_newest(self) -> tuple[str, ...]:
        """The other columns."""
        return tuple(name for name in self.columns if name not in self.own_writers)

    @property
    def order(self) -> str:
        """SQL: the order of a row. Of two rows of a key the greater one is the newer."""
        own = [f"'o{n}', {quoted(path)}" for n, path in enumerate(self.table.order)]
        last = [f"'{part}', _kafka.{part}" for part in POSITION]
        return f"named_struct({', '.join([*own, *last])})"

    @property
    def op(self) -> str:
        """SQL: upsert, delete or patch; null for a value of which nothing is said."""
        if not self.table.op:
            return "'upsert'"
        kinds = (("upsert", self.table.upserts), ("delete", self.table.deletes), ("patch", self.table.patches))
        given = f"CAST({quoted(self.op_path)} AS STRING)"
        named = [(kind, ", ".join(map(literal, values))) for kind, values in kinds if values]
        whens = [f"WHEN {given} IN ({values}) THEN '{kind}'" for kind, values in named]
        return f"CASE {' '.join(whens)} END"

    @property
    def left_out(self) -> str:
        """SQL: why a row is in no mirror; null if it is."""
        nulls = " OR ".join(f"{quoted(key)} IS NULL" for key in self.table.keys)
        whens = [f"WHEN {nulls} THEN 'null key'"]
        if RESCUED in self.columns:
            unfit = " OR ".join(f"({quoted(key)} IS NULL AND {_rescued(key)} IS NOT NULL)" for key in self.table.keys)
            whens.insert(0, f"WHEN {unfit} THEN 'key that its column cannot hold'")
        if self.table.op:
            whens.append(f"WHEN {self.op} IS NULL THEN 'unknown op'")
        if self.table.fields:
            nested = f"exists({quoted(self.table.fields)}, name -> instr(name, '.') > 0)"
            whens.append(f"WHEN {self.op} = 'patch' AND {nested} THEN 'patch of a nested field'")
        return f"CASE {' '.join(whens)} END"

    @property
    def silent(self) -> str:
        """SQL: the names, columns or not, of which a row says that they were not sent."""
        if self.table.op != ENVELOPE or RESCUED not in self.columns:
            return NO_NAMES
        kept = f"from_json({RESCUED}, 'MAP<STRING, STRING>')"
        return f"coalesce(map_keys(map_filter({kept}, (name, sent) -> {is_unsent('sent')})), {NO_NAMES})"

    @property
    def spoken_of(self) -> str:
        """SQL over a row, its op and its silent names: names that are no columns, and that it did not or did write."""
        listed = f"coalesce({quoted(self.table.fields)}, {NO_NAMES})" if self.table.fields else NO_NAMES
        named = f"CASE {OP} WHEN 'delete' THEN {NO_NAMES} WHEN 'patch' THEN {listed} ELSE {SILENT} END"
        columns = f"array({', '.join(map(literal, self.columns))})"
        return f"filter({named}, name -> name IS NOT NULL AND NOT array_contains({columns}, name))"

    def writes(self, name: str, here: str) -> str:
        """SQL over a row, its op and its silent names: whether it writes a column. name, here: its name and value."""
        if self.table.fields:
            named = f"coalesce(array_contains({quoted(self.table.fields)}, {name}), false)"
        else:
            named = f"{here} IS NOT NULL"
        sent = f"NOT ({here} IS NULL AND array_contains({SILENT}, {name}))"
        return f"{OP} = 'delete' OR (({OP} <> 'patch' OR {named}) AND {sent})"

    def grouped(self, rows: DataFrame) -> DataFrame:
        """All that rows say, in one pass: a row per key, and one per reason why rows are in no mirror.

        _mirror_why: null of keys. _rows, _speaks: as counted() tells. _key<n>: of keys alone. The rest: for newest().
        """
        by = [sf.expr(f"CASE WHEN {WHY} IS NULL THEN {quoted(key)} END").alias(f"_key{n}")
              for n, key in enumerate(self.table.keys)]  # fmt: skip
        last = ", ".join((*map(column, self.of_the_newest), ORDER, f"{OP} = 'delete' AS {DELETED}"))
        found = [sf.expr(f"max_by(struct({last}), {ORDER})").alias("_newest"), sf.sum("_one").alias("_rows")]
        found.append(sf.expr(f"bool_or({self._speaks})").alias("_speaks"))
        own = self.own_writers
        for n, name in enumerate(own):
            writes = f"FILTER (WHERE {self.writes(literal(name), column(name))})"
            value = f"CASE WHEN {OP} <> 'delete' THEN {column(name)} END"
            found.append(sf.expr(f"max_by({value}, {ORDER}) {writes}").alias(f"_value{n}"))
            found.append(sf.expr(f"max({ORDER}) {writes}").alias(f"_order{n}"))
        if own:
            found.append(sf.expr(f"max({ORDER}) FILTER (WHERE {OP} <> 'patch')").alias(BASE))
        return self._marked(rows).groupBy(WHY, *by).agg(*found)

    def newest(self, groups: DataFrame, speaking: DataFrame | None = None) -> DataFrame:
        """One row per key, as a mirror has it. groups: grouped(). speaking: their rows, if they speak of names that
        are no columns."""
        made, own = groups.where(f"{WHY} IS NULL"), self.own_writers
        values = {name: f"_value{n} AS {column(name)}" for n, name in enumerate(own)}
        shown = [values.get(name, f"_newest.{column(name)}") for name in self.columns]
        shown += [f"_newest.{ORDER}", f"_newest.{DELETED}"]
        if own:
            orders = f"map({', '.join(f'{literal(name)}, _order{n}' for n, name in enumerate(own))})"
            if speaking is not None:
                made = made.join(self._others(speaking), self.by, "left")
                orders = f"coalesce(map_concat({orders}, _others), {orders})"
            shown += [BASE, f"{deviating(orders, BASE)} AS {WRITTEN}"]
        return made.selectExpr(*shown)

    def _marked(self, rows: DataFrame) -> DataFrame:
        """Rows with their order, what they do, what they did not send, and why they are in no mirror. _one: 1, and 0 of
        those that are in it once more, as deletes of former keys."""
        told = ((self.order, ORDER), (self.op, OP), (self.silent, SILENT), (self.left_out, WHY), ("1", "_one"))
        names = [*map(column, self.columns)]
        marked = rows.selectExpr(*names, *(f"{sql} AS {name}" for sql, name in told))
        if BEFORE not in self.columns or not self.table.op:
            return marked
        does = (f"'delete' AS {OP}", f"{NO_NAMES} AS {SILENT}", f"CAST(NULL AS STRING) AS {WHY}", "0 AS _one")
        moved = _moved_away(rows, self.table.keys, self.order, self.op)
        return marked.unionByName(moved.selectExpr(*names, ORDER, *does))

    def _others(self, rows: DataFrame) -> DataFrame:
        """Key -> `_others`, the orders of names that are no columns, for keys whose rows speak of any."""
        wanted = self._marked(rows).where(f"{WHY} IS NULL")
        by, keys = keyed(self.table.keys), self.by
        names = wanted.select(*by, sf.explode(sf.expr(self.spoken_of)).alias("_name")).distinct()
        writes = f"FILTER (WHERE {self.writes('_name', 'CAST(NULL AS STRING)')})"
        of_each = names.join(wanted.select("*", *by), keys).groupBy(*keys, "_name")
        orders = of_each.agg(sf.expr(f"max({ORDER}) {writes}").alias("_at"))
        return orders.groupBy(*keys).agg(sf.expr("map_from_entries(collect_list(struct(_name, _at)))").alias("_others"))

    @property
    def _speaks(self) -> str:
        return f"size({self.spoken_of}) > 0" if self.own_writers else "false"

    def counted(self, rows: DataFrame) -> MirrorCounts:
        """How many rows there are, and why how many of them are left out; without bounds."""
        told = self._marked(rows).selectExpr(WHY, "_one AS _rows", f"{self._speaks} AS _speaks", "NULL AS _key0")
        return counted(told)


def keyed(keys: Sequence[str]) -> list[Column]:
    """The parts of a row's key as columns `_key<n>`. keys: paths."""
    return [sf.expr(quoted(key)).alias(f"_key{n}") for n, key in enumerate(keys)]


def _moved_away(rows: DataFrame, keys: Sequence[str], order: str, op: str) -> DataFrame:
    """Updates that change a key: once more, as deletes of the key that they had before (protocol 9.5, MOVED).

        {id: 7, _cdc_before: {"id": 6}} ── upsert of 7, by its own order
                                        └─ delete of 6, by the same

    Of rows of a source those that tell of a former key, with that key instead of theirs, and their order as `_order`.
    keys: paths. order, op: SQL over a row. Delta reads no file that has no such row.
    """
    heads = [*dict.fromkeys(path.split(".")[0] for path in keys)]
    former = sf.from_json(BEFORE, StructType([rows.schema[head] for head in heads]))
    told = sf.from_json(BEFORE, MapType(StringType(), StringType()))
    has_one = sf.col(BEFORE).isNotNull() & sf.expr(op).isin("upsert", "patch")
    replaced = rows.where(has_one).select("*", sf.expr(order).alias(ORDER), *keyed(keys)).withColumns({
        head: sf.when(sf.map_contains_key(told, sf.lit(head)), former[head]).otherwise(sf.col(column(head)))
        for head in heads
    })  # fmt: skip
    moved = sf.lit(False)
    for n, key in enumerate(keys):
        replaced = replaced.where(sf.expr(quoted(key)).isNotNull())
        moved |= sf.expr(quoted(key)) != sf.col(f"_key{n}")
    return replaced.where(sf.coalesce(moved, sf.lit(True)))


def counted(groups: DataFrame) -> MirrorCounts:
    """The same of what MirrorShape.grouped() made, with bounds."""
    told = groups.groupBy(WHY).agg(
        sf.sum("_rows").alias("rows"), sf.bool_or("_speaks").alias("speaks"),
        sf.min("_key0").alias("least"), sf.max("_key0").alias("most"),
    ).collect()  # fmt: skip
    left = {one[WHY]: one["rows"] for one in told if one[WHY]}
    bounds = next(((one["least"], one["most"]) for one in told if not one[WHY]), (None, None))
    return MirrorCounts(sum(one["rows"] for one in told), left, any(one["speaks"] for one in told), bounds)


RULES = "2"
"""Which rows write which columns (protocol 9.5, WROTE), as tables say by which rules their rows were made."""


def fingerprint(table: MirrorTable) -> str:
    """Of what the rows of a mirror depend on: with another one it has to begin anew."""
    apart = {"kind", "deleted_days", "deletion_vectors", *(["truncates"] if table.truncates != "ignore" else ())}
    told = table.model_dump(exclude=apart)
    return json.dumps(told, sort_keys=True, separators=(",", ":"))


def _rescued(path: str) -> str:
    """SQL: what `_rescued` has at a dotted path; null if nothing."""
    value = RESCUED
    for part in path.split("."):
        value = f"from_json({value}, 'MAP<STRING, STRING>')[{literal(part)}]"
    return value


def deviating(orders: str, base: str) -> str:
    """SQL: name -> its order, where that is not `base`; null of one that was never written. orders: SQL of a map."""
    return f"map_filter({orders}, (name, at) -> NOT (at <=> {base}))"


def schema_of(rows: DataFrame) -> str:
    """Spark schema JSON of a table for such rows: all may be null, and nothing is said of a column but its type."""
    return text_of(_bare(struct_of(rows.schema.json())))


_bare = replace(
    all_nullable,
    scalar=lambda one: ScalarType("string") if one == JSON else one,
    struct=lambda of, parts: all_nullable.struct(of, [(replace(one, metadata={}), kind) for one, kind in parts]),
)


def _require(job: str, table: MirrorTable, schema: StructType) -> None:
    """Raises ConfigError for what the source does not have, or what is no key or order."""
    op = f"{ENVELOPE}.op" if table.op == ENVELOPE else table.op
    for what, paths in (("keys", table.keys), ("order", table.order), ("op", (op,)), ("fields", (table.fields,))):
        for path in filter(None, paths):
            kind = _type_at(schema, path)
            if kind is None:
                hint = f"it has {', '.join(schema.names)}"
                raise ConfigError(f"[derive.{job}] {what}: table {table.source} has no column {path}", hint)
            if isinstance(kind, MapType) or (what == "fields" and kind.simpleString() != "array<string>"):
                hint = "fields is an ARRAY<STRING>, keys and order are anything but a MAP"
                raise ConfigError(f"[derive.{job}] {what}: column {path} is {kind.simpleString()}", hint)
    if taken := sorted(OWN & {name.lower() for name in schema.names}):
        what = f"[derive.{job}] table {table.source} has a column {taken[0]}, which a mirror has for itself"
        raise ConfigError(what, "export the field by another name")


def _type_at(schema: StructType, path: str) -> Any:
    kind: Any = schema
    for part in path.split("."):
        if not isinstance(kind, StructType) or part not in kind.names:
            return None
        kind = kind[part].dataType
    return kind
