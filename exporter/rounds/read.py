"""One round as one Spark job: exact offset ranges in, one manifest per partition out.

Its tasks read Kafka themselves (fetch/ranges.py). They raise on a range that is no longer there and on ends beyond the
log; they skip invisible offsets only. Therefore a finished round covers start..end-1 of each plan, holes included
(protocol 3.4).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from exporter import threads
from exporter.core.manifest import RoundResult
from exporter.core.order import StagingBudget, StagingOrder
from exporter.core.routing import Routing
from exporter.core.slices import Slices, slices
from exporter.errors import DependencyUnreachable, ExporterError, InvariantBroken, RoundFailed
from exporter.executor.gathered import gathered
from exporter.executor.manifest import MANIFEST_DDL
from exporter.executor.stage import stage
from exporter.executor.warm import pass_on
from exporter.fetch import ranges
from exporter.log import get_logger
from exporter.log_events import Event
from exporter.rounds.told import round_result
from exporter.spark import executors
from exporter.text import why
from offsets.ranges import TopicPartition

log = get_logger(__name__)


def warm(session: Any) -> None:
    """Start the Python workers and let them import what a round needs, while the task is put together."""
    cores = session.sparkContext.defaultParallelism
    _rows(session.range(cores, numPartitions=cores).mapInArrow(pass_on, "id bigint"))


class RoundReader:
    """Runs rounds on a session. `read` blocks; `cancel` from another thread ends the running ones."""

    def __init__(self, session: Any, client: Mapping[str, Any], room: StagingBudget | None = None) -> None:
        """client: keywords of kafka-python's clients. room: of all tasks that run at once; None for the defaults."""
        self._session = session
        self._local = session.sparkContext.master.startswith("local")
        self._client = client
        self._room = room or StagingBudget()
        self._groups: set[str] = set()
        self._dropped: set[str] = set()
        self._lock = threads.lock()

    @property
    def _cores(self) -> int:
        """Of the executors that are there now, if they are on a cluster."""
        return int(self._session.sparkContext.defaultParallelism)

    def has_executors(self) -> bool:
        """Whether a round that waits will ever begin, as things are now."""
        return self._local or executors.are_there(self._session)

    def read(self, order: StagingOrder) -> RoundResult:
        """Read and stage the plans of `order`. Raises RoundFailed, InvariantBroken."""
        context = self._session.sparkContext
        group = f"round-{uuid.uuid4().hex[:12]}"
        with self._lock:
            self._groups.add(group)
        context.setJobGroup(group, "export round", interruptOnCancel=True)
        try:
            result = round_result(order, self._manifest(_to_be_read(order)))
            self._tell_of_losses(group)
            return result
        except InvariantBroken:
            raise
        except Exception as error:
            if group in self._dropped:
                raise RoundFailed("the round was cancelled") from error
            raise self._failed(order, error) from error
        finally:
            with self._lock:
                self._groups.discard(group)
                self._dropped.discard(group)

    def _tell_of_losses(self, group: str) -> None:
        """Say that a round has come through although tasks of it failed, as executors that are lost make them do."""
        if self._local:
            return
        if tasks := executors.tried_again(self._session, group):
            log.warning(Event.TASKS_TRIED_AGAIN, tasks=tasks)

    def collect(self, order: StagingOrder, task: Any, ddl: str) -> list[dict[str, Any]]:
        """The rows that a function of mapInArrow makes of the order's records. Raises what Spark raises.

        Each range is cut as `slices` says; a task that has several reads one after the other.
        """
        cut = self._cut(order)
        wanted = [
            replace(one, start=start, end=min(one.end, start + (cut.records_max or one.end)))
            for one in self._wanted(order)
            for start in range(one.start, one.end, cut.records_max or one.end)
        ]

        def run(batches: Iterator[Any]) -> Iterator[Any]:
            numbers = [number for batch in batches for number in batch.column("id").to_pylist()]
            yield from task(batch for number in numbers for batch in ranges.records(wanted[number]))

        return _rows(self._session.range(0, len(wanted), 1, cut.tasks or len(wanted)).mapInArrow(run, ddl))

    def _shared(self, order: StagingOrder) -> StagingOrder:
        """What each task may hold and carry, of what all may.

        What is committed next is not carried: the tasks write side by side what the driver would write file by file.
        But where a partition is cut, the small files of its slices are still to be joined.
        """
        written = order.committed_next and self._cut(order).records_max is None
        cores = self._cores
        carried = 0 if written else order.carried_bytes // cores
        return replace(order, room=self._room.share(cores), carried_bytes=carried)

    def _cut(self, order: StagingOrder) -> Slices:
        return slices([plan.end - plan.start for plan in order.plans.values()], self._cores)

    def _manifest(self, order: StagingOrder) -> list[dict[str, Any]]:
        """What the tasks say of what they have staged."""
        if not order.plans:
            return []
        return self.collect(order, _task(self._shared(order)), MANIFEST_DDL)

    def _wanted(self, order: StagingOrder) -> list[ranges.RangeWanted]:
        routing = order.routing
        return [
            ranges.RangeWanted(self._client, plan.tp, plan.start, plan.end, routing.isolation, routing.record_bytes_max)
            for plan in order.plans.values()
        ]

    def _failed(self, order: StagingOrder, error: Exception) -> ExporterError:
        """The error, and the first record of the order's one partition read raw: is anybody else to blame?"""
        failed = f"a round failed: {why(error)}"
        if not self._local and executors.are_gone(self._session):
            return DependencyUnreachable(f"{failed}: the cluster has ended this application", "start again")
        if not self._local and executors.lost(error):
            return RoundFailed(failed, lost=True)
        if len(order.plans) > 1:
            return RoundFailed(failed)
        (wanted,) = self._wanted(order)
        try:
            return RoundFailed(failed, raw=self._raw(replace(wanted, end=wanted.start + 1)))
        except Exception as raw:  # noqa: BLE001 - whatever it is, it was not read
            log.warning(Event.RAW_READ_FAILED, partition=str(wanted.tp), offset=wanted.start, error=why(raw))
            damaged = ranges.DAMAGED in str(raw)  # a replica may have it whole: only a person gives it up
            if wanted.end == wanted.start + 1 and not damaged and self._has_neighbours(wanted):
                says = f"{failed}; nor can it be read alone: {why(raw)}"
                return RoundFailed(says, raw=ranges.by_coordinates(wanted))
        return RoundFailed(failed)

    def alone(self, tp: TopicPartition, offset: int, routing: Routing) -> Any:
        """One record as an Arrow table, by its coordinates alone if it is not there any more. Raises what Spark raises.
        """
        wanted = ranges.RangeWanted(self._client, tp, offset, offset + 1, routing.isolation, routing.record_bytes_max)
        try:
            found = self._raw(wanted)
        except Exception as error:
            if ranges.GONE not in str(error):
                raise
            return ranges.by_coordinates(wanted)
        return found if found.num_rows else ranges.by_coordinates(wanted)

    def _raw(self, wanted: ranges.RangeWanted) -> Any:
        """A range as an Arrow table, by a task of its own. Raises what Spark raises."""

        def run(batches: Iterator[Any]) -> Iterator[Any]:
            for _ in batches:
                yield from ranges.exactly(wanted)

        return self._session.range(0, 1, 1, 1).mapInArrow(run, ranges.DDL).toArrow()

    def _has_neighbours(self, wanted: ranges.RangeWanted) -> bool:
        """Whether the broker gives what lies beside a record. If not, it may be damaged there, and put right there."""
        for start in (wanted.end, max(0, wanted.start - 1)):
            try:
                self._raw(replace(wanted, start=start, end=start + 1))
            except Exception as error:  # noqa: BLE001 - the other side may do
                log.info(Event.NEIGHBOUR_UNREADABLE, partition=str(wanted.tp), offset=start, error=why(error))
            else:
                return True
        return False

    def begun(self) -> bool:
        """Whether Spark has given cores to the running round: one that is read from now on gets those that are left."""
        tracker = self._session.sparkContext.statusTracker()
        with self._lock:
            groups = [*self._groups]
        jobs = [tracker.getJobInfo(job) for group in groups for job in tracker.getJobIdsForGroup(group)]
        stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
        return any(stage.numActiveTasks + stage.numCompletedTasks for stage in stages if stage)

    def cancel(self, dropped: bool = False) -> None:
        """Cancel the running rounds, if any; their `read` raises. dropped: nobody wants to know what it stopped at."""
        with self._lock:
            groups = [*self._groups]
            self._dropped |= set(groups) if dropped else set()
        for group in groups:
            self._session.sparkContext.cancelJobGroup(group)


def run_order(records: Any, order: StagingOrder) -> RoundResult:
    """Stage a frame of raw records, those of a partition in the order of their offsets. Raises what Spark raises."""
    return round_result(order, _rows(records.mapInArrow(to_the_end(_task(order)), MANIFEST_DDL)))


def to_the_end(task: Any) -> Any:
    """A function of mapInArrow that reads all that it is given: Spark ends a worker that leaves something unread.

    What a worker reads from Kafka it may leave there.
    """

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        yield from task(batches)
        for _ in batches:
            pass

    return run


def _rows(frame: Any) -> list[dict[str, Any]]:
    """What a job makes. As Arrow: otherwise the JVM pickles each row, carried ones of megabytes among them."""
    rows: list[dict[str, Any]] = frame.toArrow().to_pylist()
    return rows


def _to_be_read(order: StagingOrder) -> StagingOrder:
    """Without the plans that begin at a poison record, of which there is nothing else in them (plan.spare)."""
    spared = {tp: plan for tp, plan in order.plans.items() if plan.start not in order.poison_offsets.get(tp, ())}
    return replace(order, plans=spared)


def _task(order: StagingOrder) -> Any:
    types = max(len(plan.bounds) for plan in order.plans.values())

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        return stage(order, gathered(batches, types))

    return run
