"""The shape of an event type: one node per declared (or otherwise known) field. Runs on Spark executors.

Each node says for its field what the three readers of decode.py need, so that they cannot differ:

    reader      the type with which pyarrow's JSON reader reads it, and convert() from there
    spec        the type with which msgspec, the classifier, reads it
    read()      the judge's exact reading of one value: returned for the reader, or Refused
    unknown()   what stands below it without being declared

No node knows a record, a batch or a policy. Must never let a value become null in silence.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from exporter.errors import ConfigError
from exporter.text import shorten

UTC_US = pa.timestamp("us", "UTC")

_TIME_LONG = re.compile(r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\.\d{6})\d{1,3}(|Z|[+-]\d\d(?::?\d\d)?)", re.ASCII)
_TIME_SURE = re.compile(
    r"[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])[T ](?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
    r"(?:\.[0-9]{1,6})?(?:Z|[+-](?:0[0-9]|1[0-4]):[0-5][0-9])?"
)
_TIME_ZONED = r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)$"
TIME_CUT_HINT = r"\d\d:\d\d:\d\d\.\d{7}"
_DATE_SURE = re.compile(r"[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])")
_DECIMAL_SURE = re.compile(r"-?([0-9]+)(?:\.([0-9]+))?")
_DECIMAL_TEXT = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_BASE64 = r"^[A-Za-z0-9+/]*={0,2}$"
_BASE64_TEXT = re.compile(r"[A-Za-z0-9+/]*={0,2}")
_FLOAT32_DOUBTFUL = 3.4028234e38


class Doubt(Exception):
    """The fast reader cannot prove that all records are good."""


class Refused(Exception):
    """One record is bad: a code, what was found, and the path, collected from the leaf up."""

    def __init__(self, code: str, what: str) -> None:
        super().__init__(code, what)
        self.code = code
        self.what = what
        self.path: list[str] = []

    @property
    def reason(self) -> str:
        return f"{self.code}: {shorten('$' + ''.join(reversed(self.path)))} {self.what}"


class Int(str):
    """A JSON number token of digits only, as sent."""

    __slots__ = ()


class Float(str):
    """A JSON number token with a fraction or an exponent, as sent."""

    __slots__ = ()


@dataclass
class Note:
    """What reading one record brought up: must it be rewritten, how many timestamps were cut."""

    changed: bool = False
    cut: int = 0


@dataclass
class Found:
    """The unknown fields of one record: how many, and the path of the first one."""

    count: int = 0
    first: str = ""

    def add(self, path: str) -> None:
        self.first = self.first or path
        self.count += 1


_KINDS = {
    type(None): "null", bool: "a boolean", Int: "an integer", Float: "a number", str: "a string",
    list: "an array", dict: "an object",
}  # fmt: skip


def _mismatch(expected: str, value: Any) -> Refused:
    return Refused("type_mismatch", f"expected {expected}, got {_KINDS[type(value)]}")


def numbered(count: int) -> pa.Int32Array:
    """0 .. count - 1, without a Python object per number."""
    return pc.indices_nonzero(pa.repeat(True, count)).cast(pa.int32())


def data_of(values: pa.BinaryArray) -> bytes:
    """The bytes of all values, one behind the other."""
    _, ends, data = values.buffers()
    if data is None:
        return b""
    offsets = pa.Array.from_buffers(pa.int32(), len(values) + 1, [None, ends], offset=values.offset)
    begin, end = offsets[0].as_py(), offsets[-1].as_py()
    sent: bytes = data.slice(begin, end - begin).to_pybytes()
    return sent


# --- leaves -----------------------------------------------------------------------------------


def _read_string(value: Any, _note: Note) -> Any:
    if type(value) is not str:
        raise _mismatch("a string", value)
    return value


def _read_bool(value: Any, _note: Note) -> Any:
    if type(value) is not bool:
        raise _mismatch("a boolean", value)
    return value


def _int_reader(bits: int) -> Callable[[Any, Note], Any]:
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1

    def read(value: Any, _note: Note) -> Any:
        if type(value) is not Int:
            raise _mismatch("an integer", value)
        if len(value) > 20 or not low <= int(value) <= high:
            raise Refused("out_of_range", f"= {shorten(value)} does not fit {bits} bits")
        return value

    return read


def _float_reader(bits: int) -> Callable[[Any, Note], Any]:
    def read(value: Any, note: Note) -> Any:
        if type(value) is not Int and type(value) is not Float:
            raise _mismatch("a number", value)
        number = float(value)
        if not math.isfinite(number) or (bits == 32 and not _fits_float32(value, number)):
            raise Refused("out_of_range", f"= {shorten(value)} does not fit a {bits}-bit float")
        if number == 0.0 and len(value) > 4:  # the reader refuses 0e999999
            note.changed = True
            return Float(repr(number))
        return value

    return read


def _fits_float32(text: str, number: float) -> bool:
    if abs(number) < _FLOAT32_DOUBTFUL:
        return True
    try:
        return math.isfinite(pa.array([str(text)]).cast(pa.float32())[0].as_py())
    except pa.ArrowInvalid:
        return False


def _decimal_reader(precision: int, scale: int) -> Callable[[Any, Note], Any]:
    """Numbers and number texts whose exact value fits; nothing is rounded."""
    whole_max = precision - scale

    def read(value: Any, note: Note) -> Any:
        if not isinstance(value, str):
            raise _mismatch("a decimal", value)
        sure = _DECIMAL_SURE.fullmatch(value)
        if sure and len(sure[1]) <= whole_max and len(sure[2] or "") <= scale:
            return value
        if type(value) is str and not _DECIMAL_TEXT.fullmatch(value):
            raise Refused("type_mismatch", "expected a decimal, got another string")
        plain = _plain_decimal(value, whole_max, scale)
        if plain is None:
            raise Refused("out_of_range", f"= {shorten(value)} does not fit DECIMAL({precision},{scale})")
        note.changed = True
        return Float(plain)

    return read


def _plain_decimal(text: str, whole_max: int, scale: int) -> str | None:
    """The same value without exponent and needless zeros, or None if it does not fit."""
    try:
        number = Decimal(str(text))
    except InvalidOperation:  # an exponent beyond what Decimal holds
        return None
    sign, digits, exponent = number.as_tuple()
    if number.is_zero() or not isinstance(exponent, int):
        return "0" if number.is_zero() else None
    kept = len(digits)
    while digits[kept - 1] == 0:
        kept -= 1
    exponent += len(digits) - kept
    if -exponent > scale or number.adjusted() >= whole_max:
        return None
    return format(Decimal((sign, digits[:kept], exponent)), "f")


def _read_time(value: Any, note: Note) -> Any:
    if type(value) is not str:
        raise _mismatch("a timestamp text", value)
    long = _TIME_LONG.fullmatch(value)
    if long:
        value = long[1] + long[2]
        note.cut += 1
        note.changed = True
    if not _TIME_SURE.fullmatch(value) and not _castable(value, UTC_US) and not _castable(value, pa.timestamp("us")):
        raise Refused("type_mismatch", f"= {shorten(value)!r} is no timestamp")
    return value


def _read_date(value: Any, _note: Note) -> Any:
    if type(value) is not str:
        raise _mismatch("a date text", value)
    if not _DATE_SURE.fullmatch(value) and not _castable(value, pa.date32()):
        raise Refused("type_mismatch", f"= {shorten(value)!r} is no date")
    return value


def _castable(text: str, data_type: pa.DataType) -> bool:
    """True if Arrow's own parser, the one behind the JSON reader, takes the text."""
    try:
        pa.array([text], pa.string()).cast(data_type)
    except pa.ArrowInvalid:
        return False
    return True


def _read_base64(value: Any, _note: Note) -> Any:
    if type(value) is not str:
        raise _mismatch("a base64 text", value)
    if len(value) % 4 or not _BASE64_TEXT.fullmatch(value):
        raise Refused("type_mismatch", "expected base64, got another string")
    return value


def _finite(array: pa.Array) -> pa.Array:
    """The reader takes the tokens NaN and Infinity, JSON has none."""
    if not pc.all(pc.is_finite(array)).as_py() and array.null_count < len(array):
        raise Doubt
    return array


def _decode_base64(array: pa.Array) -> pa.Array:
    fits = pc.and_(pc.match_substring_regex(array, _BASE64), pc.equal(pc.bit_wise_and(pc.binary_length(array), 3), 0))
    if pc.all(fits).as_py() is False:
        raise Doubt
    return pa.array([None if text is None else base64.b64decode(text) for text in array.to_pylist()], pa.binary())


def _cast_date(array: pa.Array) -> pa.Array:
    return array.cast(pa.date32())


class LongTimes:
    """Cuts fraction digits 7-9 of a whole column: for streams whose timestamps all have them."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, array: pa.Array) -> pa.Array:
        """Texts with seconds and a zone as timestamp[us, UTC]; Doubt for any other. Adds to `count`."""
        if pc.all(pc.match_substring_regex(array, _TIME_ZONED)).as_py() is False:
            raise Doubt
        self.count += pc.sum(pc.match_substring_regex(array, r"\.\d{7}")).as_py() or 0
        return pc.replace_substring_regex(array, r"(\.\d{6})\d+", r"\1").cast(UTC_US)


# --- shapes: one node per declared (or otherwise known) field ----------------------------------


@dataclass
class Leaf:
    """A scalar. reader: its type in the JSON reader. spec: its type in the classifier."""

    target: pa.DataType
    reader: pa.DataType
    spec: Any
    read: Callable[[Any, Note], Any]
    from_reader: Callable[[pa.Array], pa.Array] | None = None

    def convert(self, array: pa.Array) -> pa.Array:
        """The reader's column as the declared type; Doubt or ArrowInvalid if that cannot be."""
        return array if self.from_reader is None else self.from_reader(array)

    def unknown(self, _value: Any, _path: str, _found: Found) -> Any:
        """Scalars hold no unknown fields."""
        return None


@dataclass
class Child:
    """A named node. declared: false for the route and event-time fields that no column holds."""

    node: Any
    nullable: bool
    declared: bool = True


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
        optional = [(f"f{i}", c.node.spec | None, None) for i, c in enumerate(self.children.values()) if c.nullable]
        names = {f"f{i}": name for i, name in enumerate(self.children)}
        return msgspec.defstruct("Object", [*required, *optional], rename=names, forbid_unknown_fields=True, gc=False)

    def read(self, value: Any, note: Note) -> Any:
        """The known fields, each read; raises Refused. The value itself, not a copy of it, where it is all that."""
        if type(value) is not dict:
            raise _mismatch("an object", value)
        known = {}
        name = ""
        same = True
        try:
            for name, child in self.children.items():
                item = value.get(name)
                if item is not None:
                    known[name] = read = child.node.read(item, note)
                    same = same and read is item
                elif not child.nullable:
                    raise Refused("missing_field", "is required, but null or missing")
        except Refused as refused:
            refused.path.append(f".{name}")
            raise
        return value if same and len(known) == len(value) else known

    def unknown(self, value: Any, path: str, found: Found) -> Any:
        """The unknown fields as sent, nested ones in their object; None if there are none."""
        rest: dict[str, Any] = {}
        for name, item in value.items():
            child = self.children.get(name)
            if child is None:
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
    """An array."""

    item: Child
    target: pa.DataType

    @property
    def reader(self) -> pa.DataType:
        return pa.list_(pa.field("element", self.item.node.reader))

    @property
    def spec(self) -> Any:
        inner = self.item.node.spec
        return list[(inner | None) if self.item.nullable else inner]  # type: ignore[misc]

    def read(self, value: Any, note: Note) -> Any:
        if type(value) is not list:
            raise _mismatch("an array", value)
        return [_read_item(self.item, item, f"[{i}]", note) for i, item in enumerate(value)]

    def unknown(self, value: Any, path: str, found: Found) -> Any:
        """One entry per element, so that positions stay: null where an element has nothing unknown."""
        if isinstance(self.item.node, Leaf):
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
            raise Doubt
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
        inner = self.item.node.spec
        return dict[str, (inner | None) if self.item.nullable else inner]  # type: ignore[misc]

    def read(self, value: Any, note: Note) -> Any:
        if type(value) is not dict:
            raise _mismatch("an object", value)
        read = {key: _read_item(self.item, item, f".{key}", note) for key, item in value.items()}
        if not self.entries:
            return read
        note.changed = True
        return [{"key": key, "value": read[key]} for key in sorted(read)]

    def unknown(self, value: Any, path: str, found: Found) -> Any:
        rest = {}
        for key, item in value.items():
            inner = None if item is None else self.item.node.unknown(item, f"{path}.{key}", found)
            if inner is not None:
                rest[key] = inner
        return rest or None

    def convert(self, array: pa.Array) -> pa.Array:
        keys, values = array.values.field(0), self.item.node.convert(array.values.field(1))
        if not self.item.nullable and values.null_count:
            raise Doubt
        return pa.MapArray.from_arrays(array.offsets, keys, values, type=self.target, mask=array.is_null())


def _read_item(child: Child, item: Any, step: str, note: Note) -> Any:
    """One element of an array or value of a map."""
    try:
        if item is not None:
            return child.node.read(item, note)
        if child.nullable:
            return None
        raise Refused("missing_field", "is required, but null")
    except Refused as refused:
        refused.path.append(step)
        raise


def _required(column: pa.Array, present: pa.Array | None) -> pa.Array:
    """A column without nulls. Where the parent is null, a filler stands in, as Parquet wants it."""
    if not column.null_count:
        return column
    if present is None or pc.any(pc.and_(column.is_null(), present)).as_py():
        raise Doubt
    filler = pa.array([_zero(column.type)], column.type)
    at = pc.if_else(column.is_null(), len(column), numbered(len(column)))
    return pa.concat_arrays([column, filler]).take(at)


def _zero(data_type: pa.DataType) -> Any:
    """Any value of a type without a null in it."""
    if pa.types.is_struct(data_type):
        return {f.name: None if f.nullable else _zero(f.type) for f in data_type}
    if pa.types.is_list(data_type) or pa.types.is_map(data_type):
        return []
    if pa.types.is_string(data_type) or pa.types.is_binary(data_type):
        return "" if pa.types.is_string(data_type) else b""
    return Decimal(0) if pa.types.is_decimal(data_type) else 0


def shape_of(data_type: pa.DataType, cutter: LongTimes | None = None) -> Any:
    """The node of a declared type; with a cutter its timestamps are read as text and cut."""
    types = pa.types
    if types.is_struct(data_type):
        return Struct({f.name: Child(shape_of(f.type, cutter), f.nullable) for f in data_type}, data_type)
    if types.is_list(data_type):
        return List(Child(shape_of(data_type.value_type, cutter), data_type.value_field.nullable), data_type)
    if types.is_map(data_type):
        return Map(Child(shape_of(data_type.item_type, cutter), data_type.item_field.nullable), data_type)
    if types.is_timestamp(data_type) and cutter is not None:
        return Leaf(data_type, pa.string(), str, _read_time, lambda array: cutter(array).cast(data_type))
    if types.is_integer(data_type):
        low, high = -(1 << (data_type.bit_width - 1)), (1 << (data_type.bit_width - 1)) - 1
        spec = Annotated[int, msgspec.Meta(ge=low, le=high)]
        return Leaf(data_type, data_type, spec, _int_reader(data_type.bit_width))
    if types.is_floating(data_type):
        return Leaf(data_type, data_type, float, _float_reader(data_type.bit_width), _finite)
    if types.is_decimal(data_type):
        return Leaf(data_type, data_type, Decimal, _decimal_reader(data_type.precision, data_type.scale))
    simple = {
        pa.string(): (data_type, str, _read_string, None),
        pa.bool_(): (data_type, bool, _read_bool, None),
        pa.binary(): (pa.string(), str, _read_base64, _decode_base64),
        pa.date32(): (pa.string(), str, _read_date, _cast_date),
        UTC_US: (data_type, str, _read_time, None),
        pa.timestamp("us"): (data_type, str, _read_time, None),
    }
    if data_type not in simple:
        raise ConfigError(f"type {data_type} has no JSON form here", "build the schema with arrow_schema()")
    return Leaf(data_type, *simple[data_type])


def nodes_of(node: Any) -> Iterator[Any]:
    """A node and all below it."""
    yield node
    if isinstance(node, Struct):
        for child in node.children.values():
            yield from nodes_of(child.node)
    elif not isinstance(node, Leaf):
        yield from nodes_of(node.item.node)


def free_maps(root: Struct) -> None:
    """Have the maps read as objects, if all stand below structs only and none in another."""
    open_nodes: list[Any] = [root]
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


def graft(root: Struct, path: list[str], leaf: Leaf, fits: Callable[[pa.DataType], bool], what: str) -> None:
    """Make the field at `path` known, declared or not; ConfigError if a declared type is in the way."""
    here = root
    for depth, name in enumerate(path):
        child, last = here.children.get(name), depth + 1 == len(path)
        if child is None:
            grown = leaf if last else Struct({}, pa.struct([]))
            child = here.children[name] = Child(grown, True, declared=False)
        node, dotted = child.node, ".".join(path[: depth + 1])
        if last and not (isinstance(node, Leaf) and fits(node.target)):
            what = f"column {dotted} is declared {node.target}, but holds {what}"
            raise ConfigError(what, f"declare it as {leaf.target} or leave it out")
        if not last and not isinstance(node, Struct):
            what = f"{what} stands below {dotted}, but that column is declared {node.target}"
            raise ConfigError(what, "declare it as a STRUCT or leave it out")
        here = node
