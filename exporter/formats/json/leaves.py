"""The leaves of a shape: how each reader takes one scalar value. Runs on Spark executors.

A leaf is read three times, and the readings must not differ: by pyarrow's JSON reader as `reader` and from there by
convert(), by msgspec as `spec`, and by the judge with read(). Must never let a value become null in silence.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from exporter.arrow.kafka_time import US
from exporter.arrow.years import DAY_FIRST, DAY_LAST, US_FIRST, US_LAST
from exporter.errors import ConfigError
from exporter.formats.json.times import INFINITE, INFINITE_DAYS, plain_time
from exporter.formats.json.values import BadValue, FloatToken, IntToken, Note, UnknownFound, Unproven, mismatch
from exporter.text import shorten

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
_EXACT_BELOW = {32: 2**24, 64: 2**53}
"""By the bits of a float: below that it holds every integer, and rounds none to that."""
_DIGITS = b"-0123456789"


@dataclass
class JsonLeaf:
    """A scalar. reader: its type in the JSON reader. spec: its type in the classifier.

    begins: the bytes that one of them begins a value with that fits. holds_json: it is the text of any JSON value.
    is_exact: no integer is rounded to it.
    """

    target: pa.DataType
    reader: pa.DataType
    spec: Any
    read: Callable[[Any, Note], Any]
    from_reader: Callable[[pa.Array], pa.Array] | None = None
    begins: bytes = b'"'
    holds_json: bool = False
    is_exact: bool = False

    def convert(self, array: pa.Array) -> pa.Array:
        """The reader's column as the declared type; Unproven or ArrowInvalid if that cannot be."""
        return array if self.from_reader is None else self.from_reader(array)

    def unknown(self, _value: Any, _path: str, _found: UnknownFound) -> Any:
        """Scalars hold no unknown fields."""
        return None


class LargeNumbers:
    """Counts the numbers of columns that nobody declared which an integer may have been rounded to."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, array: pa.Array) -> pa.Array:
        """The same array. Adds to `count`."""
        limit = float(_EXACT_BELOW[array.type.bit_width])
        ends = pc.min_max(array)
        if ends["min"].is_valid and not -limit < ends["min"].as_py() <= ends["max"].as_py() < limit:
            self.count += pc.sum(pc.greater_equal(pc.abs(array), limit)).as_py() or 0
        return array


@dataclass(frozen=True)
class Means:
    """How leaves are read. cutter: timestamps are read as text, and cut. large: see LargeNumbers.

    as_sent: what holds JSON is read as any value, and not as the text of one. strict_times: see Routing.
    """

    cutter: LongTimes | None = None
    large: LargeNumbers = field(default_factory=LargeNumbers)
    as_sent: bool = False
    strict_times: bool = False


def leaf_of(data_type: pa.DataType, means: Means) -> JsonLeaf:
    """The leaf of a declared scalar type. Raises ConfigError for a type that has no JSON form here."""
    types, cutter = pa.types, means.cutter
    read_time, read_date = (_read_strictly, _date_of) if means.strict_times else (_read_time, _read_date)
    if types.is_timestamp(data_type) and cutter is not None:
        return JsonLeaf(data_type, pa.string(), str, read_time, lambda array: cutter(array).cast(data_type))
    if types.is_integer(data_type):
        low, high = -(1 << (data_type.bit_width - 1)), (1 << (data_type.bit_width - 1)) - 1
        spec = Annotated[int, msgspec.Meta(ge=low, le=high)]
        return JsonLeaf(data_type, data_type, spec, _int_reader(data_type.bit_width), begins=_DIGITS)
    if types.is_floating(data_type):
        return JsonLeaf(data_type, data_type, float, _float_reader(data_type.bit_width), _finite, _DIGITS)
    if types.is_decimal(data_type):
        reads = _decimal_reader(data_type.precision, data_type.scale)
        return JsonLeaf(data_type, data_type, Decimal, reads, begins=b'"' + _DIGITS)
    if types.is_boolean(data_type):
        return JsonLeaf(data_type, data_type, bool, _read_bool, begins=b"tf")
    simple = {
        pa.string(): (data_type, str, _read_string, None),
        pa.binary(): (pa.string(), str, _read_base64, _decode_base64),
        pa.date32(): (pa.string(), str, read_date, _cast_date),
        US: (data_type, str, read_time, None),
        pa.timestamp("us"): (data_type, str, read_time, None),
    }
    if data_type not in simple:
        raise ConfigError(f"type {data_type} has no JSON form here", "build the schema with arrow_schema()")
    return JsonLeaf(data_type, *simple[data_type])


def json_leaf(means: Means) -> JsonLeaf:
    """The leaf of any JSON value: its text, once values are lifted (lifted.py)."""
    if means.as_sent:
        begins = b'"tf[{' + _DIGITS
        return JsonLeaf(pa.string(), pa.string(), msgspec.Raw, lambda value, _: value, begins=begins, holds_json=True)
    return replace(leaf_of(pa.string(), means), holds_json=True)


def evolved_leaf(leaf: JsonLeaf, means: Means) -> JsonLeaf:
    """The leaf of a type that nobody declared: it has no value that the column would not hold as it was sent.

    A declared column has integers rounded to a float, and years that no table holds are a matter of the whole record.
    """
    kind, read, convert = leaf.target, leaf.read, leaf.convert
    if pa.types.is_floating(kind):
        limit = _EXACT_BELOW[kind.bit_width]
        spec = Annotated[float, msgspec.Meta(gt=-limit, lt=limit)]
        counted = replace(leaf, spec=spec, from_reader=lambda array: means.large(convert(array)), is_exact=True)
        return replace(counted, read=_exact(read, kind))
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return replace(leaf, read=_within_years(read, kind), from_reader=lambda array: _held(convert(array)))
    return leaf


def _exact(read: Callable[[Any, Note], Any], kind: pa.DataType) -> Callable[[Any, Note], Any]:
    """Numbers, but no integer that the column would round. Others go to the nearest that there is."""
    limit = _EXACT_BELOW[kind.bit_width]

    def exact(value: Any, note: Note) -> Any:
        found = read(value, note)
        if type(value) is IntToken and abs(number := int(value)) > limit and not _is_float(number, kind):
            raise BadValue("out_of_range", f"= {shorten(value)} would be rounded")
        return found

    return exact


def _is_float(number: int, kind: pa.DataType) -> bool:
    """Whether a column of floats holds just that integer, which is in their range."""
    held: float = pa.array([float(number)]).cast(kind)[0].as_py()
    return int(held) == number


def _within_years(read: Callable[[Any, Note], Any], kind: pa.DataType) -> Callable[[Any, Note], Any]:
    """Dates and times that a table holds."""
    kinds = [kind] if pa.types.is_date(kind) else [US, pa.timestamp("us")]

    def within(value: Any, note: Note) -> Any:
        found = read(value, note)
        if found[:4] in ("0000", "0001", "9999") and not any(_is_held(found, kind) for kind in kinds):
            raise BadValue("out_of_range", f"= {shorten(value)} lies outside the years 1 to 9999 in UTC")
        return found

    return within


def _is_held(text: str, kind: pa.DataType) -> bool:
    try:
        _held(pa.array([text], pa.string()).cast(kind))
    except (pa.ArrowInvalid, Unproven):
        return False
    return True


def _held(array: pa.Array) -> pa.Array:
    """The same array. Raises Unproven if one lies in a year that no table holds."""
    is_date = pa.types.is_date(array.type)
    ends = pc.min_max(array.cast(pa.int32() if is_date else pa.int64()))
    low, high = (DAY_FIRST, DAY_LAST) if is_date else (US_FIRST, US_LAST)
    if ends["min"].is_valid and not low <= ends["min"].as_py() <= ends["max"].as_py() <= high:
        raise Unproven
    return array


def _read_string(value: Any, _note: Note) -> Any:
    if type(value) is not str:
        raise mismatch("a string", value)
    return value


def _read_bool(value: Any, _note: Note) -> Any:
    if type(value) is not bool:
        raise mismatch("a boolean", value)
    return value


def _int_reader(bits: int) -> Callable[[Any, Note], Any]:
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1

    def read(value: Any, _note: Note) -> Any:
        if type(value) is not IntToken:
            raise mismatch("an integer", value)
        if len(value) > 20 or not low <= int(value) <= high:
            raise BadValue("out_of_range", f"= {shorten(value)} does not fit {bits} bits")
        return value

    return read


def _float_reader(bits: int) -> Callable[[Any, Note], Any]:
    def read(value: Any, note: Note) -> Any:
        if type(value) is not IntToken and type(value) is not FloatToken:
            raise mismatch("a number", value)
        number = float(value)
        if not math.isfinite(number) or (bits == 32 and not _fits_float32(value, number)):
            raise BadValue("out_of_range", f"= {shorten(value)} does not fit a {bits}-bit float")
        if number == 0.0 and len(value) > 4:  # the reader refuses 0e999999
            note.changed = True
            return FloatToken(repr(number))
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
            raise mismatch("a decimal", value)
        sure = _DECIMAL_SURE.fullmatch(value)
        if sure and len(sure[1]) <= whole_max and len(sure[2] or "") <= scale:
            return value
        if type(value) is str and not _DECIMAL_TEXT.fullmatch(value):
            raise BadValue("type_mismatch", "expected a decimal, got another string")
        plain = _plain_decimal(value, whole_max, scale)
        if plain is None:
            raise BadValue("out_of_range", f"= {shorten(value)} does not fit DECIMAL({precision},{scale})")
        note.changed = True
        return FloatToken(plain)

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
    if isinstance(value, str) and value in INFINITE:
        raise _infinite(value)
    if type(value) is not str:
        raise mismatch("a timestamp text", value)
    if _TIME_SURE.fullmatch(value):
        return value
    plain = plain_time(value)
    note.changed |= plain != value
    return _read_strictly(plain, note, value)


def _read_strictly(value: Any, note: Note, sent: str | None = None) -> Any:
    """A time as Arrow reads it. sent: as it was, for reasons."""
    if type(value) is not str:
        raise mismatch("a timestamp text", value)
    sent = value if sent is None else sent
    long = _TIME_LONG.fullmatch(value)
    if long:
        value = long[1] + long[2]
        note.cut += 1
        note.changed = True
    if not _TIME_SURE.fullmatch(value) and not _castable(value, US) and not _castable(value, pa.timestamp("us")):
        raise BadValue("type_mismatch", f"= {shorten(sent)!r} is no timestamp")
    return value


def _infinite(value: str) -> BadValue:
    return BadValue("out_of_range", f"= {value} is infinite (PostgreSQL), and no column holds that")


def _read_date(value: Any, note: Note) -> Any:
    if isinstance(value, str) and value in INFINITE_DAYS:
        raise _infinite(value)
    return _date_of(value, note)


def _date_of(value: Any, _note: Note) -> Any:
    if type(value) is not str:
        raise mismatch("a date text", value)
    if not _DATE_SURE.fullmatch(value) and not _castable(value, pa.date32()):
        raise BadValue("type_mismatch", f"= {shorten(value)!r} is no date")
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
        raise mismatch("a base64 text", value)
    if len(value) % 4 or not _BASE64_TEXT.fullmatch(value):
        raise BadValue("type_mismatch", "expected base64, got another string")
    return value


def _finite(array: pa.Array) -> pa.Array:
    """The reader takes the tokens NaN and Infinity, JSON has none."""
    if not pc.all(pc.is_finite(array)).as_py() and array.null_count < len(array):
        raise Unproven
    return array


def _decode_base64(array: pa.Array) -> pa.Array:
    fits = pc.and_(pc.match_substring_regex(array, _BASE64), pc.equal(pc.bit_wise_and(pc.binary_length(array), 3), 0))
    if pc.all(fits).as_py() is False:
        raise Unproven
    return pa.array([None if text is None else base64.b64decode(text) for text in array.to_pylist()], pa.binary())


def _cast_date(array: pa.Array) -> pa.Array:
    return array.cast(pa.date32())


class LongTimes:
    """Cuts fraction digits 7-9 of a whole column: for streams whose timestamps all have them."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, array: pa.Array) -> pa.Array:
        """Texts with seconds and a zone as timestamp[us, UTC]; Unproven for any other. Adds to `count`."""
        if pc.all(pc.match_substring_regex(array, _TIME_ZONED)).as_py() is False:
            raise Unproven
        self.count += pc.sum(pc.match_substring_regex(array, r"\.\d{7}")).as_py() or 0
        return pc.replace_substring_regex(array, r"(\.\d{6})\d+", r"\1").cast(US)
