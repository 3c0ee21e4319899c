"""Partition specs: how the files of a table are cut by the time of their events. One entry of SPECS each. Pure.

    micros ── // width_us ── key ──┬─ folder     day=2026-11-01             of its files, within the table's folder
                                   ├─ values     {"day": "2026-11-01"}      as Delta's log has them
                                   ├─ condition  day = DATE'2026-11-01'     as SQL asks for it
                                   ├─ label      2026-11-01                 as a person reads it
                                   └─ is_closed  ended, and nothing more is expected for it

A key counts whole widths since 1970, so Arrow and SQL make it by one division, and key 0 is that of a record without a
time. What is stored is for ever: an entry is never changed, and a folder that it once made parses for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone
from functools import cache

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_US = timedelta(microseconds=1)


class BadPartition(ValueError):
    """Text that names no partition of a spec, or a time that no partition can have."""


@dataclass(frozen=True)
class Column:
    """One partition column. type: Spark's name of it. text: its value for the begin of a partition, as Delta has it."""

    name: str
    type: str
    text: Callable[[datetime], str]

    def literal(self, value: str) -> str:
        """The value in SQL."""
        return f"DATE'{value}'" if self.type == "date" else value


@dataclass(frozen=True)
class Spec:
    """A way to cut a table. begin: the begin of a partition, UTC, from the texts of its columns; ValueError if none."""

    name: str
    width_us: int
    columns: tuple[Column, ...]
    begin: Callable[[Sequence[str]], datetime]

    def at(self, moment: datetime) -> Partition:
        """The partition that a moment falls into."""
        return Partition(self.name, (moment - _EPOCH) // _US // self.width_us)

    def of_values(self, values: Mapping[str, str | None]) -> Partition:
        """The partition that Delta's partitionValues say. Raises BadPartition."""
        texts = tuple(values.get(column.name) or "" for column in self.columns)
        try:
            found = self.at(self.begin(texts))
            same = tuple(found.values.values()) == texts
        except (ValueError, OverflowError):
            same = False
        if not same:
            raise BadPartition(f"not a {self.name}: {dict(values)!r}")
        return found

    @property
    def column_names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)


@dataclass(frozen=True, order=True)
class Partition:
    """The rows of one key: one folder of a table. spec: a name of SPECS."""

    spec: str
    key: int

    @property
    def values(self) -> dict[str, str]:
        """Delta's partitionValues. Raises BadPartition for a time outside of the years 1 to 9999."""
        spec = SPECS[self.spec]
        try:
            begin = _EPOCH + timedelta(microseconds=self.key * spec.width_us)
        except OverflowError:
            raise BadPartition(f"no time that a table can hold: {self!r}") from None
        return {column.name: column.text(begin) for column in spec.columns}

    @property
    def folder(self) -> str:
        """Relative to the table's folder."""
        return "/".join(f"{name}={value}" for name, value in self.values.items())

    @property
    def label(self) -> str:
        return " ".join(self.values.values())

    @property
    def condition(self) -> str:
        """What is true in SQL of its rows, and of no others."""
        columns = zip(SPECS[self.spec].columns, self.values.values(), strict=True)
        return " AND ".join(f"{column.name} = {column.literal(value)}" for column, value in columns)

    def is_closed(self, now: datetime, late_secs: float) -> bool:
        """Whether it ended more than late_secs ago."""
        ends_us = (self.key + 1) * SPECS[self.spec].width_us
        return ends_us + late_secs * 1e6 < (now - _EPOCH) // _US


@cache
def parse(folder: str) -> Partition:
    """The inverse of Partition.folder. Raises BadPartition."""
    parts = [part.partition("=") for part in folder.split("/")]
    spec = of_columns(tuple(name for name, _, _ in parts))
    if spec is None or not all(equals for _, equals, _ in parts):
        raise BadPartition(f"not a partition of ours: {folder!r}")
    return spec.of_values({name: value for name, _, value in parts})


def of_columns(names: Sequence[str]) -> Spec | None:
    """The spec whose partition columns these are, in their order."""
    return next((spec for spec in SPECS.values() if spec.column_names == tuple(names)), None)


DAY = Spec(
    name="day",
    width_us=86_400_000_000,
    columns=(Column("day", "date", lambda begin: begin.date().isoformat()),),
    begin=lambda texts: datetime.combine(date.fromisoformat(texts[0]), time.min, timezone.utc),
)
SPECS: dict[str, Spec] = {spec.name: spec for spec in (DAY,)}
