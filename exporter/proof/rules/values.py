"""What a column of a type that SQL knows makes of a value of the topic: only where there is no doubt. Pure.

As Arrow takes it: dates as days, times as microseconds since 1970, maps as pairs. A value is what documents.py reads,
or one of typed.py.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any

import pyarrow as pa

from exporter.core.columns import JSON_TEXT
from exporter.proof.contents.times import micros
from exporter.proof.contents.typed import Day, Floating, Instant, base64_bytes

INTEGERS = {"byte": 8, "short": 16, "integer": 32, "long": 64}
"""Bits."""
DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_NUMBER = re.compile(r"-?\d+(\.\d+)?", re.ASCII)
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_TIME = re.compile(r"(\d{4}-\d\d-\d\dT(?!24)\d\d:\d\d:\d\d)(\.\d{1,6})?(Z|[+-]\d\d:\d\d)?", re.ASCII)
_TYPES: Mapping[str, tuple[pa.DataType, str]] = {
    "boolean": (pa.bool_(), "BOOLEAN"),
    "byte": (pa.int8(), "TINYINT"),
    "short": (pa.int16(), "SMALLINT"),
    "integer": (pa.int32(), "INTEGER"),
    "long": (pa.int64(), "BIGINT"),
    "float": (pa.float32(), "REAL"),
    "double": (pa.float64(), "DOUBLE"),
    "string": (pa.string(), "TEXT"),
    "binary": (pa.binary(), "BLOB"),
    "date": (pa.date32(), "DATE"),
    "timestamp": (pa.timestamp("us", "UTC"), "TIMESTAMPTZ"),
    "timestamp_ntz": (pa.timestamp("us"), "TIMESTAMP"),
}
"""Spark's name of a type -> Arrow's type, and DuckDB's name."""


class Unsure(Exception):
    """What a column makes of this value cannot be said here."""


def arrow_of(kind: Any) -> pa.DataType:
    """The Arrow type of a Spark type (as parsed from its schema JSON)."""
    if isinstance(kind, str):
        found = DECIMAL.fullmatch(kind)
        return pa.decimal128(int(found[1]), int(found[2])) if found else _scalar(kind)[0]
    if kind["type"] == "struct":
        return pa.struct([(one["name"], arrow_of(one["type"])) for one in kind["fields"]])
    if kind["type"] == "array":
        return pa.list_(arrow_of(kind["elementType"]))
    return pa.map_(arrow_of(kind["keyType"]), arrow_of(kind["valueType"]))


def sql_of(kind: Any) -> str:
    """DuckDB's name of a Spark type."""
    if isinstance(kind, str):
        return kind if DECIMAL.fullmatch(kind) else _scalar(kind)[1]
    if kind["type"] == "struct":
        return "STRUCT(" + ", ".join(f"{quoted(one['name'])} {sql_of(one['type'])}" for one in kind["fields"]) + ")"
    if kind["type"] == "array":
        return sql_of(kind["elementType"]) + "[]"
    return f"MAP({sql_of(kind['keyType'])}, {sql_of(kind['valueType'])})"


def _scalar(kind: str) -> tuple[pa.DataType, str]:
    """Texts of a bounded length are texts, of whose values `typed` is not sure."""
    return _TYPES.get(kind, _TYPES["string"])


def quoted(name: str) -> str:
    """A name as an identifier in SQL."""
    return '"' + name.replace('"', '""') + '"'


def alike(one: str, other: str) -> bool:
    """Whether two names are one but for the case of their letters; of an i the dot above is a part."""
    return _pattern(_UNDOTTED.sub("i", other)).fullmatch(_UNDOTTED.sub("i", one)) is not None


_UNDOTTED = re.compile("[i\u0131I\u0130]\u0307+")


@lru_cache(maxsize=1_000)
def _pattern(name: str) -> re.Pattern[str]:
    return re.compile(re.escape(name), re.IGNORECASE | re.DOTALL)


def member(sent: Any, name: str, loose: bool) -> Any:
    """A member of an object; None if there is none. loose: names that differ by case only are one. Raises Unsure."""
    if sent is None:
        return None
    if type(sent) is not dict:
        raise Unsure
    if not loose:
        return sent.get(name)
    found = [one for key, one in sent.items() if alike(key, name)]
    if len(found) > 1:
        raise Unsure
    return found[0] if found else None


def typed(field: Mapping[str, Any], sent: Any, loose: bool = False) -> Any:
    """What a column holds of a value. field: of a Spark schema. Raises Unsure."""
    if (field.get("metadata") or {}).get(JSON_TEXT) and sent is not None:
        raise Unsure
    return _typed(field["type"], sent, loose)


def _typed(kind: Any, sent: Any, loose: bool) -> Any:
    if sent is None:
        return None
    if isinstance(kind, str):
        scalar = _SCALARS.get(kind)
        if kind in INTEGERS:
            return _integer(sent, INTEGERS[kind])
        return scalar(sent) if scalar is not None else _decimal(kind, sent)
    if kind["type"] == "struct":
        fields = kind["fields"]
        return {one["name"]: typed(one, member(sent, one["name"], loose), loose) for one in fields}
    if kind["type"] == "array" and type(sent) is list:
        return [_typed(kind["elementType"], one, loose) for one in sent]
    if kind["type"] == "map" and type(sent) is dict:
        return [(name, _typed(kind["valueType"], one, loose)) for name, one in sent.items()]
    raise Unsure


def _integer(sent: Any, bits: int) -> int:
    sent = sent.raw if isinstance(sent, Instant) else sent
    if type(sent) is not int or not -(2 ** (bits - 1)) <= sent < 2 ** (bits - 1):
        raise Unsure
    return int(sent)


def _text(sent: Any) -> str:
    if type(sent) is not str:
        raise Unsure
    try:
        sent.encode()
    except UnicodeEncodeError:
        raise Unsure from None
    return sent


def _boolean(sent: Any) -> bool:
    if type(sent) is not bool:
        raise Unsure
    return sent


def _double(sent: Any) -> float:
    if isinstance(sent, Floating):
        return sent.value
    if type(sent) not in (int, Decimal):
        raise Unsure
    try:
        found = float(sent)
    except OverflowError:
        raise Unsure from None
    if not math.isfinite(found):
        raise Unsure
    return found


def _float(sent: Any) -> float:
    """Of 32 bits. One whose neighbours among doubles are other floats might be rounded otherwise on another way."""
    found = _double(sent)
    if isinstance(sent, Floating) and not math.isfinite(found):
        return found
    try:
        near = {struct.pack("f", math.nextafter(found, to)) for to in (found, math.inf, -math.inf)}
    except OverflowError:
        raise Unsure from None
    if len(near) > 1:
        raise Unsure
    return float(struct.unpack("f", near.pop())[0])


def _decimal(kind: str, sent: Any) -> Decimal:
    """Only what fits without being rounded."""
    found = DECIMAL.fullmatch(kind)
    if found is None or type(sent) not in (int, Decimal, str) or (type(sent) is str and not _NUMBER.fullmatch(sent)):
        raise Unsure
    precision, scale = int(found[1]), int(found[2])
    try:
        number = Decimal(sent)
        _, digits, exponent = number.as_tuple()
    except InvalidOperation:
        raise Unsure from None
    if not isinstance(exponent, int) or -exponent > scale or len(digits) + exponent > precision - scale:
        raise Unsure
    return number


def _date(sent: Any) -> int:
    if isinstance(sent, Day):
        return sent.days
    try:
        if type(sent) is str and _DATE.fullmatch(sent):
            return date.fromisoformat(sent).toordinal() - date(1970, 1, 1).toordinal()
    except ValueError:
        pass
    raise Unsure


def _time(sent: Any) -> int:
    if isinstance(sent, Instant):
        return sent.micros
    found = _TIME.fullmatch(sent) if type(sent) is str else None
    if found is None:
        raise Unsure
    try:
        datetime.fromisoformat(found[1])
    except ValueError:
        raise Unsure from None
    at = micros(sent)
    if at is None:
        raise Unsure
    return at


def _local_time(sent: Any) -> int:
    if type(sent) is str and _TIME.fullmatch(sent) and (sent.endswith("Z") or sent[-6] in "+-"):
        raise Unsure
    return _time(sent)


def _binary(sent: Any) -> bytes:
    found = sent if type(sent) is bytes else base64_bytes(sent)
    if found is None:
        raise Unsure
    return found


_SCALARS: Mapping[str, Callable[[Any], Any]] = {
    "string": _text,
    "boolean": _boolean,
    "double": _double,
    "float": _float,
    "date": _date,
    "timestamp": _time,
    "timestamp_ntz": _local_time,
    "binary": _binary,
}
