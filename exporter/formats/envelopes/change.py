"""What was done to a row, as its envelope says it, and the column `_cdc` of that. Runs on Spark executors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from exporter.arrow.kafka_time import US
from exporter.arrow.own_columns import CDC_TYPE, CHANGE_TYPE
from exporter.arrow.years import US_FIRST, US_LAST
from exporter.formats.dead_letter import DeadLetter
from exporter.formats.envelopes.strict import kind_of
from exporter.text import shorten

INSERT, UPDATE, DELETE, SNAPSHOT = "I", "U", "D", "R"


class ToldOfChange(NamedTuple):
    """What `_cdc` has of a change. op: I, U, D or R. ts: microseconds since 1970, UTC, or None."""

    op: str
    ts: int | None
    source: str | None
    pos: str | None


class Image(NamedTuple):
    """A row as an envelope has it. member: of the envelope. text: of the row, where that is no part of its text."""

    member: str
    value: Mapping[str, Any]
    text: bytes | None = None


class RowChange(NamedTuple):
    """What was done, and the row that it left, or took."""

    told: ToldOfChange
    image: Image


class Envelope(Protocol):
    """One kind of envelopes, whose values strict.parsed has given.

    members: what stands at the top of it beside rows: event times may be read from there. holder: the member that says
    where a change was made, by texts of these names: the table's own is the last one (named).
    """

    members: frozenset[str]
    holder: str
    names: tuple[str, ...]

    def change(self, doc: Mapping[str, Any]) -> RowChange:
        """Raises DeadLetter for what gives no row."""
        ...

    def former(self, doc: Mapping[str, Any]) -> Image | None:
        """The row before an update; None if there is none. Raises DeadLetter."""
        ...


def named(texts: Sequence[str | None]) -> str | None:
    """The source that the texts of an envelope's `names` make up: `schema.table`, by the first one that says what the
    table stands in; None if they do not."""
    above, name = next(filter(None, texts[:-1]), None), texts[-1]
    return f"{above}.{name}" if above and name else None


def source_in(envelope: Envelope, holder: Mapping[str, Any]) -> str | None:
    """The source that an envelope names. Raises DeadLetter."""
    return named([text_at(holder, f"$.{envelope.holder}", name) for name in envelope.names])


def cdc_array(changes: Sequence[ToldOfChange]) -> pa.StructArray:
    """`_cdc` of rows. No value has a key."""
    ops, times, *others = zip(*changes, strict=True) if changes else ((), (), (), ())
    sources, positions = (pa.array(texts, pa.string()) for texts in others)
    return cdc_of(pa.array(ops, pa.string()), pa.array(times, pa.int64()), sources, positions)


def cdc_of(
    ops: pa.StringArray, times: pa.Int64Array, sources: pa.StringArray, positions: pa.StringArray
) -> pa.StructArray:
    """`_cdc` of its columns, times in microseconds, without keys."""
    columns = [ops, times.cast(US), sources, pa.nulls(len(ops), pa.string()), positions]
    return pa.StructArray.from_arrays(columns, fields=list(CDC_TYPE))


def with_before(cdc: pa.StructArray, before: Sequence[str | None]) -> pa.StructArray:
    """`_cdc` of rows with what columns held before."""
    sides = [*cdc.flatten(), pa.array(before, pa.string())]
    return pa.StructArray.from_arrays(sides, fields=list(CHANGE_TYPE))


def object_at(doc: Mapping[str, Any], name: str, code: str) -> Mapping[str, Any]:
    """A member that must be an object. Raises DeadLetter with the code."""
    found = doc.get(name)
    if type(found) is not dict:
        what = "null or missing" if found is None else kind_of(found)
        raise DeadLetter(f"{code}: $.{name} is {what}")
    return found


def text_at(doc: Mapping[str, Any], path: str, name: str) -> str | None:
    """A member that is a text or null. path: of `doc`, for reasons. Raises DeadLetter."""
    found = doc.get(name)
    if found is not None and type(found) is not str:
        raise DeadLetter(f"bad_envelope: {path}.{name} is {kind_of(found)}, not a text")
    return found


def micros_at(doc: Mapping[str, Any], path: str, name: str, unit_us: int) -> int | None:
    """A moment in microseconds, from a member that is an integer of so many, or null. Raises DeadLetter."""
    found = doc.get(name)
    if found is None:
        return None
    if type(found) is not int:
        raise DeadLetter(f"bad_envelope: {path}.{name} is {kind_of(found)}, not an integer")
    return held(found * unit_us, f"{path}.{name}")


def held(micros: int, path: str) -> int:
    """The same moment. Raises DeadLetter if no table holds it."""
    if not US_FIRST <= micros <= US_LAST:
        raise DeadLetter(f"bad_envelope: {path} lies outside the years 1 to 9999 in UTC")
    return micros


def position(doc: Mapping[str, Any], path: str, names: Sequence[str]) -> str:
    """The members that are there, of those names, by colons; each is an integer or a text. Raises DeadLetter."""
    parts = []
    for name in names:
        found = doc.get(name)
        if type(found) not in (int, str, type(None)):
            raise DeadLetter(f"bad_envelope: {path}.{name} is {kind_of(found)}, neither a text nor an integer")
        parts += [] if found is None else [str(found)]
    return ":".join(parts)


def unknown_op(path: str, op: str) -> DeadLetter:
    return DeadLetter(f"unknown_op: {path} = {shorten(op)!r}")
