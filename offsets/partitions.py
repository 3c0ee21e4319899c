"""Partition specs: how the files of a table are cut, by the time of their events and by columns. Pure.

    micros ── key_of() ──┐              ┌─ folder     day=2026-11-01/country=DE     of its files, in the table's folder
                         ├─ Partition ──┼─ values     {"day": "2026-11-01", ...}    as Delta's log has them
    texts of columns ────┘              ├─ label      2026-11-01 DE                 as a person reads it
                                        └─ is_closed  ended, and nothing more is expected for it

    day    day DATE                  a key counts days since 1970
    hour   day DATE, hour INT        hours since 1970
    month  month STRING, 2026-11     months since 1970
    none   no column                 always 0
    week   week DATE, its Monday     weeks since Monday, 29 December 1969

Key 0 is that of a record without a time. A column in its own right (`identity`) stands behind those of the time, with
a value's text as Delta writes it. What is stored is for ever: an entry is never changed, and a folder that it once
made parses for ever.

The names of the first four tell the unit: no column in its own right was ever called `day`, `hour` or `month`. Earlier
versions allowed `week` for such a column, and any other name that a later unit could have. So a later unit is `named`:
its tables say it in a property, and without that property the names mean what they always meant. A folder of such a
table says its values alone: its partition is that of columns in their own right, with the same folder and values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone
from functools import cached_property, lru_cache

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_US = timedelta(microseconds=1)
NULL = "__HIVE_DEFAULT_PARTITION__"
"""What a folder calls a null."""
TEXT_BYTES_MAX = 200
"""Bytes of a text as a folder has it: with the column's name it has to fit into a file system's 255."""
IDENTITY_NAME = re.compile(r"[A-Za-z0-9_]{1,50}\Z")
"""What a column in its own right may be called: plain in a folder."""
UNIT_PROPERTY = "exporter.partition_by"
"""Property of a table that names its unit, where its columns alone do not tell it."""
PARSED_MAX = 1 << 14
_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.")


class BadPartition(ValueError):
    """Text that names no partition of a spec, or a time that no partition can have."""


@dataclass(frozen=True)
class Column:
    """A column of the time. type: as Spark's JSON has it. text: its value for the begin of a partition, as Delta's."""

    name: str
    type: str
    text: Callable[[datetime], str]


@dataclass(frozen=True)
class Unit:
    """A way to cut by time. key: of microseconds since 1970. begin_us: its inverse; None where nothing ever ends.

    begin: the begin of a partition, UTC, from the texts of its columns; ValueError if they are none.
    width_us: of each partition, where all have the same; else 0. first_us: the begin of key 0 then.
    named: whether a table has to say that it is cut so, because its columns alone do not.
    """

    name: str
    columns: tuple[Column, ...]
    key: Callable[[int], int]
    begin_us: Callable[[int], int] | None
    begin: Callable[[Sequence[str]], datetime]
    width_us: int = 0
    first_us: int = 0
    named: bool = False


@dataclass(frozen=True, order=True)
class Spec:
    """How one table is cut. time: a name of UNITS. identity: columns of the table, behind those of the time."""

    time: str = "day"
    identity: tuple[str, ...] = ()

    @property
    def unit(self) -> Unit:
        return UNITS[self.time]

    @property
    def time_columns(self) -> tuple[Column, ...]:
        """The columns that the exporter adds to a table of this spec."""
        return self.unit.columns

    @property
    def column_names(self) -> tuple[str, ...]:
        """The table's partition columns, in their order."""
        return (*(column.name for column in self.unit.columns), *self.identity)

    @property
    def properties(self) -> dict[str, str]:
        """Of a table that is cut so, beside its partition columns."""
        return {UNIT_PROPERTY: self.time} if self.unit.named else {}

    def of_key(self, key: int, texts: Sequence[str | None] = ()) -> Partition:
        """texts: of the columns in their own right, None for null; each fits()."""
        return Partition(self, key, tuple(NULL if text is None else text for text in texts))

    def at(self, moment: datetime, texts: Sequence[str | None] = ()) -> Partition:
        """The partition that a moment falls into."""
        return self.of_key(self.unit.key((moment - _EPOCH) // _US), texts)

    def of_values(self, values: Mapping[str, str | None]) -> Partition:
        """The partition that Delta's partitionValues say. Raises BadPartition."""
        texts = tuple(values.get(column.name) or "" for column in self.unit.columns)
        try:
            found = self.at(self.unit.begin(texts), [values[name] or None for name in self.identity])
            same = tuple(found.values[column.name] for column in self.unit.columns) == texts
        except (ValueError, OverflowError, KeyError):
            same = False
        if not same or not all(text == NULL or fits(text) for text in found.texts):
            raise BadPartition(f"not a partition by {self}: {dict(values)!r}")
        return found

    def __str__(self) -> str:
        return " and ".join((self.time, *self.identity))


@dataclass(frozen=True, order=True)
class Partition:
    """The rows of one key and some values: one folder of a table. texts: of the columns in their own right, or NULL."""

    spec: Spec
    key: int
    texts: tuple[str, ...] = ()

    @property
    def begin(self) -> datetime | None:
        """Its first moment, UTC; None of one without a time. Raises BadPartition outside of the years 1 to 9999."""
        begin_us = self.spec.unit.begin_us
        try:
            return None if begin_us is None else _EPOCH + timedelta(microseconds=begin_us(self.key))
        except (OverflowError, ValueError):
            raise BadPartition(f"no time that a table can hold: {self!r}") from None

    @cached_property
    def values(self) -> dict[str, str | None]:
        """Delta's partitionValues. Raises BadPartition for a time outside of the years 1 to 9999."""
        begin = self.begin or _EPOCH
        own = {name: None if text == NULL else text for name, text in zip(self.spec.identity, self.texts, strict=True)}
        return {**{column.name: column.text(begin) for column in self.spec.time_columns}, **own}

    @property
    def time_text(self) -> str:
        """Its day, or what its unit has in place: the value of its first column of the time; empty without one."""
        return (self.values[self.spec.time_columns[0].name] or "") if self.spec.time_columns else ""

    @property
    def folder(self) -> str:
        """Relative to the table's folder; empty for the table's own."""
        return "/".join(f"{name}={NULL if text is None else _escaped(text)}" for name, text in self.values.items())

    @property
    def label(self) -> str:
        return " ".join("null" if text is None else text for text in self.values.values())

    def is_closed(self, now: datetime, late_secs: float) -> bool:
        """Whether it ended more than late_secs ago. One without a time is as closed as it will ever be."""
        begin_us = self.spec.unit.begin_us
        if begin_us is None:
            return True
        try:
            return begin_us(self.key + 1) + late_secs * 1e6 < (now - _EPOCH) // _US
        except (OverflowError, ValueError):  # the last month of all
            return False


def fits(text: str) -> bool:
    """Whether a text can be a partition's value: for Delta an empty one is null, and a folder's name has an end.

    No file system has a zero in a name, and Spark, which packs the files, names folders by what it does not escape.

    What does not fit is null in the table's column and stands in `_rescued`.
    """
    if not text or text == NULL or "\0" in text or len(text) > TEXT_BYTES_MAX:
        return False
    return len(_escaped(text)) <= TEXT_BYTES_MAX


@lru_cache(PARSED_MAX)
def parse(folder: str, unit: str = "") -> Partition:
    """The inverse of Partition.folder. unit: as in of_columns(). Raises BadPartition."""
    parts = [part.partition("=") for part in folder.split("/")] if folder else []
    spec = of_columns(tuple(name for name, _, _ in parts), unit)
    if spec is None or not all(equals for _, equals, _ in parts):
        raise BadPartition(f"not a partition of ours: {folder!r}")
    texts = (None if text == NULL else _unescaped(text) for _, _, text in parts)
    found = spec.of_values({name: text for (name, _, _), text in zip(parts, texts, strict=True)})
    if found.folder != folder:
        raise BadPartition(f"not a partition of ours: {folder!r}")
    return found


def of_columns(names: Sequence[str], unit: str = "") -> Spec | None:
    """The spec whose partition columns these are, in their order. unit: that the table names; empty if none."""
    for one in _TOLD_BY.get(unit, ()):
        own = tuple(column.name for column in one.columns)
        if tuple(names[: len(own)]) == own:
            rest = tuple(names[len(own) :])
            return Spec(one.name, rest) if all(map(may_be_identity, rest)) and len({*rest}) == len(rest) else None
    return None


def time_text(folder: str) -> str:
    """What a folder alone says of its rows' time, as Partition.time_text; empty if nothing. Raises BadPartition.

    A column in its own right that is called as a named unit calls its own is taken for that where its text can be one.
    """
    texts = [parse(folder).time_text]
    for unit in (one.name for one in UNITS.values() if one.named):
        with suppress(BadPartition):
            texts.append(parse(folder, unit).time_text)
    return next(filter(None, texts), "")


def may_be_identity(name: str) -> bool:
    """Whether a column of this name can be one of a spec in its own right."""
    return bool(IDENTITY_NAME.match(name)) and name.lower() not in TIME_NAMES


def _escaped(text: str) -> str:
    """As Hive and Spark do it, but all that is not plain ASCII: a path is then the same to every process and locale."""
    return "".join(chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in text.encode("utf-8", "surrogatepass"))


def _unescaped(text: str) -> str:
    """A value as a folder's name has it. Raises BadPartition."""
    raw, index = bytearray(), 0
    while index < len(text):
        code = text[index + 1 : index + 3] if text[index] == "%" else ""
        try:
            raw += bytes.fromhex(code) if code else text[index].encode("ascii")
        except ValueError:
            raise BadPartition(f"not a value of a partition: {text!r}") from None
        index += 1 + len(code)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise BadPartition(f"not a value of a partition: {text!r}") from None


def _midnight(text: str) -> datetime:
    return datetime.combine(date.fromisoformat(text), time.min, timezone.utc)


def _month_key(micros: int) -> int:
    moment = _EPOCH + timedelta(microseconds=micros)
    return (moment.year - 1970) * 12 + moment.month - 1


def _month_begin_us(key: int) -> int:
    years, month = divmod(key, 12)
    return (datetime(1970 + years, month + 1, 1, tzinfo=timezone.utc) - _EPOCH) // _US


def _even(
    name: str,
    width_us: int,
    columns: tuple[Column, ...],
    begin: Callable[[Sequence[str]], datetime],
    first_us: int = 0,
    named: bool = False,
) -> Unit:
    """A unit whose partitions are all as long as one another."""
    return Unit(
        name,
        columns,
        lambda micros: (micros - first_us) // width_us,
        lambda key: key * width_us + first_us,
        begin,
        width_us,
        first_us,
        named,
    )


_DAY_US = 86_400_000_000
_DAY_COLUMN = Column("day", "date", lambda begin: begin.date().isoformat())
UNITS: dict[str, Unit] = {
    unit.name: unit
    for unit in (
        _even("day", _DAY_US, (_DAY_COLUMN,), lambda texts: _midnight(texts[0])),
        _even(
            "hour",
            _DAY_US // 24,
            (_DAY_COLUMN, Column("hour", "integer", lambda begin: str(begin.hour))),
            lambda texts: _midnight(texts[0]) + timedelta(hours=int(texts[1])),
        ),
        Unit(
            "month",
            (Column("month", "string", lambda begin: begin.date().isoformat()[:7]),),
            _month_key,
            _month_begin_us,
            lambda texts: _midnight(f"{texts[0]}-01"),
        ),
        Unit("none", (), lambda micros: 0, None, lambda texts: _EPOCH),
        _even(
            "week",
            7 * _DAY_US,
            (Column("week", "date", lambda begin: begin.date().isoformat()),),
            lambda texts: _midnight(texts[0]),
            first_us=-3 * _DAY_US,  # 1970 began on a Thursday
            named=True,
        ),
    )
}
"""What `partition_by` can be."""
_LONGEST_FIRST = sorted((unit for unit in UNITS.values() if not unit.named), key=lambda unit: -len(unit.columns))
_TOLD_BY = {"": _LONGEST_FIRST, **{name: [unit] for name, unit in UNITS.items()}}
"""The unit that a table names, or none -> what its columns may be of."""
TIME_NAMES = frozenset(column.name for unit in _LONGEST_FIRST for column in unit.columns)
"""Names that no column in its own right may have, compared in lower case: they tell a unit."""
DAY = Spec()
"""That of the dead letters, and of every table that an earlier version made."""
