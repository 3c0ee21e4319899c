"""JSON values -> the declared columns of one event type. Runs on Spark executors.

Three readers, from fast to exact, with ONE verdict per record whatever the path (ROUTE):

    wrapped     pyarrow's JSON reader over the whole batch; taken only if all is proven good
    classifier  msgspec, typed and strict, per record; tells the doubtful ones from the others
    judge       stdlib json, per record; the only one that refuses a record and words the reason

Values always come out of the wrapped reader: what the judge passes is read by it too, rewritten
where the reader cannot take it as sent (unknown fields taken out, fraction digits 7-9 cut, maps as
lists of entries, decimals written plainly). So the judge passes all that the reader passes, and a
record alone decodes as it does in a batch. The reader is not trusted with decimals beyond the plain
(see _decimal_guard). Must never let a value become null in silence, drop a
record, or look at a clock.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from json.encoder import encode_basestring
from typing import Annotated, Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from exporter.errors import ConfigError
from exporter.route import NOT_OBJECT, PARSE_ERRORS, TOO_DEEP, not_utf8, refuse_constant, shorten, too_deep
from exporter.routing import Routing

UTC_US = pa.timestamp("us", "UTC")

BLOCK_ROWS = 80
"""A reader that refuses a batch is tried on blocks down to this size before the judge sees them."""

WARY_BATCHES = 8
"""After a batch with a doubtful record this many batches go to the classifier without trying the fast path."""

_FACTORS_US = {"s": 1_000_000, "ms": 1_000, "us": 1}
_TIME_LONG = re.compile(r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\.\d{6})\d{1,3}(|Z|[+-]\d\d(?::?\d\d)?)", re.ASCII)
_TIME_SURE = re.compile(
    r"[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])[T ](?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
    r"(?:\.[0-9]{1,6})?(?:Z|[+-](?:0[0-9]|1[0-4]):[0-5][0-9])?"
)
_TIME_ZONED = r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)$"
_TIME_CUT_HINT = r"\d\d:\d\d:\d\d\.\d{7}"
_DATE_SURE = re.compile(r"[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])")
_DECIMAL_SURE = re.compile(r"-?([0-9]+)(?:\.([0-9]+))?")
_DECIMAL_TEXT = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_BASE64 = r"^[A-Za-z0-9+/]*={0,2}$"
_BASE64_TEXT = re.compile(r"[A-Za-z0-9+/]*={0,2}")
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_FLOAT32_DOUBTFUL = 3.4028234e38


@dataclass(frozen=True)
class Decoded:
    """A decoded batch: each input row is in exactly one of `good` and `bad`.

    table: one row per good record: the declared columns, `_rescued` (string) and `_event_time`
    (timestamp[us, UTC], never null). good: ascending int32 input rows. bad: (input row, stage,
    reason), ascending. rescued: good records with a `_rescued` text. ignored: unknown fields left
    out of good records. truncated: timestamps that lost fraction digits 7-9, in good records and those
    that only their event time made bad.
    """

    table: pa.Table
    good: pa.Int32Array
    bad: list[tuple[int, str, str]]
    rescued: int = 0
    ignored: int = 0
    truncated: int = 0


class _Doubt(Exception):
    """The fast reader cannot prove that all records are good."""


class _Refused(Exception):
    """One record is bad: a code, what was found, and the path, collected from the leaf up."""

    def __init__(self, code: str, what: str) -> None:
        super().__init__(code, what)
        self.code = code
        self.what = what
        self.path: list[str] = []

    @property
    def reason(self) -> str:
        return f"{self.code}: {shorten('$' + ''.join(reversed(self.path)))} {self.what}"


class _Unreadable(Exception):
    """One record is bad as a whole; the text is the reason."""


class _Int(str):
    """A JSON number token of digits only, as sent."""

    __slots__ = ()


class _Float(str):
    """A JSON number token with a fraction or an exponent, as sent."""

    __slots__ = ()


@dataclass
class _Note:
    """What reading one record brought up: must it be rewritten, how many timestamps were cut."""

    changed: bool = False
    cut: int = 0


_KINDS = {
    type(None): "null", bool: "a boolean", _Int: "an integer", _Float: "a number", str: "a string",
    list: "an array", dict: "an object",
}  # fmt: skip


def _mismatch(expected: str, value: Any) -> _Refused:
    return _Refused("type_mismatch", f"expected {expected}, got {_KINDS[type(value)]}")


# --- leaves -----------------------------------------------------------------------------------


def _read_string(value: Any, _note: _Note) -> Any:
    if type(value) is not str:
        raise _mismatch("a string", value)
    return value


def _read_bool(value: Any, _note: _Note) -> Any:
    if type(value) is not bool:
        raise _mismatch("a boolean", value)
    return value


def _int_reader(bits: int) -> Callable[[Any, _Note], Any]:
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1

    def read(value: Any, _note: _Note) -> Any:
        if type(value) is not _Int:
            raise _mismatch("an integer", value)
        if len(value) > 20 or not low <= int(value) <= high:
            raise _Refused("out_of_range", f"= {shorten(value)} does not fit {bits} bits")
        return value

    return read


def _float_reader(bits: int) -> Callable[[Any, _Note], Any]:
    def read(value: Any, note: _Note) -> Any:
        if type(value) is not _Int and type(value) is not _Float:
            raise _mismatch("a number", value)
        number = float(value)
        if not math.isfinite(number) or (bits == 32 and not _fits_float32(value, number)):
            raise _Refused("out_of_range", f"= {shorten(value)} does not fit a {bits}-bit float")
        if number == 0.0 and len(value) > 4:  # the reader refuses 0e999999
            note.changed = True
            return _Float(repr(number))
        return value

    return read


def _fits_float32(text: str, number: float) -> bool:
    if abs(number) < _FLOAT32_DOUBTFUL:
        return True
    try:
        return math.isfinite(pa.array([str(text)]).cast(pa.float32())[0].as_py())
    except pa.ArrowInvalid:
        return False


def _decimal_reader(precision: int, scale: int) -> Callable[[Any, _Note], Any]:
    """Numbers and number texts whose exact value fits; nothing is rounded."""
    whole_max = precision - scale

    def read(value: Any, note: _Note) -> Any:
        if not isinstance(value, str):
            raise _mismatch("a decimal", value)
        sure = _DECIMAL_SURE.fullmatch(value)
        if sure and len(sure[1]) <= whole_max and len(sure[2] or "") <= scale:
            return value
        if type(value) is str and not _DECIMAL_TEXT.fullmatch(value):
            raise _Refused("type_mismatch", "expected a decimal, got another string")
        plain = _plain_decimal(value, whole_max, scale)
        if plain is None:
            raise _Refused("out_of_range", f"= {shorten(value)} does not fit DECIMAL({precision},{scale})")
        note.changed = True
        return _Float(plain)

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


def _read_time(value: Any, note: _Note) -> Any:
    if type(value) is not str:
        raise _mismatch("a timestamp text", value)
    long = _TIME_LONG.fullmatch(value)
    if long:
        value = long[1] + long[2]
        note.cut += 1
        note.changed = True
    if not _TIME_SURE.fullmatch(value) and not _castable(value, UTC_US) and not _castable(value, pa.timestamp("us")):
        raise _Refused("type_mismatch", f"= {shorten(value)!r} is no timestamp")
    return value


def _read_date(value: Any, _note: _Note) -> Any:
    if type(value) is not str:
        raise _mismatch("a date text", value)
    if not _DATE_SURE.fullmatch(value) and not _castable(value, pa.date32()):
        raise _Refused("type_mismatch", f"= {shorten(value)!r} is no date")
    return value


def _castable(text: str, data_type: pa.DataType) -> bool:
    """True if Arrow's own parser, the one behind the JSON reader, takes the text."""
    try:
        pa.array([text], pa.string()).cast(data_type)
    except pa.ArrowInvalid:
        return False
    return True


def _read_base64(value: Any, _note: _Note) -> Any:
    if type(value) is not str:
        raise _mismatch("a base64 text", value)
    if len(value) % 4 or not _BASE64_TEXT.fullmatch(value):
        raise _Refused("type_mismatch", "expected base64, got another string")
    return value


def _finite(array: pa.Array) -> pa.Array:
    """The reader takes the tokens NaN and Infinity, JSON has none."""
    if not pc.all(pc.is_finite(array)).as_py() and array.null_count < len(array):
        raise _Doubt
    return array


def _decode_base64(array: pa.Array) -> pa.Array:
    fits = pc.and_(pc.match_substring_regex(array, _BASE64), pc.equal(pc.bit_wise_and(pc.binary_length(array), 3), 0))
    if pc.all(fits).as_py() is False:
        raise _Doubt
    return pa.array([None if text is None else base64.b64decode(text) for text in array.to_pylist()], pa.binary())


def _cast_date(array: pa.Array) -> pa.Array:
    return array.cast(pa.date32())


class _LongTimes:
    """Cuts fraction digits 7-9 of a whole column: for streams whose timestamps all have them."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, array: pa.Array) -> pa.Array:
        """Texts with seconds and a zone as timestamp[us, UTC]; _Doubt for any other. Adds to `count`."""
        if pc.all(pc.match_substring_regex(array, _TIME_ZONED)).as_py() is False:
            raise _Doubt
        self.count += pc.sum(pc.match_substring_regex(array, r"\.\d{7}")).as_py() or 0
        return pc.replace_substring_regex(array, r"(\.\d{6})\d+", r"\1").cast(UTC_US)


# --- shapes: one node per declared (or otherwise known) field ----------------------------------


@dataclass
class _Leaf:
    """A scalar. reader: its type in the JSON reader. spec: its type in the classifier."""

    target: pa.DataType
    reader: pa.DataType
    spec: Any
    read: Callable[[Any, _Note], Any]
    from_reader: Callable[[pa.Array], pa.Array] | None = None

    def convert(self, array: pa.Array) -> pa.Array:
        """The reader's column as the declared type; _Doubt or ArrowInvalid if that cannot be."""
        return array if self.from_reader is None else self.from_reader(array)

    def unknown(self, _value: Any, _path: str, _found: list[str]) -> Any:
        """Scalars hold no unknown fields."""
        return None


@dataclass
class _Child:
    """A named node. declared: false for the route and event-time fields that no column holds."""

    node: Any
    nullable: bool
    declared: bool = True


@dataclass
class _Struct:
    """An object. Children are in declared order; grafted ones come last."""

    children: dict[str, _Child]
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

    def read(self, value: Any, note: _Note) -> Any:
        """The known fields, each read; raises _Refused."""
        if type(value) is not dict:
            raise _mismatch("an object", value)
        known = {}
        name = ""
        try:
            for name, child in self.children.items():
                item = value.get(name)
                if item is not None:
                    known[name] = child.node.read(item, note)
                elif not child.nullable:
                    raise _Refused("missing_field", "is required, but null or missing")
        except _Refused as refused:
            refused.path.append(f".{name}")
            raise
        return known

    def unknown(self, value: Any, path: str, found: list[str]) -> Any:
        """The unknown fields as sent, nested ones in their object; None if there are none."""
        rest: dict[str, Any] = {}
        for name, item in value.items():
            child = self.children.get(name)
            if child is None:
                rest[name] = item
                found.append(f"{path}.{name}")
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
class _List:
    """An array."""

    item: _Child
    target: pa.DataType

    @property
    def reader(self) -> pa.DataType:
        return pa.list_(pa.field("element", self.item.node.reader))

    @property
    def spec(self) -> Any:
        inner = self.item.node.spec
        return list[(inner | None) if self.item.nullable else inner]  # type: ignore[misc]

    def read(self, value: Any, note: _Note) -> Any:
        if type(value) is not list:
            raise _mismatch("an array", value)
        return [_read_item(self.item, item, f"[{i}]", note) for i, item in enumerate(value)]

    def unknown(self, value: Any, path: str, found: list[str]) -> Any:
        """One entry per element, so that positions stay: null where an element has nothing unknown."""
        if isinstance(self.item.node, _Leaf):
            return None
        before = len(found)
        rest = [
            None if item is None else self.item.node.unknown(item, f"{path}[{i}]", found)
            for i, item in enumerate(value)
        ]
        return rest if len(found) > before else None

    def convert(self, array: pa.Array) -> pa.Array:
        values = self.item.node.convert(array.values)
        if not self.item.nullable and values.null_count:
            raise _Doubt
        return pa.ListArray.from_arrays(array.offsets, values, type=self.target, mask=array.is_null())


@dataclass
class _Map:
    """An object with free keys; the reader sees a list of {key, value}."""

    item: _Child
    target: pa.DataType

    @property
    def reader(self) -> pa.DataType:
        return pa.list_(pa.struct([("key", pa.string()), ("value", self.item.node.reader)]))

    @property
    def spec(self) -> Any:
        return dict[str, Any]

    def read(self, value: Any, note: _Note) -> Any:
        if type(value) is not dict:
            raise _mismatch("an object", value)
        note.changed = True
        return [{"key": key, "value": _read_item(self.item, item, f".{key}", note)} for key, item in value.items()]

    def unknown(self, value: Any, path: str, found: list[str]) -> Any:
        rest = {}
        for key, item in value.items():
            inner = None if item is None else self.item.node.unknown(item, f"{path}.{key}", found)
            if inner is not None:
                rest[key] = inner
        return rest or None

    def convert(self, array: pa.Array) -> pa.Array:
        keys, values = array.values.field(0), self.item.node.convert(array.values.field(1))
        if not self.item.nullable and values.null_count:
            raise _Doubt
        return pa.MapArray.from_arrays(array.offsets, keys, values, type=self.target, mask=array.is_null())


def _read_item(child: _Child, item: Any, step: str, note: _Note) -> Any:
    """One element of an array or value of a map."""
    try:
        if item is not None:
            return child.node.read(item, note)
        if child.nullable:
            return None
        raise _Refused("missing_field", "is required, but null")
    except _Refused as refused:
        refused.path.append(step)
        raise


def _required(column: pa.Array, present: pa.Array | None) -> pa.Array:
    """A column without nulls. Where the parent is null, a filler stands in, as Parquet wants it."""
    if not column.null_count:
        return column
    if present is None or pc.any(pc.and_(column.is_null(), present)).as_py():
        raise _Doubt
    filler = pa.array([_zero(column.type)], column.type)
    at = pc.if_else(column.is_null(), len(column), _numbered(len(column)))
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


def _shape(data_type: pa.DataType, cutter: _LongTimes | None = None) -> Any:
    """The node of a declared type; with a cutter its timestamps are read as text and cut."""
    types = pa.types
    if types.is_struct(data_type):
        return _Struct({f.name: _Child(_shape(f.type, cutter), f.nullable) for f in data_type}, data_type)
    if types.is_list(data_type):
        return _List(_Child(_shape(data_type.value_type, cutter), data_type.value_field.nullable), data_type)
    if types.is_map(data_type):
        return _Map(_Child(_shape(data_type.item_type, cutter), data_type.item_field.nullable), data_type)
    if types.is_timestamp(data_type) and cutter is not None:
        return _Leaf(data_type, pa.string(), str, _read_time, lambda array: cutter(array).cast(data_type))
    if types.is_integer(data_type):
        low, high = -(1 << (data_type.bit_width - 1)), (1 << (data_type.bit_width - 1)) - 1
        spec = Annotated[int, msgspec.Meta(ge=low, le=high)]
        return _Leaf(data_type, data_type, spec, _int_reader(data_type.bit_width))
    if types.is_floating(data_type):
        return _Leaf(data_type, data_type, float, _float_reader(data_type.bit_width), _finite)
    if types.is_decimal(data_type):
        return _Leaf(data_type, data_type, Decimal, _decimal_reader(data_type.precision, data_type.scale))
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
    return _Leaf(data_type, *simple[data_type])


def _nodes(node: Any) -> Iterator[Any]:
    """A node and all below it."""
    yield node
    if isinstance(node, _Struct):
        for child in node.children.values():
            yield from _nodes(child.node)
    elif not isinstance(node, _Leaf):
        yield from _nodes(node.item.node)


def _decimal_guard(root: _Struct) -> str | None:
    """A regex for values that the reader must not see as sent, or None if no column is a decimal.

    Measured with pyarrow 26: a decimal of exponent -1000000000 kills the process; exponents or
    over 38 - scale whole digits can give a wrong value that also passes validate();
    and "1e+-1" is taken for 0.1.
    What the judge passes is plain and short enough. A token may be hidden by \\u00xx escapes.
    """
    scales = [node.target.scale for node in _nodes(root) if pa.types.is_decimal(node.target)]
    if not scales:
        return None
    whole = rf"0*[1-9][0-9]{{{38 - max(scales)},}}"
    exponent = r"[0-9]*\.?[0-9]*[eE][-+0-9]*[,}\] \t\r\n\"]"
    return rf'[:,\[ \t\r\n"][+-]?(?:{whole}|{exponent})|\\u00[2-6]'


def _graft(root: _Struct, path: list[str], leaf: _Leaf, fits: Callable[[pa.DataType], bool], what: str) -> None:
    """Make the field at `path` known, declared or not; ConfigError if a declared type is in the way."""
    here = root
    for depth, name in enumerate(path):
        child, last = here.children.get(name), depth + 1 == len(path)
        if child is None:
            grown = leaf if last else _Struct({}, pa.struct([]))
            child = here.children[name] = _Child(grown, True, declared=False)
        node, dotted = child.node, ".".join(path[: depth + 1])
        if last and not (isinstance(node, _Leaf) and fits(node.target)):
            what = f"column {dotted} is declared {node.target}, but holds {what}"
            raise ConfigError(what, f"declare it as {leaf.target} or leave it out")
        if not last and not isinstance(node, _Struct):
            what = f"{what} stands below {dotted}, but that column is declared {node.target}"
            raise ConfigError(what, "declare it as a STRUCT or leave it out")
        here = node


# --- the judge --------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Verdict:
    """The judge's word on one record: `text` for the reader, or None and the reason."""

    text: bytes | None
    reason: str = ""
    rescued: str | None = None
    ignored: int = 0
    cut: int = 0


class _Judge:
    """Reads one record exactly. Slow (about 30 MB/s), so it only sees doubtful ones."""

    def __init__(
        self, root: _Struct, routing: Routing, route: list[str] | None, event_type: str, keep_all: bool
    ) -> None:
        self._root = root
        self._policy = routing.unknown_fields
        self._route = route
        self._event_type = event_type
        self._keep_all = keep_all
        self._twins: list[str] = []
        self._scan = json.JSONDecoder(
            parse_int=_Int, parse_float=_Float, parse_constant=refuse_constant, object_pairs_hook=self._object
        ).decode

    def verdict(self, raw: bytes | None) -> _Verdict:
        """Judge one value; never raises on its content."""
        if raw is None:
            return _Verdict(None, "tombstone: the value is null")
        try:
            value = self._parse(raw)
            note = _Note()
            known = self._root.read(value, note)
            self._check_route(value)
            return self._settle(raw, value, known, note)
        except _Refused as refused:
            return _Verdict(None, refused.reason)
        except _Unreadable as unreadable:
            return _Verdict(None, str(unreadable))

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        """json's hook for one object; notes its first key that occurs twice."""
        made = dict(pairs)
        if len(made) != len(pairs):
            left = list(made)
            self._twins.append(next(key for key, _ in pairs if not left or key != left.pop(0)))
        return made

    def _parse(self, raw: bytes) -> dict[str, Any]:
        """The value as an object of tokens. Raises _Unreadable."""
        self._twins.clear()
        try:
            text = raw.decode()
            if too_deep(raw):
                raise _Unreadable(TOO_DEEP)
            value = self._scan(text)
            if _SURROGATE.search(text):
                json.dumps(value, ensure_ascii=False).encode()
        except UnicodeDecodeError as bad:
            raise _Unreadable(not_utf8(bad)) from None
        except UnicodeEncodeError:
            raise _Unreadable("not_json: half of a surrogate pair") from None
        except PARSE_ERRORS as bad:
            blank = not raw.strip(b" \t\n\r")
            raise _Unreadable("not_json: the value is empty" if blank else f"not_json: {shorten(str(bad))}") from None
        if self._twins:
            raise _Unreadable(f"duplicate_key: {shorten(self._twins[0])!r} occurs twice in one object")
        if type(value) is not dict:
            raise _Unreadable(NOT_OBJECT)
        return value

    def _check_route(self, value: Any) -> None:
        """The record's type must be the one it was routed by."""
        if self._route is None:
            return
        for name in self._route:
            value = value.get(name) if type(value) is dict else None
        if value != self._event_type:
            raise _Unreadable(f"type_mismatch: the event type was read as {self._event_type!r} and is another")

    def _settle(self, raw: bytes, value: Any, known: Any, note: _Note) -> _Verdict:
        """Apply the policy for unknown fields and write the text for the reader."""
        found: list[str] = []
        rest = self._root.unknown(value, "$", found)
        ignored = 0
        if self._keep_all:
            rest = value
        elif found and self._policy == "dead_letter":
            raise _Unreadable(f"unknown_field: {shorten(found[0])}")
        elif self._policy == "ignore":
            rest, ignored = None, len(found)
        text = dump(known).encode() if found or note.changed else raw
        return _Verdict(text, "", None if rest is None else dump(rest), ignored, note.cut)


def dump(value: Any) -> str:
    """Compact JSON of the judge's values; number tokens as sent, text unescaped where JSON allows."""
    kind = type(value)
    if kind is str:
        return encode_basestring(value)
    if kind is dict:
        return "{" + ",".join([f"{encode_basestring(key)}:{dump(item)}" for key, item in value.items()]) + "}"
    if kind is list:
        return "[" + ",".join([dump(item) for item in value]) + "]"
    if value is None:
        return "null"
    if kind is bool:
        return "true" if value else "false"
    return str(value)


# --- the decoder ------------------------------------------------------------------------------


class _Reader:
    """A shape and the schema with which pyarrow reads it."""

    def __init__(self, root: _Struct) -> None:
        self.root = root
        self.schema = pa.schema([pa.field("v", root.reader)])

    def leaf(self, path: list[str]) -> tuple[_Leaf, bool]:
        """The leaf at a known path, and whether a column holds it."""
        node: Any = self.root
        declared = True
        for name in path:
            child = node.children[name]
            node, declared = child.node, declared and child.declared
        return node, declared


@dataclass(frozen=True)
class _Taken:
    """What the reader made of some values: the declared columns, the event time as sent, timestamps cut."""

    columns: list[pa.Array]
    time: pa.Array | None
    cut: int


@dataclass
class _Sorted:
    """Rows that the reader took, in input order, and what is known of the others."""

    taken: _Taken
    rows: list[int] | None
    verdicts: dict[int, _Verdict] = field(default_factory=dict)


class Decoder:
    """Decodes batches of values of one event type.

    Between batches it only remembers which reader is likely to do (speed, never a verdict).
    An empty schema keeps the whole object in `_rescued`. Raises ConfigError if a declared column
    is in the way of the route or event-time field.
    """

    def __init__(self, event_type: str, schema: pa.Schema, routing: Routing) -> None:
        self._schema = schema
        self._routing = routing
        self._event_type = event_type
        time, kind = routing.event_time, routing.type_from
        self._route = kind.name.split(".") if kind.kind == "json" else None
        self._time = time.path.split(".") if time.kind == "json" else None
        self._cutter = _LongTimes()
        self._plain = _Reader(self._shaped(_shape))
        self._long = _Reader(self._shaped(lambda wanted: _shape(wanted, self._cutter)))
        self._reader = self._plain
        root = self._plain.root
        self._classify = msgspec.json.Decoder(root.spec).decode
        self._judge = _Judge(root, routing, self._route, event_type, keep_all=len(schema) == 0)
        self._judge_all = len(schema) == 0 or any(isinstance(node, _Map) for node in _nodes(root))
        self._guard = _decimal_guard(root)
        self._cuts = False
        self._wary = 0

    def _shaped(self, shape: Callable[[pa.DataType], Any]) -> _Struct:
        """The declared columns with the route and event-time fields made known."""
        root: _Struct = shape(pa.struct(list(self._schema)))
        unit = self._routing.event_time.unit
        if self._route:
            _graft(root, self._route, shape(pa.string()), pa.types.is_string, "the event type")
        if self._time and unit == "iso":
            _graft(root, self._time, shape(UTC_US), pa.types.is_timestamp, "the event time as text")
        elif self._time:
            _graft(root, self._time, shape(pa.int64()), pa.types.is_integer, f"the event time in {unit}")
        return root

    def decode(self, values: pa.BinaryArray, timestamps: pa.TimestampArray) -> Decoded:
        """Decode values with their Kafka timestamps (timestamp[us], any zone); under 2 GB per batch."""
        done: _Sorted | None = None
        if not (self._judge_all or self._wary or values.null_count or len(self._guarded(values))):
            taken = self._take(values, self._reader)
            done = None if taken is None else _Sorted(taken, None)
        if done is None:
            done = self._sort_out(values)
            self._wary = WARY_BATCHES if done.verdicts else max(self._wary - 1, 0)
        result = self._finish(done, timestamps)
        self._cuts = result.truncated > 0
        self._reader = self._long if result.truncated * 100 > len(values) else self._plain
        return result

    def _take(self, values: pa.BinaryArray, reader: _Reader) -> _Taken | None:
        """All values through the wrapped reader, or None if one of them is in doubt."""
        self._cutter.count = 0
        time = None
        try:
            parsed = _read_wrapped(values, reader.schema)
            columns = reader.root.columns(parsed)
            if self._time:
                leaf, declared = reader.leaf(self._time)
                before = self._cutter.count
                time = leaf.convert(_at(parsed, self._time))
                self._cutter.count = before if declared else self._cutter.count
        except (pa.ArrowInvalid, _Doubt):
            return None
        if self._route and len(parsed):
            same = pc.equal(_at(parsed, self._route), self._event_type)
            if same.null_count or not pc.all(same).as_py():
                return None
        return _Taken(columns, time, self._cutter.count)

    def _sort_out(self, values: pa.BinaryArray) -> _Sorted:
        """Classify each record, judge the doubtful, read the good ones."""
        raws: list[bytes | None] = values.to_pylist()
        verdicts: dict[int, _Verdict] = {}

        def settle(doubtful: Iterable[int], reader: _Reader) -> tuple[_Taken | None, list[int], pa.BinaryArray]:
            for row in doubtful:
                if row not in verdicts:
                    verdicts[row] = self._judge.verdict(raws[row])
            rows, texts = _texts(values, raws, verdicts)
            return self._take(texts, reader), rows, texts

        taken, rows, texts = settle(self._doubtful(values, raws), self._reader)
        if taken is None:
            taken, rows, texts = settle([rows[at] for at in self._suspects(texts, 0)], self._reader)
        if taken is None:
            taken, rows, texts = settle(rows, self._plain)
        if taken is None:
            refused = _Verdict(None, "not_json: the reader refuses what the judge passed")
            verdicts.update((rows[at], refused) for at in self._unread(texts, 0))
            taken, rows, texts = settle([], self._plain)
        if taken is None:
            raise RuntimeError("records that are read one by one are refused together")
        return _Sorted(taken, rows, verdicts)

    def _suspects(self, texts: pa.BinaryArray, start: int) -> list[int]:
        """Positions of the blocks that hold all values which the reader refuses."""
        if len(texts) <= BLOCK_ROWS:
            return list(range(start, start + len(texts)))
        found: list[int] = []
        step = max(len(texts) // 16, BLOCK_ROWS)
        for at in range(0, len(texts), step):
            block = texts.slice(at, step)
            if self._take(block, self._reader) is None:
                found += self._suspects(block, start + at)
        return found

    def _doubtful(self, values: pa.BinaryArray, raws: list[bytes | None]) -> Iterable[int]:
        """Rows that the classifier does not pass, or that the reader is known to get wrong or refuse."""
        if self._judge_all:
            return range(len(raws))
        doubtful = self._guarded(values)
        if self._cuts and self._reader is self._plain:
            doubtful += pc.indices_nonzero(pc.match_substring_regex(values, _TIME_CUT_HINT)).to_pylist()
        for row, raw in enumerate(raws):
            try:
                self._classify(raw)  # type: ignore[arg-type]
            except (*PARSE_ERRORS, TypeError):
                doubtful.append(row)
        return doubtful

    def _guarded(self, values: pa.BinaryArray) -> list[int]:
        """Rows that may hold a decimal which the reader gets wrong."""
        if self._guard is None:
            return []
        hits: list[int] = pc.indices_nonzero(pc.match_substring_regex(values, self._guard)).to_pylist()
        return hits

    def _unread(self, texts: pa.BinaryArray, start: int) -> list[int]:
        """Positions of the values that the reader refuses alone."""
        if self._take(texts, self._plain) is not None:
            return []
        if len(texts) == 1:
            return [start]
        half = len(texts) // 2
        return self._unread(texts.slice(0, half), start) + self._unread(texts.slice(half), start + half)

    def _finish(self, done: _Sorted, timestamps: pa.TimestampArray) -> Decoded:
        """Check the event times and build the result."""
        notes = done.verdicts
        rows, kafka = _numbered(len(timestamps)), timestamps.cast(UTC_US)
        if done.rows is not None and len(done.rows) < len(rows):
            rows = pa.array(done.rows, pa.int32())
            kafka = kafka.take(rows)
        times, late = self._event_times(kafka if done.taken.time is None else done.taken.time, kafka)
        rescued = pa.nulls(len(rows), pa.string())
        if any(verdict.rescued is not None for verdict in notes.values()):
            rescued = pa.array([notes[r].rescued if r in notes else None for r in rows.to_pylist()], pa.string())
        table = pa.table([*done.taken.columns, rescued, times], schema=self._table_schema)
        bad = [(row, "decode", v.reason) for row, v in notes.items() if v.text is None]
        if late:
            bad += [(rows[at].as_py(), "event_time", reason) for at, reason in late.items()]
            kept = pa.array([at not in late for at in range(len(rows))])
            table, rows = table.filter(kept), rows.filter(kept)
        kept_rows = set(rows.to_pylist()) if notes else set()
        good = [verdict for row, verdict in notes.items() if row in kept_rows]
        return Decoded(
            table,
            rows,
            sorted(bad),
            rescued=sum(v.rescued is not None for v in good),
            ignored=sum(v.ignored for v in good),
            truncated=done.taken.cut + sum(v.cut for v in notes.values() if v.text is not None),
        )

    @property
    def _table_schema(self) -> pa.Schema:
        return pa.schema([*self._schema, pa.field("_rescued", pa.string()), pa.field("_event_time", UTC_US)])

    def _event_times(self, sent: pa.Array, kafka: pa.TimestampArray) -> tuple[pa.Array, dict[int, str]]:
        """Event time per row, and the reason per position whose time is missing or out of bounds."""
        micros, representable = _micros(sent, self._routing.event_time.unit if self._time else "iso")
        low, ahead = self._routing.event_time_min_us, self._routing.event_time_ahead_max_secs * 1_000_000
        inside = pc.and_(representable, pc.greater_equal(micros, low))
        inside = pc.and_(inside, pc.less_equal(pc.subtract(micros, ahead), kafka.cast(pa.int64())))
        inside = pc.fill_null(inside, False)
        times = micros.cast(UTC_US)
        if inside.true_count == len(inside):
            return times, {}
        late = pc.indices_nonzero(pc.invert(inside))
        shown = sent.take(late).cast(pa.string()).to_pylist()
        behind = kafka.take(late).cast(pa.string()).to_pylist()
        return times, {
            at: self._late_reason(value, record)
            for at, value, record in zip(late.to_pylist(), shown, behind, strict=True)
        }

    def _late_reason(self, value: str | None, record: str | None) -> str:
        path = "the Kafka timestamp" if self._time is None else "$." + ".".join(self._time)
        if value is None:
            return f"missing_event_time: {path} is null or missing"
        unit = self._routing.event_time.unit
        shown = value if self._time is None or unit == "iso" else f"{value} {unit}"
        ahead = self._routing.event_time_ahead_max_secs
        low = pa.scalar(self._routing.event_time_min_us, UTC_US).cast(pa.string()).as_py()
        return f"event_time_out_of_bounds: {path} = {shown} lies outside {low} .. {record} (Kafka) + {ahead} s"


def _texts(
    values: pa.BinaryArray, raws: list[bytes | None], verdicts: dict[int, _Verdict]
) -> tuple[list[int], pa.BinaryArray]:
    """Rows not refused, and the text to read for each."""
    if not verdicts:
        return list(range(len(raws))), values
    refused = {row for row, verdict in verdicts.items() if verdict.text is None}
    rows = [row for row in range(len(raws)) if row not in refused]
    rewritten = {row: v.text for row, v in verdicts.items() if v.text is not None and v.text is not raws[row]}
    if not rewritten:
        return rows, values.take(pa.array(rows, pa.int32()))
    return rows, pa.array([rewritten.get(row, raws[row]) for row in rows], pa.binary())


def _at(parsed: pa.StructArray, path: list[str]) -> pa.Array:
    """The column at a path; null where a parent is."""
    column: pa.Array = parsed
    for name in path:
        column = pc.struct_field(column, name)
    return column


def _numbered(count: int) -> pa.Int32Array:
    """0 .. count - 1, without a Python object per number."""
    return pc.indices_nonzero(pa.repeat(True, count)).cast(pa.int32())


def _micros(sent: pa.Array, unit: str) -> tuple[pa.Array, pa.Array]:
    """Event times as int64 microseconds, and whether each can be expressed so."""
    if unit == "iso":
        micros = sent.cast(pa.int64())
        return micros, micros.is_valid()
    number = sent.cast(pa.int64())
    if unit == "ns":
        cut = pc.divide(number, 1000)
        return pc.if_else(pc.greater(pc.multiply(cut, 1000), number), pc.subtract(cut, 1), cut), number.is_valid()
    factor = _FACTORS_US[unit]
    limit = (2**63 - 1) // factor
    fits = pc.and_(pc.less_equal(number, limit), pc.greater_equal(number, -limit))
    return pc.multiply(pc.if_else(fits, number, 0), factor), fits


def _read_wrapped(values: pa.BinaryArray, schema: pa.Schema) -> pa.StructArray:
    """All values in one parse, each wrapped as {"v":value}. Raises ArrowInvalid or _Doubt.

    `}` newline `{` can stand neither in a string nor in an object, so each separator ends a
    document: there are at least as many rows as values, and exactly as many only if each value is
    one document. UTF-8 is checked here because the reader does not.
    """
    if not len(values):
        return pa.array([], schema.field("v").type)
    edge = pa.array([b""], pa.binary())
    parts = pa.concat_arrays([edge, values, edge])
    values.view(pa.string()).validate(full=True)
    joined = pc.binary_join(pa.ListArray.from_arrays([0, len(parts)], parts), b'}\n{"v":')[0].as_buffer()
    document = joined.slice(2, joined.size - 2 - len(b'{"v":'))
    table = pj.read_json(
        pa.BufferReader(document),
        read_options=pj.ReadOptions(use_threads=False, block_size=document.size + 1),
        parse_options=pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error"),
    )
    if table.num_rows != len(values) or table.num_columns != 1:
        raise _Doubt
    table.validate(full=True)
    column = table.column(0)
    if column.num_chunks != 1 or column.null_count:
        raise _Doubt
    return column.chunk(0)
