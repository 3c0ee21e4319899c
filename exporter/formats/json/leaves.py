"""The leaves of a shape: how each reader takes one scalar value. Runs on Spark executors.

A leaf is read three times, and the readings must not differ: by pyarrow's JSON reader as `reader` and from there by
convert(), by msgspec as `spec`, and by the judge with read(). Must never let a value become null in silence.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from exporter.arrow.kafka_time import US
from exporter.errors import ConfigError
from exporter.formats.json.values import BadValue, FloatToken, Found, IntToken, Note, Unproven, mismatch
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


@dataclass
class Leaf:
    """A scalar. reader: its type in the JSON reader. spec: its type in the classifier."""

    target: pa.DataType
    reader: pa.DataType
    spec: Any
    read: Callable[[Any, Note], Any]
    from_reader: Callable[[pa.Array], pa.Array] | None = None

    def convert(self, array: pa.Array) -> pa.Array:
        """The reader's column as the declared type; Unproven or ArrowInvalid if that cannot be."""
        return array if self.from_reader is None else self.from_reader(array)

    def unknown(self, _value: Any, _path: str, _found: Found) -> Any:
        """Scalars hold no unknown fields."""
        return None


def leaf_of(data_type: pa.DataType, cutter: LongTimes | None) -> Leaf:
    """The leaf of a declared scalar type; with a cutter a timestamp is read as text and cut.

    Raises ConfigError for a type that has no JSON form here.
    """
    types = pa.types
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
        US: (data_type, str, _read_time, None),
        pa.timestamp("us"): (data_type, str, _read_time, None),
    }
    if data_type not in simple:
        raise ConfigError(f"type {data_type} has no JSON form here", "build the schema with arrow_schema()")
    return Leaf(data_type, *simple[data_type])


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
    if type(value) is not str:
        raise mismatch("a timestamp text", value)
    long = _TIME_LONG.fullmatch(value)
    if long:
        value = long[1] + long[2]
        note.cut += 1
        note.changed = True
    if not _TIME_SURE.fullmatch(value) and not _castable(value, US) and not _castable(value, pa.timestamp("us")):
        raise BadValue("type_mismatch", f"= {shorten(value)!r} is no timestamp")
    return value


def _read_date(value: Any, _note: Note) -> Any:
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
