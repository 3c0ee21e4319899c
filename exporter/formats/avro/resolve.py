"""A writer's schema and a reader's -> what reads the one as the other, by Avro's rules of resolution. Pure.

    names        full, without their namespace, or an alias of the reader's
    numbers      int -> long -> float -> double; what the wider one cannot hold exactly is refused, value by value
    text, bytes  each as the other; UTF-8 is checked
    times        of the same unit only, decimals of the same scale: another would change values in silence
    fields       only the reader's: its default. Only the writer's: read and kept, behind the reader's
    unions       each branch of the writer's as the first of the reader's that is the same, or else that takes it

What can never be read is found here, before any value: the path and why. What can be read, but held by no column, is
kept as JSON (kept.py): a record inside of itself, a branch without fields or whose name another has, what is nested too
deep. A null alone and a record without fields say nothing, and are not even that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from exporter.arrow.kafka_time import US
from exporter.formats.avro.defaults import BadDefault, default_of
from exporter.formats.avro.kept import Inside, KeptNode, Recursive
from exporter.formats.avro.matching import LADDER, chosen, least_of, matched, takes
from exporter.formats.avro.nested import Branch, EntryNode, ItemsNode, OutField, Placed, Promoted, RecordNode, Union
from exporter.formats.avro.nodes import (
    AvroNode,
    Boolean,
    Decimal,
    Enum,
    Fixed,
    NothingNode,
    Null,
    Real,
    TextNode,
    WholeNode,
)
from exporter.formats.avro.schema import AvroField, Schema
from exporter.formats.avro.semantic import CONNECT_DECIMAL, ZONED, connect_scale, semantic
from exporter.formats.binary.decimals import DIGITS_MAX
from exporter.formats.binary.reasons import ReasonPaths
from exporter.formats.schema import SCHEMA_DEPTH_MAX
from exporter.formats.typed.typed import KEPT

PARTS_MAX = 20_000
"""Records, fields, branches and items of one schema: far more than a table can have columns."""
LEVELS_MAX = 2 * SCHEMA_DEPTH_MAX
"""Levels that are read at all."""
_NTZ = pa.timestamp("us")
_TIMES = {
    "date": (pa.date32(), 1, False),
    "time-millis": (pa.int32(), 1, False),
    "time-micros": (pa.int64(), 1, False),
    "timestamp-millis": (US, 1_000, False),
    "timestamp-micros": (US, 1, False),
    "timestamp-nanos": (US, 1, True),
    "local-timestamp-millis": (_NTZ, 1_000, False),
    "local-timestamp-micros": (_NTZ, 1, False),
    "local-timestamp-nanos": (_NTZ, 1, True),
}
"""Logical type -> the column's type, the factor to its unit, whether they are nanoseconds."""


class Unresolvable(Exception):
    """No value of the writer's can be read by the reader's schema, or no column could hold it."""

    def __init__(self, path: str, what: str) -> None:
        super().__init__(f"{path}: {what}")
        self.path, self.what = path, what


@dataclass(frozen=True)
class Meant:
    """What values of a scalar type mean: a logical type that counts; empty if none does."""

    logical: str = ""
    precision: int = 0
    scale: int = 0


def meant(schema: Schema, connect: bool) -> Meant:
    """connect: whether Connect's names count (semantic.py). Decimals of too many digits are bytes."""
    name = schema.props.get("connect.name") if connect else None
    if name == CONNECT_DECIMAL and schema.kind == "bytes":
        scale = schema.scale if schema.logical == "decimal" else connect_scale(schema.props)
        if scale is not None and scale <= DIGITS_MAX:
            precision = schema.precision if schema.logical == "decimal" else DIGITS_MAX
            return Meant("decimal", min(precision, DIGITS_MAX), scale)
    if schema.logical == "decimal":
        fits = schema.precision <= DIGITS_MAX
        return Meant("decimal", schema.precision, schema.scale) if fits else Meant()
    if schema.logical in _TIMES or (schema.logical == "uuid" and schema.kind == "fixed"):
        return Meant(schema.logical)
    return Meant(semantic(name, schema.kind) if name != CONNECT_DECIMAL else "")


class Resolver:
    """Makes nodes. places: of the plan that they are for. refused: path -> why no column holds what is there; grows."""

    def __init__(self, places: ReasonPaths, connect: bool) -> None:
        self.refused: dict[str, str] = {}
        self._places = places
        self._connect = connect
        self._open: list[tuple[Schema, Schema]] = []
        self._again: dict[tuple[Schema, Schema], list[Recursive]] = {}
        self._inside_of = Inside()
        self._left = [PARTS_MAX]

    def node(self, writer: Schema, reader: Schema, path: str) -> AvroNode:
        """What reads values of the writer's. Raises Unresolvable."""
        if len(self._open) > LEVELS_MAX:
            raise Unresolvable(path, f"it is nested deeper than {LEVELS_MAX} levels")
        pair = writer, reader
        if pair in self._open:
            self.refused[path] = f"{writer.name or writer.kind} is recursive"
            again = Recursive(self._places.add(path), least_of(writer, frozenset()), self._inside_of)
            self._again.setdefault(pair, []).append(again)
            return again
        self._left[0] -= 1
        if self._left[0] < 0:  # a few records that have each other several times are any number of columns
            raise Unresolvable(path, f"with names replaced by what they are it has more than {PARTS_MAX} parts")
        self._open.append(pair)
        try:
            node = self._node(writer, reader, path)
        finally:
            self._open.pop()
        for again in self._again.pop(pair, ()):
            again.record = node
        if len(self._open) == SCHEMA_DEPTH_MAX and node.kind is not None:
            self.refused[path] = f"it is nested deeper than {SCHEMA_DEPTH_MAX} levels"
            return KeptNode(node)
        return node

    def _node(self, writer: Schema, reader: Schema, path: str) -> AvroNode:
        if writer.kind == "union":
            return self._union(writer, reader, path)
        if reader.kind == "union":
            return self._branch(writer, reader, path)
        if not takes(writer, reader):
            raise Unresolvable(path, f"{_shown(writer)} cannot be read as {_shown(reader)}")
        if writer.kind == "record":
            return self._record(writer, reader, path)
        if writer.kind in ("array", "map"):
            return self._items(writer, reader, path)
        return self._scalar(writer, reader, path)

    def kind(self, schema: Schema, path: str) -> pa.DataType | None:
        """The type of a column that holds values of a schema; None: there is none to hold."""
        made = self._inside(ReasonPaths())
        made._open = [(reader, reader) for _, reader in self._open[:-1]]
        return made.node(schema, schema, path).kind

    def _inside(self, places: ReasonPaths) -> Resolver:
        """For the reader's own values inside of what is being made."""
        made = Resolver(places, self._connect)
        made._left = self._left
        return made

    def _stands(self, node: AvroNode, schema: Schema, path: str) -> AvroNode:
        """A node of which something is left, also where there is nothing to read."""
        if node.kind is not None:
            return node
        self.refused[path] = _nothing(schema)
        return KeptNode(node, "{}" if schema.kind == "record" else "null")

    def _scalar(self, writer: Schema, reader: Schema, path: str) -> AvroNode:
        place = self._places.add(path)
        sent, wanted = meant(writer, self._connect), meant(reader, self._connect)
        if reader.logical == "decimal" and not wanted.logical:
            self.refused[path] = f"a decimal of {reader.precision} digits: a column has {DIGITS_MAX} at most"
        if writer.kind == "null":
            return Null(place)
        if writer.kind == "boolean":
            return Boolean(place)
        if writer.kind == "enum":
            known = dict.fromkeys(reader.symbols)
            return Enum(place, [one if one in known else reader.default for one in writer.symbols])
        if "decimal" in (sent.logical, wanted.logical):
            return self._decimal(writer, sent, wanted, path, place)
        if writer.kind in LADDER:
            return self._number(writer, reader, sent, wanted, path, place)
        kind = pa.string() if reader.kind == "string" or wanted.logical == "uuid" else pa.binary()
        form = "uuid" if wanted.logical == "uuid" else "plain"
        if writer.kind == "fixed":
            if sent.logical != wanted.logical:
                raise Unresolvable(path, f"{_said(sent)} cannot be read as {_said(wanted)}")
            return Fixed(place, kind, writer.size, form)
        return TextNode(place, US, "time") if wanted.logical == ZONED else TextNode(place, kind, form)

    def _decimal(self, writer: Schema, sent: Meant, wanted: Meant, path: str, place: int) -> AvroNode:
        if sent.logical != wanted.logical or sent.scale != wanted.scale:
            raise Unresolvable(path, f"{_said(sent)} cannot be read as {_said(wanted)}")
        kind = pa.decimal128(wanted.precision, wanted.scale)
        size = writer.size if writer.kind == "fixed" else None
        return Decimal(place, kind, min(sent.precision, wanted.precision), size)

    def _number(self, writer: Schema, reader: Schema, sent: Meant, wanted: Meant, path: str, place: int) -> AvroNode:
        if sent != wanted:
            raise Unresolvable(path, f"{_said(sent, writer)} cannot be read as {_said(wanted, reader)}")
        plain = (dict(zip(LADDER, (pa.int32(), pa.int64(), pa.float32(), pa.float64()), strict=True))[reader.kind], 1)
        kind, factor, nanos = _TIMES.get(wanted.logical, (*plain, False))
        if writer.kind in ("float", "double"):
            return Real(place, kind, 4 if writer.kind == "float" else 8)
        return WholeNode(place, kind, 32 if writer.kind == "int" else 64, factor=factor, nanos=nanos)

    def _items(self, writer: Schema, reader: Schema, path: str) -> AvroNode:
        is_map = writer.kind == "map"
        place, inside = self._places.add(path), path + ("{}" if is_map else "[]")
        below = self._places.add(inside)
        item = self._stands(self.node(_items_of(writer), _items_of(reader), inside), _items_of(reader), inside)
        if is_map:
            kind = pa.map_(pa.string(), pa.field("value", item.kind))
            return ItemsNode(place, below, EntryNode(below, item), kind)
        return ItemsNode(place, below, item, pa.list_(pa.field("element", item.kind)))

    def _record(self, writer: Schema, reader: Schema, path: str) -> RecordNode:
        place = self._places.add(path)
        of_writer = matched(writer.fields, reader.fields)
        nodes, of_reader, others = [], dict[str, int](), []
        for at, field in enumerate(writer.fields):
            wanted = of_writer.get(field.name)
            name = field.name if wanted is None else wanted.name
            at_path = f"{path}.{name}"
            node = self.node(field.schema, field.schema if wanted is None else wanted.schema, at_path)
            nodes.append(node)
            if node.kind is None and not field.schema.fields:
                self.refused[at_path] = _nothing(field.schema)
            if wanted is not None:
                of_reader[name] = at
            elif node.kind is not None:
                others.append(OutField(name, at))
        outs = []
        for field in reader.fields:
            if field.name not in of_reader:
                constant = self._constant(field, f"{path}.{field.name}")
                outs += [] if constant is None else [OutField(field.name, None, constant)]
            elif nodes[of_reader[field.name]].kind is not None:
                outs.append(OutField(field.name, of_reader[field.name]))
        return RecordNode(place, nodes, [*outs, *others])

    def _constant(self, field: AvroField, path: str) -> pa.Array | None:
        """What a field is that the writer does not have; None if no column could hold it."""
        if not field.has_default:
            raise Unresolvable(path, "the writer does not have it, and it has no default")
        places = ReasonPaths()
        node = self._inside(places).node(field.schema, field.schema, path)
        try:
            return None if node.kind is None else default_of(field, node, places)
        except BadDefault as error:
            raise Unresolvable(path, str(error)) from None

    def _union(self, writer: Schema, reader: Schema, path: str) -> AvroNode:
        place = self._places.add(path)
        names = self._names(reader)
        taken: dict[int, AvroNode] = {}
        first: dict[int, pa.DataType | None] = {}
        readers = reader.branches or (reader,)
        made: list[tuple[AvroNode, int | None]] = []
        for branch in writer.branches:
            to = chosen(branch, readers)
            if to is None:
                made.append((self.node(branch, branch, path), None))
                continue
            node = self.node(branch, readers[to], f"{path}.{names[to]}" if names else path)
            if first.setdefault(to, node.kind) != node.kind:  # of two that are one to the reader one has other fields
                made.append((node, None))
                continue
            node = self._member(node, reader, to, names, path)
            taken.setdefault(to, node)
            made.append((node, to))
        if not taken:
            raise Unresolvable(path, f"no branch of {_shown(writer)} can be read as {_shown(reader)}")
        kinds, kind = self._kinds(reader, taken, names, path)
        branches = [Branch(node if to is None else _promoted(node, names, kind), to) for node, to in made]
        return Union(place, branches, kinds, names, kind)

    def _branch(self, writer: Schema, reader: Schema, path: str) -> AvroNode:
        """A writer's value that is no union, as one of the reader's branches."""
        names = self._names(reader)
        to = chosen(writer, reader.branches)
        if to is None:
            raise Unresolvable(path, f"{_shown(writer)} cannot be read as {_shown(reader)}")
        node = self.node(writer, reader.branches[to], f"{path}.{names[to]}" if names else path)
        node = self._member(node, reader, to, names, path)
        kinds, kind = self._kinds(reader, {to: node}, names, path)
        if kind is None:
            return node
        if node.kind is None:
            return NothingNode(node, kind)
        return Placed(node, to, kinds, kind) if names else _promoted(node, names, kind)

    def _member(self, node: AvroNode, reader: Schema, to: int, names: Sequence[str], path: str) -> AvroNode:
        """A node as one of the reader's branches: what has no column, or the name of another's, is kept."""
        branch = (reader.branches or (reader,))[to]
        if not reader.branches or branch.kind == "null":
            return node
        path = f"{path}.{names[to]}" if names else path
        if names and names[to] != _column_of(branch):
            self.refused[path] = f"another branch is called {_column_of(branch)} as well"
            return KeptNode(node, "{}") if node.kind != KEPT else node
        return self._stands(node, branch, path)

    def _names(self, reader: Schema) -> tuple[str, ...]:
        """Of the fields of the struct that holds the branches; none if they are one column of one type. Of several with
        one name the first has it, and the others their full names, which no column has."""
        real = [one for one in reader.branches if one.kind != "null"]
        if len(real) <= 1 or self._promotes(real):
            return ()
        names: list[str] = []
        for one in reader.branches:
            name = _column_of(one)
            names.append(name if name not in names else f"member_{one.name or one.kind}")
        return tuple(names)

    def _promotes(self, real: Sequence[Schema]) -> bool:
        plain = {one.kind for one in real if not meant(one, self._connect).logical}
        return len(plain) == len(real) and plain in ({"int", "long"}, {"float", "double"})

    def _kinds(
        self, reader: Schema, taken: Mapping[int, AvroNode], names: Sequence[str], path: str
    ) -> tuple[list[pa.DataType | None], pa.DataType | None]:
        """The type of each of the reader's branches, None for null, and of all. taken: what becomes of some."""
        branches = reader.branches or (reader,)
        kinds: list[pa.DataType | None] = []
        for at, one in enumerate(branches):
            kind = taken[at].kind if at in taken else self.kind(one, path)
            odd = bool(names) and names[at] != _column_of(one)
            kinds.append(KEPT if reader.branches and one.kind != "null" and (kind is None or odd) else kind)
        real = [(one, kind) for one, kind in zip(branches, kinds, strict=True) if one.kind != "null"]
        if names:
            return kinds, pa.struct([pair for pair in zip(names, kinds, strict=True) if pair[1] is not None])
        if len(real) > 1:
            return kinds, pa.float64() if any(one.kind == "double" for one, _ in real) else pa.int64()
        return kinds, real[0][1] if real else None


def _column_of(branch: Schema) -> str:
    return f"member_{branch.short_name.lower()}"


def _nothing(schema: Schema) -> str:
    """Why values of a schema say nothing."""
    return "a record without fields" if schema.kind == "record" and not schema.fields else "always null"


def _promoted(node: AvroNode, names: Sequence[str], kind: pa.DataType | None) -> AvroNode:
    """The node with its numbers in the type of a union that is one column."""
    return node if names or node.kind in (None, kind) else Promoted(node, kind)


def _items_of(schema: Schema) -> Schema:
    if schema.items is None:
        raise ValueError(f"{schema.kind} has no items")
    return schema.items


def _shown(schema: Schema) -> str:
    if schema.kind == "union":
        return f"[{', '.join(one.name or one.kind for one in schema.branches)}]"
    return f"{schema.kind} {schema.name}" if schema.name else schema.kind


def _said(what: Meant, schema: Schema | None = None) -> str:
    if what.logical == "decimal":
        return f"decimal({what.precision},{what.scale})"
    return what.logical or (schema.kind if schema is not None else "bytes")
