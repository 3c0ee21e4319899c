"""`exporter check --sample`: where each record of a file would go, and why. Asks no broker and no table.

    line ── record ── router ─┬─ dead letter
                              ├─ unrouted: counted
                              └─ each table that takes it ── decoder ── shaper ── row, filtered, or dead letter

By what the workers run: router, decoder, shaper, each record alone (ROUTE). What a table has meanwhile of columns that
nobody declared is not known here.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Literal

import msgspec
import pyarrow as pa

from exporter.arrow.kafka_time import US, held
from exporter.arrow.own_columns import HEADERS_TYPE
from exporter.core.order import Destination, StagingOrder
from exporter.core.routing import Routing
from exporter.core.shapes import COUNT
from exporter.core.table_options import TableOptions
from exporter.errors import ConfigError
from exporter.executor.framing import Framing
from exporter.executor.readers import TaskReaders
from exporter.executor.route import Router
from exporter.executor.shaping import shaped
from exporter.formats.frames import read_values, readable, reframed
from exporter.formats.places import emptied
from exporter.kafka.sample import SampledRecord
from exporter.settings.model import Settings
from exporter.workbench import routing_of
from offsets.ranges import TopicPartition

TOPIC = "sample"
"""Of records that do not say theirs, where the settings name no topic."""
Went = Literal["row", "filtered", "counted", "dead_letter", "unread"]


class SampleRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One record of a file of records. value: any JSON, as it is written there; null is a tombstone.

    value_text, value_base64: instead of it. timestamp: milliseconds since 1970.
    """

    value: msgspec.Raw = msgspec.Raw(b"null")
    value_text: str | None = None
    value_base64: str | None = None
    key: str | None = None
    headers: dict[str, str | None] = {}
    topic: str = ""
    partition: int = 0
    offset: int | None = None
    timestamp: int | None = None

    def taken(self, topic: str, offset: int) -> SampledRecord:
        """As a reader has it. topic, offset: where it does not say its own. Raises ValueError for no base64."""
        value: bytes | None = None if bytes(self.value) == b"null" else bytes(self.value)
        if self.value_text is not None:
            value = self.value_text.encode()
        if self.value_base64 is not None:
            value = base64.b64decode(self.value_base64, validate=True)
        headers = tuple((name, None if text is None else text.encode()) for name, text in self.headers.items())
        return SampledRecord(
            TopicPartition(self.topic or topic, self.partition),
            offset if self.offset is None else self.offset,
            self.timestamp,
            None if self.key is None else self.key.encode(),
            value,
            None if value is None else len(value),
            headers,
        )


@dataclass(frozen=True)
class SampleFate:
    """What becomes of a record in one table, or in none. event_type: of the table, or what a dead letter says.

    why: what sends it there, or the reason of a dead letter. row: the table's columns that are not null.
    """

    went: Went
    event_type: str
    why: str
    row: Mapping[str, Any] | None = None

    @property
    def told(self) -> str:
        """For a person."""
        where = {"row": self.event_type, "filtered": f"filtered in {self.event_type}", "dead_letter": "dead letter"}
        row = f": {json.dumps(self.row, ensure_ascii=False)}" if self.row is not None else ""
        return f"{where.get(self.went, self.went)} ({self.why}){row}"


@dataclass(frozen=True)
class Sampled:
    """One sample. line: its number in the file. said: its event type as sent; event_type: after renames."""

    line: int
    said: str | None
    event_type: str | None
    fates: tuple[SampleFate, ...]

    def as_dict(self) -> dict[str, Any]:
        """What became of a sampled line, for JSON."""
        fates = [{name: value for name, value in vars(one).items() if value is not None} for one in self.fates]
        return {"line": self.line, "said": self.said, "event_type": self.event_type, "fates": fates}


def samples(settings: Settings, lines: Iterable[bytes], records: bool) -> Iterator[Sampled]:
    """Each line but empty ones. records: a line is a SampleRecord, else a value as it is. Raises ConfigError."""
    judge = SampleJudge(routing_of(settings, None), settings)
    topic = settings.topics[0] if settings.topics else TOPIC
    for number, line in enumerate(lines, 1):
        if text := line.strip(b"\r\n"):
            yield judge.sampled(number, _record(number, text, topic) if records else _value(number, text, topic))


def _value(number: int, text: bytes, topic: str) -> SampledRecord:
    return SampledRecord(TopicPartition(topic, 0), number - 1, None, None, text, len(text))


def _record(number: int, line: bytes, topic: str) -> SampledRecord:
    try:
        return msgspec.json.decode(line, type=SampleRecord).taken(topic, number - 1)
    except (msgspec.DecodeError, ValueError) as error:
        hint = 'write for example: {"topic": "events", "key": "k", "headers": {"h": "x"}, "value": {"id": 1}}'
        raise ConfigError(f"line {number} of the samples is no record: {error}", hint) from error


class SampleJudge:
    """Says of records where they go."""

    def __init__(self, routing: Routing, settings: Settings) -> None:
        self._routing = routing
        self._as_sent = replace(routing, renames=())
        to = Destination("", settings.app, TableOptions(json_text=settings.json_text))
        order = StagingOrder(to, routing, {}, {}, {})
        self._readers = TaskReaders(order)
        self._schemas = order.schemas
        self._matches = dict(routing.matches)

    def sampled(self, line: int, record: SampledRecord) -> Sampled:
        """What would become of a record. line: its number in the file."""
        tp, batch = record.tp, _batch(record)
        ((taken, framed),) = Framing(self._readers.form, self._schemas).cut(batch, tp)
        if not taken.num_rows:
            return Sampled(
                line, None, None, (SampleFate("unread", "", "the registry is not asked for its schema here"),)
            )
        batch, untimely = held(batch)
        barred = {**untimely, **framed.unknown} if framed is not None else untimely
        sent = emptied(reframed(batch, framed), self._readers.form(tp.topic), self._schemas)
        routed = self._readers.router(tp.topic).route(readable(sent, framed)).without(barred)
        (name,) = routed.event_types.to_pylist()
        fates = [
            SampleFate("dead_letter", row["event_type"] or "", f"{row['stage']}: {row['reason']}")
            for row in routed.dead.to_pylist()
        ]
        if sent.column("value").null_count and self._readers.form(tp.topic).tombstones == COUNT:
            fates = [SampleFate("counted", "", "tombstones = count")]
        if len(routed.counted):
            fates.append(SampleFate("counted", name or "", "unrouted = count"))
        for table, rows in sorted(routed.groups.items()):
            values = read_values(batch, framed)
            fates.append(self._in_table(table, name, batch, rows, values, tp.topic))
        return Sampled(line, self._said(readable(sent, framed), tp.topic, name), name, tuple(fates))

    def _said(self, batch: pa.RecordBatch, topic: str, renamed: str | None) -> str | None:
        """The event type as it was sent."""
        if not self._routing.renames or renamed is None:
            return renamed
        (said,) = Router(self._as_sent, topic, self._schemas).route(batch).event_types.to_pylist()
        return str(said)

    def _in_table(
        self, table: str, name: str | None, batch: pa.RecordBatch, rows: pa.Int32Array, values: pa.Array, topic: str
    ) -> SampleFate:
        decoded = self._readers.decoder(table, topic).decode(values, batch.column("timestamp"))
        found = shaped(table, decoded, self._readers.shaper(table), batch, rows, topic)
        for _, event_type, stage, reason in found.bad:
            return SampleFate("dead_letter", event_type or "", f"{stage}: {reason}")
        if len(found.filtered):
            return SampleFate("filtered", table, self._filter(table))
        (row,) = found.table.to_pylist()
        shown = {column: plain(value) for column, value in row.items() if value is not None}
        return SampleFate("row", table, self._why(table, name), shown)

    def _why(self, table: str, name: str | None) -> str:
        """What sends a record to a table."""
        if table in self._routing.taking(name or ""):
            if table in self._matches:
                return f"match = {self._matches[table]}"
            return "its event type" if table in self._routing.schemas else "new_type = table"
        return f"unrouted = {table}"

    def _filter(self, table: str) -> str:
        shape = self._routing.shape_by_type[table]
        told = (shape.where and f"where {shape.where}", shape.python and f"python = {shape.python}")
        return " or ".join(one for one in told if one)


def _batch(record: SampledRecord) -> pa.RecordBatch:
    """A record as Spark's source has it; one without a timestamp is of now."""
    millis = int(time.time() * 1000) if record.timestamp_ms is None else record.timestamp_ms
    headers = [{"key": name, "value": value} for name, value in record.headers]
    columns: dict[str, pa.Array] = {
        "key": pa.array([record.key], pa.binary()),
        "value": pa.array([record.value], pa.binary()),
        "topic": pa.array([record.tp.topic], pa.string()),
        "partition": pa.array([record.tp.partition], pa.int32()),
        "offset": pa.array([record.offset], pa.int64()),
        "timestamp": pa.array([millis * 1000], US),
        "headers": pa.array([headers], HEADERS_TYPE),
    }
    return pa.RecordBatch.from_pydict(columns)


def plain(value: Any) -> Any:
    """A column's value as JSON has it: times in ISO, bytes that are no text in base64, exact numbers as texts."""
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, list):
        pairs = [one for one in value if isinstance(one, tuple)]  # of a map
        return {key: plain(one) for key, one in pairs} if pairs else [plain(one) for one in value]
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return base64.b64encode(value).decode()
    return value

