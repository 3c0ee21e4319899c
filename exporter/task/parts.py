"""What one task is made of, handed to its loop as one value."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from typing import Any

from exporter.catalog.registrar import CatalogOutcome
from exporter.core.coordination import Commits
from exporter.core.outcome import Committer
from exporter.core.routing import Routing
from exporter.core.schemas import SchemaSource
from exporter.kafka.assignment import Assignment
from exporter.kafka.topics import TopicReader
from exporter.lake.lake import Lake
from exporter.monitor.watch import Watch
from exporter.protocol.known import KnownTables
from exporter.protocol.poison import Poison
from exporter.protocol.recover import Recovery
from exporter.rounds.rounds import Rounds
from exporter.settings.model import Settings
from exporter.task.deriving import Jobs
from exporter.task.others import Others
from exporter.task.progress import Progress
from exporter.wal.check import LogCheck
from exporter.wal.journal import Journal


@dataclass(frozen=True, kw_only=True)
class Parts:
    """others: of the group, if there is one. rounds: makes them, given what makes a future wake the loop.

    commits: how claims come to be committed, given the pool. journal: that of the committer. log_check: that of the
    recovery. poison: that of the drains. watch: told of all. wake: set to let the loop pass. alive: whether the JVM
    that runs Spark is there. schemas: None where values have no ids. register: one table in a catalog; None where there
    is none. jobs: of [derive], that run in this task.
    """

    lake: Lake
    topics: TopicReader
    routing: Routing
    membership: Assignment
    others: Others
    rounds: Callable[[Callable[[Future[Any]], Future[Any]]], Rounds]
    recovery: Recovery
    known: KnownTables
    committer: Committer
    commits: Callable[[Executor], Commits]
    journal: Journal
    log_check: LogCheck
    poison: Poison
    watch: Watch
    settings: Settings
    wake: threading.Event
    until_caught_up: bool
    alive: Callable[[], bool]
    on_progress: Callable[[Progress], None]
    schemas: SchemaSource | None = None
    register: Callable[[str], CatalogOutcome] | None = None
    jobs: Jobs | None = None
