"""Tables that evolution has made wider: what is decoded for them, and which staged files fit them. Pure.

Schemas are Spark's, as JSON text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from exporter.column.spark_json import struct_of, text_of
from exporter.column.types import Field, Fold, StructType, Type, parts, together
from exporter.core.columns import EVOLVED, Names
from exporter.core.writers import StagedFile
from offsets.table_log import TableView


def combined(declared_json: str, table_json: str) -> str:
    """What is decoded: the declared fields as they are declared, and the table's marked fields at every level.

    declared_json: Spark schema JSON of the declared columns; a field that is declared is never a marked one.
    """
    return text_of(_combined(struct_of(declared_json), struct_of(table_json)))


def union(table_json: str, files_json: str) -> str | None:
    """The table's schema with the columns that only the files have; None if one does not fit (protocol 4.2).

    A column fits if it is new, and no reader takes it for another one, or if the table has it with the same type at
    every level. What is noted of a column that is there stays (its comment, its mark). Where the files' schema holds
    all that the table's does, the result is that text.
    """
    if table_json == files_json:
        return table_json
    table, files = struct_of(table_json), struct_of(files_json)
    try:
        merged = _union(table, files)
    except _Clash:
        return None
    if merged == table:
        return table_json
    return files_json if _in_order(merged) == _in_order(files) else text_of(merged)


def fitting(view: TableView, files: Iterable[StagedFile]) -> str | None:
    """The schema with which the table holds staged files: its own, or a wider one; None if it cannot (protocol 4.2)."""
    return fitting_all(view, ((file.fingerprint, file.columns) for file in files))


def fitting_all(view: TableView, fits: Iterable[tuple[str, str]]) -> str | None:
    """As fitting(). fits: fingerprint and columns of what files were staged for."""
    schema: str | None = view.schema_json
    for fingerprint, columns in sorted({*fits}):
        if fingerprint == view.fingerprint:
            continue
        if schema is None or not columns or view.fingerprint_with(columns) != fingerprint:
            return None
        schema = union(schema, columns)
    return schema


def has_evolved(table_json: str) -> bool:
    """Whether any field of a table was made by evolution."""
    structs = (one for one in parts(struct_of(table_json)) if isinstance(one, StructType))
    return any(EVOLVED in one.metadata for struct in structs for one in struct.fields)


columns_of = Fold[int](
    scalar=lambda _: 1,
    struct=lambda _, counts: sum(count for _, count in counts),
    list=lambda _, inner: inner,
    map=lambda _, key, inner: inner,
)
"""How many columns a type amounts to: its leaves."""


def with_new(struct: StructType, fields: Sequence[Field], new: Sequence[Field]) -> StructType:
    """A struct with other fields, and behind them new ones, which in a table stand before `_rescued`."""
    end = next((at for at, one in enumerate(fields) if one.name == "_rescued"), len(fields))
    return replace(struct, fields=(*fields[:end], *new, *fields[end:]))


class _Clash(Exception):
    """Two fields of one name and two types, or two names that readers do not tell apart."""


def _union(have: StructType, want: StructType) -> StructType:
    wanted = want.named
    kept = [_union_field(one, wanted.pop(one.name, one)) for one in have.fields]
    names = Names(one.name for one in have.fields)
    if any(names.clash(name) for name in wanted):
        raise _Clash
    return with_new(have, kept, [*wanted.values()])


def _union_field(have: Field, want: Field) -> Field:
    return replace(have, type=together(have.type, want.type, _union, _same))


def _same(have: Type, want: Type) -> Type:
    if have != want:
        raise _Clash
    return have


def _sorted(_: StructType, fields: Sequence[tuple[Field, Type]]) -> StructType:
    return StructType(tuple(sorted((replace(one, type=kind) for one, kind in fields), key=lambda one: one.name)))


_in_order: Fold[Type] = Fold(
    scalar=lambda one: one,
    struct=_sorted,
    list=lambda of, inner: replace(of, inner=inner),
    map=lambda of, _, inner: replace(of, inner=inner),
)
"""A type with its fields in the order of their names."""


def _combined(declared: StructType, table: StructType) -> StructType:
    """What is declared with the marked fields that the table has in it."""
    there, names = table.named, declared.named
    fields = [_combined_field(one, there.get(one.name, one)) for one in declared.fields]
    marked = [one for one in table.fields if one.name not in names and EVOLVED in one.metadata]
    return replace(declared, fields=(*fields, *marked))


def _combined_field(declared: Field, table: Field) -> Field:
    return replace(declared, type=together(declared.type, table.type, _combined, lambda one, _: one))
