"""From a writer's type and the wanted fields to nodes, once for each pair. Runs on Spark executors."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pyarrow as pa

from exporter.formats.asked import Path
from exporter.formats.marks import bare, holds_json, is_evolved
from exporter.formats.typed.casts import cast_of
from exporter.formats.typed.nodes import (
    AnyJson,
    Scalar,
    TypedList,
    TypedMap,
    TypedMember,
    TypedNode,
    TypedNothing,
    TypedStruct,
)
from exporter.formats.typed.typed import KEPT
from exporter.formats.typed.unknown import UnknownPolicy

_NAMES = {
    pa.int8(): "TINYINT", pa.int16(): "SMALLINT", pa.int32(): "INT", pa.int64(): "BIGINT", pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE", pa.bool_(): "BOOLEAN", pa.string(): "STRING", pa.binary(): "BINARY", pa.date32(): "DATE",
    pa.timestamp("us", "UTC"): "TIMESTAMP", pa.timestamp("us"): "TIMESTAMP_NTZ", KEPT: "what no column can hold",
}  # fmt: skip


class UnfitType(Exception):
    """A type never fits a declared column. path: collected from the inside out."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what
        self.path: list[str] = []

    def __str__(self) -> str:
        return "$" + "".join(reversed(self.path)) + ": " + self.what


def sql_name(kind: pa.DataType) -> str:
    """A type as tables name it, of nested ones the outermost."""
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision},{kind.scale})"
    nested = {"struct": pa.types.is_struct, "map": pa.types.is_map, "array": pa.types.is_list}
    return _NAMES.get(kind) or next((name.upper() for name, fits in nested.items() if fits(kind)), str(kind))


def struct_of(
    source: pa.StructType,
    wanted: Iterable[pa.Field],
    known: frozenset[Path],
    unknown: UnknownPolicy,
    free: bool = False,
) -> TypedStruct:
    """known: paths from here that are no unknown fields. free: it stands in what nobody declared. Raises UnfitType."""
    wanted = list(wanted)
    at = {source.field(number).name: number for number in range(source.num_fields)}
    members = [_member(source, at.get(field.name), field, known, unknown, free) for field in wanted]
    taken = {member.at for member in members}
    others = []
    for name, number in at.items():
        below = _below(known, name)
        kind = source.field(number).type
        if number in taken or () in below:
            continue
        if below and pa.types.is_struct(kind):
            node = struct_of(kind, (), below, unknown, free)
            members.append(TypedMember(name, kind, at=number, node=node, held=False))
        else:
            others.append((number, name))
    return TypedStruct(members, others, bare(pa.struct(wanted)), unknown)


def _member(
    source: pa.StructType, at: int | None, field: pa.Field, known: frozenset[Path], unknown: UnknownPolicy, free: bool
) -> TypedMember:
    free = free or is_evolved(field)
    member = TypedMember(field.name, bare(field.type), field.nullable or free, free)
    if at is None:
        return member
    below = _below(known, field.name)
    try:
        node = node_of(source.field(at).type, field, below, unknown, free)
    except UnfitType as unfit:
        if free:
            return member
        unfit.path.append(f".{field.name}")
        raise
    return replace(member, at=at, node=node, known=() in below)


def node_of(
    kind: pa.DataType, field: pa.Field, known: frozenset[Path], unknown: UnknownPolicy, free: bool
) -> TypedNode:
    """The node of a field of a struct, an item or the value of a map. Raises UnfitType."""
    target, types = bare(field.type), pa.types
    if holds_json(field):
        return AnyJson()
    if types.is_null(kind):
        return TypedNothing(target)
    if types.is_struct(kind) and types.is_struct(target):
        return struct_of(kind, field.type, known, unknown, free)
    if types.is_list(kind) and types.is_list(target):
        item = field.type.value_field
        return TypedList(_item(kind.value_type, item, "[]", unknown, free), item.nullable or free, target, unknown)
    if types.is_map(kind) and types.is_map(target) and kind.key_type == target.key_type:
        item = field.type.item_field
        free_item = free or is_evolved(item)
        try:
            node = _item(kind.item_type, item, "{}", unknown, free)
        except UnfitType:
            if not free_item:
                raise
            node = TypedNothing(bare(item.type))
        return TypedMap(node, item.nullable or free_item, free_item, target, unknown)
    cast = None if types.is_nested(kind) or types.is_nested(target) else cast_of(kind, target, free)
    if cast is None:
        raise UnfitType(f"the writer has {sql_name(kind)}, which the column's {sql_name(target)} does not hold")
    return Scalar(target, cast, free)


def _item(kind: pa.DataType, item: pa.Field, step: str, unknown: UnknownPolicy, free: bool) -> TypedNode:
    try:
        return node_of(kind, item, frozenset(), unknown, free or is_evolved(item))
    except UnfitType as unfit:
        unfit.path.append(step)
        raise


def _below(known: frozenset[Path], name: str) -> frozenset[Path]:
    """The paths that begin with a name, from there on."""
    return frozenset(path[1:] for path in known if path and path[0] == name)
