"""Which of the reader's types, branches and fields a writer's is, by Avro's rules of resolution. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from exporter.formats.avro.schema import AvroField, Schema

LADDER = ("int", "long", "float", "double")
"""Each is also any of those behind it."""


def takes(writer: Schema, reader: Schema) -> bool:
    """Whether a value of the writer's may be one of the reader's, as far as can be told without what is inside."""
    if writer.kind in LADDER and reader.kind in LADDER:
        return LADDER.index(writer.kind) <= LADDER.index(reader.kind)
    if {writer.kind, reader.kind} <= {"string", "bytes"}:
        return True
    if writer.kind != reader.kind:
        # decimals of bytes and of a fixed are the same numbers
        return {writer.kind, reader.kind} == {"bytes", "fixed"} and writer.logical == reader.logical == "decimal"
    if writer.kind == "fixed" and writer.size != reader.size:
        return writer.logical == reader.logical == "decimal"
    return not writer.name or _same_name(writer, reader)


def _same_name(writer: Schema, reader: Schema) -> bool:
    if writer.short_name == reader.short_name:
        return True
    return writer.name in reader.aliases or writer.short_name in (one.rpartition(".")[2] for one in reader.aliases)


def chosen(writer: Schema, branches: Sequence[Schema]) -> int | None:
    """The branch of the reader's that takes a value of the writer's; None if none does."""

    def same(one: Schema) -> bool:
        return one is writer or (one.kind == writer.kind and one.name == writer.name and takes(writer, one))

    for fits in (same, lambda one: takes(writer, one) and one.kind == writer.kind, lambda one: takes(writer, one)):
        for at, one in enumerate(branches):
            if fits(one):
                return at
    return None


def matched(writer: Sequence[AvroField], reader: Sequence[AvroField]) -> dict[str, AvroField]:
    """Name of a field of the writer's -> the reader's field that it is: of the same name, or with it as an alias."""
    names = {one.name for one in writer}
    found = {one.name: one for one in reader if one.name in names}
    for field in reader:
        alias = next((one for one in field.aliases if one in names and one not in found), None)
        if field.name not in found and alias is not None:
            found[alias] = field
    return found


def least_of(schema: Schema, above: frozenset[str]) -> int:
    """Bytes that a value takes at least. above: the records that it stands in: a value of one has none of itself."""
    match schema.kind:
        case "null":
            return 0
        case "float":
            return 4
        case "double":
            return 8
        case "fixed":
            return schema.size
        case "union":
            return 1 + min(least_of(one, above) for one in schema.branches)
        case "record":
            inside = above | {schema.name}
            return 0 if schema.name in above else sum(least_of(one.schema, inside) for one in schema.fields)
    return 1
