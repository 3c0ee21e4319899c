"""Who writes into the topics, and what brokers do by themselves: transactions, holes, retention, new partitions.

    a record ── a moment later the next ones
    a transaction is open on a partition: nothing behind its first record is stable, until it is committed or aborted
    retention takes the oldest records of a partition, exported or not; compaction takes some in the middle
"""

from __future__ import annotations

from collections.abc import Callable

from offsets.ranges import TopicPartition
from tests.sim.broker import Broker, Record
from tests.sim.expected import Expected, Partition
from tests.sim.features import DAYS, Features
from tests.sim.kernel import Kernel

NEW_FIELD_SECS = 40.0
"""So often records begin to have another field, where they do."""


class Producing:
    """One world's. quiet: whether nothing is to happen any more."""

    def __init__(
        self,
        kernel: Kernel,
        broker: Broker,
        features: Features,
        expected: Expected,
        say: Callable[[str], None],
        quiet: Callable[[], bool],
    ) -> None:
        self._kernel = kernel
        self._broker = broker
        self._features = features
        self._expected = expected
        self._say = say
        self._quiet = quiet
        broker.produced = self._produced

    def begin(self) -> None:
        """From now on."""
        features, kernel = self._features, self._kernel
        kernel.after(0.1, self._produce)
        for secs, what, on in (
            (8.0, self._open, features.transactions),
            (25.0, self._trim, features.retention),
            (5.0, self._compact, features.compaction),
            (90.0, self._grow, features.grows),
            (40.0, self._poison, bool(features.poison)),
        ):
            if on:
                kernel.after(secs * kernel.rng.random(), self._again, secs, what)

    def _again(self, secs: float, what: Callable[[], None]) -> None:
        if not self._quiet():
            what()
            self._kernel.after(self._kernel.rng.expovariate(1 / secs), self._again, secs, what)

    def _any(self) -> TopicPartition:
        return self._kernel.rng.choice(self._broker.partitions(self._features.topics))

    def _produce(self) -> None:
        """Records come now and then, some at a time."""
        if self._quiet():
            return
        rng, features = self._kernel.rng, self._features
        for _ in range(rng.choice((1, 1, 2, 8))):
            tp = self._any()
            holes = rng.choice((0, 0, 0, 0, 1, 3))
            kind, day = rng.choice(features.kinds), rng.choice(DAYS)
            self._broker.produce(tp, kind, day, int(self._kernel.now * 1000) + 1, holes, more=self._more())
        self._kernel.after(rng.expovariate(features.records_per_sec / 3), self._produce)

    def _more(self) -> tuple[tuple[str, int | str], ...]:
        """Further fields of a record: new ones come now and then, and of some two records have two kinds."""
        rng, now = self._kernel.rng, self._kernel.now
        if not self._features.evolves or rng.random() < 0.7:
            return ()
        number = rng.randrange(1 + int(now / NEW_FIELD_SECS))
        return ((f"f{number}", rng.choice((7, "seven")) if number % 2 else 7),)

    def _produced(self, tp: TopicPartition, one: Record) -> None:
        self._expected.produced(of(tp), one.offset, one.kind, one.at_ms, one.schema)
        for name, _ in one.more:
            self._expected.of[of(tp)].fields[one.offset] = name
        if one.poison:
            self._expected.of[of(tp)].poison.add(one.offset)

    def _poison(self) -> None:
        """A record that some rounds end on."""
        features, rng = self._features, self._kernel.rng
        tp, at_ms = self._any(), int(self._kernel.now * 1000) + 1
        kind, day = rng.choice(features.poison_kinds), rng.choice(DAYS)
        self._broker.produce(tp, kind, day, at_ms, poison=features.poison)
        self._say(f"the record before {tp} {self._broker.log(tp).end} is poison")

    def _open(self) -> None:
        """A transaction begins with a record, and ends some time later, whatever else there is."""
        rng, tp = self._kernel.rng, self._any()
        log = self._broker.log(tp)
        if log.open_from is not None:
            return
        log.open_from, log.in_transaction = log.end, set()
        self._broker.produce(tp, rng.choice(self._features.kinds), rng.choice(DAYS), int(self._kernel.now * 1000) + 1)
        self._say(f"a transaction is open on {tp} from {log.open_from} on")
        self._kernel.after(rng.expovariate(1 / 8.0), self._close, tp)

    def _close(self, tp: TopicPartition) -> None:
        aborted = self._kernel.rng.random() < 0.4
        log = self._broker.log(tp)
        if aborted:
            self._expected.vanished(of(tp), log.in_transaction)
            for offset in log.in_transaction:
                log.records.pop(offset, None)
        self._say(f"the transaction on {tp} is {'aborted' if aborted else 'committed'}, its marker is {log.end}")
        log.open_from = None
        log.end = log.stable = log.end + 1
        self._expected.ends_at(of(tp), log.end)

    def _trim(self) -> None:
        """Retention asks nobody whether a record has been exported."""
        rng, tp = self._kernel.rng, self._any()
        log = self._broker.log(tp)
        if log.stable > log.first:
            self._broker.trim(tp, rng.choice((log.stable, rng.randrange(log.first, log.stable))))
            self._expected.of[of(tp)].first = log.first
            self._say(f"retention: {tp} begins at {log.first}, ends at {log.end}")

    def _compact(self) -> None:
        """Of two records with one key the older one goes."""
        rng, tp = self._kernel.rng, self._any()
        log = self._broker.log(tp)
        old = [offset for offset in log.records if offset < log.stable - 1]
        for offset in rng.sample(old, min(len(old), 3)):
            del log.records[offset]
            self._expected.of[of(tp)].unsure.add(offset)

    def _grow(self) -> None:
        """Another partition: the group hears of it when it next asks."""
        topic = self._kernel.rng.choice(self._features.topics)
        self._broker.grow(topic)
        self._say(f"{topic} has another partition")


def of(tp: TopicPartition) -> Partition:
    """As the oracle calls a partition."""
    return tp.topic, tp.partition
