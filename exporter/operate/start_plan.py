"""`exporter plan`: what start-up would do with each partition, and why. Reads only; writes nothing.

The reading and the verdicts are start-up's own (protocol/reading.py, offsets/crosscheck.py, offsets/gaps.py).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from exporter.core.columns import EVENT_TIME
from exporter.core.evolve import Evolutions
from exporter.core.routing import DEAD_LETTERS
from exporter.core.rules_told import rules_told
from exporter.errors import DependencyUnreachable, ExporterError, InvariantBroken
from exporter.kafka.topics import Offsets, partitions_of
from exporter.lake.schema import schema_change
from exporter.never import assert_never
from exporter.protocol.advancing import lacking_event_time
from exporter.protocol.anchor import declared_schema
from exporter.protocol.commit import DeltaCommitter
from exporter.protocol.gap_rows import refuse
from exporter.protocol.judging import refusal, to_do
from exporter.protocol.known import KnownTables
from exporter.protocol.planned import PlannedColumns
from exporter.protocol.reading import Reading
from exporter.protocol.recover import Recovery
from exporter.protocol.truncation import truncated
from exporter.settings.model import Settings
from exporter.wal.check import LogCheck, broken
from exporter.workbench import Workbench, first_position, open_journal
from offsets.crosscheck import Agree, FirstStart, Stop, Superseded, Switch, Unfinished, Verdict
from offsets.gaps import Gap, find_gaps, recorded_gaps
from offsets.intents import WalUnreachable
from offsets.positions import Position
from offsets.ranges import TopicPartition
from offsets.table_log import TOPIC_PROPERTY
from offsets.wal_verdict import LogVerdict, Ruling

SHOWN_MAX = 5


@dataclass(frozen=True)
class Refusal:
    """Why start-up would not run. exit_code: that of `run`; invariant: its name, empty if none is at stake."""

    reason: str
    hint: str
    exit_code: int
    invariant: str = ""

    @classmethod
    def of(cls, error: ExporterError) -> Refusal:
        invariant = error.invariant.name if isinstance(error, InvariantBroken) else ""
        return cls(error.message, error.hint, error.exit_code, invariant)


@dataclass(frozen=True)
class PartitionStart:
    """One partition. floor: the first offset that would be read, None where nothing would be.

    held_back_by: the types whose position makes the floor. end: offset after the last readable record. lag: offsets
    from the floor to the end. steps: what would be done first, in order. begins: the types that get their first
    position, and a table where there is none.
    """

    tp: TopicPartition
    verdict: str
    end: int
    floor: int | None = None
    held_back_by: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    refusal: Refusal | None = None
    begins: tuple[str, ...] = ()

    @property
    def lag(self) -> int | None:
        return None if self.floor is None else max(0, self.end - self.floor)

    def as_dict(self) -> dict[str, Any]:
        """What a start would do with a partition, for JSON."""
        names = ("verdict", "floor", "held_back_by", "end", "lag", "steps", "begins")
        refused = None if self.refusal is None else vars(self.refusal)
        return {**self.tp._asdict(), **{name: getattr(self, name) for name in names}, "refusal": refused}


@dataclass(frozen=True)
class StartPlan:
    """All partitions of the topics. refusal: what stops every one of them, whatever its own verdict.

    rules: by event type, as core/rules_told.py has them.
    """

    partitions: tuple[PartitionStart, ...] = ()
    refusal: Refusal | None = None
    rules: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        found = [self.refusal, *(one.refusal for one in self.partitions)]
        return tuple(one for one in found if one is not None)

    def as_dict(self) -> dict[str, Any]:
        """What a start would do, for JSON."""
        refused = None if self.refusal is None else vars(self.refusal)
        return {
            "runs": not self.refusals,
            "refusal": refused,
            "partitions": [one.as_dict() for one in self.partitions],
            "rules": dict(self.rules),
        }


def start_plan(bench: Workbench, settings: Settings) -> StartPlan:
    """What `run` would do now. Raises ConfigError, TableUnreadable and BrokerSilent as it would."""
    return replace(_start(bench, settings), rules=rules_told(bench.routing))


def _start(bench: Workbench, settings: Settings) -> StartPlan:
    """What a start would do with the partitions."""
    committer = DeltaCommitter(bench.lake, "plan", {})
    recovery = Recovery(
        lake=bench.lake,
        topics=bench.topics,
        routing=bench.routing,
        committer=committer,
        log_check=LogCheck(bench.lake, open_journal(settings, bench.routing)),
        drain=None,
        first_position=first_position(settings),
        on_gap=settings.on_gap,
    )
    lake, routing = bench.lake, bench.routing
    planned = PlannedColumns(routing, Evolutions(), lake.specs, lake.record_columns)
    known = KnownTables(
        app=lake.app, routing=routing, topics=bench.topics, committer=committer, specs=lake.specs, planned=planned
    )
    identities = bench.topics.require()
    tps = partitions_of(identities)
    try:
        reading = recovery.reader.read(tps)
        logs = recovery.reader.log_verdicts(reading)
        if any(isinstance(found, Stop) for found in recovery.verdicts(reading).values()) or broken(logs):
            reading = recovery.reader.read(tps)
            logs = recovery.reader.log_verdicts(reading)
        recovery.advance.check_lake(reading, identities)
        if stopped := broken(logs):
            return StartPlan(refusal=Refusal.of(stopped))
        verdicts = recovery.verdicts(reading)
        recovery.advance.rehearse(reading, to_do(verdicts))
        parked = _parked(known, reading, verdicts)
    except InvariantBroken as error:
        return StartPlan(refusal=Refusal.of(error))
    except WalUnreachable as error:
        hint = "a start waits for it; `wal_mode = \"best_effort\"` would go on without it"
        return StartPlan(refusal=Refusal(f"write-ahead log: {error.message}", hint, DependencyUnreachable.exit_code))
    return _Planner(bench, settings, reading, tps, parked, _log_steps(logs)).plan(verdicts)


def _log_steps(verdicts: Mapping[tuple[str, TopicPartition], LogVerdict]) -> dict[TopicPartition, tuple[str, ...]]:
    """What would be written to the write-ahead log, and what it holds as pending."""
    says = {
        Ruling.FINISH: "complete in the log",
        Ruling.DEAD: "mark as failed in the log",
        Ruling.REPAIR: "write to the log again",
        Ruling.PENDING: "leave as pending in the log",
    }
    steps: dict[TopicPartition, list[str]] = defaultdict(list)
    for (name, tp), found in sorted(verdicts.items()):
        steps[tp] += [f"{says[one.verdict]}: {name}, {one.says}" for one in found.judged if one.verdict in says]
    return {tp: tuple(lines) for tp, lines in steps.items()}


def _parked(known: KnownTables, reading: Reading, verdicts: Mapping[TopicPartition, Verdict]) -> tuple[str, ...]:
    """The steps for the tables that cannot be filled, where start-up would run."""
    if not any(isinstance(found, Agree) for found in verdicts.values()):
        return ()
    reasons = {name: known.accept(name, view) for name, view in reading.views.items()}
    return tuple(f"park {name}, which cannot be filled: {reason}" for name, reason in reasons.items() if reason)


@dataclass(frozen=True)
class _Read:
    """The offsets that the plan goes by all the way, so that it agrees with itself; those of a time are asked for."""

    starts: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    topics: Offsets

    def first_offsets(self, tps: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return {tp: self.starts[tp] for tp in tps}

    def end_offsets(self, tps: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return {tp: self.ends[tp] for tp in tps}

    def offsets_at(self, tps: Collection[TopicPartition], timestamp_ms: int) -> dict[TopicPartition, int]:
        return self.topics.offsets_at(tps, timestamp_ms)


@dataclass
class _Planner:
    """One reading and what the broker says, turned into steps."""

    bench: Workbench
    settings: Settings
    reading: Reading
    tps: Sequence[TopicPartition]
    parked: tuple[str, ...]
    log_steps: Mapping[TopicPartition, tuple[str, ...]]

    def __post_init__(self) -> None:
        self._ends = self.bench.topics.end_offsets(self.tps)
        self._starts = self.bench.topics.first_offsets(self.tps)
        self._marks = self.bench.topics.high_watermarks(self.tps)
        dead_letters = self.reading.dead_letters
        said = dead_letters.transactions if dead_letters is not None else {}
        self._known_gaps = recorded_gaps(said, self.bench.lake.app)

    def plan(self, verdicts: Mapping[TopicPartition, Verdict]) -> StartPlan:
        firsts = self._first_offsets([tp for tp, found in verdicts.items() if isinstance(found, FirstStart)])
        starts = (self._partition(tp, found, firsts) for tp, found in sorted(verdicts.items()))
        return StartPlan(
            tuple(replace(one, steps=(*self.log_steps.get(one.tp, ()), *one.steps)) for one in starts)
        )

    def _partition(  # noqa: RET503 - the match is whole
        self, tp: TopicPartition, found: Verdict, firsts: Mapping[TopicPartition, int]
    ) -> PartitionStart:
        start = PartitionStart(tp, type(found).__name__.lower(), self._ends[tp])
        active = self.bench.routing.active_types
        match found:
            case FirstStart():
                steps = (f"anchor {_names(active)} at {firsts[tp] - 1}",)
                return replace(start, floor=firsts[tp], steps=steps, begins=tuple(active))
            case Agree():
                return self._agrees(start, found)
            case Switch():
                return self._switches(start, found)
            case Stop() | Superseded() | Unfinished():
                error = refusal(tp, found, self.bench.routing.fingerprint())
                return replace(start, refusal=None if error is None else Refusal.of(error))
            case _:
                assert_never(found)

    def _agrees(self, start: PartitionStart, found: Agree) -> PartitionStart:
        anchored = dict.fromkeys(found.unanchored, found.anchor_at)
        known = {name: Position(found.epoch, at) for name, at in {**found.positions, **anchored}.items()}
        steps = [f"anchor {_names(found.unanchored)} at {found.anchor_at}"] if anchored else []
        timed = sorted(lacking_event_time({name: self.reading.views[name] for name in found.positions}))
        steps += [f"add the column {EVENT_TIME} to {_names(timed)}"] if timed else []
        runs = self._reads(start, known, steps)
        return replace(runs, steps=(*runs.steps, *self.parked), begins=tuple(found.unanchored))

    def _switches(self, start: PartitionStart, found: Switch) -> PartitionStart:
        types = {name: at for name in found.in_force_active if (at := found.positions[name]) is not None}
        runs = self._reads(start, types, [])
        if runs.refusal is not None:
            return runs
        gaps = self._gaps(start.tp, types)
        passed = {gap.event_type: Position(gap.epoch, gap.offsets.last_offset) for gap in gaps}
        switched = _switch_steps(found, {**types, **passed}, self.bench.routing.fingerprint())
        return replace(runs, steps=(*runs.steps, *self._widenings(found), *switched))

    def _widenings(self, switch: Switch) -> Iterator[str]:
        """What the seals do to tables that no reader of narrower types takes afterwards."""
        widens, views = self.bench.lake.type_widening, self.reading.views
        for name in sorted(switch.positions.keys() & views.keys()):
            declared = declared_schema(self.bench.routing, name, self.bench.lake.spec_of(name, views[name]))
            for column in schema_change(views[name], declared, widens).widened:
                yield f"widen {column} in {name}, which delta-rs 1.6 then refuses to read"

    def _reads(
        self, start: PartitionStart, positions: Mapping[str, Position], steps: Sequence[str]
    ) -> PartitionStart:
        """Floor, who holds it back, gaps and truncation. positions: of the types that would be read for."""
        tp, gaps = start.tp, self._gaps(start.tp, positions)
        most = max(at.offset for at in positions.values())
        try:
            if self._marks[tp] <= most:
                raise truncated(tp, self._marks[tp], most)
            if self.settings.on_gap == "stop":
                refuse([gap for gap in gaps if not gap.recorded])
        except InvariantBroken as error:
            return replace(start, refusal=Refusal.of(error))
        passed = {gap.event_type: gap.offsets.last_offset for gap in gaps}
        offsets = {name: passed.get(name, at.offset) for name, at in positions.items()}
        least = min(offsets.values())
        held_back_by = tuple(sorted(name for name, at in offsets.items() if at == least))
        held_back_by = () if len(held_back_by) == len(offsets) else held_back_by
        done = (*steps, *(_gap_step(gap) for gap in gaps))
        return replace(start, floor=least + 1, held_back_by=held_back_by, steps=done)

    def _gaps(self, tp: TopicPartition, positions: Mapping[str, Position]) -> tuple[Gap, ...]:
        return find_gaps({tp: positions}, self._starts, self._known_gaps)

    def _first_offsets(self, tps: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Where partitions without any position begin: a topic that the tables know, at its earliest offset."""
        dead_letters = self.reading.dead_letters
        known = dead_letters.properties if dead_letters is not None else {}
        new = [tp for tp in tps if f"{TOPIC_PROPERTY}{tp.topic}" not in known]
        read = _Read(self._starts, self._ends, self.bench.topics)
        return {**read.first_offsets(tps), **first_position(self.settings).offsets(read, new)}


def _gap_step(gap: Gap) -> str:
    recorded = "pass the recorded gap" if gap.recorded else "record and pass the gap"
    return f"{recorded} {gap.offsets} of {gap.event_type}"


def _switch_steps(switch: Switch, positions: Mapping[str, Position], own: str) -> Iterator[str]:
    """Protocol 5.3c: what is drained, what is sealed, the dead letters last. positions: once all gaps are passed."""
    through = max(at.offset for at in positions.values())
    for name, at in sorted(positions.items()):
        if at.offset < through:
            yield f"drain {name} {at.offset + 1}..{through} under configuration {switch.in_force}"
    names = (*sorted(switch.positions.keys() - {DEAD_LETTERS}), DEAD_LETTERS)
    yield f"seal epoch {switch.epoch} of {_names(names)} at {through}"
    yield f"begin epoch {switch.next_epoch} under configuration {own}"


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN_MAX} more" if len(names) > SHOWN_MAX else ""
    return ", ".join(names[:SHOWN_MAX]) + more
