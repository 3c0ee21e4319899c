"""Where a record belongs and what its row must hold, decided by json.loads and a few `if`s.

Shares no code with the exporter: not its routing, not its decoder, not its audit. What plain Python cannot
tell for sure is `None`, never a guess: then the record may be in its type's table or in the dead letters.

    Config  the routing configuration as the dead letters record it, a JSON object
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from typing import Any

from tests.support.naive_formats import PLAIN, Bad, Config, Decisions, Empty, Unsure, Untold, form_of, read
from tests.support.naive_rules import (
    COUNTED,
    NOTHING_PLAIN,
    Plain,
    at_path,
    decoded,
    fields_of,
    is_kept,
    leaves,
    shape_of,
    takers,
)

DEAD_LETTERS = "dead_letters"
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
US = timedelta(microseconds=1)
HELD_US = (-62_135_596_800_000_000, 253_402_300_799_999_999)
"""Kafka timestamps of the years 1 to 9999."""
UNITS_US = {"s": 1_000_000.0, "ms": 1_000.0, "us": 1.0}
INTEGERS = {"long": 63, "integer": 31, "short": 15, "byte": 7}
PLAIN_TIME = re.compile(
    r"\d{4}-\d\d-\d\d[Tt](?!24)\d\d:(\d\d:[0-5]\d([.,]\d{1,6})?([Zz]|[+-]\d\d:\d\d)|59:60([.,]\d{1,6})?[Zz])\Z",
    re.ASCII,
)
PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]{1,100}\Z", re.ASCII)
Columns = Mapping[str, Any]
"""Column -> type as Spark and Delta write it in JSON."""


@dataclass(frozen=True)
class Message:
    """A record as kafka-python read it. timestamp_us: microseconds since 1970."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    timestamp_us: int


@dataclass(frozen=True)
class Place:
    """tables: any one of these must hold the record; none of one that is only counted. day, at, fields: of the row,
    where all is certain. slot: the table whose place it is; empty if it is the whole record's."""

    tables: tuple[str, ...]
    day: date | None = None
    at: datetime | None = None
    fields: Mapping[str, Any] | None = None
    slot: str = ""

    @property
    def table(self) -> str:
        """The event type's table, or the dead letters if the record certainly is one."""
        return self.tables[0] if self.tables else "none"


def places(
    message: Message,
    config: Config,
    columns: Mapping[str, Columns],
    known: Decisions | None = None,
    plain: Plain = NOTHING_PLAIN,
) -> list[Place] | None:
    """Where the record belongs, one place for each table that takes it; None if nothing can be said.

    columns: of each declared type. known: what is recorded of schema ids. plain: what a test knows of SQL.
    """
    form = form_of(config, message.topic)
    if message.value is None and form["tombstones"] == "count":
        return [Place(())]
    try:
        if message.value is None or len(message.value) > config["record_bytes_max"]:
            raise Bad
        if not HELD_US[0] <= message.timestamp_us <= HELD_US[1]:
            raise Bad
        tables, value = _typed(message, config, form, known or {})
    except Untold:
        return None
    except Empty:
        return [Place(() if form["tombstones"] == "count" else (DEAD_LETTERS,))]
    except Bad:
        return [Place((DEAD_LETTERS,))]
    except Unsure as unsure:
        return [Place((*unsure.args, DEAD_LETTERS, DEAD_LETTERS))]
    if tables == [COUNTED]:
        return [Place(())]
    return [_in_table(table, message, config, columns, value, plain) for table in tables]


def _in_table(
    table: str,
    message: Message,
    config: Config,
    columns: Mapping[str, Columns],
    value: dict[str, Any] | None,
    plain: Plain,
) -> Place:
    """The place of a record that a table takes. value: None if nobody can read it."""
    try:
        if value is None:
            raise Bad
        at = _event_time(message, config, value)
        time = EPOCH + timedelta(microseconds=at)
        kinds = columns.get(table, {})
        is_json = is_plain(form_of(config, message.topic))
        if is_json:
            if shape_of(config, table).get("case", "exact") != "exact" and _has_alike(value):
                raise Unsure
            _check(value, decoded(config, table, kinds), config, table in columns)
            _check_leaves(value, leaves(config, table, kinds))
        try:
            if not is_kept(config, table, value, message, plain):
                return Place((), slot=table)
            fields = fields_of(config, table, value, kinds, message, plain)
        except (ArithmeticError, LookupError, TypeError, ValueError):
            raise Bad from None
        if not is_json:
            fields = {name: one for name, one in {**value, **fields}.items() if _is_simple(one)}
        return Place((table,), time.date(), time, fields, table)
    except Bad:
        return Place((DEAD_LETTERS,), slot=table)
    except Unsure:
        return Place((table, DEAD_LETTERS), slot=table)


def is_plain(form: Mapping[str, Any]) -> bool:
    """Whether values are JSON, and nothing else."""
    return all(form[name] == PLAIN[name] for name in ("kind", "frame", "envelope"))


def _is_simple(value: Any) -> bool:
    """Whether a row's value of a plain type is equal to it by Python's ==."""
    return isinstance(value, (bool, int, str)) or (isinstance(value, float) and value == value)


def _typed(
    message: Message, config: Config, form: Mapping[str, Any], known: Decisions
) -> tuple[list[str], dict[str, Any] | None]:
    """The event types of the tables, and the parsed value; None if it cannot be."""
    kind, name = config["type_from"]["kind"], config["type_from"]["name"]
    raw: Any
    value, schema, source = None, "", ""
    if not is_plain(form):
        at = (message.topic, message.partition, message.offset)
        value, schema, source = read(message.value or b"", at, form, known)
    if kind == "topic":
        raw = message.topic
    elif kind == "key":
        raw = _text(message.key)
    elif kind == "header":
        raw = _text(next((value for key, value in reversed(message.headers) if key == name), None))
    elif kind == "schema":
        raw = schema.rpartition(".")[2] if name == "short" else schema
    elif kind == "source":
        raw = source
    else:
        raw = _at(_parsed(message.value or b"") if value is None else value, name)
    if not isinstance(raw, str) or not raw:
        raise Bad
    names, declared = takers(config, raw), [one for one, _ in config["types"]]
    if not names:
        raise Bad
    for new in (one for one in names if one not in declared and one != COUNTED):
        if not PLAIN_NAME.match(new):
            raise Unsure(new)
    try:
        return names, _parsed(message.value or b"") if value is None else value
    except Bad:
        return names, None


def _text(raw: bytes | None) -> str:
    try:
        return (raw or b"").decode()
    except UnicodeDecodeError:
        raise Bad from None


def _parsed(raw: bytes) -> dict[str, Any]:
    """The value as a JSON object. A key that is there twice, and a constant such as NaN, make it no JSON."""

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(found)) < len(found):
            raise Bad
        return dict(found)

    def constant(_: str) -> None:
        raise Bad

    try:
        value = json.loads(raw.decode(), object_pairs_hook=pairs, parse_constant=constant)
    except (UnicodeDecodeError, json.JSONDecodeError):
        raise Bad from None
    except (RecursionError, ValueError):
        raise Unsure from None
    if not isinstance(value, dict):
        raise Bad
    return value


def _at(value: Any, path: str) -> Any:
    for part in path.split("."):
        if not isinstance(value, dict) or part not in value:
            raise Bad
        value = value[part]
    return value


def _event_time(message: Message, config: Config, value: dict[str, Any]) -> int:
    """Microseconds since 1970."""
    source = config["event_time"]
    if source["kind"] == "record":
        return message.timestamp_us
    raw = _at(value, source["path"])
    if isinstance(raw, datetime):
        at = (raw.replace(tzinfo=raw.tzinfo or timezone.utc) - EPOCH) // US
    elif source["unit"] == "iso":
        at = _instant(raw)
    elif isinstance(raw, bool) or not isinstance(raw, (int, float)):
        raise Bad
    elif isinstance(raw, float) or source["unit"] not in UNITS_US or abs(raw) > 10**17:
        raise Unsure
    else:
        at = int(raw * UNITS_US[source["unit"]])
    ahead = int(config["event_time_ahead_max_secs"] * 1_000_000)
    if not config["event_time_min_us"] <= at <= message.timestamp_us + ahead:
        raise Bad
    return at


def _instant(raw: Any) -> int:
    if not isinstance(raw, str):
        raise Bad
    if not PLAIN_TIME.match(raw):
        raise Unsure
    text = raw.upper().replace(",", ".")
    leap = ":59:60" in text  # the moment after it
    try:
        return (datetime.fromisoformat(_six_digits(text.replace(":59:60", ":59:59"))) - EPOCH) // US + leap * 1_000_000
    except (ValueError, OverflowError):
        raise Unsure from None


def _six_digits(text: str) -> str:
    """As Python 3.10 reads it: +00:00 for Z, and three or six digits of a second."""
    text = text.replace("Z", "+00:00")
    head, dot, rest = text.partition(".")
    digits = re.match(r"\d*", rest)
    size = digits.end() if digits else 0
    return f"{head}.{rest[:size]:0<6}{rest[size:]}" if dot else text


def _has_alike(value: Any) -> bool:
    """Whether an object anywhere in a value has two keys that differ by case only."""
    if isinstance(value, dict):
        return len({name.lower() for name in value}) < len(value) or any(map(_has_alike, value.values()))
    return isinstance(value, list) and any(map(_has_alike, value))


def _check(value: dict[str, Any], kinds: Columns, config: Config, declared: bool) -> None:
    known = {*kinds, config["type_from"]["name"].split(".")[0], config["event_time"]["path"].split(".")[0]}
    lower = {name.lower(): name for name in kinds}
    for name in value:
        if name not in kinds and name.lower() in lower:
            raise Unsure
    if declared and config["unknown_fields"] == "dead_letter" and not set(value) <= known:
        raise Bad
    unsure = False
    for name, kind in kinds.items():
        fit = fits(kind, value.get(name))
        if fit is False:
            raise Bad
        unsure = unsure or fit is None
    if unsure:
        raise Unsure


def _check_leaves(value: dict[str, Any], some: Sequence[tuple[str, Any]]) -> None:
    for path, kind in some:
        *way, _ = path.split(".")
        if not all(isinstance(at_path(value, ".".join(way[: n + 1])), dict | None) for n in range(len(way))):
            raise Bad
        if (fit := fits(kind, at_path(value, path))) is not True:
            raise Bad if fit is False else Unsure


def fits(kind: Any, value: Any) -> bool | None:
    """Whether the JSON value can be a value of the column; None if plain Python cannot tell."""
    if value is None:
        return True
    if kind is None:
        return None
    if isinstance(kind, dict):
        return _fits_nested(kind, value)
    if kind == "string":
        return isinstance(value, str) and (value.isprintable() or None)
    if kind == "boolean":
        return isinstance(value, bool)
    if isinstance(value, (bool, dict, list)):
        return None if kind == "binary" else False
    if kind in INTEGERS:
        if isinstance(value, int):
            return -(2 ** INTEGERS[kind]) <= value < 2 ** INTEGERS[kind]
        return False if isinstance(value, str) else None
    if kind in ("double", "float"):
        return False if isinstance(value, str) else abs(value) < 1e30 or None
    if kind == "timestamp":
        return bool(PLAIN_TIME.match(value)) or None if isinstance(value, str) else None
    if (decimal := re.match(r"decimal\((\d+),(\d+)\)", str(kind))) is not None:
        whole, part = int(decimal[1]) - int(decimal[2]), int(decimal[2])
        return bool(re.match(rf"-?\d{{1,{whole}}}(\.\d{{1,{part}}})?\Z", str(value), re.ASCII)) or None
    return None


def _fits_nested(kind: Mapping[str, Any], value: Any) -> bool | None:
    if kind["type"] == "struct":
        if not isinstance(value, dict):
            return False
        known = {field["name"]: field["type"] for field in kind["fields"]}
        if not set(value) <= set(known):
            return None
        found = [fits(one, value.get(name)) for name, one in known.items()]
    elif kind["type"] == "array":
        if not isinstance(value, list):
            return False
        found = [fits(kind["elementType"], one) for one in value]
    else:
        return None
    return False if False in found else None if None in found else True


def comparable(kind: Any) -> bool:
    """Whether a row's value is equal to the JSON value, by Python's ==."""
    if isinstance(kind, dict):
        inner = [one["type"] for one in kind.get("fields", [])] or [kind.get("elementType")]
        return kind["type"] in ("struct", "array") and all(comparable(one) for one in inner)
    return kind in {"string", "boolean", "double", *INTEGERS}


def same(kind: Any, stored: Any, value: Any) -> bool:
    """Whether a row holds the JSON value; fields that a struct's value leaves out are null."""
    if isinstance(kind, dict) and stored is not None and value is not None:
        if kind["type"] == "struct":
            return all(same(f["type"], stored.get(f["name"]), value.get(f["name"])) for f in kind["fields"])
        return len(stored) == len(value) and all(
            same(kind["elementType"], one, other) for one, other in zip(stored, value, strict=True)
        )
    return bool(stored == value)
