"""One task, put together: settings in, a running Service out, signals handled."""

from __future__ import annotations

import gc
import os
import socket
import sys
import threading
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from exporter import __version__, spark
from exporter.again import careful_until
from exporter.aside import aside
from exporter.columns import check_columns
from exporter.commit import Committer
from exporter.condemn import Poison
from exporter.decode import Decoder
from exporter.drain import DrainRounds
from exporter.ending import ending
from exporter.errors import ConfigError, ExporterError, JvmEnded
from exporter.faults import Fault, point
from exporter.files import Room
from exporter.group import Assignment, Membership
from exporter.journal import Journal
from exporter.kafka_options import kafka_python_options, spark_kafka_options
from exporter.lease import BEATS, LeaseKeeper
from exporter.leased import LeasedAssignment
from exporter.log import get_logger
from exporter.others import Others, exported
from exporter.outages import storage_trouble
from exporter.read import RoundReader, warm
from exporter.recover import Recovery
from exporter.roll import RollLimits
from exporter.rounds import Rounds
from exporter.routing import Routing
from exporter.schema import arrow_schema
from exporter.service import COMMIT_THREADS, Limits, Progress, Service
from exporter.settings import Settings, routing
from exporter.static import StaticAssignment
from exporter.tables import Lake, TableUnreadable, TableUnwritable
from exporter.topic import TopicReader, partitions_of
from exporter.trouble import Trouble
from exporter.watch import Watch
from offsets.ranges import TopicPartition
from offsets.wal import WalUnreachable, WriteAheadLog

if TYPE_CHECKING:
    from exporter.maintain import Step

log = get_logger(__name__)

BUSY_SECS = 60.0
"""What a passing of the loop that recovers partitions may take beyond one round (a drain reads one)."""
THREADS_TURN_SECS = 0.0005
"""After how long a thread lets others go on. Python's own 5 ms hold up commits, that wait for the JVM very often."""
WAL_DEADLINE_SECS = 10.0
"""How long one call to the write-ahead log is tried before the log counts as out of reach."""


@dataclass(frozen=True)
class Workbench:
    """What every verb that touches the lake needs: a session, the lake, the topics, the routing configuration."""

    session: Any
    lake: Lake
    topics: TopicReader
    routing: Routing

    def close(self) -> None:
        """Ends the session and the connection; the JVM goes with the process."""
        self.topics.close()
        spark.stop(self.session)


def parse_schemas(session: Any, declared: dict[str, str]) -> dict[str, str]:
    """Event type -> Spark schema JSON, parsed once by Spark. Raises ConfigError for all DDL that cannot be used."""
    schemas: dict[str, str] = {}
    broken: list[ConfigError] = []
    for name, ddl in declared.items():
        try:
            schemas[name] = _parsed(name, ddl)
            arrow_schema(schemas[name], name)
            check_columns(schemas[name], name)
        except ConfigError as error:
            broken.append(error)
    if broken:
        raise ConfigError.of(broken, "event types have columns that cannot be used")
    return schemas


def _parsed(name: str, ddl: str) -> str:
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

    try:
        return str(StructType.fromDDL(ddl).json())
    except (PySparkException, ValueError, TypeError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ConfigError(
            f"types.{name}: the columns are no Spark DDL: {reason}", "write for example: id BIGINT, name STRING"
        ) from error


def open_workbench(settings: Settings, session: Any = None) -> Workbench:
    """Reach the broker first (a wrong address fails fast), then start Spark and parse the schemas.

    session: the one to be used; else one for a verb that ends soon is started.
    """
    topics = TopicReader(kafka_python_options(settings), settings.selection, settings.isolation)
    topics.require()
    session = session or _short_lived(settings)
    configuration = checked_routing(settings, parse_schemas(session, dict(settings.declared)))
    return Workbench(session, Lake(session, settings.root, settings.app, settings.sync), topics, configuration)


def open_lake(settings: Settings) -> Lake:
    """The lake alone, on a Spark session of its own; no broker is asked."""
    return Lake(_short_lived(settings), settings.root, settings.app, settings.sync)


def _short_lived(settings: Settings) -> Any:
    return spark.start(settings.spark_master, settings.driver_memory, f"exporter {settings.app}", short_lived=True)


def maintain(
    settings: Settings, only: Collection[str], apply: bool, scheduled: bool, told: Callable[[Step], None]
) -> list[Step]:
    """Maintain the tables once, or on the schedule until stopped; the steps of the last passing."""
    from exporter.maintain import Limits as Maintained
    from exporter.maintain import Maintenance, on_schedule

    steps: list[Step] = []
    asked: list[bool] = []
    limits = Maintained(
        settings.event_time_late_max_secs, settings.maintain_file_bytes_max, settings.stage_age_max_secs
    )
    lake = open_lake(settings)

    def once() -> None:
        steps.clear()
        work = Maintenance(lake, limits, lambda: bool(asked))
        for step in work.steps(work.tables(only), apply):
            steps.append(step)
            told(step)

    try:
        with _jvm_watched(lake.session), ending.stopping(lambda: asked.append(True)):
            if scheduled:
                on_schedule(settings.maintain_cron, lambda: bool(asked), once)
            else:
                once()
    finally:
        ending.leave()
        spark.stop(lake.session)
    return steps


def checked_routing(settings: Settings, schemas: dict[str, str]) -> Routing:
    """The routing configuration, tried out once here, so that the executors never meet one that cannot work."""
    configuration = routing(settings, schemas)
    for name, schema in schemas.items():
        Decoder(name, arrow_schema(schema, name), configuration)
    return configuration


def run(
    settings: Settings,
    started: Callable[[], Any],
    until_caught_up: bool = False,
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> Service:
    """Export until stopped or caught up; the finished service, for its totals. Raises ExporterError.

    started: waits for the session (spark.starting).
    """
    watch = open_watch(settings)
    with serving(settings, watch):
        session = started()
        aside("warm", lambda: warm(session))  # if that fails, the first round fails too and tells why
        with _jvm_watched(session):
            bench = open_workbench(settings, session)
            try:
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
    log.info("spark_started", jvm_secs=round(jvm_secs, 2), spark_secs=round(spark_secs, 2))
    point(Fault.AFTER_SPARK)
    ending.hold()  # from here on the group waits for this task to leave
    service = build_service(settings, bench, until_caught_up, on_progress, watch=watch)
    point(Fault.AFTER_JOIN)
    with ending.stopping(service.stop, settings.stop_budget_secs):
        http = f"{settings.http_host}:{settings.http_port}" if settings.http_port else "off"
        log.info("task_started", app=settings.app, owner=watch.owner, version=__version__, http=http)
        gc.freeze()  # what is there by now stays: no collection needs to look at it
        gc.enable()
        sys.setswitchinterval(THREADS_TURN_SECS)
        with _jvm_watched(bench.session, service.unread):
            service.run()
        totals = service.totals
        log.info("task_ended", records=totals.records, rows=sum(totals.committed.values()), secs=totals.secs())
    return service


def open_watch(settings: Settings) -> Watch:
    """What the task's loop tells of itself."""
    return Watch(
        settings.app, "", settings.event_time_late_max_secs, settings.give_up_secs,
        probe=lambda: storage_trouble(settings.root),
    )  # fmt: skip


@contextmanager
def serving(settings: Settings, watch: Watch) -> Iterator[None]:
    """The health server, from before anything is started until after all has ended. Raises ConfigError."""
    if not settings.http_port:
        yield
        return
    from exporter.health import Health, HealthServer  # only who is asked waits for its imports

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
    wake = threading.Event()
    open_log = log_of or (lambda deadline_secs: open_wal(settings, deadline_secs))
    journal = open_journal(settings, bench.routing, open_log(WAL_DEADLINE_SECS))
    watch.owner = journal.owner
    assignment, lease = _assignment(settings, bench.topics, wake.set, journal, open_log)
    if isinstance(assignment, LeasedAssignment):
        watch.leases = assignment.states
    if (wal := journal.wal) is not None:
        watch.wal_calls = lambda: wal.calls
    options = {**spark_kafka_options(settings), "kafka.group.id": settings.group}
    room = Room(settings.memory_max_bytes, settings.open_files_max)
    reader = RoundReader(bench.session, options, room, kafka_python_options(settings))
    footer = {"cluster_id": bench.topics.cluster_id(), "routing": journal.routing}
    committer = Committer(bench.lake, journal.owner, footer, journal, lease, room.share(COMMIT_THREADS))
    poison = Poison(bench.lake)

    def rounds(waking: Callable[[Future[Any]], Future[Any]]) -> Rounds:
        bounds = settings.round_records_max, settings.round_bytes_max, settings.round_secs_max
        return Rounds(reader, *bounds, waking, watch.probe, Trouble(careful_until=careful_until()))

    drain = DrainRounds(rounds, poison)
    recovery = Recovery(
        bench.lake,
        bench.topics,
        bench.routing,
        committer,
        drain,
        first_position=first_position(settings),
        on_gap=settings.on_gap,
        journal=journal,
    )
    return Service(
        bench.lake,
        bench.topics,
        assignment,
        rounds,
        recovery,
        committer,
        bench.routing,
        _limits(settings),
        wake,
        until_caught_up,
        on_progress,
        lambda: spark.alive(bench.session),
        journal,
        settings.wal_verify_secs,
        watch,
        poison,
        _others(settings, bench) if settings.share is None else None,
    )


def _others(settings: Settings, bench: Workbench) -> Others:
    """The other members of the group, and what is theirs."""
    return Others(
        lambda: bench.topics.members(settings.group),
        lambda: partitions_of(bench.topics.identities()),
        lambda tps: exported(bench.lake, bench.routing, tps),
        settings.give_up_secs,
    )


def open_wal(settings: Settings, deadline_secs: float = WAL_DEADLINE_SECS) -> WriteAheadLog | None:
    """The write-ahead log that the settings name; None if there is none. Nothing is asked yet. Raises ConfigError."""
    if not settings.wal_table or settings.wal_mode == "off":
        return None
    try:
        return WriteAheadLog.connect(
            settings.wal_table, settings.app, settings.wal_endpoint, settings.wal_keep_days, deadline_secs
        )
    except WalUnreachable as error:
        raise ConfigError(error.message, "set AWS_REGION, or a region in ~/.aws/config, and the credentials") from error


def open_journal(settings: Settings, routing: Routing, wal: WriteAheadLog | None = None) -> Journal:
    """This process's side of the log, under a name of its own. wal: instead of the one that the settings name."""
    owner = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
    return Journal(wal or open_wal(settings), settings.wal_mode == "required", owner, routing.fingerprint())


Lease = Callable[[TopicPartition], int | None]


def _assignment(
    settings: Settings,
    topics: TopicReader,
    wake: Callable[[], None],
    journal: Journal,
    open_log: Callable[[float], WriteAheadLog | None],
) -> tuple[Assignment, Lease | None]:
    """How the task comes to its partitions, a member of the group from here on; what tells that a lease is held."""
    options, refresh_secs = kafka_python_options(settings), settings.topics_refresh_secs
    if settings.share is None:
        group = Membership(
            options, settings.group, topics, settings.session_timeout_ms, refresh_secs, wake, settings.stop_budget_secs
        )
        return group, None
    log_of_leases = open_log(settings.lease_secs / BEATS)
    leased = log_of_leases is not None
    fixed = StaticAssignment(options, settings.group, topics, settings.share, refresh_secs, leased=leased)
    if log_of_leases is None:
        return fixed, None
    keeper = LeaseKeeper(log_of_leases, journal.owner, settings.lease_secs, lambda tp: wake(), journal.routing)
    assignment = LeasedAssignment(fixed, keeper, not journal.required)
    return assignment, assignment.token


def first_position(settings: Settings) -> str | int:
    """earliest, latest, or milliseconds since 1970 UTC."""
    at = settings.first_position_ms
    return str(settings.first_position) if at is None else at


def _limits(settings: Settings) -> Limits:
    return Limits(
        roll=RollLimits(
            settings.roll_records_max, settings.roll_bytes_max, settings.roll_age_max_secs, settings.staged_bytes_max
        ),
        heartbeat_secs=settings.heartbeat_secs,
        stage_age_max_secs=settings.stage_age_max_secs,
        stop_budget_secs=settings.stop_budget_secs,
        poll_secs=settings.poll_secs,
        new_types_max=settings.new_types_max,
        carried_bytes_max=settings.carried_bytes_max,
    )


@contextmanager
def _jvm_watched(session: Any, unread: Callable[[], Mapping[TopicPartition, int]] = dict) -> Iterator[None]:
    """Whatever fails in here because the session's JVM has ended is raised as JvmEnded. unread: what it has to say."""
    try:
        yield
    except Exception as error:
        by_jvm = isinstance(error, TableUnreadable | TableUnwritable) or not isinstance(error, ExporterError)
        if not isinstance(error, JvmEnded) and not (by_jvm and spark.has_ended(session, error)):
            raise
        told = error.unread if isinstance(error, JvmEnded) else {}
        raise JvmEnded(told or (unread() if spark.ran_out_of_memory(session) else {})) from error
