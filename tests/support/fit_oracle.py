"""A second opinion on what becomes of one typed record, value by value in plain Python, with no code of the exporter's.

    record ── read: columns, what is unknown as JSON, or the code and path of what is wrong

Dates and times are numbers here: days and microseconds since 1970. A map is a list of pairs, so that its order counts.
"""

from __future__ import annotations

import base64
import json
import math
import struct
from collections.abc import Iterable, Sequence
from decimal import Context, Decimal
from itertools import accumulate
from typing import Any, NamedTuple

import pyarrow as pa

types = pa.types
Path = tuple[str, ...]
WIDE = Context(prec=100)
"""For decimals of any length."""
NO = object()
"""Nothing is unknown."""
_DAYS, _MICROS = (-719_162, 2_932_896), (-62_135_596_800_000_000, 253_402_300_799_999_999)
_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}


class Refused(Exception):
    """The record is bad."""

    def __init__(self, code: str, path: str) -> None:
        super().__init__(code, path)
        self.code, self.path = code, path


class Read(NamedTuple):
    """columns: name -> value. unknown: its JSON, NO if there is none. paths: of all that is unknown."""

    columns: dict[str, Any]
    unknown: Any
    paths: list[str]


def marked(field: pa.Field, mark: str) -> bool:
    return f"exporter.{mark}".encode() in (field.metadata or {})


def read(record: dict[str, Any], kind: pa.StructType, fields: Sequence[pa.Field], known: Iterable[Path] = ()) -> Read:
    """fields: the wanted ones. known: paths that are never unknown. Raises Refused."""
    wrong = never(kind, pa.struct(list(fields)), False)
    if wrong is not None:
        raise Refused("unresolvable_schema", "$" + wrong)
    columns = _object(record, kind, fields, False, "$")
    paths: list[str] = []
    unknown = _rest(record, kind, fields, False, set(known), "$", paths)
    return Read(columns, unknown, paths)


def at(record: Any, path: Path) -> Any:
    """What stands at a path of structs; None if there is nothing."""
    for name in path:
        record = record.get(name) if isinstance(record, dict) else None
    return record


# --- types ---------------------------------------------------------------------------------------------------


def never(kind: pa.DataType, target: pa.DataType, free: bool) -> str | None:
    """The path at which the types never fit, whatever the value; None if they may."""
    if types.is_null(kind):
        return None
    if types.is_struct(kind) and types.is_struct(target):
        for field in target:
            at = kind.get_field_index(field.name)
            if at >= 0 and not (free or marked(field, "evolved")) and not marked(field, "json"):
                below = never(kind.field(at).type, field.type, False)
                if below is not None:
                    return f".{field.name}{below}"
        return None
    if types.is_list(kind) and types.is_list(target):
        return _never_item(kind.value_type, target.value_field, free, "[]")
    if types.is_map(kind) and types.is_map(target):
        free = free or marked(target.item_field, "evolved")
        return None if free else _never_item(kind.item_type, target.item_field, free, "{}")
    return None if _may(kind, target, free) else ""


def _never_item(kind: pa.DataType, item: pa.Field, free: bool, step: str) -> str | None:
    below = None if marked(item, "json") else never(kind, item.type, free or marked(item, "evolved"))
    return None if below is None else step + below


def _may(kind: pa.DataType, target: pa.DataType, free: bool) -> bool:
    if kind == target:
        return not types.is_nested(kind)
    if types.is_integer(kind):
        if types.is_integer(target):
            return free or target.bit_width > kind.bit_width
        if types.is_decimal(target):
            return free or target.precision - target.scale >= _DIGITS[kind.bit_width]
        return bool(types.is_floating(target))
    if types.is_floating(kind):
        return types.is_floating(target) and (free or target.bit_width > kind.bit_width)
    if types.is_decimal(kind) and types.is_decimal(target):
        whole = target.precision - target.scale >= kind.precision - kind.scale
        return free or (whole and target.scale >= kind.scale)
    return bool(types.is_string(kind) and types.is_binary(target))


# --- columns -------------------------------------------------------------------------------------------------


def _object(value: Any, kind: pa.DataType, fields: Iterable[pa.Field], free: bool, path: str) -> dict[str, Any]:
    column: dict[str, Any] = {}
    for field in fields:
        here, loose = f"{path}.{field.name}", free or marked(field, "evolved")
        at = kind.get_field_index(field.name)
        item = value[field.name] if at >= 0 else None
        column[field.name] = None
        if item is not None and not (loose and _unfit(item, kind.field(at).type, field, True)):
            column[field.name] = _column(item, kind.field(at).type, field, loose, here)
        elif item is None and not field.nullable and not loose:
            raise Refused("missing_field", here)
    return column


def _unfit(value: Any, kind: pa.DataType, field: pa.Field, free: bool) -> bool:
    """Whether a value does not fit what nobody declared."""
    if marked(field, "json"):
        return False
    try:
        if never(kind, field.type, free) is not None:
            return True
        _column(value, kind, field, free, "")
    except Refused:
        return True
    return False


def _column(value: Any, kind: pa.DataType, field: pa.Field, free: bool, path: str) -> Any:
    """A value that is not null as the column has it."""
    target = field.type
    if marked(field, "json"):
        return dumped(as_json(value, kind))
    if types.is_struct(target):
        return _object(value, kind, target, free, path)
    if types.is_list(target):
        item = target.value_field
        return [_item(one, kind.value_type, item, free, f"{path}[{at}]") for at, one in enumerate(value)]
    if types.is_map(target):
        item, of = target.item_field, kind.item_type
        loose = free or marked(item, "evolved")
        kept = [(key, one) for key, one in value if one is None or not (loose and _unfit(one, of, item, True))]
        return [(key, _item(one, of, item, loose, f"{path}.{key}")) for key, one in kept]
    return _scalar(value, kind, target, path)


def _item(value: Any, kind: pa.DataType, item: pa.Field, free: bool, path: str) -> Any:
    free = free or marked(item, "evolved")
    if value is None and not item.nullable and not free:
        raise Refused("missing_field", path)
    return None if value is None else _column(value, kind, item, free, path)


def _scalar(value: Any, kind: pa.DataType, target: pa.DataType, path: str) -> Any:
    if types.is_string(kind) and types.is_binary(target):
        return value.encode()
    if types.is_date(target) or types.is_timestamp(target):
        low, high = _DAYS if types.is_date(target) else _MICROS
        if not low <= value <= high:
            raise Refused("out_of_range", path)
    if types.is_floating(target):
        held = rounded(float(value), target)
        if not (math.isnan(held) and math.isnan(value)) and held != value:
            raise Refused("inexact", path)
        return held
    if types.is_integer(target) and not -(2 ** (target.bit_width - 1)) <= value < 2 ** (target.bit_width - 1):
        raise Refused("inexact", path)
    if types.is_decimal(target):
        scaled = Decimal(value).scaleb(target.scale, WIDE)
        if scaled != int(scaled) or abs(scaled) >= 10**target.precision:
            raise Refused("inexact", path)
        return Decimal(int(scaled)).scaleb(-target.scale, WIDE)
    return value


def rounded(number: float, kind: pa.DataType) -> float:
    """The nearest number of a type of floats."""
    if kind == pa.float64() or not math.isfinite(number):
        return number
    try:
        return float(struct.unpack("f", struct.pack("f", number))[0])
    except OverflowError:
        return math.copysign(math.inf, number)


# --- what is unknown -----------------------------------------------------------------------------------------


def _rest(
    value: Any, kind: pa.DataType, fields: Iterable[pa.Field], free: bool, known: set[Path], path: str, paths: list[str]
) -> Any:
    wanted = {field.name: field for field in fields}
    rest = {}
    for field in kind:
        item, target, here = value[field.name], wanted.get(field.name), f"{path}.{field.name}"
        below = {one[1:] for one in known if one and one[0] == field.name}
        if item is None:
            continue
        loose = target is not None and (free or marked(target, "evolved"))
        if target is not None and not (loose and _unfit(item, field.type, target, True)):
            left = _inside(item, field.type, target, loose, below, here, paths)
        elif () in below:
            continue
        elif below and types.is_struct(field.type):
            left = _rest(item, field.type, (), free, below, here, paths)
        else:
            paths.append(here)
            left = as_json(item, field.type)
        if left is not NO:
            rest[field.name] = left
    return rest or NO


def _inside(
    value: Any, kind: pa.DataType, field: pa.Field, free: bool, known: set[Path], path: str, paths: list[str]
) -> Any:
    """What is unknown in a value that fits."""
    target = field.type
    if marked(field, "json") or value is None or types.is_null(kind):
        return NO
    if types.is_struct(target):
        return _rest(value, kind, target, free, known, path, paths)
    if types.is_list(target):
        item = target.value_field
        loose = free or marked(item, "evolved")
        left = [
            _inside(one, kind.value_type, item, loose, set(), f"{path}[{at}]", paths) for at, one in enumerate(value)
        ]
        return NO if all(one is NO for one in left) else [None if one is NO else one for one in left]
    if types.is_map(target):
        item = target.item_field
        loose = free or marked(item, "evolved")
        rest = {}
        for key, one in value:
            if one is not None and loose and _unfit(one, kind.item_type, item, True):
                rest[key] = as_json(one, kind.item_type)
                paths.append(f"{path}.{key}")
            elif (left := _inside(one, kind.item_type, item, loose, set(), f"{path}.{key}", paths)) is not NO:
                rest[key] = left
        return rest or NO
    return NO


# --- JSON ----------------------------------------------------------------------------------------------------


def as_json(value: Any, kind: pa.DataType) -> Any:
    """A value as its JSON; numbers with a fraction's type are Decimals of the digits that are written."""
    if value is None:
        return None
    if types.is_struct(kind):
        return {one.name: as_json(value[one.name], one.type) for one in kind if value[one.name] is not None}
    if types.is_list(kind):
        return [as_json(one, kind.value_type) for one in value]
    if types.is_map(kind):
        return {key: as_json(one, kind.item_type) for key, one in value}
    if types.is_binary(kind):
        return base64.b64encode(value).decode()
    if types.is_floating(kind):
        if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        return Decimal(str(pa.scalar(value, kind).cast(pa.string()).as_py() if kind == pa.float32() else repr(value)))
    if types.is_decimal(kind):
        return value if kind.scale else int(value)
    if types.is_date(kind) or types.is_timestamp(kind):
        low, high = _DAYS if types.is_date(kind) else _MICROS
        return _shown(value, kind) if low <= value <= high else value
    return value


def _shown(value: int, kind: pa.DataType) -> str:
    if types.is_date(kind):
        return str(pa.scalar(value, pa.int32()).cast(kind).as_py().isoformat())
    text = str(pa.scalar(value, pa.int64()).cast(pa.timestamp("us")).as_py().isoformat(timespec="microseconds"))
    return text + ("Z" if kind.tz else "")


def dumped(value: Any) -> str:
    """JSON in one spelling, numbers with a fraction's type told from others; the order of keys counts."""

    def told(one: Any) -> Any:
        if isinstance(one, dict):
            return {key: told(inner) for key, inner in one.items()}
        if isinstance(one, list):
            return [told(inner) for inner in one]
        return f"number {one.as_integer_ratio()} {one.is_signed()}" if isinstance(one, Decimal) else one

    return json.dumps(told(value))


def parsed(text: str) -> Any:
    """JSON as `as_json` has it."""
    return json.loads(text, parse_float=Decimal)


# --- Arrow ---------------------------------------------------------------------------------------------------


def arrow(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Values as an array of a type, with others below what is null: nobody may look at those."""
    mask = pa.array([one is None for one in values], pa.bool_())
    if types.is_nested(kind):
        values = [_other(kind) if one is None else one for one in values]
    if types.is_struct(kind):
        inside = [arrow([one[field.name] for one in values], field.type) for field in kind]
        return pa.StructArray.from_arrays(inside, fields=list(kind), mask=mask)
    if types.is_list(kind) or types.is_map(kind):
        ends = pa.array([0, *accumulate(map(len, values))], pa.int32())
        flat = [inner for one in values for inner in one]
        if types.is_list(kind):
            return pa.ListArray.from_arrays(ends, arrow(flat, kind.value_type), kind, mask=mask)
        keys, items = arrow([key for key, _ in flat], kind.key_type), arrow([item for _, item in flat], kind.item_type)
        return pa.MapArray.from_arrays(ends, keys, items, type=kind, mask=mask)
    if types.is_date(kind):
        return pa.array(values, pa.int32()).cast(kind)
    return pa.array(values, pa.int64()).cast(kind) if types.is_timestamp(kind) else pa.array(values, kind)


def _other(kind: pa.DataType) -> Any:
    """Some value."""
    if types.is_null(kind):
        return None
    if types.is_struct(kind):
        return {one.name: _other(one.type) for one in kind}
    if types.is_list(kind):
        return [_other(kind.value_type), None]
    if types.is_map(kind):
        return [("other", _other(kind.item_type))]
    if types.is_string(kind) or types.is_binary(kind):
        return "other" if types.is_string(kind) else b"other"
    return Decimal(1) if types.is_decimal(kind) else types.is_boolean(kind) or 1


def plain(array: pa.Array) -> list[Any]:
    """The values of an array, as they are here."""
    kind = array.type
    if types.is_struct(kind):
        parts = [plain(part) for part in array.flatten()]
        rows = [dict(zip((one.name for one in kind), row, strict=True)) for row in zip(*parts, strict=True)]
        return [row if there else None for row, there in zip(rows or [{}] * len(array), array.is_valid().to_pylist(),
                                                               strict=True)]  # fmt: skip
    if types.is_list(kind):
        return [plain(one.values) if one.is_valid else None for one in array]
    if types.is_map(kind):
        pairs = [one.values for one in array]
        return [
            None if one is None else list(zip(plain(one.field(0)), plain(one.field(1)), strict=True)) for one in pairs
        ]
    if types.is_date(kind):
        return list(array.cast(pa.int32()).to_pylist())
    return list((array.cast(pa.int64()) if types.is_timestamp(kind) else array).to_pylist())
