"""Columns of a job's table, and of the rows that it gets: which the table lacks, and where the two do not fit."""

from __future__ import annotations

from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from exporter.core.columns import folded


class UnfitCell(Exception):
    """A value of another type than its column's. Its text: the column, both types."""


def grown(table: StructType, rows: StructType) -> StructType | None:
    """The table's columns with those that it lacks, at every level; None if it lacks none. Raises UnfitCell."""
    found = _struct(table, rows, "")
    return None if found == table else found


def _struct(has: StructType, gets: StructType, place: str) -> StructType:
    wanted = {folded(field.name): field for field in gets}
    kept = []
    for field in has:
        more = wanted.pop(folded(field.name), None)
        of = field.dataType if more is None else _type(field.dataType, more.dataType, f"{place}{field.name}")
        kept.append(StructField(field.name, of, field.nullable, field.metadata))
    return StructType([*kept, *(field for field in gets if folded(field.name) in wanted)])


def _type(has: DataType, gets: DataType, place: str) -> DataType:
    if isinstance(has, StructType) and isinstance(gets, StructType):
        return _struct(has, gets, f"{place}.")
    if isinstance(has, ArrayType) and isinstance(gets, ArrayType):
        return ArrayType(_type(has.elementType, gets.elementType, f"{place}.element"), has.containsNull)
    if isinstance(has, MapType) and isinstance(gets, MapType):
        key = _type(has.keyType, gets.keyType, f"{place}.key")
        return MapType(key, _type(has.valueType, gets.valueType, f"{place}.value"), has.valueContainsNull)
    if has != gets:
        raise UnfitCell(f"column {place} is {has.simpleString()}, and the rows have {gets.simpleString()}")
    return has
