"""Whose schema each value was written by, and how its values are read. Runs on Spark executors.

    no frame        the one record of the schema files, or the one that `message` names
    confluent       00, id (4 bytes, big-endian), body
    single object   C3 01, fingerprint of one of the schema files (8 bytes, little-endian), body

The reader's schema is that of the schema files which has the name of the writer's record, or an alias of that name; if
there is none, or several, values are read as they were written, and the columns take what they know of.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa

from exporter.core.schemas import KnownSchemas, SchemaText
from exporter.core.value_format import ValueFormat
from exporter.errors import ConfigError
from exporter.formats.avro.plan import Plan
from exporter.formats.avro.resolve import Unresolvable
from exporter.formats.avro.schema import BadSchema, Schema, fingerprint, named_in, parsed, parsed_files, records_of
from exporter.formats.frames import HEAD, NO_ID, confluent_ids

SINGLE_HEAD = 10
"""Bytes in front of a single object."""
BLOCK_ROWS = 8_192
"""Values that are read at once: the numbers of a field fit a core's cache."""
WRITERS_AT_ONCE = 4
"""So many times as many if they are of several writers: each is read for itself."""
BLOCK_BYTES = 4 << 20
TOMBSTONE = "tombstone: the value is null"


@dataclass(frozen=True)
class Writer:
    """Who wrote a value. name: for reasons; empty if there is one alone. plan: None if none of its values can be read;
    then `refusal` says why. schema: None if it is no Avro schema."""

    name: str
    schema: Schema | None = None
    plan: Plan | None = None
    refusal: str = ""


class Writers:
    """The writers of one format of values."""

    def __init__(self, form: ValueFormat, schemas: KnownSchemas) -> None:
        """Raises ConfigError for schema files that cannot be used."""
        self._form, self._schemas = form, schemas
        self._files = _Files.of(form)
        self._known: dict[int, Writer] = {}

    def check(self) -> None:
        """Raises ConfigError if values without a frame cannot be read, whatever is in them."""
        if self._form.frame == "none" and self._only().plan is None:
            raise ConfigError(self._only().refusal, "give other `schema_files`")

    @property
    def skipped(self) -> int:
        """Bytes in front of each body."""
        return {"confluent": HEAD, "single_object": SINGLE_HEAD}.get(self._form.frame, 0)

    def split(self, values: pa.BinaryArray, rows: np.ndarray) -> tuple[list[tuple[Writer, np.ndarray]], dict[int, str]]:
        """The rows of each writer, ascending; and the others, with the reason. rows: those that are asked for, which
        are not null."""
        if self._form.frame == "none":
            return [(self._only(), rows)], {}
        if self._form.frame == "single_object":
            has, ids = _fingerprints(values, rows)
        else:
            ids = confluent_ids(values)[rows]
            has = ids != NO_ID
        refused = dict.fromkeys(rows[~has].tolist(), self._unframed())
        groups = []
        for one in np.unique(ids[has]).tolist():
            of_one = rows[has & (ids == one)]
            writer = self._known.get(one) or self._known.setdefault(one, self._writer(one))
            groups.append((writer, of_one))
        return groups, refused

    def _unframed(self) -> str:
        if self._form.frame == "confluent":
            return "not_framed: the value does not begin with 00 and the id of a schema"
        return "not_framed: the value does not begin with C3 01 and the fingerprint of a schema"

    def _only(self) -> Writer:
        if 0 not in self._known:
            self._known[0] = _writer(self._files.only(self._form.message), "", self._files, self._connect)
        return self._known[0]

    def _writer(self, number: int) -> Writer:
        if self._form.frame == "single_object":
            schema = self._files.by_fingerprint.get(number)
            if schema is None:
                return Writer("", refusal=f"unknown_schema_id: {number:016x} is the fingerprint of no schema file")
            return _writer(schema, f"fingerprint {number:016x}", self._files, self._connect)
        text = self._schemas.text(number)
        if text is None:
            return Writer("", refusal=f"unknown_schema_id: {number}")
        return _registered(text, f"id {number}", self._files, self._connect)

    @property
    def _connect(self) -> bool:
        return self._form.semantic_types == "connect"


@dataclass(frozen=True, eq=False)
class _Files:
    """The records of the schema files."""

    records: tuple[Schema, ...]
    by_name: dict[str, list[Schema]]
    by_fingerprint: dict[int, Schema]

    @staticmethod
    @lru_cache(16)
    def of(form: ValueFormat) -> _Files:
        """Raises ConfigError."""
        try:
            schemas = parsed_files(form.schemas)
        except BadSchema as error:
            raise ConfigError(f"schema file {error}", "see `schema_files`") from None
        records = tuple(records_of(schemas))
        by_name: dict[str, list[Schema]] = {}
        for schema in schemas:
            for name, one in named_in(schema).items():
                if one.kind == "record" and one not in by_name.setdefault(name, []):
                    by_name[name].append(one)
        return _Files(records, by_name, {fingerprint(one): one for one in schemas})

    def only(self, message: str) -> Schema:
        """The record that values without a frame are. Raises ConfigError."""
        found = self.by_name.get(message, []) if message else list(self.records)
        if len(found) == 1:
            return found[0]
        what = f"the record {message!r}" if message else "one record"
        names = ", ".join(sorted(self.by_name)) or "none"
        raise ConfigError(
            f"values without a frame need {what} in the schema files, which have: {names}",
            "give `schema_files`, and the record's full name as `message` if there are several",
        )

    def reader(self, writer: Schema) -> Schema | None:
        """The schema that values of a writer's are to be read by."""
        found = self.by_name.get(writer.name, [])
        if not found:
            every = [one for several in self.by_name.values() for one in several]
            found = [one for one in every if writer.name in one.aliases]
        return found[0] if len(found) == 1 else None


@lru_cache(256)
def _registered(text: SchemaText, name: str, files: _Files, connect: bool) -> Writer:
    """The writer of a registered schema."""
    if text.kind != "AVRO":
        return Writer(name, refusal=f"unresolvable_schema: {name}: it is no Avro schema, but {text.kind}")
    try:
        schema = parsed(text)
    except BadSchema as error:
        return Writer(name, refusal=f"unresolvable_schema: {name}: {error}")
    return _writer(schema, name, files, connect)


def _writer(schema: Schema, name: str, files: _Files, connect: bool) -> Writer:
    head = f"unresolvable_schema: {name + ': ' if name else ''}"
    if schema.kind != "record":
        return Writer(name, schema, refusal=f"{head}$: {schema.kind} is no record")
    try:
        return Writer(name, schema, Plan(schema, files.reader(schema), connect=connect))
    except Unresolvable as error:
        return Writer(name, schema, refusal=f"{head}{error}")
    except RecursionError:
        return Writer(name, schema, refusal=f"{head}$: it is nested too deep")


def blocks(values: pa.BinaryArray, writers: int) -> Iterator[tuple[int, int]]:
    """Where the parts of a batch that are read at once begin and end: longer ones if its values are of several."""
    count, at = len(values), 0
    rows = BLOCK_ROWS * min(max(writers, 1), WRITERS_AT_ONCE)
    if not count:
        return
    _, offsets, _ = values.buffers()
    ends = np.frombuffer(offsets, np.int32, count + 1, values.offset * 4)
    while at < count:
        full = int(np.searchsorted(ends, int(ends[at]) + BLOCK_BYTES, "right")) - 1
        end = min(at + rows, max(full, at + 1), count)
        yield at, end
        at = end


def _fingerprints(values: pa.BinaryArray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which rows begin as a single object does, and their fingerprints."""
    _, offsets, data = values.buffers()
    nothing = np.zeros(len(rows), bool), np.zeros(len(rows), np.uint64)
    if data is None or not len(rows):
        return nothing
    at = np.frombuffer(offsets, np.int32, len(values) + 1, values.offset * 4).astype(np.int64)
    raw = np.frombuffer(data, np.uint8)
    start, size = at[:-1][rows], np.diff(at)[rows]
    has = size >= SINGLE_HEAD
    if not has.any():
        return nothing
    safe = np.where(has, start, start[np.argmax(has)])
    has &= (raw[safe] == 0xC3) & (raw[safe + 1] == 0x01)
    found = np.zeros(len(rows), np.uint64)
    for byte in range(8):
        found |= raw[safe + 2 + byte].astype(np.uint64) << np.uint64(8 * byte)
    return has, found
