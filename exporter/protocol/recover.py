"""From nothing but the tables to positions from which partitions may run (protocol, section 5).

    reading ── the write-ahead log, then every table, the dead letters last
    judging ── one verdict per partition; a stop is confirmed by a second reading
    advancing ─ FirstStart  anchor the dead letters, then read again
                Switch      drain under the configuration in force, seal with the dead letters last, read again
                Agree       anchor what lacks a position and read again; else it is done

Every reading is fresh and nothing is kept from an earlier one. Runs at each assignment and after each refused commit,
in a thread of its own on frozen values: what the task knows (known.py) is not asked and not changed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from exporter.core.outcome import Committer
from exporter.core.routing import Routing
from exporter.errors import Fenced
from exporter.kafka.topics import FirstPosition, TopicReader
from exporter.lake.lake import Lake
from exporter.lake.settling import Moved
from exporter.protocol.advancing import Advance, Identities
from exporter.protocol.anchor import ATTEMPTS_MAX, Anchors, Patience
from exporter.protocol.drain import DrainRounds
from exporter.protocol.judging import refusal, to_do, verdicts
from exporter.protocol.meeting import MetTypes
from exporter.protocol.reading import Reading, TablesReader
from exporter.protocol.switch import Switcher
from exporter.wal.check import LogCheck, broken
from offsets.crosscheck import Agree, Stop, Verdict
from offsets.ranges import TopicIdentity, TopicPartition
from offsets.table_log import TableView

Verdicts = Mapping[TopicPartition, Verdict]


@dataclass(frozen=True)
class Recovered:
    """What the last reading of a recovery says: every partition may run.

    views: of all tables. identities: topic -> what it is. unchanged: tables whose columns could not be changed.
    """

    agreed: Mapping[TopicPartition, Agree]
    views: Mapping[str, TableView]
    identities: Mapping[str, TopicIdentity]
    unchanged: frozenset[str] = frozenset()


def says_nothing(_: Mapping[TopicPartition, str]) -> None:
    """A `tell` for callers that do not watch."""


class Recovery:
    """Start-up of partitions for one task. Effects: anchors, drains, seals; never a data file deleted."""

    def __init__(
        self,
        *,
        lake: Lake,
        topics: TopicReader,
        routing: Routing,
        committer: Committer,
        log_check: LogCheck,
        drain: DrainRounds | None,
        first_position: FirstPosition,
        on_gap: str,
    ) -> None:
        """drain: reads what a switch has to drain; None for who only looks.

        first_position: where a topic begins that is new to the tables. on_gap: stop or record.
        """
        self._app = lake.app
        self._topics = topics
        self._routing = routing
        self._own = routing.fingerprint()
        self._log_check = log_check
        self._drain = drain
        anchors = Anchors(lake, topics, routing, first_position)
        self.reader = TablesReader(lake, routing, log_check)
        self.met = MetTypes(anchors=anchors, topics=topics, reader=self.reader)
        self.advance = Advance(
            anchors=anchors, topics=topics, switcher=Switcher(anchors, committer, drain), on_gap=on_gap
        )

    def recover(
        self,
        tps: Collection[TopicPartition],
        *,
        unchanged: Collection[str] = (),
        go_on: Callable[[], None] = lambda: None,
        tell: Callable[[Mapping[TopicPartition, str]], None] = says_nothing,
    ) -> Recovered:
        """Where the given partitions may go on.

        unchanged: tables whose columns are known not to be changeable. go_on: called every moment of a drain; what it
        raises ends it. tell: called with the verdicts of each reading, in this thread.

        Raises InvariantBroken to stop, Fenced if another task is at work, ConfigError, TableUnreadable,
        DependencyUnreachable, WalUnreachable; BrokerSilent, RegistryUnreachable and Interrupted to be called again
        later.
        """
        identities = self._topics.identities_of({tp.topic for tp in tps})
        kept, patience = set(unchanged), Patience()
        for _ in range(ATTEMPTS_MAX):
            reading, found = self._confirmed(tps, identities, tell)
            do = to_do(found)
            try:
                if self.advance.step(reading, do, identities, kept, go_on):
                    continue
            except Moved as moved:
                patience.restart(moved)
                continue
            return Recovered(do.agreed, reading.views, identities, frozenset(kept))
        raise Fenced("the tables did not come to rest", "other tasks keep switching or anchoring; start again")

    def verdicts(self, reading: Reading) -> dict[TopicPartition, Verdict]:
        """One verdict per partition, from one reading."""
        return verdicts(reading, self._routing, self._app)

    def close(self) -> None:
        """End all drains that are under way."""
        if self._drain is not None:
            self._drain.close()

    def stuck(self) -> dict[TopicPartition, str]:
        """Partitions whose drain fails again and again, and why."""
        return self._drain.stuck() if self._drain is not None else {}

    def undecided(self) -> dict[TopicPartition, str]:
        """Partitions whose drain waits for the schemas of their records, and what is the matter."""
        return {**self._drain.undecided} if self._drain is not None else {}

    def _confirmed(
        self,
        tps: Collection[TopicPartition],
        identities: Identities,
        tell: Callable[[Mapping[TopicPartition, str]], None],
    ) -> tuple[Reading, Verdicts]:
        """A reading and its verdicts; a stop is confirmed by a second one, and every refusal to run is raised here.

        The log is put right where it lags behind the tables.
        """
        self._log_check.let_go(tps)
        reading = self.reader.read(tps)
        found, logs = self.verdicts(reading), self.reader.log_verdicts(reading)
        # One reading is not one moment: a switch or repair under way looks like damage, once.
        if any(isinstance(one, Stop) for one in found.values()) or broken(logs):
            reading = self.reader.read(tps)
            found, logs = self.verdicts(reading), self.reader.log_verdicts(reading)
        tell({tp: type(one).__name__.lower() for tp, one in found.items()})
        for tp, one in found.items():
            if error := refusal(tp, one, self._own):
                raise error
        if stopped := broken(logs):
            self.advance.check_lake(reading, identities)  # what the tables themselves tell is told first
            raise stopped
        self._log_check.settle(logs, reading.views)
        return reading, found
