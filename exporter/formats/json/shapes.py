"""The shape of an event type: one node per declared (or otherwise known) field. Runs on Spark executors.

Each node says for its field what the three readers need, so that they cannot differ:

    reader      the type with which pyarrow's JSON reader reads it, and convert() from there
    spec        the type with which msgspec, the classifier, reads it
    read()      the judge's exact reading of one value: returned for the reader, or BadValue
    unknown()   what stands below it without being declared

No node knows a record, a batch or a policy. Must never let a value become null in silence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from exporter.arrow.rows import filled
from exporter.errors import ConfigError
from exporter.formats.json.leaves import JsonLeaf, Means, evolved_leaf, json_leaf, leaf_of
from exporter.formats.json.specs import dict_of, list_of, or_null
from exporter.formats.json.values import BadValue, Note, UnknownFound, Unproven, mismatch
from exporter.formats.marks import bare, holds_json, is_evolved


@dataclass
class Child:
    """A named node, an element of an array, or a value of a map.

    declared: false for the route and event-time fields that no column holds. evolved: a column holds it that nobody
    declared, so a value that does not fit is unknown, and the record none the worse (VERDICT).
    """

    node: Node
    nullable: bool
    declared: bool = True
    evolved: bool = False


@dataclass
class Struct:
    """An object. Children are in declared order; grafted ones come last."""

    children: dict[str, Child]
    target: pa.DataType

    @property
    def reader(self) -> pa.DataType:
        return pa.struct([pa.field(name, child.node.reader) for name, child in self.children.items()])

    @property
    def spec(self) -> Any:
        required = [(f"f{i}", c.node.spec) for i, c in enumerate(self.children.values()) if not c.nullable]
        optional = [(f"f{i}", or_null(c.node.spec), None) for i, c in enumerate(self.children.values()) if c.nullable]
        names = {f"f{i}": name for i, name in enumerate(self.children)}
        return msgspec.defstruct("Object", [*required, *optional], rename=names, forbid_unknown_fields=True, gc=False)

    def read(self, value: Any, note: Note) -> Any:
        """The known fields, each read; raises BadValue. The value itself, not a copy of it, where it is all that."""
        if type(value) is not dict:
            raise mismatch("an object", value)
        known = {}
        name = ""
        same = True
        try:
            for name, child in self.children.items():
                item = value.get(name)
                if item is None:
                    if not child.nullable:
                        raise BadValue("missing_field", "is required, but null or missing")
                    continue
                read = _read_if_fit(child.node, value, name, note) if child.evolved else child.node.read(item, note)
                if read is not None:
                    known[name] = read
                same = same and read is item
        except BadValue as bad:
            bad.path.append(f".{name}")
            raise
        return value if same and len(known) == len(value) else known

    def unknown(self, value: Any, path: str, found: UnknownFound) -> Any:
        """The unknown fields as sent, nested ones in their object; None if there are none."""
        rest: dict[str, Any] = {}
        for name, item in value.items():
            child = self.children.get(name)
            if child is None or (found.unfit and (id(value), name) in found.unfit):
                rest[name] = item
                found.add(f"{path}.{name}")
            elif item is not None:
                inner = child.node.unknown(item, f"{path}.{name}", found)
                if inner is not None:
                    rest[name] = inner
        return rest or None

    def convert(self, array: pa.Array) -> pa.Array:
        columns = self.columns(array)
        return pa.StructArray.from_arrays(columns, fields=list(self.target), mask=array.is_null())

    def columns(self, array: pa.Array) -> list[pa.Array]:
        """The declared children of a struct array, converted and checked for required values."""
        present = array.is_valid() if array.null_count else None
        columns = []
        for i, child in enumerate(self.children.values()):
            if child.declared:
                column = child.node.convert(array.field(i))
                columns.append(column if child.nullable else _required(column, present))
        return columns


@dataclass
class List:
    """The shape of an array: that of its items."""

    item: Child
    target: pa.DataType

    @property
    def reader(self) -> pa.DataType:
        return pa.list_(pa.field("element", self.item.node.reader))

    @property
    def spec(self) -> Any:
        return list_of(_item_spec(self.item))

    def read(self, value: Any, note: Note) -> Any:
        if type(value) is not list:
            raise mismatch("an array", value)
        return [_read_item(self.item, item, f"[{i}]", note) for i, item in enumerate(value)]

    def unknown(self, value: Any, path: str, found: UnknownFound) -> Any:
        """One entry per element, so that positions stay: null where an element has nothing unknown."""
        if isinstance(self.item.node, JsonLeaf):
            return None
        before = found.count
        rest = [
            None if item is None else self.item.node.unknown(item, f"{path}[{i}]", found)
            for i, item in enumerate(value)
        ]
        return rest if found.count > before else None

    def convert(self, array: pa.Array) -> pa.Array:
        values = self.item.node.convert(array.values)
        if not self.item.nullable and values.null_count:
            raise Unproven
        return pa.ListArray.from_arrays(array.offsets, values, type=self.target, mask=array.is_null())


@dataclass
class Map:
    """An object with free keys; the reader gives a list of {key, value}.

    Entries come in the order of their keys.
    entries: such a list is also what the judge writes for the reader; otherwise wrapped.py reads the object.
    """

    item: Child
    target: pa.DataType
    entries: bool = True

    @property
    def reader(self) -> pa.DataType:
        return pa.list_(pa.struct([("key", pa.string()), ("value", self.item.node.reader)]))

    @property
    def spec(self) -> Any:
        return dict_of(_item_spec(self.item))

    def read(self, value: Any, note: Note) -> Any:
        if type(value) is not dict:
            raise mismatch("an object", value)
        if self.item.evolved:
            read = {key: _read_if_fit(self.item.node, value, key, note) for key in value}
            read = {key: item for key, item in read.items() if item is not None or value[key] is None}
        else:
            read = {key: _read_item(self.item, item, f".{key}", note) for key, item in value.items()}
        if not self.entries:
            return read
        note.changed = True
        return [{"key": key, "value": read[key]} for key in sorted(read)]

    def unknown(self, value: Any, path: str, found: UnknownFound) -> Any:
        rest = {}
        for key, item in value.items():
            if found.unfit and (id(value), key) in found.unfit:
                found.add(f"{path}.{key}")
                inner = item
            else:
                inner = None if item is None else self.item.node.unknown(item, f"{path}.{key}", found)
            if inner is not None:
                rest[key] = inner
        return rest or None

    def convert(self, array: pa.Array) -> pa.Array:
        keys, values = array.values.field(0), self.item.node.convert(array.values.field(1))
        if not self.item.nullable and values.null_count:
            raise Unproven
        return pa.MapArray.from_arrays(array.offsets, keys, values, type=self.target, mask=array.is_null())


Node: TypeAlias = JsonLeaf | Struct | List | Map


def _read_if_fit(node: Node, value: Any, name: str, note: Note) -> Any:
    """What stands at a member that no record is refused for; None if it is null or does not fit, which is noted."""
    item, cut = value[name], note.cut
    try:
        return None if item is None else node.read(item, note)
    except BadValue:
        note.cut = cut
        note.unfit.add((id(value), name))
        return None


def _item_spec(child: Child) -> Any:
    """What the classifier takes for an element of an array or a value of a map."""
    return or_null(child.node.spec) if child.nullable else child.node.spec


def _read_item(child: Child, item: Any, step: str, note: Note) -> Any:
    """One element of an array or value of a map."""
    try:
        if item is not None:
            return child.node.read(item, note)
        if child.nullable:
            return None
        raise BadValue("missing_field", "is required, but null")
    except BadValue as bad:
        bad.path.append(step)
        raise


def _required(column: pa.Array, present: pa.Array | None) -> pa.Array:
    """A column without nulls. Where the parent is null, a filler stands in, as Parquet wants it."""
    if not column.null_count:
        return column
    if present is None or pc.any(pc.and_(column.is_null(), present)).as_py():
        raise Unproven
    return filled(column)


def struct_of(fields: Iterable[pa.Field], means: Means, evolved: bool = False) -> Struct:
    """The node of an object with these fields. evolved: it stands in what nobody declared."""
    children = {field.name: _child_of(field, means, evolved) for field in fields}
    return Struct(children, bare(pa.struct(list(fields))))


def _child_of(field: pa.Field, means: Means, evolved: bool) -> Child:
    """A field, an element or the value of a map."""
    evolved = evolved or is_evolved(field)
    node = json_leaf(means) if holds_json(field) else shape_of(field.type, means, evolved)
    return Child(node, field.nullable or evolved, evolved=evolved)


def shape_of(data_type: pa.DataType, means: Means, evolved: bool = False) -> Node:
    """The node of a type."""
    types = pa.types
    if types.is_struct(data_type):
        return struct_of(data_type, means, evolved)
    target = bare(data_type)
    if types.is_list(data_type):
        return List(_child_of(data_type.value_field, means, evolved), target)
    if types.is_map(data_type):
        return Map(_child_of(data_type.item_field, means, evolved), target)
    leaf = leaf_of(data_type, means)
    return evolved_leaf(leaf, means) if evolved else leaf


def nodes_of(node: Node) -> Iterator[Node]:
    """A node and all below it."""
    yield node
    if isinstance(node, Struct):
        for child in node.children.values():
            yield from nodes_of(child.node)
    elif not isinstance(node, JsonLeaf):
        yield from nodes_of(node.item.node)


def free_maps(root: Struct) -> None:
    """Have the maps read as objects, if all stand below structs only and none in another."""
    open_nodes: list[Node] = [root]
    found = []
    while open_nodes:
        node = open_nodes.pop()
        if isinstance(node, Struct):
            open_nodes += [child.node for child in node.children.values()]
        elif isinstance(node, Map):
            found.append(node)
    if len(found) == sum(isinstance(node, Map) for node in nodes_of(root)):
        for node in found:
            node.entries = False


def decimal_guard(root: Struct) -> str | None:
    """A regex for values that the reader must not see as sent, or None if no column is a decimal.

    Measured with pyarrow 26: a decimal of exponent -1000000000 kills the process; exponents or
    over 38 - scale whole digits can give a wrong value that also passes validate();
    and "1e+-1" is taken for 0.1.
    What the judge passes is plain and short enough. A token may be hidden by \\u00xx escapes.
    """
    scales = [node.target.scale for node in nodes_of(root) if pa.types.is_decimal(node.target)]
    if not scales:
        return None
    whole = rf"0*[1-9][0-9]{{{38 - max(scales)},}}"
    exponent = r"[0-9]*\.?[0-9]*[eE][-+0-9]*[,}\] \t\r\n\"]"
    return rf'[:,\[ \t\r\n"][+-]?(?:{whole}|{exponent})|\\u00[2-6]'


def graft(root: Struct, path: Sequence[str], leaf: JsonLeaf, fits: Callable[[pa.DataType], bool], what: str) -> None:
    """Make the field at `path` known, declared or not; ConfigError if a declared type is in the way.

    A value there that does not fit refuses the record, whoever made the column that holds it.
    """
    here = root
    for depth, name in enumerate(path):
        child, last = here.children.get(name), depth + 1 == len(path)
        if child is None:
            grown = leaf if last else Struct({}, pa.struct([]))
            child = here.children[name] = Child(grown, True, declared=False)
        if child.evolved:
            child.evolved, child.node = False, leaf if last else child.node
        node, dotted = child.node, ".".join(path[: depth + 1])
        if last and not (isinstance(node, JsonLeaf) and fits(node.target) and not node.holds_json):
            kind = "JSON" if isinstance(node, JsonLeaf) and node.holds_json else node.target
            what = f"column {dotted} is declared {kind}, but holds {what}"
            raise ConfigError(what, f"declare it as {leaf.target} or leave it out")
        if isinstance(node, Struct):
            here = node
        elif not last:
            what = f"{what} stands below {dotted}, but that column is declared {node.target}"
            raise ConfigError(what, "declare it as a STRUCT or leave it out")
