"""Who wrote a message: a schema, and which of its messages. Compiled once per process. Runs on Spark executors."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa

from exporter.core.schemas import SchemaText
from exporter.core.value_format import ValueFormat
from exporter.errors import ConfigError
from exporter.formats.binary.cursor import ValueBytes
from exporter.formats.binary.reasons import ReasonPaths
from exporter.formats.binary.typed_rows import together
from exporter.formats.protobuf.decode import decoded
from exporter.formats.protobuf.descriptors import BadSchema, descriptors
from exporter.formats.protobuf.model import Descriptors
from exporter.formats.protobuf.plan import Unusable, plan_of
from exporter.formats.protobuf.wired import Wired, wired
from exporter.formats.typed.typed import Typed

BLOCK_ROWS = 16_384
BLOCK_BYTES = 16 << 20
"""Rows and bytes that are read in one go: what is made of them on the way takes several times as much."""


_PARTS = {"year", "month", "day", "value", "precision", "scale"}


@dataclass(frozen=True)
class ProtobufWriter:
    """One message of one schema. name: its full name; empty if there is none. why: it cannot be read; empty if it can.

    places: the paths of its reasons.
    """

    name: str
    why: str
    wired: Wired | None
    places: ReasonPaths

    def reads(self, batch: ValueBytes, rows: np.ndarray, skipped: int | np.ndarray, path: Sequence[str] = ()) -> Typed:
        """Some values of a batch, none null. skipped: bytes of each in front of its message. path: only what stands
        there is made a column."""
        if self.wired is None:
            raise TypeError(f"{self.name} cannot be read: {self.why}")
        own = copy.copy(batch)
        own.places = self.places.copy()
        made = self.wired.only(path) if path else self.wired
        ends = np.cumsum(batch.ends[rows] - batch.starts[rows])
        parts: list[Typed] = []
        at = 0
        while at < len(rows) or not parts:
            done = ends[at - 1] if at else 0
            to = min(at + BLOCK_ROWS, max(at + 1, int(np.searchsorted(ends, done + BLOCK_BYTES, "right"))))
            heads = skipped[at:to] if isinstance(skipped, np.ndarray) else skipped
            parts.append(decoded(own, made, rows[at:to], heads))
            at = to
        return together(parts)


@lru_cache(maxsize=256)
def writer_of(
    schema: SchemaText,
    place: tuple[int, ...] | str,
    wanted: tuple[tuple[str, str], ...],
    structs: frozenset[str] = frozenset(),
) -> ProtobufWriter:
    """The writer of a schema. place: message indexes, or a full name. wanted: files of the reader's schemas. structs:
    see plan_of.

    Raises ConfigError if what reads descriptors is not installed, or if a file of the reader cannot be used.
    """
    name = place if isinstance(place, str) else ""
    places = ReasonPaths()
    try:
        if schema.why:
            return ProtobufWriter(name, schema.why, None, places)
        written = _descriptors(schema)
        if not isinstance(place, str):
            shown = ".".join(map(str, place))
            name = written.places.get(place, "")
            if not name:
                return ProtobufWriter("", f"its file has no message {shown}", None, places)
        plan = plan_of(written, name, _with_message(wanted, name), structs=structs)
    except BadSchema as error:
        return ProtobufWriter(name, error.message, None, places)
    except Unusable as error:
        return ProtobufWriter(name, str(error), None, places)
    return ProtobufWriter(name, "", wired(plan, places), places)


def own_writer(form: ValueFormat, structs: frozenset[str] = frozenset()) -> ProtobufWriter:
    """The writer of values without a frame. structs: see plan_of.

    Raises ConfigError if the settings do not say which message they are.
    """
    files = [(name, _descriptors(SchemaText("PROTOBUF", text))) for name, text in form.schemas]
    name = form.message
    if not name:
        outer = [found for _, one in files for place, found in one.places.items() if len(place) == 1]
        if len(outer) != 1:
            raise ConfigError(
                f"values are Protobuf without a frame, and the schema files have {len(outer)} messages",
                "say which one the values are: `message`, its full name",
            )
        name = outer[0]
    for (_, text), (_, one) in zip(form.schemas, files, strict=True):
        if name in one.messages:
            writer = writer_of(SchemaText("PROTOBUF", text), name, (), structs)
            if writer.why:
                raise ConfigError(f"message {name} cannot be read: {writer.why}", "leave out what no column can hold")
            return writer
    raise ConfigError(f"no schema file has a message {name}", "give its full name, with the package")


@lru_cache(maxsize=64)
def _descriptors(schema: SchemaText) -> Descriptors:
    return descriptors(schema.text, schema.references)


def _with_message(files: tuple[tuple[str, str], ...], name: str) -> Descriptors | None:
    """What the reader has of a message; None if it has none of that name."""
    for file, text in files:
        try:
            found = _descriptors(SchemaText("PROTOBUF", text))
        except BadSchema as error:
            raise ConfigError(f"schema file {file}: {error.message}", error.hint) from None
        if name in found.messages:
            return found
    return None


def structs_in(schema: pa.Schema, above: Sequence[str] = ("",)) -> frozenset[str]:
    """Where columns are what a date or a decimal was before it had a column of its own (plan_of). above: in front of
    each path: where rows stand in a record."""

    def under(kind: pa.DataType, path: str) -> Iterator[str]:
        if pa.types.is_struct(kind):
            if {one.name.lower() for one in kind} <= _PARTS:
                yield path
            for one in kind:
                yield from under(one.type, f"{path}.{one.name.lower()}")
        elif pa.types.is_list(kind):
            yield from under(kind.value_type, path)
        elif pa.types.is_map(kind):
            yield from under(kind.item_type, f"{path}.value")

    paths = [path for one in schema for path in under(one.type, one.name.lower())]
    return frozenset(f"{prefix}{path}" for path in paths for prefix in above)
