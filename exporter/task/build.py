"""One task, put together: settings in, a running Service out, signals handled."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from typing import Any

from exporter import __version__, threads
from exporter.aside import aside
from exporter.clock import monotonic
from exporter.core.coordination import Commits, Leadership
from exporter.core.order import StagingBudget
from exporter.core.schemas import Schemas
from exporter.ending import ending
from exporter.faults import Fault, point
from exporter.kafka.assignment import Assignment
from exporter.kafka.group import Membership
from exporter.kafka.options import kafka_python_options, reading_options
from exporter.kafka.static import StaticAssignment
from exporter.kafka.topics import TopicReader, partitions_of
from exporter.log import get_logger
from exporter.log_events import Event
from exporter.monitor.watch import Watch
from exporter.protocol.commit import DeltaCommitter
from exporter.protocol.drain import DrainRounds
from exporter.protocol.erasures import Erasures
from exporter.protocol.known import KnownTables
from exporter.protocol.planned import PlannedColumns
from exporter.protocol.poison import Poison
from exporter.protocol.recover import Recovery
from exporter.protocol.through import ThroughTimes
from exporter.rounds.read import RoundReader, warm
from exporter.rounds.rounds import Rounds
from exporter.settings.model import Settings
from exporter.spark import session as spark
from exporter.spark.session import jvm_watched
from exporter.stores.parquet import give_memory_back
from exporter.task.announced import announcing
from exporter.task.deriving import Jobs
from exporter.task.others import Others, exported, nobody
from exporter.task.own_commits import OwnCommits
from exporter.task.parts import Parts
from exporter.task.progress import Progress
from exporter.task.service import COMMIT_THREADS, Service
from exporter.wal.check import LogCheck
from exporter.wal.journal import Journal
from exporter.wal.lease_keeper import BEATS, LeaseKeeper
from exporter.wal.leased import LeasedAssignment
from exporter.workbench import (
    WAL_DEADLINE_SECS,
    Workbench,
    first_position,
    open_journal,
    open_wal,
    open_workbench,
    registrar_of,
)
from offsets.intents import WriteAheadLog
from offsets.ranges import TopicPartition

log = get_logger(__name__)

BUSY_SECS = 60.0
"""What a step of a recovery may take beyond one round (a drain reads one)."""
THREADS_TURN_SECS = 0.0005
"""After how long a thread lets others go on. Python's own 5 ms hold up commits, that wait for the JVM very often."""


def run(
    settings: Settings,
    started: Callable[[], Any],
    until_caught_up: bool = False,
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> Service:
    """Export until stopped or caught up; the finished service, for its totals. Raises ExporterError.

    started: waits for the session (spark.starting).
    """
    give_memory_back()
    watch = open_watch(settings)
    with serving(settings, watch):
        session = started()
        aside("warm", lambda: warm(session))  # if that fails, the first round fails too and tells why
        with jvm_watched(session):
            bench = open_workbench(settings, session)
            try:
                bench.load_schemas()
                return _exported(settings, bench, until_caught_up, on_progress, watch)
            finally:
                ending.leave()
                bench.close()


def _exported(
    settings: Settings,
    bench: Workbench,
    until_caught_up: bool,
    on_progress: Callable[[Progress], None],
    watch: Watch,
) -> Service:
    """The service, run to its end."""
    jvm_secs, spark_secs = spark.start_secs(bench.session)
    log.info(Event.SPARK_STARTED, jvm_secs=round(jvm_secs, 2), spark_secs=round(spark_secs, 2))
    watch.processes = {"python": os.getpid(), "jvm": spark.pid_of(bench.session)}
    point(Fault.AFTER_SPARK)
    ending.hold()  # from here on the group waits for this task to leave
    service = build_service(settings, bench, until_caught_up, on_progress, watch=watch)
    point(Fault.AFTER_JOIN)
    with ending.stopping(service.stop, settings.stop_budget_secs):
        http = f"{settings.http_host}:{settings.http_port}" if settings.http_port else "off"
        log.info(Event.TASK_STARTED, app=settings.app, owner=watch.owner, version=__version__, http=http)
        gc.freeze()  # what is there by now stays: no collection needs to look at it
        gc.enable()
        sys.setswitchinterval(THREADS_TURN_SECS)
        with announcing(settings, bench.lake.store, watch), jvm_watched(bench.session):
            service.run()
        totals = service.totals
        log.info(Event.TASK_ENDED, records=totals.records, rows=sum(totals.committed.values()), secs=totals.secs())
    return service


def open_watch(settings: Settings) -> Watch:
    """What the task's loop tells of itself."""
    return Watch(
        settings.app, "", settings.event_time_late_max_secs, settings.give_up_secs,
        probe=settings.store.trouble,
    )  # fmt: skip


@contextmanager
def serving(settings: Settings, watch: Watch) -> Iterator[None]:
    """The health server, from before anything is started until after all has ended. Raises ConfigError."""
    if not settings.http_port:
        yield
        return
    from exporter.monitor.health import Health, HealthServer  # only who is asked waits for its imports

    server = HealthServer(settings.http_host, settings.http_port, Health(watch, settings.round_secs_max + BUSY_SECS))
    try:
        yield
    finally:
        server.close()


def build_service(
    settings: Settings,
    bench: Workbench,
    until_caught_up: bool = False,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    log_of: Callable[[float], WriteAheadLog | None] | None = None,
    watch: Watch | None = None,
) -> Service:
    """Wire one task; it joins the group here. log_of: opens the write-ahead log with a deadline of its calls."""
    watch = watch or open_watch(settings)
    wake = threads.event()
    open_log = log_of or (lambda deadline_secs: open_wal(settings, deadline_secs))
    journal = open_journal(settings, bench.routing, open_log(WAL_DEADLINE_SECS))
    assignment, lease, leads = _assignment(settings, bench.topics, wake.set, journal, open_log)
    leases = assignment.states if isinstance(assignment, LeasedAssignment) else dict
    wal_calls = dict if (wal := journal.wal) is None else lambda: wal.calls
    watch.joined(journal.owner, leases, wal_calls)
    room = StagingBudget(settings.memory_max_bytes, settings.open_files_max)
    reader = RoundReader(bench.session, reading_options(settings), room)
    footer = {"cluster_id": bench.topics.cluster_id(), "routing": journal.routing}
    if through := _through(settings, bench):
        watch.through = lambda: dict(through.said)
    committer = DeltaCommitter(
        bench.lake, journal.owner, footer, journal, lease, room.share(COMMIT_THREADS), through,
        others_commit=settings.commit_mode == "coordinated",
    )  # fmt: skip
    poison = Poison(bench.lake, lambda tp, offset: reader.alone(tp, offset, bench.routing))

    def rounds(waking: Callable[[Future[Any]], Future[Any]]) -> Rounds:
        bounds = settings.round_records_max, settings.round_bytes_max, settings.round_secs_max
        return Rounds(reader, *bounds, waking, watch.probe)

    log_check, registrar = LogCheck(bench.lake, journal), registrar_of(settings, bench.lake)
    recovery = Recovery(
        lake=bench.lake,
        topics=bench.topics,
        routing=bench.routing,
        committer=committer,
        log_check=log_check,
        drain=DrainRounds(rounds, poison, bench.schemas),
        first_position=first_position(settings),
        on_gap=settings.on_gap,
    )
    return Service(
        Parts(
            lake=bench.lake,
            topics=bench.topics,
            routing=bench.routing,
            membership=assignment,
            others=_others(settings, bench) if settings.share is None else nobody(),
            rounds=rounds,
            recovery=recovery,
            known=_known(bench, committer),
            committer=committer,
            commits=_commits(settings, bench, committer, journal.routing, watch, wake.set, leads),
            journal=journal,
            log_check=log_check,
            poison=poison,
            watch=watch,
            settings=settings,
            wake=wake,
            until_caught_up=until_caught_up,
            alive=lambda: spark.alive(bench.session),
            on_progress=on_progress,
            schemas=bench.schemas,
            register=registrar.register if registrar is not None else None,
            jobs=_jobs(settings, bench),
        )
    )


def _through(settings: Settings, bench: Workbench) -> ThroughTimes | None:
    """What commits say of it, if they do."""
    if settings.valid_through == "off":
        return None
    mode, secs = settings.valid_through, settings.valid_through_property_secs
    return ThroughTimes(bench.lake.app, mode, bench.beside, monotonic, secs)


def _commits(
    settings: Settings,
    bench: Workbench,
    committer: DeltaCommitter,
    routing: str,
    watch: Watch,
    wake: Callable[[], None],
    leads: Leadership | None,
) -> Callable[[Executor], Commits]:
    """How claims come to be committed, given the pool: by `commit_mode`."""
    if settings.commit_mode == "own":
        return lambda pool: OwnCommits(committer, pool)
    from exporter.task.coordinating import coordinated_commits  # only who needs it waits for its imports

    ends = bench.beside.ends_there
    return coordinated_commits(settings, bench.lake, committer, routing, watch, wake, ends, leads)


def _jobs(settings: Settings, bench: Workbench) -> Jobs | None:
    """Those that this task runs beside the export. Raises ConfigError."""
    if not settings.derive_inline:
        return None
    from exporter.derive.beside import Beside  # only who needs it waits for its imports
    from exporter.derive.jobs import in_order

    in_order(settings.derive)
    return Beside(settings, bench.lake) if settings.derive else None


def _known(bench: Workbench, committer: DeltaCommitter) -> KnownTables:
    lake, routing = bench.lake, bench.routing
    known = KnownTables(
        app=lake.app,
        routing=routing,
        topics=bench.topics,
        committer=committer,
        specs=lake.specs,
        schemas=Schemas(bench.schemas, bench.columns),
        planned=PlannedColumns(routing, bench.evolutions, lake.specs, lake.record_columns, bench.columns),
    )
    known.erasures = Erasures(lake).known_to
    return known


def _others(settings: Settings, bench: Workbench) -> Others:
    """The other members of the group, and what is theirs."""
    return Others(
        lambda: bench.topics.members(settings.group),
        lambda: partitions_of(bench.topics.identities()),
        lambda tps: exported(bench.lake, bench.routing, tps),
        settings.give_up_secs,
    )


Lease = Callable[[TopicPartition], int | None]


def _assignment(
    settings: Settings,
    topics: TopicReader,
    wake: Callable[[], None],
    journal: Journal,
    open_log: Callable[[float], WriteAheadLog | None],
) -> tuple[Assignment, Lease | None, Leadership | None]:
    """How the task comes to its partitions, a member of the group from here on; what tells that a lease is held; who
    leads, where that is by a lease too.
    """
    options, refresh_secs = kafka_python_options(settings), settings.topics_refresh_secs
    if settings.share is None:
        group = Membership(
            options, settings.group, topics, settings.session_timeout_ms, refresh_secs, wake, settings.stop_budget_secs
        )
        return group, None, None
    log_of_leases = open_log(settings.lease_secs / BEATS)
    leased = log_of_leases is not None
    fixed = StaticAssignment(options, settings.group, topics, settings.share, refresh_secs, leased=leased)
    if log_of_leases is None:
        return fixed, None, None
    keeper = LeaseKeeper(log_of_leases, journal.owner, settings.lease_secs, lambda tp: wake(), journal.routing)
    assignment = LeasedAssignment(fixed, keeper, not journal.required)
    coordinated = settings.commit_mode == "coordinated"
    return assignment, assignment.token, assignment.leadership(settings.control_topic) if coordinated else None
