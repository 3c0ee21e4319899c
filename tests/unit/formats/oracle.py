"""A second opinion on what a row holds of a JSON record, with no code of the exporter's: stdlib's json and types only.

    record ── parsed ── split: by the schema into columns, and what is left for `_rescued` ── merged: the record again

Refused is told from good, never why. Numbers keep the text that they were sent as.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from datetime import datetime, timedelta, timezone
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa

DEPTH_MAX = 200


class Refused(Exception):
    """The record is bad."""


class Misfit(Exception):
    """A value does not fit its column."""


class Number(str):
    """As sent."""

    __slots__ = ()

    @property
    def is_integer(self) -> bool:
        return re.fullmatch("-?[0-9]+", self) is not None


def parsed(raw: bytes) -> dict[str, Any]:
    """The record. Raises Refused."""

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({key for key, _ in found}) < len(found):
            raise ValueError("a key occurs twice")
        return dict(found)

    def constant(text: str) -> None:
        raise ValueError(text)

    try:
        text = raw.decode()
        value = json.loads(text, object_pairs_hook=pairs, parse_int=Number, parse_float=Number, parse_constant=constant)
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        raise Refused from None
    if not isinstance(value, dict) or _depth(value) > DEPTH_MAX:
        raise Refused
    return value


def _depth(value: Any) -> int:
    levels, here = 0, [value]
    while here := [one for one in here if isinstance(one, (dict, list))]:
        levels += 1
        here = [inner for one in here for inner in (one.values() if isinstance(one, dict) else one)]
    return levels


def split(raw: bytes, schema: pa.Schema) -> tuple[dict[str, Any], Any]:
    """The columns of a record, null ones left out, and what is left of it, None if nothing. Raises Refused."""
    try:
        return _object(parsed(raw), schema, False)
    except Misfit:
        raise Refused from None


def _object(value: Any, fields: Iterable[pa.Field], evolved: bool) -> tuple[dict[str, Any], Any]:
    if not isinstance(value, dict):
        raise Misfit
    known = {field.name: field for field in fields}
    column: dict[str, Any] = {}
    rest: dict[str, Any] = {}
    for name, item in value.items():
        if name not in known:
            rest[name] = item
        elif item is not None:
            free = evolved or is_marked(known[name], "evolved")
            try:
                column[name], left = _value(item, known[name], free)
            except Misfit:
                if not free:
                    raise
                left = item
            if left is not None:
                rest[name] = left
    if any(name not in column and not field.nullable for name, field in known.items()):
        raise Misfit
    return column, rest or None


def is_marked(field: pa.Field, mark: str) -> bool:
    return f"exporter.{mark}".encode() in (field.metadata or {})


def _value(value: Any, field: pa.Field, evolved: bool) -> tuple[Any, Any]:
    """What the column holds of a value that is not null, and what it does not."""
    kind = field.type
    if is_marked(field, "json"):
        return value, None
    if pa.types.is_struct(kind):
        return _object(value, kind, evolved)
    if pa.types.is_map(kind):
        if not isinstance(value, dict):
            raise Misfit
        entries = [pa.field(key, kind.item_type, metadata=kind.item_field.metadata) for key in value]
        nulls = {key: None for key, item in value.items() if item is None}
        column, rest = _object(value, entries, evolved)
        if nulls and not kind.item_field.nullable:
            raise Misfit
        return {**column, **nulls}, rest
    if pa.types.is_list(kind):
        if not isinstance(value, list):
            raise Misfit
        if None in value and not kind.value_field.nullable:
            raise Misfit
        parts = [(None, None) if item is None else _value(item, kind.value_field, evolved) for item in value]
        rest = [left for _, left in parts]
        return [held for held, _ in parts], rest if any(left is not None for left in rest) else None
    return _scalar(value, kind, evolved), None


def _scalar(value: Any, kind: pa.DataType, evolved: bool) -> Any:
    """The value, if the column can hold it."""
    if pa.types.is_integer(kind):
        fits = isinstance(value, Number) and value.is_integer and len(value) < 22
        fits = fits and -(2 ** (kind.bit_width - 1)) <= int(value) < 2 ** (kind.bit_width - 1)
    elif pa.types.is_floating(kind):
        fits = isinstance(value, Number) and abs(float(value)) < float("inf")
        fits = fits and (not evolved or not value.is_integer or int(float(value)) == int(value))
    elif pa.types.is_boolean(kind):
        fits = isinstance(value, bool)
    elif pa.types.is_decimal(kind):
        fits = isinstance(value, str) and re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", value)
        number = Decimal(value if fits else "0").normalize(Context(prec=100))
        fits = fits and -kind.scale <= number.as_tuple().exponent and number.adjusted() < kind.precision - kind.scale
    else:
        fits = isinstance(value, str) and not isinstance(value, Number)
        fits = fits and (not pa.types.is_timestamp(kind) or instant(value) is not None)
    if not fits:
        raise Misfit
    return value


def instant(text: str) -> datetime | None:
    """Of a text such as the tests have: microseconds, with a zone or in UTC. A leap second is the moment after it."""
    text = text.replace(",", ".").replace("t", "T").replace("z", "Z")
    if not re.fullmatch(r"\d{4}-\d\d-\d\d[T ](?!24)\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)?", text, re.ASCII):
        return None
    text = re.sub(r"\.(\d{1,9})", lambda found: f".{found[1][:6]:0<6}", text)  # Python 3.10 reads three digits or six
    leaps = text[17:19] == "60"
    text = text[:17] + "59" + text[19:] if leaps else text
    try:
        found = datetime.fromisoformat(re.sub(r"Z$", "+00:00", text))
        found = found.replace(tzinfo=timezone.utc) if found.tzinfo is None else found.astimezone(timezone.utc)
        return found if not leaps else found + timedelta(seconds=1) if found.minute == 59 else None
    except (ValueError, OverflowError):
        return None


def same(sent: Any, held: Any, field: pa.Field) -> bool:
    """Whether what a table has is the value: numbers by value, times as instants. held: as Arrow gives it."""
    kind = field.type
    if sent is None or held is None:
        return sent is held
    if is_marked(field, "json"):
        return bool(_loaded(held) == sent)
    if pa.types.is_struct(kind):
        return all(same(sent.get(one.name), held[one.name], one) for one in kind) and sent.keys() <= held.keys()
    if pa.types.is_map(kind):
        entries = dict(held)
        return sent.keys() == entries.keys() and all(same(sent[key], entries[key], kind.item_field) for key in sent)
    if pa.types.is_list(kind):
        pairs = zip(sent, held, strict=False)
        return len(sent) == len(held) and all(same(one, other, kind.value_field) for one, other in pairs)
    if isinstance(sent, Number):
        return bool((int(sent) if pa.types.is_integer(kind) else float(sent)) == held)
    if pa.types.is_timestamp(kind):
        return instant(sent) == held
    return bool(sent == held)


def _loaded(text: str) -> Any:
    return json.loads(text, parse_int=Number, parse_float=Number)


def dumped(value: Any) -> str:
    """The text of a value: compact, numbers as they were sent."""
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{dumped(key)}:{dumped(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(dumped, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def rescued(text: str | None) -> Any:
    """What `_rescued` says."""
    return None if text is None else _loaded(text)


def merged(column: Any, rest: Any) -> Any:
    """A value of what a column holds of it and what it does not: the rest wins but for objects and arrays in both."""
    if isinstance(column, dict) and isinstance(rest, dict):
        keys = {**column, **rest}
        return {key: merged(column.get(key), rest.get(key)) for key in keys}
    if isinstance(column, list) and isinstance(rest, list) and len(column) == len(rest):
        return [merged(one, other) for one, other in zip(column, rest, strict=True)]
    return column if rest is None else rest


def without_nulls(value: Any) -> Any:
    """A value without the members that are null, which is as good as missing."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value
