"""`exporter infer`: what the records of a topic look like, from a sample. Commits nothing, starts no JVM.

topics ── sample ── documents ─┬─ a part of them ── which field is the event type, which the event time
                               └─ by event type ── Looks ── columns, hints, a line for each place
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from exporter.column.ddl import ddl_of
from exporter.column.types import Field, ScalarType, StructType, Type
from exporter.core.evolve import Evolution
from exporter.core.routing import DEAD_LETTERS, EventTime, TypeFrom
from exporter.core.seen import At
from exporter.errors import ConfigError
from exporter.kafka.options import kafka_python_options
from exporter.kafka.sample import Sample, SampledRecord, spread
from exporter.kafka.topics import TopicReader, partitions_of
from exporter.operate.infer.columns import (
    InferredType,
    doubts_of,
    hints_of,
    inferred_fields,
    leaves,
    path_rows,
    rare_of,
)
from exporter.operate.infer.fields import (
    FieldPlace,
    Flat,
    TimeCandidate,
    TypeCandidate,
    flat,
    some_of,
    text_of,
    time_candidates,
    type_candidates,
)
from exporter.operate.infer.forms import form_of, millis_of
from exporter.operate.infer.looks import Looks
from exporter.operate.infer.values import NoRow, at_path, document
from exporter.settings.meaning import specs_of, value_formats
from exporter.settings.model import Settings
from exporter.settings.values import EPOCH
from offsets.names import BadName, table_folder

SAMPLE_BYTES_MAX = 256 << 20
"""Of values and keys in memory; a sample ends there."""
LOOKED_AT = 2_000
"""Records among which the fields of the event type and of the event time are looked for."""


@dataclass(frozen=True)
class Inference:
    """What a sample tells. retained: offsets that the topics have. unusable: code -> records that are no JSON object.

    untyped: records without an event type. given: whether the settings say where event type and event time stand.
    notes: what else is to be told, in words.
    """

    topics: tuple[str, ...]
    partitions: int
    retained: int
    records: int
    bytes: int
    unusable: Mapping[str, int]
    untyped: int
    type_from: TypeFrom
    event_time: EventTime
    given: tuple[bool, bool]
    type_candidates: tuple[TypeCandidate, ...] = ()
    time_candidates: tuple[TimeCandidate, ...] = ()
    types: tuple[InferredType, ...] = ()
    notes: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """All that was found, for JSON."""
        return {
            **{name: getattr(self, name) for name in ("partitions", "retained", "records", "bytes", "untyped")},
            "topics": list(self.topics),
            "unusable": dict(self.unusable),
            "type_from": {"kind": self.type_from.kind, "name": self.type_from.name, "given": self.given[0]},
            "event_time": {**vars(self.event_time), "given": self.given[1]},
            "type_candidates": [
                {"kind": one.place.kind, "name": one.place.name, "share": one.share, "values": one.values,
                 "explains": one.explains} for one in self.type_candidates
            ],
            "time_candidates": [
                {"path": one.path, "unit": one.unit, "share": one.share, "lag_secs": one.lag_secs}
                for one in self.time_candidates
            ],
            "types": [
                {**vars(one), "columns": list(one.columns), "hints": dict(one.hints),
                 "paths": [{**row._asdict(), "examples": list(row.examples)} for row in one.paths]}
                for one in self.types
            ],
            "notes": list(self.notes),
        }  # fmt: skip


_FRAMES = (
    ("Confluent's", re.compile(b"\0.{5}", re.DOTALL), "urls"),
    ("AWS Glue's", re.compile(b"\3[\0\5].{17}", re.DOTALL), 'kind = "glue"'),
)
"""Whose serialisers, how what they write begins, and what has to be set."""


@dataclass
class _Counts:
    """What becomes of the records of a sample."""

    unusable: Counter[str] = field(default_factory=Counter)
    untyped: int = 0


def infer(settings: Settings, records: int, only: Collection[str] = (), plain: bool = False) -> Inference:
    """Read about so many records and say what they look like. only: event types that are told; none for all.

    plain: examples are shown as they are. Raises ConfigError and BrokerSilent as every verb that asks the broker.
    """
    require_json(settings)
    client = kafka_python_options(settings)
    topics = TopicReader(client, settings.selection, settings.isolation)
    try:
        tps = partitions_of(topics.require())
        first, end = topics.first_offsets(tps), topics.end_offsets(tps)
    finally:
        topics.close()
    wanted = spread(first, end, records)
    sample = Sample(client, wanted, settings.isolation, settings.record_bytes_max)
    notes: list[str] = []
    taken = list(_within_memory(sample, notes))
    found = inferred(settings, taken, only, plain)
    return replace(
        found, topics=tuple(sorted({tp.topic for tp in tps})), partitions=len(tps),
        retained=sum(max(0, end[tp] - first[tp]) for tp in tps),
        notes=(*(f"not read: {one}" for one in sample.unread), *notes, *found.notes),
    )  # fmt: skip


def require_json(settings: Settings) -> None:
    """Raises ConfigError where the settings say that some values are no plain JSON."""
    for _, form in value_formats(settings):
        if form.kind == "json" and form.frame == form.envelope == "none":
            continue
        what = "in an envelope or a frame" if form.kind == "json" else f"of the format {form.kind}"
        hint = "choose topics of plain JSON, or declare the columns"
        if form.has_schemas:
            hint = "leave the columns out: a type gets those of its schema; `exporter check` shows them"
        elif form.is_raw:
            hint = "there is nothing to find out: such a table has one column, value"
        raise ConfigError(f"infer looks at plain JSON, and the settings say that values are {what}", hint)


def inferred(
    settings: Settings, taken: Sequence[SampledRecord], only: Collection[str] = (), plain: bool = False
) -> Inference:
    """What these records say, but for what the topics alone tell. Pure."""
    return _Inferring(settings, taken, plain).found(frozenset(only))


def _within_memory(sample: Sample, notes: list[str]) -> Iterator[SampledRecord]:
    size = 0
    for one in sample:
        yield one
        size += len(one.value or b"") + len(one.key or b"")
        if size >= SAMPLE_BYTES_MAX:
            notes.append(f"the sample ended at {size >> 20} MiB of values")
            return


class _Inferring:
    """One sample, looked at twice: for where the event type and the event time stand, then for what the values are."""

    def __init__(self, settings: Settings, taken: Sequence[SampledRecord], plain: bool) -> None:
        self._settings = settings
        self._taken = taken
        self._plain = plain
        self._since_ms = (settings.event_time_min - EPOCH) // timedelta(milliseconds=1)
        self._ahead_ms = settings.event_time_ahead_max_secs * 1_000

    def found(self, only: frozenset[str]) -> Inference:
        """All but what the topics alone tell."""
        looked_at = [flat(one, value) for one, value in self._documents(some_of(self._taken, LOOKED_AT))]
        type_from, places = self._type_from(looked_at)
        event_time, times = self._event_time(looked_at)
        counts = _Counts()
        looks, untimed = self._by_type(type_from, event_time, counts)
        notes = list(self._in_doubt(type_from, event_time, looked_at))
        types = [
            self._inferred(name, looks[name], untimed[name], type_from, event_time)
            for name in sorted(looks, key=lambda name: (-looks[name].records, name))
            if not only or name in only
        ]
        notes += self._framed(counts)
        if missing := sorted(only - looks.keys()):
            notes.append(f"not met in the sample: {', '.join(missing)}")
        return Inference(
            topics=(), partitions=0, retained=0, records=len(self._taken),
            bytes=sum(one.value_bytes or 0 for one in self._taken), unusable=dict(sorted(counts.unusable.items())),
            untyped=counts.untyped, type_from=type_from, event_time=event_time,
            given=(self._given("type_from"), self._given("event_time")), type_candidates=tuple(places[:5]),
            time_candidates=tuple(times[:5]), types=tuple(_declarable(types)), notes=tuple(notes),
        )  # fmt: skip

    def _given(self, table: str) -> bool:
        return self._settings.origin(table) != "default"

    def _documents(self, taken: Any, counts: _Counts | None = None) -> Iterator[tuple[SampledRecord, dict[str, Any]]]:
        """The records that are JSON objects; what the others are is counted."""
        for one in taken:
            try:
                if one.value is None:
                    raise NoRow("tombstone" if one.value_bytes is None else "too_long")
                yield one, document(one.value)
            except NoRow as unfit:
                if counts is not None:
                    counts.unusable[unfit.code] += 1

    def _type_from(self, records: Sequence[Flat]) -> tuple[TypeFrom, list[TypeCandidate]]:
        """What the settings say, or the best candidate; without one every topic is a type of its own."""
        found = type_candidates(records) if records else []
        if self._given("type_from"):
            return self._settings.type_from.meant, found
        place = found[0].place if found else FieldPlace("topic")
        return TypeFrom(place.kind, place.name), found

    def _event_time(self, records: Sequence[Flat]) -> tuple[EventTime, list[TimeCandidate]]:
        found = time_candidates(records, self._since_ms, self._ahead_ms) if records else []
        if self._given("event_time"):
            return self._settings.event_time.meant, found
        if not found:
            return EventTime("record"), found
        return EventTime("json", found[0].path, found[0].unit), found  # type: ignore[arg-type]

    def _framed(self, counts: _Counts) -> Iterator[str]:
        """What values say that are no JSON, and begin as those of a registry's serialisers do."""
        values = [one.value for one in self._taken if one.value is not None]
        for whose, begin, setting in _FRAMES:
            framed = sum(bool(begin.match(one)) for one in values)
            if framed > len(values) // 2 and counts.unusable:
                yield (
                    f"{framed} values begin like those of {whose} serialisers, with the id of a schema: "
                    f'say [value_format] kind = "avro", "protobuf" or "json_schema", and [schema_registry] {setting}'
                )

    def _in_doubt(self, type_from: TypeFrom, event_time: EventTime, records: Sequence[Flat]) -> Iterator[str]:
        if not self._given("type_from") and type_from.kind == "topic" and records:
            yield "nothing in the records looks like an event type: each topic is taken for a type of its own"
        if not self._given("event_time") and event_time.kind == "record" and records:
            yield "no field looks like an event time in nearly every record: the Kafka timestamp is taken"

    def _by_type(
        self, type_from: TypeFrom, event_time: EventTime, counts: _Counts
    ) -> tuple[dict[str, Looks], Counter[str]]:
        """What was seen of each event type, and how many of its records have no event time that would do."""
        looks: dict[str, Looks] = defaultdict(Looks)
        untimed: Counter[str] = Counter()
        path = tuple(event_time.path.split("."))
        for one, value in self._documents(self._taken, counts):
            name = type_of(type_from, one, value)
            if not name:
                counts.untyped += 1
                continue
            looks[name].add(value, At(one.tp.topic, one.tp.partition, one.offset), one.value_bytes or 0)
            if event_time.kind == "json" and not self._in_time(one, at_path(value, path), event_time.unit):
                untimed[name] += 1
        return looks, untimed

    def _in_time(self, record: SampledRecord, value: Any, unit: str) -> bool:
        form = form_of(value)
        at = millis_of(value, form) if form == ("time" if unit == "iso" else unit) else None
        if at is None or at < self._since_ms:
            return False
        return record.timestamp_ms is None or at <= record.timestamp_ms + self._ahead_ms

    def _inferred(
        self, name: str, looks: Looks, untimed: int, type_from: TypeFrom, event_time: EventTime
    ) -> InferredType:
        found, needed = hints_of(looks), needed_hints(type_from, event_time)
        evolution = Evolution({**found, **needed}, self._settings.keys_max, self._settings.columns_max)
        fields = inferred_fields(looks, evolution, specs_of(self._settings).of(name))
        hints = {path: kind for path, kind in leaves(fields) if path in found}
        rows = path_rows(looks, fields, self._plain)
        columns = {ddl: one.name for ddl, one in zip(ddl_of(fields), fields, strict=True)}
        return InferredType(
            name, looks.records, looks.bytes, tuple(columns), hints, rows, in_the_way(fields, needed), untimed,
            doubts_of(columns, rows, looks.records), rare_of(columns, rows),
        )  # fmt: skip


def type_of(type_from: TypeFrom, record: SampledRecord, value: Mapping[str, Any]) -> str:
    """The event type of a record; empty if it has none."""
    if type_from.kind == "topic":
        return record.tp.topic
    if type_from.kind == "key":
        return text_of(record.key)
    if type_from.kind == "header":
        return text_of(next((text for name, text in reversed(record.headers) if name == type_from.name), None))
    found = at_path(dict(value), tuple(type_from.name.split(".")))
    return found if type(found) is str else ""


def needed_hints(type_from: TypeFrom, event_time: EventTime) -> dict[str, Type]:
    """What a column has to be to hold the event type, or the event time, whatever was seen there."""
    needed: dict[str, Type] = {}
    if type_from.kind == "json":
        needed[type_from.name] = ScalarType("string")
    if event_time.kind == "json":
        needed[event_time.path] = ScalarType("timestamp" if event_time.unit == "iso" else "long")
    return needed


def in_the_way(fields: Sequence[Field], needed: Iterable[str]) -> str:
    """Why the columns cannot be declared: one of them hides the event type or the event time; empty if none does."""
    for path in needed:
        inside = fields
        *above, _ = path.split(".")
        for name in above:
            one = next((each for each in inside if each.name == name), None)
            if one is None:
                break
            if not isinstance(one.type, StructType):
                return f"its column {name} hides {path}, which is read for every record"
            inside = one.type.fields
    return ""


def _declarable(types: Sequence[InferredType]) -> Iterator[InferredType]:
    """The same, those left out told that cannot have a table beside the others. Types with more records come first."""
    taken = {DEAD_LETTERS: DEAD_LETTERS}
    for one in types:
        if one.left_out or not one.columns:
            yield replace(one, left_out=one.left_out or "no record has a field with something in it")
            continue
        try:
            folder = table_folder(one.event_type).lower()
        except BadName as error:
            yield replace(one, left_out=str(error))
            continue
        other = taken.setdefault(folder, one.event_type)
        same = other != one.event_type or other == DEAD_LETTERS
        yield replace(one, left_out=f"its table would be that of {other}" if same else "")
