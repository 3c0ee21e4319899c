"""The rules of all configurations in force, as the comparison asks for them: which tables take a record.

Only where there are rules: without them neither of these columns is made.

    ruled    what workers told (ruling.py)
    takers   by the configuration that holds for a record
    taker    the one of them that a row of the frame is for; slot: its slot, where several may take a record (slots.py)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from exporter.core.routing import Routing
from exporter.core.schemas import KnownSchemas
from exporter.operate.audit import sql as audit_sql
from exporter.operate.audit.codes import LETTERS, NOT_HERE, UNKNOWN
from exporter.operate.audit.rules.expressions import engine
from exporter.operate.audit.rules.ruling import RULED_DDL, TAKER_DDL, ruling
from exporter.operate.audit.rules.slots import slot_of, slots_of, taker
from exporter.operate.audit.sql import Judge
from offsets.ranges import TopicPartition

ByRegion = Callable[[str, Callable[[Judge], Column]], Column]
"""(type, column(judge)): that of the configuration that holds for the row; null where none is known."""


def check(routings: Iterable[Routing]) -> None:
    """Raises ConfigError if there is SQL, and nothing here that evaluates it."""
    if any(shape.sql for one in routings for _, shape in one.shapes):
        engine()


@dataclass(frozen=True)
class Rules:
    """codes: event type -> code, for every type with a table or declared somewhere. schemas, replayed: see Pinned."""

    judges: Sequence[Judge]
    codes: Mapping[str, int]
    schemas: Mapping[str, KnownSchemas]
    replayed: Mapping[TopicPartition, int]

    @cached_property
    def there(self) -> bool:
        """Whether any configuration has rules."""
        return any(one.ruled for one in self.judges)

    @cached_property
    def in_slots(self) -> bool:
        """Whether several tables may take one record."""
        return any(one.routing.matches for one in self.judges)

    def taken(self, records: DataFrame, asked: Column, later: Column, by_region: ByRegion) -> DataFrame:
        """One row for each table that may have a row of a record, with `taker`.

        records: with `event_type`. asked: as ruling.py has it; later: the codes of tables that take a record by the
        configurations that have come since.
        """
        frame = records.withColumn("asked", asked)
        routings = [one.routing for one in self.judges]
        run = ruling(routings, self.codes, self.schemas, audit_sql.COMPARED_BYTES_MAX, self.replayed)
        kinds = ", ".join(f"{name} {kind}" for name, kind in frame.dtypes)
        frame = frame.mapInArrow(run, f"{kinds}, ruled {RULED_DDL}")
        told = by_region(f"array<{TAKER_DDL}>", lambda one: self._takers(one, sf.col("event_type")))
        frame = frame.withColumn("takers", sf.coalesce(told, sf.array(taker(UNKNOWN, UNKNOWN))))
        if self.in_slots:
            return slots_of(frame.withColumn("later_takers", later))
        return frame.withColumn("taker", sf.get("takers", sf.lit(0)))

    def expected(self, judge: Judge, name: Column) -> Column:
        """What is expected by the configuration that holds. name: the event type."""
        if not self.there:
            return audit_sql.expected(judge, name, audit_sql.table_of(judge, self.codes, name))
        return audit_sql.expected(judge, name, sf.col("taker.code"), sf.col("taker.expected"))

    def expected_later(self, judge: Judge, name: Column) -> Column:
        """The same by one that has come since, in the slot of the row."""
        if not self.there:
            return self.expected(judge, name)
        takers = self._takers(judge, name)
        if self.in_slots:
            takers = sf.filter(takers, lambda one: slot_of(one["code"]) == sf.col("slot"))
        one = sf.coalesce(sf.get(takers, sf.lit(0)), taker(NOT_HERE, NOT_HERE))
        return audit_sql.expected(judge, name, one["code"], one["expected"])

    def codes_of(self, judge: Judge, name: Column) -> Column:
        """The codes of the tables that take a record by a configuration."""
        return sf.filter(sf.transform(self._takers(judge, name), lambda one: one["code"]), lambda code: code > LETTERS)

    def _takers(self, judge: Judge, name: Column) -> Column:
        if not judge.ruled:
            code = sf.coalesce(audit_sql.table_of(judge, self.codes, name), sf.lit(LETTERS))
            return sf.array(taker(code, code))
        dead = judge.is_filtered() | audit_sql.is_unusable(judge)
        told = sf.get("ruled", sf.lit(judge.number))
        return sf.when(sf.coalesce(dead, sf.lit(False)), sf.array(taker(LETTERS, LETTERS))).otherwise(told)
