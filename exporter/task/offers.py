"""The commits of one task: frozen claims offered in threads of their own, one commit per table, and settled.

    fresh and open claims ── offer ──> Commits.submit ── take ──> Landed   covered moves, staged files are committed
                                                              ──> Refused  three in a row on what is ours: exit 75
                                                              ──> Unknown  the same files again, later; then parked
                                                              ──> Stale    dropped, staged again
                                                              ──> Held     the same files again, later

Belongs to the loop's thread and changes the writers that it is handed; only the commits themselves run elsewhere, on
frozen values. Which writers are due is the loop's to say.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace

from exporter.core.backoff import RETRY_SECS, Backoff
from exporter.core.coordination import Commits
from exporter.core.outcome import Committer, Held, Landed, Refused, Report, Settled, Stale, Unknown, Unwritten
from exporter.core.writers import Claim, Parked, Writer, WriterKey, drop, freeze, landed, offered, park
from exporter.errors import Fenced, StorageSilent
from exporter.lake.lake import Lake
from exporter.log import get_logger
from exporter.log_events import Event
from exporter.monitor.outages import STORAGE
from exporter.monitor.watch import Watch
from exporter.never import assert_never
from exporter.protocol.known import KnownTables
from exporter.wal.keeper import WalKeeper
from offsets.positions import Position
from offsets.ranges import TopicPartition

log = get_logger(__name__)

REFUSALS_MAX = 3
UNKNOWNS_MAX = 3
UNKNOWN = Backoff(0.5, float("inf"))
"""Between two offers of a claim whose outcome is not known; a stop ends by its own budget."""


@dataclass(kw_only=True, eq=False, repr=False)
class Offers:
    """The commits under way, by event type, and what the ones before said of tables and partitions.

    commits: where claims go. wake: lets the loop iterate; called from any thread.
    """

    lake: Lake
    committer: Committer
    known: KnownTables
    keeper: WalKeeper
    watch: Watch
    commits: Commits
    wake: Callable[[], None]

    def __post_init__(self) -> None:
        self._totals = self.watch.totals
        self._running: dict[str, Future[Report]] = {}
        self._refusals: Counter[TopicPartition] = Counter()
        self._refused_now: set[TopicPartition] = set()
        self._retry_at: dict[str, float] = {}
        self._excused: dict[WriterKey, tuple[str, ...]] = {}
        """The offers of a claim that were made before the storage was last out."""
        self._looked_at: dict[WriterKey, Parked] = {}
        """The parked types whose time has come, and whose tables were looked at since."""

    @property
    def running(self) -> bool:
        return bool(self._running)

    def forget(self, tp: TopicPartition) -> None:
        """The partition was assigned or revoked: what was refused before says nothing any more."""
        self._refusals.pop(tp, None)

    def offer(
        self,
        writers: dict[WriterKey, Writer],
        fresh: Mapping[str, Iterable[WriterKey]],
        now: float,
        only: Collection[WriterKey] | None = None,
        in_hurry: Collection[str] = (),
    ) -> None:
        """Freeze the fresh writers, by event type, and offer them; open claims again whose time has come.

        only: whose claims may be offered again; None for all. in_hurry: the types whose claims are (Commits.submit).
        """
        reopened: dict[str, list[WriterKey]] = defaultdict(list)
        for key, writer in writers.items():
            if writer.claim is not None and (only is None or key in only):
                reopened[key.event_type].append(key)
        for name in sorted({*fresh, *reopened}):
            if name in self._running or now < self._retry_at.get(name, 0.0) or self.keeper.holds(name):
                continue
            base = self.committer.checked_through(name)
            for key in fresh.get(name, ()):
                writers[key] = freeze(writers[key], base)
            keys = [*fresh.get(name, ()), *reopened[name]]
            claims = [claim for key in keys if (claim := writers[key].claim)]
            if claims:
                self._running[name] = self.commits.submit(name, claims, name in in_hurry)
                self._running[name].add_done_callback(self._wake_after_the_last)

    def _wake_after_the_last(self, _: Future[Report]) -> None:
        """The loop looks five times a second anyway; a look after each of many commits would hold up the next ones."""
        if all(future.done() for future in [*self._running.values()]):
            self.wake()

    def take(self, writers: dict[WriterKey, Writer], now: float, stopping: bool) -> set[TopicPartition]:
        """Settle the claims of finished commits; the partitions that have to be read again from their tables.

        stopping: a claim of unknown outcome is offered again as often as the stop allows. Raises Fenced.
        """
        again: set[TopicPartition] = set()
        self._refused_now.clear()
        for name in [name for name, future in self._running.items() if future.done()]:
            report = self._running.pop(name).result()
            self.keeper.take_owed()
            self.watch.committed(report)
            for settled in report.settled:
                if self._settle(writers, settled, report, now, stopping):
                    again.add(settled.claim.key.tp)
            landed_claims = [settled.claim for settled in report.settled if isinstance(settled.outcome, Landed)]
            if landed_claims:
                self._totals.commits += 1
                _log_commit(report, landed_claims)
        return again

    def _settle(
        self, writers: dict[WriterKey, Writer], settled: Settled, report: Report, now: float, stopping: bool
    ) -> bool:
        """Apply one outcome; True if the partition has to be read again from its tables."""
        claim, outcome = settled.claim, settled.outcome
        writer = writers.get(claim.key)
        # Dropped or frozen anew since it was offered: nobody holds the claim that this is said of (3.3).
        if writer is None or writer.claim is None or not _same(writer.claim, claim):
            return False
        match outcome:
            case Landed():
                self._refusals.pop(claim.key.tp, None)
                self._excused.pop(claim.key, None)
                self._totals.committed[claim.key.event_type] += claim.rows
                if claim.filtered:
                    self._totals.filtered[claim.key.event_type] += claim.filtered
                if outcome.position != Position(claim.epoch, claim.new):
                    return True
                writers[claim.key] = landed(writer, claim, now)
            case Refused():
                self._refused(claim)
                return True
            case Unknown():
                writers[claim.key] = self._unknown(writer, claim, report, now, stopping)
            case Stale():
                log.warning(Event.STAGED_FILES_DROPPED, table=claim.key.event_type, reason=outcome.reason)
                writers[claim.key] = drop(writer)
                self._refresh(writers, claim.key.event_type, now)
            case Held():
                self._hold(writers, writer, claim, now + RETRY_SECS)
            case Unwritten():
                if self.watch.storage_is_out(now) or outcome.storage:
                    self._hold(writers, writer, claim, now + self.watch.outages.pause_secs(STORAGE, now))
                else:  # its table's trouble alone (protocol 3.6)
                    writers[claim.key] = park_and_tell(writer, outcome.reason, now)
            case _:
                assert_never(outcome)
        return False

    def _hold(self, writers: dict[WriterKey, Writer], writer: Writer, claim: Claim, until: float) -> None:
        """Keep the claim: the same files are offered again then."""
        writers[claim.key] = offered(writer, claim)
        self._retry_at[claim.key.event_type] = until

    def _refused(self, claim: Claim) -> None:
        """A refused commit is normal once; three in a row on what the group says is ours is not (protocol 8).

        Several tables that are refused at once are one: another task has been there, once.
        """
        self._totals.refused += 1
        if claim.key.tp in self._refused_now:
            return
        self._refused_now.add(claim.key.tp)
        self._refusals[claim.key.tp] += 1
        if self._refusals[claim.key.tp] >= REFUSALS_MAX:
            raise Fenced(
                f"table {claim.key.event_type}, {claim.key.tp}: {REFUSALS_MAX} commits in a row were refused "
                f"(last: offsets {claim.expected + 1}..{claim.new})",
                "another task writes this partition; starting again is safe",
            )

    def _unknown(self, writer: Writer, claim: Claim, report: Report, now: float, stopping: bool) -> Writer:
        """Offer the same claim again later; after UNKNOWNS_MAX times the type is parked (protocol 3.6).

        Offers do not count that were made before the storage was last out, whatever the table: then none is better off
        parked.
        """
        name, out = claim.key.event_type, self.watch.storage_is_out(now)
        if out:
            self._excused[claim.key] = claim.offers
        count = len(set(claim.offers).difference(self._excused.get(claim.key, ())))
        if out or stopping or count < UNKNOWNS_MAX:
            pause = self.watch.outages.pause_secs(STORAGE, now) if out else UNKNOWN.after(count)
            self._retry_at[name] = now + pause
            log.warning(Event.COMMIT_UNKNOWN, table=name, partition=str(claim.key.tp), error=report.error)
            return offered(writer, claim)
        self._excused.pop(claim.key, None)
        return park_and_tell(writer, report.error, now)

    def _refresh(self, writers: dict[WriterKey, Writer], name: str, now: float) -> None:
        """Stage against the table as it is now; a type that cannot be filled is parked (protocol 4.2).

        So is one whose table alone the storage does not give. Raises TableUnreadable, InvariantBroken.
        """
        try:
            view = self.committer.require_ours(name, self.lake.table(name).view())
        except StorageSilent as error:
            if self.watch.storage_is_out(now):
                raise
            reason, parked = error.message, park_and_tell
        else:
            reason, parked = self.known.accept(name, view), park
        if reason:
            for key, writer in writers.items():
                waits = writer.claim is not None or (writer.parked is not None and writer.parked.retry_at > now)
                if key.event_type == name and not waits:
                    writers[key] = parked(writer, reason, now)

    def refresh_parked(self, writers: dict[WriterKey, Writer], now: float) -> None:
        """Look at the tables of parked types whose time has come before anything is read for them.

        Once each time: the columns that are planned meanwhile for what is read would be forgotten (protocol 4.10).
        """
        due = {key: w.parked for key, w in writers.items() if w.parked is not None and w.parked.retry_at <= now}
        for name in sorted({key.event_type for key, parked in due.items() if self._looked_at.get(key) != parked}):
            self._refresh(writers, name, now)
        self._looked_at = due


def park_and_tell(writer: Writer, reason: str, now: float) -> Writer:
    """park(), for a table that cannot be written; in the log."""
    log.error(Event.TYPE_PARKED, table=writer.key.event_type, partition=str(writer.key.tp), error=reason)
    return park(writer, reason, now)


def drop_aged(writers: dict[WriterKey, Writer], age_max_secs: float, now: float) -> None:
    """Staged files that are too old are never committed but read again (VACUUM may take them)."""
    for key, writer in writers.items():
        if writer.staged and writer.claim is None and now - writer.oldest_at > age_max_secs:
            log.warning(Event.STAGED_FILES_DROPPED, table=key.event_type, reason="waited too long for its commit")
            writers[key] = drop(writer)


def _log_commit(report: Report, claims: list[Claim]) -> None:
    """A commit whose reply was lost has no version here: it was found in the table's log."""
    log.info(
        Event.COMMIT_LANDED,
        table=report.event_type,
        version=report.version,
        rows=sum(claim.rows for claim in claims),
        filtered=sum(claim.filtered for claim in claims),
        files=sum(len(claim.files) for claim in claims),
        positions={str(claim.key.tp): claim.new for claim in claims},
        secs=round(report.secs, 3),
    )


def _same(mine: Claim, settled: Claim) -> bool:
    """True if `settled` is the claim that the writer holds (its files may have been merged since)."""
    return replace(mine, files=(), offers=()) == replace(settled, files=(), offers=())
