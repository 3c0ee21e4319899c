"""The JSON documents that the rows of a table stand for, put together by a plain reader that is not the exporter's.

    deltalake reads the rows ── columns and `_rescued` merged ── {(topic, partition, offset): document}
    json.loads of what was sent ───────────────────────────────┴─ where they differ

Objects are merged by key, arrays by position, else `_rescued` has the word. Null is absent, and where there is no
`_rescued` so is what has nothing but nulls in it. Times, dates, binaries and decimals stand in a document as Python has
them, and are compared with the text that was sent.
"""

from __future__ import annotations

import base64
import json
import math
import re
import struct
from collections.abc import Collection, Iterator, Mapping
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake

At = tuple[str, int, int]
"""Topic, partition, offset."""
OURS = frozenset({"_kafka", "_event_time", "_rescued", "day"})


class Bare(dict[str, Any]):
    """The document of a row without `_rescued`."""


def documents(table: deltalake.DeltaTable | Path | str, ours: Collection[str] = OURS) -> dict[At, dict[str, Any]]:
    """What the rows stand for. ours: columns that are no part of a document; a position that is there twice raises."""
    opened = table if isinstance(table, deltalake.DeltaTable) else deltalake.DeltaTable(table)
    fields = [one for one in json.loads(opened.schema().to_json())["fields"] if one["name"] not in ours]
    found: dict[At, dict[str, Any]] = {}
    for row in opened.to_pyarrow_dataset().to_table(use_threads=False).to_pylist():
        at = tuple(row["_kafka"][name] for name in ("topic", "partition", "offset"))
        assert at not in found, f"{at} is there twice"
        columns = {one["name"]: _value(one["type"], row[one["name"]], _marks(one)) for one in fields}
        rest = row["_rescued"]
        found[at] = Bare(columns) if rest is None else _merged(columns, _json(rest))
    return found


def differences(
    found: Mapping[At, Any], sent: Mapping[At, bytes], dropped: Collection[str] = ()
) -> list[tuple[At, str, Any, Any]]:
    """(at, path, sent, found) of all that differs. dropped: paths, `$.type`, of what may be nowhere."""
    lines = [(at, "$", _json(sent[at]), None) for at in sent.keys() - found.keys()]
    lines += [(at, "$", None, found[at]) for at in found.keys() - sent.keys()]
    for at in sorted(found.keys() & sent.keys()):
        value = _without_nothing(_json(sent[at]), found[at]) if isinstance(found[at], Bare) else _json(sent[at])
        lines += [(at, *one) for one in _unlike(value, found[at], "$", dropped)]
    return lines


def _json(text: bytes | str) -> Any:
    return json.loads(text, parse_float=Decimal)


def _marks(field: Mapping[str, Any]) -> set[str]:
    """Where a field holds JSON as text: `.`, `element`, `value.element`."""
    return set(filter(None, (field.get("metadata") or {}).get("exporter.json", "").split(",")))


def _value(kind: Any, value: Any, marks: set[str], at: tuple[str, ...] = ()) -> Any:
    """A column's value as it stands in a document: without the nulls of structs, JSON read."""
    if value is None:
        return None
    if isinstance(kind, str):
        return _json(value) if (".".join(at) or ".") in marks else value
    if kind["type"] == "struct":
        return {f["name"]: _value(f["type"], value[f["name"]], _marks(f)) for f in kind["fields"]}
    if kind["type"] == "array":
        return [_value(kind["elementType"], one, marks, (*at, "element")) for one in value]
    return {key: _value(kind["valueType"], one, marks, (*at, "value")) for key, one in dict(value).items()}


def _merged(column: Any, rest: Any) -> Any:
    if isinstance(column, dict) and isinstance(rest, dict):
        return {name: _merged(column.get(name), rest.get(name)) for name in column.keys() | rest.keys()}
    if isinstance(column, list) and isinstance(rest, list) and len(column) == len(rest):
        return [_merged(one, other) for one, other in zip(column, rest, strict=True)]
    return column if rest is None else rest


def _without_nothing(sent: Any, found: Any) -> Any:
    """What was sent, null where it has nothing but nulls and nothing was found."""
    if found is None and not _leaves(sent):
        return None
    if isinstance(sent, dict):
        inside = found if isinstance(found, dict) else {}
        return {name: _without_nothing(one, inside.get(name)) for name, one in sent.items()}
    if isinstance(sent, list) and isinstance(found, list) and len(sent) == len(found):
        return [_without_nothing(one, other) for one, other in zip(sent, found, strict=True)]
    return sent


def _leaves(value: Any) -> list[Any]:
    """All scalars in a value."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [leaf for one in inside for leaf in _leaves(one)] + [value] * (type(value) not in (dict, list, type(None)))


def _unlike(sent: Any, found: Any, path: str, dropped: Collection[str]) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(sent, dict) and (isinstance(found, dict) or _all_dropped(sent, path, dropped)):
        inside = found or {}
        for name in sorted(sent.keys() | inside.keys()):
            yield from _unlike(sent.get(name), inside.get(name), f"{path}.{name}", dropped)
    elif isinstance(sent, list) and isinstance(found, list) and len(sent) == len(found):
        for at, (one, other) in enumerate(zip(sent, found, strict=True)):
            yield from _unlike(one, other, f"{path}[{at}]", dropped)
    elif not _same(sent, found) and not (found is None and path in dropped):
        yield path, sent, found


def _all_dropped(sent: Mapping[str, Any], path: str, dropped: Collection[str]) -> bool:
    """Whether nothing of an object needs to be anywhere."""
    there = [name for name, one in sent.items() if one is not None]
    return bool(there) and all(any(f"{one}.".startswith(f"{path}.{name}.") for one in dropped) for name in there)


def _same(sent: Any, found: Any) -> bool:
    """Whether a column has what was sent, as its type has it."""
    if isinstance(found, datetime):
        return isinstance(sent, str) and _instant(sent) == found.replace(tzinfo=found.tzinfo or timezone.utc)
    if isinstance(found, date):
        return isinstance(sent, str) and sent == found.isoformat()
    if isinstance(found, bytes):
        return isinstance(sent, str) and base64.b64decode(sent) == found
    if isinstance(found, float) and isinstance(sent, (int, Decimal)) and not isinstance(sent, bool):
        near = float(sent)
        return near == found or (math.isfinite(near) and abs(near) < 3e38 and _of_32_bits(near) == found)
    if isinstance(found, Decimal) and isinstance(sent, str):
        return Decimal(sent) == found
    return isinstance(sent, bool) == isinstance(found, bool) and bool(sent == found)


def _of_32_bits(number: float) -> float:
    return float(struct.unpack("f", struct.pack("f", number))[0])


def _instant(text: str) -> datetime:
    text = re.sub(r"Z$", "+00:00", text)
    text = re.sub(r"(\.\d{6})\d+", r"\1", text)
    text = re.sub(r"\.(\d{1,5})(?!\d)", lambda digits: f".{digits[1]:0<6}", text)
    at = datetime.fromisoformat(text)
    return at.replace(tzinfo=at.tzinfo or timezone.utc)
