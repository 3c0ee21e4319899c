"""The rounds of a drain: one at a time and waited for, under the rules of the loop's own rounds (protocol 3.7).

    a round ends well ───── what it staged is given back
    it comes to nothing ─── Interrupted: everything is read again after a pause; what failed is remembered here, so that
                            the next rounds are tried partition by partition, then by halves
    one record alone fails  it is spared, and everything is read again at once; the loop settles it later
    schema ids are missing  they are looked up; what cannot be decided yet interrupts it, too

Before it reads and while it waits it asks whether it may go on: neither a stop nor the end of the JVM is waited out,
and no record is spared in a partition that was taken away. Nothing is decided here about positions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from exporter import threads
from exporter.clock import monotonic
from exporter.core.backoff import Backoff
from exporter.core.manifest import RoundResult
from exporter.core.order import StagingOrder
from exporter.core.plan import Budget
from exporter.core.schemas import NO_SCHEMAS, KnownSchemas, SchemaSource
from exporter.core.writers import Fragment, PartitionPlan
from exporter.errors import RegistryUnreachable
from exporter.protocol.deciding import Ends, by_id, lacking, looked_up
from exporter.protocol.poison import Poison, Poisoned
from exporter.rounds.rounds import Rounds
from offsets.ranges import TopicPartition

WAIT_SECS = 0.2
UNDECIDED = Backoff(1.0, 30.0)
"""Between two looks for a schema id that is not decided yet."""


class Interrupted(Exception):
    """A drain was left as it is. Begun again later, by a full reading, it goes on where the tables are by then.

    pause_secs: how long to wait for that.
    """

    def __init__(self, why: str, pause_secs: float = 0.0) -> None:
        super().__init__(why)
        self.pause_secs = pause_secs


class DrainRounds:
    """What the drains of one task have in common: sizes of records, and partitions whose rounds failed."""

    def __init__(
        self,
        rounds: Callable[[Callable[[Future[Any]], Future[Any]]], Rounds],
        poison: Poison,
        schemas: SchemaSource | None = None,
    ) -> None:
        """rounds: makes them, given what makes a future tell that it is done. schemas: None if values have no ids."""
        self._done = threads.event()
        self._rounds = rounds(self._telling)
        self._poison = poison
        self._schemas = schemas
        self._failures = 0
        self.undecided: dict[TopicPartition, str] = {}
        """Partitions whose drain waits for the schemas of their records, and what is the matter."""

    def budget(self) -> Budget:
        return self._rounds.budget()

    def stuck(self) -> dict[TopicPartition, str]:
        return self._rounds.trouble.stuck()

    def read(
        self,
        plans: Sequence[PartitionPlan],
        poison_offsets: Mapping[TopicPartition, Collection[int]],
        order: Callable[[Sequence[PartitionPlan]], StagingOrder],
        poisoned: Callable[[PartitionPlan], Poisoned],
        go_on: Callable[[], None],
    ) -> RoundResult:
        """Read those of the plans whose turn it is, without the poison records among them.

        order: of some plans. poisoned: of one for a single record. go_on: called first, and every moment; what it
        raises ends the wait. Raises Interrupted, Moved, InvariantBroken, and DependencyUnreachable if Spark cannot even
        cancel.
        """
        go_on()
        now = monotonic()
        if not (chosen := self._rounds.choose(plans, poison_offsets, now)):
            raise Interrupted(self._rounds.error, self._rounds.pause_left(plans, now))
        if self._poison.is_next(self._rounds, chosen[0]):
            self._spare(poisoned(chosen[0]), plans)
        self._rounds.start(order(chosen))
        try:
            result = self._waited_for(go_on)
        finally:
            self._rounds.abandon()
        if result is not None and result.incomplete:
            self._rounds.spoiled(result.incomplete, monotonic())
        if result is None or result.incomplete:
            raise Interrupted(self._rounds.error, self._rounds.pause_left(plans, monotonic()))
        if result.counts.get("records"):
            self._poison.passed()
        return result

    def known(self, registry: str) -> KnownSchemas:
        """What is decided of the schema ids of a registry by now."""
        return NO_SCHEMAS if self._schemas is None else self._schemas.known(registry)

    def decide(self, fragments: Sequence[Fragment], registry: str, ends: Ends, go_on: Callable[[], None]) -> None:
        """Look up what the fragments that ended early lack (protocol 3.8). ends: of the drain. go_on: as in `read`.

        Raises Interrupted where a partition cannot go on yet, RegistryUnreachable, InvariantBroken.
        """
        lack = lacking(fragments)
        if not lack or self._schemas is None:
            return
        answers = looked_up(self._schemas, registry, by_id(lack, ends).items(), go_on)
        for tp, ids in lack.items():
            self.undecided.pop(tp, None)
            if not answers.decides(ids):
                why = answers.trouble or "the registry has no such schema so far"
                self.undecided[tp] = f"it waits for schema id {min(ids)}: {why}"
        if answers.trouble:
            raise RegistryUnreachable(answers.trouble)
        if not self.undecided:
            self._failures = 0
            return
        pause = UNDECIDED.after(self._failures)
        self._failures += 1
        raise Interrupted("; ".join(f"{tp}: {says}" for tp, says in self.undecided.items()), pause)

    def close(self) -> None:
        self._rounds.close()

    def _waited_for(self, go_on: Callable[[], None]) -> RoundResult | None:
        """Wait for the round; None if it failed."""
        while self._rounds.running:
            go_on()
            self._done.wait(WAIT_SECS)
            self._done.clear()
            if (result := self._rounds.take(monotonic())) is not None:
                return result
        return None

    def _spare(self, poisoned: Poisoned, plans: Sequence[PartitionPlan]) -> None:
        if self._poison.spare(self._rounds, poisoned):
            raise Interrupted(f"{poisoned.plan.tp}: the record at offset {poisoned.plan.start} is poison: skipped now")
        raise Interrupted(self._rounds.error, self._rounds.pause_left(plans, monotonic()))

    def _telling(self, future: Future[Any]) -> Future[Any]:
        future.add_done_callback(lambda _: self._done.set())
        return future
