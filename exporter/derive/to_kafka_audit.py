"""A topic against the rows that its job says are in it, by what its records say (protocol 9.7).

    source through the progress ── rows as Python's values ──────────┐ of each key, value and header
    topic, read_committed ── records ── decoded by the columns ──────┴─ a digest ── content · order

Nothing here is what sends: values are read as the audit of a topic reads them, by the schema that the registry has.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from pyspark.sql import Column, DataFrame

from exporter.derive.job import AuditLine
from exporter.derive.to_kafka_progress import SendProgress
from exporter.derive.to_kafka_readers import SentReader, reader_of
from exporter.derive.to_kafka_rows import RowShape, streamed
from exporter.derive.to_kafka_topic import TargetTopic
from exporter.kafka.transactions import committed_records
from exporter.proof.contents.documents import NotJson
from exporter.proof.readers.reader import Undecided
from exporter.registry.server import Client

STATES_MAX = 10_000
"""Ways to take equal records for different rows that are followed at once."""
Line = tuple[Any, ...]
"""Of rows that have to come one after the other: their topic partition, or () of all in a sequence."""
Lines = Mapping[int, Mapping[Line, Sequence[bytes]]]
"""Partition of the topic -> line -> digests of its rows, in order."""
UNREADABLE = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, NotJson, Undecided)


@dataclass(frozen=True)
class AuditedTopicJob:
    """What is proven. shape: as Python's values. rows, place: of the source, through the progress. registry: opens the
    registry's client, for formats with a schema."""

    job: str
    shape: RowShape
    rows: DataFrame
    place: tuple[Column, ...]
    progress: SendProgress
    topic: TargetTopic
    registry: Callable[[], Client] | None


@dataclass
class TopicContents:
    """What the topic has: partition -> digests in order. homes: of a key -> its partitions. unread: how many records
    cannot be read."""

    records: dict[int, list[bytes]]
    homes: dict[bytes, set[int]]
    unread: int = 0


def audited(of: AuditedTopicJob) -> list[AuditLine]:
    """Whether the topic has just those rows, and in their order."""
    key, value = _readers(of)
    found = _found(of, key, value)
    lines: dict[int, dict[Line, list[bytes]]] = defaultdict(lambda: defaultdict(list))
    for row in streamed(of.shape.shaped(of.rows, of.place)):
        of_key = row.key if key is None or row.key is None else key.plain(row.key)
        digest = _digest(of_key, None if row.value is None else value.plain(row.value), row.headers)
        if of_key is None:
            partition = row.place.tp.partition % of.progress.partitions if row.place.tp else 0
        else:
            partition = min(found.homes.get(_digest(of_key), {-1}))
        lines[partition][row.place.tp or ()].append(digest)
    return [_content(of, lines, found), _order(of, lines, found)]


def _readers(of: AuditedTopicJob) -> tuple[SentReader | None, SentReader]:
    """Of a key of columns, and of a value."""
    form, registry, key = of.shape.table.format, of.registry, of.shape.key_of(of.rows)
    value = reader_of(form, of.shape.value_of(of.rows).schema.jsonValue(), registry)
    return None if key is None else reader_of(form, key.schema.jsonValue(), registry), value


def _found(of: AuditedTopicJob, key: SentReader | None, value: SentReader) -> TopicContents:
    found = TopicContents(defaultdict(list), defaultdict(set))
    for record in committed_records(of.topic.client, of.topic.name):
        try:
            of_key = _read(key, record.key)
            told = _digest(of_key, _read(value, record.value), record.headers)
        except UNREADABLE:
            found.unread += 1
            continue
        found.records[record.partition].append(told)
        if of_key is not None:
            found.homes[_digest(of_key)].add(record.partition)
    return found


def _read(reader: SentReader | None, data: bytes | None) -> Any:
    return data if reader is None or data is None else reader.read(data)


def _digest(*parts: Any) -> bytes:
    return blake2b(repr(parts).encode(), digest_size=16).digest()


def _content(of: AuditedTopicJob, lines: Lines, found: TopicContents) -> AuditLine:
    rows = Counter(digest for one in lines.values() for line in one.values() for digest in line)
    records = Counter(digest for one in found.records.values() for digest in one)
    missing, more = (rows - records).total(), (records - rows).total()
    says = [f"{missing} rows are not in the topic"] if missing else []
    says += [f"{more} records of the topic are no rows, or there twice"] if more else []
    says += [f"{found.unread} records cannot be read"] if found.unread else []
    return AuditLine(of.job, "each row is in the topic, once", not says, rows.total(), "; ".join(says))


def _order(of: AuditedTopicJob, lines: Lines, found: TopicContents) -> AuditLine:
    what, count = "in their order, a key in one partition", sum(map(len, found.records.values()))
    if strays := sum(len(partitions) > 1 for partitions in found.homes.values()):
        return AuditLine(of.job, what, False, count, f"{strays} keys are in several partitions")
    if of.progress.cursor.replays:
        return AuditLine(of.job, what, True, 0, "not compared: replays of dead letters put rows below those sent")
    for partition, records in sorted(found.records.items()):
        wrong = first_out_of_order([*lines[partition].values()], records)
        if wrong is not None:
            says = f"record {wrong + 1} of those in partition {partition} is not the next row of any source partition"
            return AuditLine(of.job, what, False, count, says)
    return AuditLine(of.job, what, True, count)


def first_out_of_order(lines: Sequence[Sequence[bytes]], records: Iterable[bytes]) -> int | None:
    """The first record that is the next one of no line, in whatever way lines are interleaved; None if all are.

    Equal rows may stand in several lines: all ways to take a record for one of them are followed.
    """
    among: dict[bytes, set[int]] = defaultdict(set)
    for number, line in enumerate(lines):
        for digest in line:
            among[digest].add(number)
    states = {(0,) * len(lines)}
    for index, digest in enumerate(records):
        states = {
            (*state[:number], state[number] + 1, *state[number + 1 :])
            for state in states
            for number in among.get(digest, ())
            if state[number] < len(lines[number]) and lines[number][state[number]] == digest
        }
        if not states:
            return index
        if len(states) > STATES_MAX:
            states = set(list(states)[:STATES_MAX])
    return None
