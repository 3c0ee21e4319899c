"""kind = "to_kafka": the rows of a table as records of a topic, each once, in order (protocol 9.7).

    fence ── progress ── rows since, sorted ─┬─ rows_max of them and the progress through the last ── one transaction
                                             └─ and so on
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from exporter.derive.job import AuditLine, JobStatus, Planned, Ran
from exporter.derive.to_kafka_audit import AuditedTopicJob, audited
from exporter.derive.to_kafka_formats import RegisteredForms, key_subject, value_subject
from exporter.derive.to_kafka_progress import SendProgress
from exporter.derive.to_kafka_rows import RowShape, RowToSend, streamed, whole_rows
from exporter.derive.to_kafka_source import ANEW, RowsPart, SendableSource, own_columns, source_of
from exporter.derive.to_kafka_topic import TargetTopic
from exporter.errors import ConfigError, Fenced, InvariantBroken
from exporter.faults import Fault, point
from exporter.kafka.transactions import Outgoing, Overtaken, RecordTooLarge, partition_of
from exporter.lake.lake import Lake
from exporter.lake.later import Later
from exporter.settings.derive_tables import DeriveTable
from exporter.settings.derive_to_kafka import ToKafkaTable
from offsets import Invariant

KEEP_SECS = 86_400
"""After so long without a row the progress is said again, for brokers forget it after a while (7 days by default)."""
RECORD_BYTES = 100
"""Of a record beside its key, value and headers, at most."""
EXAMPLES = 3
AUDITS_MAX = 3


@dataclass(frozen=True)
class Surroundings:
    """later: the job's own session. jobs: all of the settings. owner: as new_owner() makes it."""

    lake: Lake
    later: Later
    jobs: Mapping[str, DeriveTable]
    owner: str


class ToKafkaJob:
    """One [derive.<name>] of kind to_kafka."""

    kind = "to_kafka"

    def __init__(
        self, name: str, table: ToKafkaTable, around: Surroundings, topic: TargetTopic, registered: RegisteredForms
    ) -> None:
        """topic: where the rows go, not opened yet. registered: how keys and values of columns are written."""
        self.name = name
        self._table = table
        self._around = around
        self._topic = topic
        self._registered = registered
        self._progress: SendProgress | None = None
        """In a topic that was opened, and so is nobody else's."""

    def plan(self) -> Planned:
        """What is new, and the first records of it. Fences nobody."""
        progress, source = self._topic.progress() or self._fresh(), self._source()
        source.require_kept(progress, self.name)
        parts, _ = source.parts(progress)
        examples = [text for part in parts for text in self._examples(source, part)][:EXAMPLES]
        return Planned(self.name, self.kind, source.ranges(progress), examples)

    def run(self) -> Ran:
        """All that is new, or as much as is sorted at once, in transactions of `rows_max` rows."""
        return self._fenced_or(self._run)

    def rebuild(self) -> Ran:
        """Begin anew, which a topic can do only if nothing was ever sent to it."""

        def begun() -> Ran:
            if self._opened().rows:
                what = f"derive {self.name}: topic {self._table.topic} has rows of an earlier run"
                raise ConfigError(what, ANEW)
            return self._run()

        return self._fenced_or(begun)

    def status(self) -> JobStatus:
        """By the progress alone. Fences nobody."""
        progress, source = self._topic.progress() or self._fresh(), self._source()
        facts = {"topic": self._table.topic, "rows sent": progress.rows, **source.facts()}
        facts |= {"last by": progress.owner} if progress.owner else {}
        version = progress.cursor.version if progress.cursor.version >= 0 else None
        return JobStatus(self.name, self.kind, version, {self._table.source: source.behind(progress)}, facts)

    def audit(self) -> Sequence[AuditLine]:
        """The topic against the rows that the progress says are in it; again if the job runs meanwhile."""
        for _ in range(AUDITS_MAX):
            progress = self._topic.progress()
            lines = () if progress is None else self._audited(progress)
            if self._topic.progress() == progress:
                return lines
        return lines

    def _audited(self, progress: SendProgress) -> Sequence[AuditLine]:
        source = self._source().as_of(progress)
        shape = self._shape(source, texts=False)
        rows, place = source.sent(progress)
        registry = self._registered.client if self._table.format != "json" else None
        return audited(AuditedTopicJob(self.name, shape, rows, place, progress, self._topic, registry))

    def _fenced_or(self, call: Callable[[], Ran]) -> Ran:
        """After whatever ended a transaction, the next run begins with what the topic says."""
        try:
            return call()
        except Overtaken as error:
            self._close()
            by = (self._topic.progress() or self._fresh()).owner
            by = by if by and by != self._around.owner else "another process"
            raise Fenced(
                f"derive {self.name}: this process was fenced: the job is run by {by} now",
                "one process runs a job: stop one of the two; nothing was sent twice",
            ) from error
        except BaseException as error:
            self._close()
            if isinstance(error, InvariantBroken) and "--rebuild" in error.hint:
                error.hint = ANEW  # what helps a table does not help a topic
            raise

    def _close(self) -> None:
        self._progress = None
        self._topic.close()

    def _opened(self) -> SendProgress:
        """The progress that nobody else can move any more.

        Raises InvariantBroken where it is gone, or is another job's; Overtaken, BrokerSilent, ConfigError.
        """
        if self._progress is None:
            self._topic.fence(self._table.partitions, self._table.replication)
            point(Fault.AFTER_DERIVE_FENCE, self.name)
            progress = self._topic.progress(settled=True)
            if progress is None:
                self._require_new()
                progress = self._fresh()
            if progress.source != self._table.source:
                what = f"derive {self.name}: topic {self._table.topic} has rows of {progress.source}"
                raise InvariantBroken(Invariant.ROUTE, f"{what}, and not of {self._table.source}", ANEW)
            self._progress = self._sent((), progress)
        return self._progress

    def _require_new(self) -> None:
        """Raises InvariantBroken for a topic to which anything was ever written."""
        if written := self._topic.written():
            raise InvariantBroken(
                Invariant.ONCE,
                f"derive {self.name}: topic {self._table.topic} has had {written} records, and nothing tells which of "
                f"them are this job's: group {self._topic.group} has no progress there",
                "if the job is new, name a topic that nobody has written to; else the brokers have forgotten the group "
                f"(offsets.retention.minutes after its last run): {ANEW}",
            )

    def _fresh(self) -> SendProgress:
        """Of a job that has sent nothing."""
        return SendProgress(self._table.source, self._topic.id, self._topic.partitions, "", 0)

    def _run(self) -> Ran:
        progress = self._opened()
        source = self._source()
        source.require_kept(progress, self.name)
        parts, more = source.parts(progress)
        before = progress.rows
        for part in parts:
            progress = self._part(source, part)
        if not parts and time.time() - progress.at > KEEP_SECS:
            progress = self._sent((), progress)
        rows = progress.rows - before
        return Ran(self.name, rows, source.version if rows else None, more)

    def _part(self, source: SendableSource, part: RowsPart) -> SendProgress:
        """Send one part of the rows; the progress through it."""
        frame = self._shape(source).shaped(part.frame, part.place)
        encoded = self._encoding(source)
        number, rows_max = self._opened().partitions, self._table.rows_max
        if part.after is None:
            every = [*streamed(frame)]
            self._send((every, [self._outgoing(row, encoded, number) for row in every]), part.done)
            return self._opened()
        pending: tuple[list[RowToSend], list[Outgoing]] | None = None
        for rows in whole_rows(streamed(frame), rows_max):
            if pending is not None:
                self._send(pending, part.after(row.place for row in pending[0]))
            pending = rows, [self._outgoing(row, encoded, number) for row in rows]
        self._send(pending or ([], []), part.done)
        return self._opened()

    def _send(self, pending: tuple[list[RowToSend], list[Outgoing]], progress: SendProgress) -> None:
        rows, outgoing = pending
        try:
            self._progress = self._sent(outgoing, progress)
        except RecordTooLarge as error:
            sizes = [size_of(one) for one in outgoing]
            largest = max(range(len(sizes)), key=sizes.__getitem__)
            raise self._too_large(rows[largest], sizes[largest], f"the topic refuses it: {error}") from error

    def _sent(self, outgoing: Sequence[Outgoing], progress: SendProgress) -> SendProgress:
        """Send records with the progress behind them; the progress, once they are there."""
        counted = self._progress or progress
        then = replace(progress, number=counted.number, rows=counted.rows)
        then = then.then(self._around.owner, int(time.time()), len(outgoing))
        self._topic.send(outgoing, then, self.name, self._table.rows_max)
        return then

    def _outgoing(self, row: RowToSend, encoded: tuple[Any, Any], partitions: int) -> Outgoing:
        key = None if row.key is None else bytes(encoded[0](row.key))
        value = None if row.value is None else bytes(encoded[1](row.value))
        if value is None and key is None:
            what = f"derive {self.name}: the row at {row.place} is to be deleted, and has no key"
            raise ConfigError(what, "`where` can leave such rows out")
        to = partition_of(key, partitions) if key is not None else (row.place.tp.partition if row.place.tp else 0)
        made = Outgoing(to % partitions, key, value, row.headers)
        if (size := size_of(made)) > self._table.request_bytes_max:
            raise self._too_large(row, size, "`request_bytes_max` allows less")
        return made

    def _too_large(self, row: RowToSend, size: int, why: str) -> ConfigError:
        what = f"derive {self.name}: the record of the row at {row.place} has {size} bytes: {why}"
        hint = "raise request_bytes_max and the topic's max.message.bytes, or leave the row out by `where`"
        return ConfigError(what, hint)

    def _source(self) -> SendableSource:
        around = self._around
        return source_of(around.lake, around.later, self._table.source, around.jobs)

    def _shape(self, source: SendableSource, texts: bool | None = None) -> RowShape:
        json = self._table.format == "json"
        return RowShape(self._table, own_columns(source.frame(), source.view), json if texts is None else texts)

    def _encoding(self, source: SendableSource) -> tuple[Any, Any]:
        """Functions that make the bytes of a key and of a value."""
        if self._table.format == "json":
            return bytes, bytes
        shape, frame = self._shape(source), source.frame()
        key = shape.key_of(frame)
        value = shape.value_of(frame).schema.json()
        of_value = self._registered.encoder(value_subject(self._table), value)
        return bytes if key is None else self._registered.encoder(key_subject(self._table), key.schema.json()), of_value

    def _examples(self, source: SendableSource, part: RowsPart) -> Iterable[str]:
        frame = self._shape(source).shaped(part.frame, part.place).limit(EXAMPLES)
        for row in islice(streamed(frame), EXAMPLES):
            headers = "".join(f" {name}={_shown(value)}" for name, value in row.headers)
            yield f"{row.place}: {_shown(row.key)} -> {_shown(row.value)}{headers}"


def size_of(one: Outgoing) -> int:
    """Bytes of a record, about."""
    headers = sum(len(name.encode()) + len(value) + 10 for name, value in one.headers)
    return len(one.key or b"") + len(one.value or b"") + headers + RECORD_BYTES


def _shown(part: Any) -> str:
    return part.decode("utf-8", "replace") if isinstance(part, bytes) else "null" if part is None else str(part)
