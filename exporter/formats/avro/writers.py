"""Whose schema each value was written by, and how its values are read. Runs on Spark executors.

    no frame        the one record of the schema files, or the one that `message` names
    confluent       00, id (4 bytes, big-endian), body
    single object   C3 01, fingerprint of one of the schema files (8 bytes, little-endian), body

A schema that is a union at its root is as many writers as it has branches: the number in front of a body says which
one. A branch that is null says that there is no value.

The reader's schema is that of the schema files which has the name of the writer's record, or an alias of that name; if
there is none, or several, values are read as they were written, and the columns take what they know of.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from exporter.core.schemas import KnownSchemas, SchemaText
from exporter.core.value_format import ValueFormat
from exporter.errors import ConfigError
from exporter.formats.avro.plan import AvroPlan
from exporter.formats.avro.resolve import Unresolvable
from exporter.formats.avro.roots import Tags, tags_of
from exporter.formats.avro.schema import BadAvroSchema, Schema, fingerprint, named_in, parsed, parsed_files, records_of
from exporter.formats.binary.typed_rows import TOMBSTONE
from exporter.formats.frames import HEAD, NO_ID, confluent_ids

SINGLE_HEAD = 10
"""Bytes in front of a single object."""
BLOCK_ROWS = 8_192
"""Values that are read at once: the numbers of a field fit a core's cache."""
WRITERS_AT_ONCE = 4
"""So many times as many if they are of several writers: each is read for itself."""
BLOCK_BYTES = 4 << 20
_BAD_BRANCH = "bad_branch: $ is of a branch that the union does not have"
_TRUNCATED = "truncated: $ ends before its value does"
_TRAILING = "trailing_bytes: $ is followed by bytes that belong to no field"


@dataclass(frozen=True)
class AvroWriter:
    """Who wrote a value. name: for reasons; empty if there is one alone. plan: None if none of its values can be read;
    then `refusal` says why. schema: None if it is no Avro schema."""

    name: str
    schema: Schema | None = None
    plan: AvroPlan | None = None
    refusal: str = ""

    @property
    def is_null(self) -> bool:
        """Whether its values say that there is none."""
        return self.schema is not None and self.schema.kind == "null"


@dataclass(frozen=True)
class Root:
    """What is written behind one id. writers: of the branches of a union, or one. is_union: a number says which."""

    writers: tuple[AvroWriter, ...]
    is_union: bool = False


class WriterRows(NamedTuple):
    """Rows of one writer, ascending. skipped: bytes in front of the body: of all, or of each."""

    writer: AvroWriter
    rows: np.ndarray
    skipped: int | np.ndarray

    def within(self, begin: int, end: int) -> WriterRows:
        """Those from a row on, to another one, numbered from the first."""
        inside = slice(*np.searchsorted(self.rows, (begin, end)))
        skipped = self.skipped if isinstance(self.skipped, int) else self.skipped[inside]
        return WriterRows(self.writer, self.rows[inside] - begin, skipped)


class Writers:
    """The writers of one format of values."""

    def __init__(self, form: ValueFormat, schemas: KnownSchemas) -> None:
        """Raises ConfigError for schema files that cannot be used."""
        self._form, self._schemas = form, schemas
        self._files = _Files.of(form)
        self._known: dict[int, Root] = {}

    def check(self) -> None:
        """Raises ConfigError if values without a frame cannot be read, whatever is in them."""
        if self._form.frame != "none":
            return
        writers = [one for one in self._only().writers if not one.is_null]
        if all(one.plan is None for one in writers):
            raise ConfigError(writers[0].refusal, "give other `schema_files`")

    @property
    def skipped(self) -> int:
        """Bytes in front of what a schema describes."""
        return HEAD if self._form.is_framed else {"single_object": SINGLE_HEAD}.get(self._form.frame, 0)

    def split(self, values: pa.BinaryArray, rows: np.ndarray) -> tuple[list[WriterRows], dict[int, str]]:
        """The rows of each writer; and the others, with the reason. rows: those that are asked for, ascending, which
        are not null."""
        roots, refused = self._roots(values, rows)
        groups: list[WriterRows] = []
        for root, of_root in roots:
            if root.is_union:
                groups += _of_branches(root, tags_of(values, of_root, self.skipped), of_root, self.skipped, refused)
            elif len(of_root):
                groups.append(WriterRows(root.writers[0], of_root, self.skipped))
        return groups, refused

    def nulls(self, values: pa.BinaryArray) -> np.ndarray:
        """The rows whose values say that there is none, ascending: they are of a union's null, and nothing else."""
        roots, _ = self._roots(values, np.flatnonzero(valid_of(values)))
        found = [np.zeros(0, np.int64)]
        for root, rows in roots:
            at = next((at for at, one in enumerate(root.writers) if one.is_null), None)
            if root.is_union and at is not None:
                tags = tags_of(values, rows, self.skipped)
                found.append(rows[(tags.numbers == at) & (tags.left == 0)])
        return np.sort(np.concatenate(found))

    def branches(self, values: pa.BinaryArray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rows whose schema is a union, and which branch each is of; -1 for one that there is not."""
        roots, _ = self._roots(values, rows)
        unions = [(root, of_root) for root, of_root in roots if root.is_union]
        if not unions:
            return rows[:0], rows[:0]
        found = [
            np.where(tags.numbers < len(root.writers), tags.numbers, -1)
            for root, of_root in unions
            for tags in [tags_of(values, of_root, self.skipped)]
        ]
        return np.concatenate([of_root for _, of_root in unions]), np.concatenate(found)

    def _roots(self, values: pa.BinaryArray, rows: np.ndarray) -> tuple[list[tuple[Root, np.ndarray]], dict[int, str]]:
        """The rows of each schema, and why others have none."""
        if self._form.frame == "none":
            return [(self._only(), rows)], {}
        if self._form.frame == "single_object":
            has, ids = _fingerprints(values, rows)
        else:
            ids = confluent_ids(values)[rows]
            has = ids != NO_ID
        refused = dict.fromkeys(rows[~has].tolist(), self._unframed())
        found = []
        for one in np.unique(ids[has]).tolist():
            root = self._known.get(one) or self._known.setdefault(one, self._root(one))
            found.append((root, rows[has & (ids == one)]))
        return found, refused

    def _unframed(self) -> str:
        if self._form.is_framed:
            return "not_framed: the value does not begin with 00 and the id of a schema"
        return "not_framed: the value does not begin with C3 01 and the fingerprint of a schema"

    def _only(self) -> Root:
        if 0 not in self._known:
            self._known[0] = _root(self._files.only(self._form.message), "", self._files, self._connect)
        return self._known[0]

    def _root(self, number: int) -> Root:
        if self._form.frame == "single_object":
            schema = self._files.by_fingerprint.get(number)
            if schema is None:
                why = f"unknown_schema_id: {number:016x} is the fingerprint of no schema file"
                return Root((AvroWriter("", refusal=why),))
            return _root(schema, f"fingerprint {number:016x}", self._files, self._connect)
        text = self._schemas.text(number)
        if text is None:
            return Root((AvroWriter("", refusal=f"unknown_schema_id: {self._schemas.called(number)}"),))
        return _registered(text, f"id {self._schemas.called(number)}", self._files, self._connect)

    @property
    def _connect(self) -> bool:
        return self._form.semantic_types == "connect"


@dataclass(frozen=True, eq=False)
class _Files:
    """The records of the schema files."""

    schemas: tuple[Schema, ...]
    by_name: dict[str, list[Schema]]
    by_fingerprint: dict[int, Schema]

    @staticmethod
    @lru_cache(16)
    def of(form: ValueFormat) -> _Files:
        """The schemas of the settings' files. Raises ConfigError."""
        try:
            schemas = parsed_files(form.schemas)
        except BadAvroSchema as error:
            raise ConfigError(f"schema file {error}", "see `schema_files`") from None
        by_name: dict[str, list[Schema]] = {}
        for schema in schemas:
            for name, one in named_in(schema).items():
                if one.kind == "record" and one not in by_name.setdefault(name, []):
                    by_name[name].append(one)
        return _Files(tuple(schemas), by_name, {fingerprint(one): one for one in schemas})

    def only(self, message: str) -> Schema:
        """What values without a frame are: a record, or the one union of records. Raises ConfigError."""
        unions = [one for one in self.schemas if one.branches and records_of([one])]
        found = self.by_name.get(message, []) if message else unions or records_of(self.schemas)
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
def _registered(text: SchemaText, name: str, files: _Files, connect: bool) -> Root:
    """What a registered schema describes."""
    if text.kind != "AVRO":
        return Root((AvroWriter(name, refusal=f"unresolvable_schema: {name}: it is no Avro schema, but {text.kind}"),))
    try:
        schema = parsed(text)
    except BadAvroSchema as error:
        return Root((AvroWriter(name, refusal=f"unresolvable_schema: {name}: {error}"),))
    return _root(schema, name, files, connect)


def _root(schema: Schema, name: str, files: _Files, connect: bool) -> Root:
    is_union = schema.kind == "union"
    return Root(tuple(_writer(one, name, files, connect) for one in schema.branches or (schema,)), is_union)


def _of_branches(
    root: Root, tags: Tags, rows: np.ndarray, skipped: int, refused: dict[int, str]
) -> Iterator[WriterRows]:
    """The rows of each branch of a union; others are put among the refused."""
    ended, odd = tags.numbers < 0, tags.numbers >= len(root.writers)
    refused |= dict.fromkeys(rows[ended].tolist(), _TRUNCATED) | dict.fromkeys(rows[odd].tolist(), _BAD_BRANCH)
    for number, writer in enumerate(root.writers):
        at = np.flatnonzero(tags.numbers == number)
        if writer.is_null:
            more = tags.left[at] > 0
            refused |= dict.fromkeys(rows[at[~more]].tolist(), TOMBSTONE)
            refused |= dict.fromkeys(rows[at[more]].tolist(), _TRAILING)
        elif len(at):
            yield WriterRows(writer, rows[at], skipped + tags.sizes[at])


def _writer(schema: Schema, name: str, files: _Files, connect: bool) -> AvroWriter:
    head = f"unresolvable_schema: {name + ': ' if name else ''}"
    if schema.kind != "record":
        return AvroWriter(name, schema, refusal=f"{head}$: {schema.kind} is no record")
    try:
        return AvroWriter(name, schema, AvroPlan(schema, files.reader(schema), connect=connect))
    except Unresolvable as error:
        return AvroWriter(name, schema, refusal=f"{head}{error}")
    except RecursionError:
        return AvroWriter(name, schema, refusal=f"{head}$: it is nested too deep")


def valid_of(values: pa.BinaryArray) -> np.ndarray:
    """bool per value: False for null."""
    if not values.null_count:
        return np.ones(len(values), bool)
    return np.asarray(values.is_valid().to_numpy(zero_copy_only=False))


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
