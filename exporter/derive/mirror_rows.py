"""From rows of a source to rows of a mirror: one per key, as SQL texts and as a DataFrame (protocol 9.5).

    rows ── left out: null keys, unknown ops       ── of one key ──> its columns, each as its newest writer left it
         └─ order, op: what each does to its key

`_order` is that of the newest row, `_deleted` what that one did. Where rows need not write all columns (patches, values
that Debezium did not send) each column has an order of its own: that in `_written`, or else `_base`, the order of the
newest row that was whole. Both forms merge to the same whatever comes first, and however often.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import MapType, StructType

from exporter.core.columns import all_nullable
from exporter.errors import ConfigError
from exporter.settings.derive_mirror import MirrorTable
from exporter.sql_text import column, literal, quoted

ORDER, DELETED, BASE, WRITTEN = "_order", "_deleted", "_base", "_written"
OP = "_mirror_op"
OWN = frozenset({ORDER, DELETED, BASE, WRITTEN, OP})
OF_THE_ROW = frozenset({"_kafka", "_event_time", "_cdc"})
"""Columns that say something of the newest row itself: no row lets them be."""
RESCUED = "_rescued"
ENVELOPE = "_cdc"
PLACEHOLDERS = ("__debezium_unavailable_value", "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==")
"""What Debezium sends in place of a large value that did not change; as text, and in base64."""
POSITION = ("epoch", "offset", "topic", "partition")
"""Of `_kafka`, at the end of each order: in a partition the newest is last, and no two rows are equal."""


@dataclass(frozen=True)
class Shape:
    """How rows of one source become rows of a mirror. columns: of both, those with keys first."""

    table: MirrorTable
    columns: tuple[str, ...]

    @classmethod
    def of(cls, job: str, table: MirrorTable, schema: StructType, cut_by: Iterable[str]) -> Shape:
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
        whens = [f"WHEN {' OR '.join(f'{quoted(key)} IS NULL' for key in self.table.keys)} THEN 'null key'"]
        if self.table.op:
            whens.append(f"WHEN {self.op} IS NULL THEN 'unknown op'")
        if self.table.fields:
            nested = f"exists({quoted(self.table.fields)}, name -> instr(name, '.') > 0)"
            whens.append(f"WHEN {self.op} = 'patch' AND {nested} THEN 'patch of a nested field'")
        return f"CASE {' '.join(whens)} END"

    def writes(self, name: str) -> str:
        """SQL over a row and its op: whether it writes a column that has an order of its own."""
        here = column(name)
        if self.table.fields:
            named = f"coalesce(array_contains({quoted(self.table.fields)}, {literal(name)}), false)"
        else:
            named = f"{here} IS NOT NULL"
        sent = "true"
        if self.table.op == ENVELOPE and RESCUED in self.columns and name != RESCUED:
            path = literal(f"$['{name}']")
            kept = f"get_json_object({RESCUED}, {path})"
            held = " OR ".join(f"coalesce(instr({kept}, {literal(text)}), 0) > 0" for text in PLACEHOLDERS)
            sent = f"NOT ({here} IS NULL AND {RESCUED} IS NOT NULL AND ({held}))"
        return f"CASE WHEN {OP} = 'patch' THEN {named} ELSE {sent} END"

    def newest(self, rows: DataFrame) -> DataFrame:
        """One row per key, as a mirror has it, of all that the rows do."""
        wanted = rows.where(f"{self.left_out} IS NULL").selectExpr(
            *map(column, self.columns), f"{self.order} AS {ORDER}", f"{self.op} AS {OP}"
        )
        by = [sf.expr(quoted(key)).alias(f"_key{n}") for n, key in enumerate(self.table.keys)]
        last = ", ".join((*map(column, self.of_the_newest), ORDER, f"{OP} = 'delete' AS {DELETED}"))
        found = [sf.expr(f"max_by(struct({last}), {ORDER})").alias("_newest")]
        own = self.own_writers
        for n, name in enumerate(own):
            writes = f"FILTER (WHERE {self.writes(name)})"
            found.append(sf.expr(f"max_by({column(name)}, {ORDER}) {writes}").alias(f"_value{n}"))
            found.append(sf.expr(f"max({ORDER}) {writes}").alias(f"_order{n}"))
        if own:
            found.append(sf.expr(f"max({ORDER}) FILTER (WHERE {OP} <> 'patch')").alias(BASE))
        values = {name: f"_value{n} AS {column(name)}" for n, name in enumerate(own)}
        shown = [values.get(name, f"_newest.{column(name)}") for name in self.columns]
        shown += [f"_newest.{ORDER}", f"_newest.{DELETED}"]
        if own:
            orders = {name: f"_order{n}" for n, name in enumerate(own)}
            shown += [BASE, f"{deviating(orders, BASE)} AS {WRITTEN}"]
        return wanted.groupBy(*by).agg(*found).selectExpr(*shown)

    def counted(self, rows: DataFrame) -> tuple[int, dict[str, int]]:
        """How many rows there are, and why how many of them are left out."""
        found = rows.selectExpr(f"{self.left_out} AS why").groupBy("why").count().collect()
        return sum(one["count"] for one in found), {one["why"]: one["count"] for one in found if one["why"]}


def fingerprint(table: MirrorTable) -> str:
    """Of what the rows of a mirror depend on: with another one it has to begin anew."""
    told = table.model_dump(exclude={"kind", "deleted_days", "deletion_vectors"})
    return json.dumps(told, sort_keys=True, separators=(",", ":"))


def deviating(orders: dict[str, str], base: str) -> str:
    """SQL: column -> its order, where that is not `base`; null of one that was never written. orders: column -> SQL."""
    each = ", ".join(f"{literal(name)}, {order}" for name, order in orders.items())
    return f"map_filter(map({each}), (name, at) -> NOT (at <=> {base}))"


def schema_of(rows: DataFrame) -> str:
    """Spark schema JSON of a table for such rows: all may be null, and nothing is said of a column but its type."""
    return json.dumps(all_nullable(_bare(json.loads(rows.schema.json()))), separators=(",", ":"))


def _bare(kind: Any) -> Any:
    if isinstance(kind, dict):
        return {name: {} if name == "metadata" else _bare(value) for name, value in kind.items()}
    return [_bare(one) for one in kind] if isinstance(kind, list) else kind


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
