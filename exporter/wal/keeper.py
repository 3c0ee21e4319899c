"""The write-ahead log as the loop keeps it: what is owed to it, whether it answers, and the check every so often.

    owed      completions and failures that the log could not be told; paid once it answers (ORDER: till then no group
              offset of their partitions, and where the log is required no further commit of their tables)
    down      asked every second until it answers; then paid, and checked at once
    check     now and then the log, then the tables; a stop is confirmed by a second reading

Effects run in a thread of their own, one at a time; the loop never waits for them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from exporter import threads
from exporter.core.backoff import RETRY_SECS
from exporter.core.writers import Writer, WriterKey
from exporter.errors import ExporterError, Fenced, InvariantBroken, TableUnreadable
from exporter.lake.lake import Lake
from exporter.lake.views import views_of
from exporter.log import get_logger
from exporter.log_events import Event
from exporter.wal.check import LogCheck, Logged, LogVerdicts, broken
from exporter.wal.journal import Journal, Landing
from offsets.intents import Intent, IntentKey, WalUnreachable
from offsets.ranges import TopicPartition
from offsets.wal_verdict import Ruling

log = get_logger(__name__)


@dataclass(frozen=True)
class Done:
    """What came of one job. error: what stops the task. paid: how many landings and failures are not owed any more."""

    error: ExporterError | None = None
    paid: tuple[int, int] = (0, 0)


Job = Callable[[], Done]


@dataclass(eq=False, repr=False)
class WalKeeper:
    """The log's side of one task's loop. Without a log every method does nothing.

    tables: the event types whose tables this task knows. waking: makes a future wake the loop at its end.
    """

    lake: Lake
    journal: Journal
    check: LogCheck
    tables: Callable[[], Collection[str]]
    verify_secs: float
    waking: Callable[[Future[Any]], Future[Any]] = lambda future: future

    def __post_init__(self) -> None:
        self._landings: list[Landing] = []
        self._dead: list[Intent] = []
        self._seen: Logged = {}
        self._job: Future[Done] | None = None
        self._job_at = float("-inf")
        self._verify_at: float | None = None
        self._pool = threads.pool(1, "wal")

    @property
    def waits(self) -> bool:
        """True while the log is required and does not answer: nothing is recovered then."""
        return self.journal.holds_commits

    @property
    def owed(self) -> int | None:
        """Completions that the log could not be told yet; None if there is no log."""
        return len(self._landings) if self.journal.on else None

    def holds(self, event_type: str) -> bool:
        """True while no commit of this table may be offered."""
        owing = any(landing.intent.key.event_type == event_type for landing in self._landings)
        return self.journal.holds_commits or (self.journal.required and owing)

    def withheld(self) -> set[TopicPartition]:
        """The partitions whose group offset has to wait for a completion (ORDER)."""
        return {landing.intent.key.tp for landing in self._landings} if self.journal.required else set()

    def take_owed(self) -> None:
        """Take what the commits could not tell; to be called before anything is concluded from finished commits."""
        while not self.journal.owed.empty():
            landings, dead = self.journal.owed.get_nowait()
            self._landings += landings
            self._dead += dead

    def let_go(self, writers: Mapping[WriterKey, Writer]) -> None:
        """Offers of dropped claims are judged as another task's; to be called while no commit is under way."""
        if self.journal.settles_any:
            claims = [writer.claim for writer in writers.values() if writer.claim is not None]
            self.journal.keep_only({(claim.key.event_type, claim.key.tp): claim.offers for claim in claims})

    def tick(self, now: float, owned: Collection[TopicPartition]) -> None:
        """Start what is due, and take what is finished. Raises InvariantBroken, Fenced."""
        if not self.journal.on:
            return
        self.take_owed()
        if self._job is not None:
            if not self._job.done():
                return
            done, self._job = self._job.result(), None
            if done.error is not None:
                raise done.error
            # The first ones: what came to be owed during the job was put behind them.
            del self._landings[: done.paid[0]], self._dead[: done.paid[1]]
        if self._verify_at is None:
            self._verify_at = now + self.verify_secs
        if now < self._job_at + RETRY_SECS:
            return
        owing = [*(landing.intent.key.tp for landing in self._landings), *(intent.key.tp for intent in self._dead)]
        if owing or (self.journal.down and owned):
            self._start(self._paying([*owing, *owned][0]), now)
            self._verify_at = now if self.journal.down else self._verify_at
        elif owned and now >= self._verify_at:
            self._verify_at = now + self.verify_secs
            tps = tuple(owned)
            self._start(lambda: self._verify(tps), now)

    def close(self) -> None:
        """Wait for nothing; says what the log has cost."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        if self.journal.wal is not None:
            log.info(Event.WAL_CLOSED, calls=dict(self.journal.wal.counts))

    def _start(self, job: Job, now: float) -> None:
        self._job_at = now
        self._job = self.waking(self._pool.submit(job))

    def _paying(self, tp: TopicPartition) -> Job:
        """Ask for one partition, then pay all that is owed by now."""
        self._landings = newest(self._landings)
        landings, dead = list(self._landings), list(self._dead)
        paid = Done(paid=(len(landings), len(dead)))

        def pay() -> Done:
            try:
                with self.journal.asking():
                    if self.journal.wal is not None:
                        self.journal.wal.read(tp)
                if not self.journal.pay(landings, dead):
                    return Done()
            except WalUnreachable:
                return Done()
            except InvariantBroken as error:
                return Done(error)
            self.journal.reached()
            return paid

        return pay

    def _verify(self, tps: Collection[TopicPartition]) -> Done:
        """One reading, or two if the first one stops."""
        try:
            verdicts = self._judged(tps)
            if broken(verdicts):
                verdicts = self._judged(tps)
        except (WalUnreachable, TableUnreadable) as error:
            log.warning(Event.WAL_NOT_VERIFIED, error=str(error))
            return Done()
        except ExporterError as error:
            return Done(error)
        return Done(broken(verdicts) or refused(verdicts))

    def _judged(self, tps: Collection[TopicPartition]) -> LogVerdicts:
        """The log first, then the tables one at a time, the dead letters last; then the log is put right."""
        logged = self.check.read(tps)
        if logged is None:
            return {}
        names = {*self.tables(), *(one.key.event_type for intents in logged.values() for one in intents)}
        tables = dict(views_of(self.lake, names, others="keep"))
        verdicts = self.check.judge(logged, tables, live=self._live(logged))
        self._seen = logged
        if not broken(verdicts):
            self.check.settle(verdicts, tables)
        return verdicts

    def _live(self, logged: Logged) -> set[str]:
        """The owners that have begun something in these partitions since they were last read."""
        before = {tp: {one.commit_id for one in intents} for tp, intents in self._seen.items()}
        return {
            one.owner
            for tp, intents in logged.items()
            for one in intents
            if tp in before and one.commit_id not in before[tp]
        }


def newest(landings: Iterable[Landing]) -> list[Landing]:
    """Leave out those that were never logged as started and have a successor: only the newest has to be remembered."""
    last: dict[IntentKey, Landing] = {}
    kept = []
    for landing in landings:
        if landing.logged:
            kept.append(landing)
        elif landing.intent.key not in last or last[landing.intent.key].intent.new < landing.intent.new:
            last[landing.intent.key] = landing
    return [*kept, *last.values()]


def refused(verdicts: LogVerdicts) -> Fenced | None:
    """The error where another task is at work here with other settings."""
    for (name, tp), found in sorted(verdicts.items()):
        if found.verdict is Ruling.REFUSED:
            return Fenced(f"table {name}, {tp}: {found.says}", "stop it first, then start this one again")
    return None
