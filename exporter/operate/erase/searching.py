"""Where a subject stands in the tables: in columns, in what holds JSON, in `_rescued`, and in dead letters.

    a column that the path leads to      by Spark, as the text of its type
    a text on the way that holds JSON    by Python (core/subject.py), the rest of the path in it
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial, reduce
from typing import TypeAlias

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from exporter.arrow.own_columns import PLACES
from exporter.column.spark_json import struct_of
from exporter.column.types import ListType, MapType, StructType, Type
from exporter.core.record_columns import BEFORE
from exporter.core.routing import DEAD_LETTERS
from exporter.core.subject import DataSubject, Path
from exporter.executor.empty import RESCUED
from exporter.executor.subject import PLACES_DDL, TEXT, in_letters, in_texts
from exporter.lake.lake import Lake
from exporter.lake.rows import rows_at
from exporter.sql_text import quoted
from offsets.table_log import TableView

_Source: TypeAlias = "tuple[Column, Path]"
"""Texts to which a path leads, as an array, and what of the path is left: within JSON."""


class SubjectSearch:
    """Of all tables of a lake. unseen: an accumulator, of dead letters whose values are no text."""

    def __init__(self, lake: Lake, subject: DataSubject) -> None:
        self._lake = lake
        self._subject = subject
        self.unseen = lake.session.sparkContext.accumulator(0)
        texts = [(text,) for text in sorted(subject.texts)]
        self._texts = sf.broadcast(lake.session.createDataFrame(texts, f"{TEXT} STRING"))

    def places(self, name: str, view: TableView) -> DataFrame | None:
        """PLACES of the rows of a table in which the subject stands, each once; None if it has no such column."""
        rows = rows_at(self._lake, name, view).where("_kafka.offset IS NOT NULL")
        if name == DEAD_LETTERS:
            letters = rows.select(*_place(), "value", "key", "headers")
            return letters.mapInArrow(partial(in_letters, self._subject, self.unseen), PLACES_DDL).distinct()
        columns = struct_of(view.schema_json)
        sources = [*self._sources(columns)]
        found = [*self._in_columns(rows, sources), *self._in_texts(rows, columns, sources)]
        return reduce(DataFrame.unionAll, found).distinct() if found else None

    def _in_columns(self, rows: DataFrame, sources: Sequence[_Source]) -> Iterator[DataFrame]:
        for texts, rest in sources:
            if not rest:
                each = rows.select(*_place(), sf.explode(texts).alias(TEXT))
                yield each.join(self._texts, TEXT, "left_semi").select(*PLACES.names)

    def _in_texts(
        self, rows: DataFrame, columns: StructType, sources: Sequence[_Source]
    ) -> Iterator[DataFrame]:
        inside: list[tuple[Column, Sequence[Path]]] = [(texts, [rest]) for texts, rest in sources if rest]
        own = [sf.array(sf.col(quoted(name))) for name in (RESCUED, BEFORE) if name in columns.named]
        for texts, paths in [*inside, *((one, self._subject.paths) for one in own)]:
            each = rows.select(*_place(), sf.explode(texts).alias(TEXT)).where(sf.col(TEXT).isNotNull())
            yield each.mapInArrow(partial(in_texts, self._subject, paths), PLACES_DDL)

    def _sources(self, columns: StructType) -> Iterator[_Source]:
        for path in self._subject.paths:
            if path[0] in columns.named:
                field = columns.named[path[0]]
                yield from _texts(sf.col(quoted(path[0])), field.type, path[1:])


def _texts(column: Column, kind: Type, path: Path) -> Iterator[_Source]:
    """As SubjectSearch._sources(), below one column."""
    if isinstance(kind, StructType):
        if path and path[0] in kind.named:
            yield from _texts(column.getField(path[0]), kind.named[path[0]].type, path[1:])
    elif isinstance(kind, ListType | MapType):
        of_map = isinstance(kind, MapType)
        if of_map and path:
            yield from _texts(column.getItem(path[0]), kind.inner, path[1:])
            return
        values = sf.map_values(column) if of_map else column
        for number, (_, rest) in enumerate(_texts(sf.lit(None), kind.inner, path)):
            yield sf.flatten(sf.transform(values, partial(_nth, kind.inner, path, number))), rest
    elif not path or _is_text(kind):
        yield sf.array(column.cast("string")), path


def _nth(kind: Type, path: Path, number: int, column: Column) -> Column:
    return [*_texts(column, kind, path)][number][0]


def _is_text(kind: Type) -> bool:
    return getattr(kind, "name", "") in ("string", "json")


def _place() -> Sequence[Column]:
    kafka = {name: sf.col(f"_kafka.{name}") for name in PLACES.names}
    kafka["epoch"] = sf.coalesce(kafka["epoch"], sf.lit(0))
    return [column.alias(name) for name, column in kafka.items()]
