"""Partitions that wait for the schemas of their records; the others go on meanwhile (protocol 3.8).

    a fragment ended before a missing id ── it waits: no plan goes beyond the record
    looked up ── a text, or unknown ──────> recorded: the partition goes on with the next round
              ├─ not decided yet ─────────> asked again after a pause; /readyz says so
              └─ no answer ───────────────> an outage: asked again, given up after give_up_secs
    it contradicts what is recorded ──────> the task ends; that is looked for now and then, also if nobody waits

Belongs to the loop's thread; look-ups run in a thread of their own on frozen values.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from exporter import threads
from exporter.core.backoff import Backoff
from exporter.core.schemas import SchemaSource, called
from exporter.core.writers import Fragment, WriterKey, Writers
from exporter.log import get_logger
from exporter.log_events import Event
from exporter.monitor.outages import REGISTRY
from exporter.monitor.watch import Watch
from exporter.protocol.deciding import Answers, Ends, by_id, kind_of, looked_up
from offsets.ranges import TopicPartition

log = get_logger(__name__)

LOOK_SECS = 5.0
"""After so long what was found is taken, however many ids are left: a partition may go on with it."""
PAUSE = Backoff(1.0, 30.0)
"""Between two questions about ids that are not decided yet."""
VERIFY_SECS = 60.0
"""Between two looks whether the registry still has what is recorded."""
NAMED_MAX = 5


@dataclass
class _Waiting:
    """One partition. at: the offset of its first record that cannot be read. asked: in vain so far."""

    ids: set[int]
    at: int
    asked: bool = False


@dataclass(kw_only=True, eq=False, repr=False)
class SchemaIds:
    """Of one task. source: None where no values have ids. registry: the name under which decisions are recorded."""

    source: SchemaSource | None
    registry: str
    watch: Watch
    waking: Callable[[Future[Any]], Future[Any]]

    def __post_init__(self) -> None:
        self._pool = threads.pool(1, "schemas")
        self._waiting: dict[TopicPartition, _Waiting] = {}
        self._asked_at: dict[int, float] = {}
        self._asking: Future[Answers] | None = None
        self._verifying: Future[None] | None = None
        self._verify_at = float("inf")  # until the first look ahead: a start has verified
        self._trouble = ""
        self._failures = 0
        self._retry_at = float("-inf")
        self._tell()

    @property
    def waiting(self) -> Mapping[TopicPartition, int]:
        """The partitions that wait, and the offset before which each may be read."""
        return {tp: one.at for tp, one in self._waiting.items()}

    def stuck(self) -> dict[TopicPartition, str]:
        """Partitions whose ids were looked up in vain, and what they wait for."""
        return {tp: self._said(one) for tp, one in self._waiting.items() if one.asked}

    def take(
        self, fragments: Iterable[Fragment], writers: Writers, staying: Mapping[TopicPartition, int]
    ) -> None:
        """Those of fragments that have been integrated and ended early. staying: partition -> ownership epoch."""
        for fragment in fragments:
            plan, tp = fragment.plan, fragment.plan.tp
            if not fragment.missing or staying.get(tp) != plan.ownership:
                continue
            mine = [writers[key] for name in plan.bounds if (key := WriterKey(name, tp)) in writers]
            if not any(writer.frontier == plan.end - 1 for writer in mine):
                continue  # it is out of date, or to be read again: then it ends there again
            self._waiting[tp] = _Waiting({*fragment.missing}, plan.end)
            self._retry_at = float("-inf") if not self._trouble else self._retry_at
            told = [called(one) for one in sorted(fragment.missing)[:NAMED_MAX]]
            log.info(Event.SCHEMA_MISSING, partition=str(tp), offset=plan.end, ids=len(fragment.missing), some=told)
        self._tell()

    def forget(self, tps: Collection[TopicPartition]) -> None:
        """They are another's, or are read again from their tables."""
        for tp in tps:
            self._waiting.pop(tp, None)
        self._tell()

    def tick(self, now: float, ends: Ends) -> None:
        """Look ids up, or take what was found.

        Raises InvariantBroken if the registry contradicts what is recorded, DependencyUnreachable if it has not
        answered for too long.
        """
        if self._asking is not None and self._asking.done():
            asking, self._asking = self._asking, None
            self._taken(asking.result(), now)
        if not self._waiting and self._trouble:
            self._answers(now)  # nobody asks it any more
        if self._waiting and self._asking is None and now >= self._retry_at and self.source is not None:
            self._asking = self.waking(self._pool.submit(self._look_up, self.source, self._wanted(ends)))
        self._verify(now)

    def close(self) -> None:
        """Wait for nothing: what is decided is recorded, and read at the next start."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _verify(self, now: float) -> None:
        """A registry that was filled anew gives ids of known schemas to others, and no id is missing."""
        if self._verifying is not None and self._verifying.done():
            verifying, self._verifying = self._verifying, None
            verifying.result()
        if self.source is not None and self._verifying is None and now >= self._verify_at:
            self._verifying = self._pool.submit(self.source.verify)
        if self._verifying is not None or self._verify_at == float("inf"):
            self._verify_at = now + VERIFY_SECS

    def _wanted(self, ends: Ends) -> list[tuple[int, Ends]]:
        """The missing ids, those first that were asked for longest ago."""
        after = {tp: max(one.at + 1, ends.get(tp, 0)) for tp, one in self._waiting.items()}
        wanted = by_id({tp: one.ids for tp, one in self._waiting.items()}, after)
        self._asked_at = {schema_id: self._asked_at.get(schema_id, float("-inf")) for schema_id in wanted}
        return sorted(wanted.items(), key=lambda one: (self._asked_at[one[0]], one[0]))

    def _look_up(self, source: SchemaSource, wanted: Sequence[tuple[int, Ends]]) -> Answers:
        """Ask the registry for ids; runs in the thread."""
        return looked_up(source, self.registry, wanted, secs_max=LOOK_SECS)

    def _taken(self, answers: Answers, now: float) -> None:
        """Let those partitions go on of which something new is decided."""
        lookups = self.watch.totals.lookups
        for schema_id, decision in answers.decisions.items():
            self._asked_at[schema_id] = now
            lookups[kind_of(decision)] += 1
            for tp in [tp for tp, one in self._waiting.items() if schema_id in one.ids]:
                self._waiting[tp].asked = True
                if decision is not None:
                    del self._waiting[tp]
        self._tell()
        if answers.at is not None:
            self._asked_at[answers.at] = now  # the next time the others come first
            lookups["unreachable"] += 1
            self._trouble = answers.trouble
            for one in self._waiting.values():
                one.asked = True
            some = ", ".join(map(str, sorted(self._waiting)[:NAMED_MAX]))
            self.watch.outages.seen(REGISTRY, f"{answers.trouble}; {some or 'nobody'} waits for it", now)
            self._retry_at = now + self.watch.outages.pause_secs(REGISTRY, now)
            return
        self._answers(now)
        is_all = len(answers.decisions) >= len(self._asked_at)
        undecided = any(decision is None for decision in answers.decisions.values())
        self._failures = self._failures + 1 if undecided and is_all else 0
        self._retry_at = now + PAUSE.after(self._failures - 1) if self._failures else float("-inf")

    def _answers(self, now: float) -> None:
        self._trouble = ""
        self.watch.outages.over(REGISTRY, now)

    def _said(self, one: _Waiting) -> str:
        ids = sorted(one.ids, key=lambda schema_id: (-self._asked_at.get(schema_id, 0.0), schema_id))
        some = ", ".join(str(called(one)) for one in ids[:NAMED_MAX]) + (", ..." if len(ids) > NAMED_MAX else "")
        why = self._trouble or "the registry has no such schema so far"
        return f"from offset {one.at} on it waits for schema id {some}: {why}"

    def _tell(self) -> None:
        if self.source is not None:
            self.watch.schema_ids = len({schema_id for one in self._waiting.values() for schema_id in one.ids})
