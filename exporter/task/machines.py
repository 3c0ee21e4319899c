"""The machines of one task's loop, put together from its parts. Each has its own state; the loop gives each its turn.

`writers` is asked whenever it is needed: the loop replaces its writers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Executor, Future
from typing import Any

from exporter.core.coordination import Commits
from exporter.core.writers import Writers
from exporter.settings.model import Settings
from exporter.task.anchoring import Anchoring
from exporter.task.deriving import Deriving
from exporter.task.ends import Ends
from exporter.task.finish import Finish
from exporter.task.group_offset import GroupOffset
from exporter.task.growing import Growing
from exporter.task.manifests import Manifests
from exporter.task.next_round import NextRound
from exporter.task.offers import Offers
from exporter.task.ownership import Ownership
from exporter.task.parts import Parts
from exporter.task.recovering import Recovering
from exporter.task.registering import Registering
from exporter.task.retention import Retention
from exporter.task.schema_ids import SchemaIds
from exporter.task.settling import Settling
from exporter.wal.keeper import WalKeeper
from offsets.ranges import TopicPartition

LOOKS_PER_ROLL = 8
"""Looks at the ends within roll_age_max_secs, at least: records wait for a look before they wait for their roll."""


class Machines:
    """The machines of a loop, each with what it needs of the others."""

    def __init__(
        self,
        parts: Parts,
        pool: Executor,
        commits: Commits,
        *,
        drop: Callable[[Collection[TopicPartition]], Mapping[TopicPartition, int]],
        writers: Callable[[], Writers],
    ) -> None:
        """pool: where anchors are made. drop: as in Ownership."""
        lake, known, watch, routing, settings = parts.lake, parts.known, parts.watch, parts.routing, parts.settings
        met, committer, topics, poison = parts.recovery.met, parts.committer, parts.topics, parts.poison
        wake, others, membership = parts.wake.set, parts.others, parts.membership

        def waking(future: Future[Any]) -> Future[Any]:
            future.add_done_callback(lambda _: wake())
            return future

        self.rounds = rounds = parts.rounds(waking)
        self.ownership = ownership = Ownership(totals=watch.totals, drop=drop)
        self.retention = retention = Retention(topics=topics, known=known)
        self.keeper = WalKeeper(
            lake, parts.journal, parts.log_check, lambda: (*known.tables,), settings.wal_verify_secs, waking
        )
        self.ends = Ends(
            topics=topics, watch=watch, others=others.partitions, check=lambda of: retention.check(of, writers()),
            look_secs=look_secs(settings), with_an_end=parts.until_caught_up,
        )  # fmt: skip
        growing = Growing(lake=lake, known=known, widen=met.widen if lake.type_widening else None)
        self.offers = Offers(
            lake=lake, committer=committer, known=known, keeper=self.keeper, watch=watch, commits=commits, wake=wake
        )
        self.manifests = Manifests(
            lake=lake, rounds=rounds, ends=self.ends, known=known, growing=growing, watch=watch,
            settings=settings, read_again=ownership.read_again,
        )  # fmt: skip
        self.anchoring = Anchoring(
            app=lake.app, anchor=lambda wanted: met.anchor(wanted, growing.to_make), known=known, committer=committer,
            read_again=ownership.read_again, pool=pool, waking=waking,
        )  # fmt: skip
        self.recovering = Recovering(
            recovery=parts.recovery, known=known, ownership=ownership, watch=watch, alive=parts.alive, waking=waking
        )
        self.settling = Settling(routing=routing, known=known, committer=committer, poison=poison)
        ids = parts.schemas if routing.has_ids else None
        self.schema_ids = SchemaIds(source=ids, registry=routing.registry, watch=watch, waking=waking)
        self.next_round = NextRound(
            lake=lake, routing=routing, settings=settings, known=known, committer=committer, rounds=rounds,
            offers=self.offers, poison=poison,
        )  # fmt: skip
        self.group_offset = GroupOffset(commit=membership.commit, wake=wake)
        self.finish = Finish(
            with_an_end=parts.until_caught_up, ends=self.ends, ownership=ownership, membership=membership,
            others=others, watch=watch, poll_secs=settings.poll_secs,
        )  # fmt: skip
        self.registering = Registering(register=parts.register, watch=watch)
        self.deriving = Deriving(jobs=parts.jobs, watch=watch, waking=waking)


def look_secs(settings: Settings) -> float:
    """Seconds between two looks at the ends. Each may begin a small round, for nothing where commits are rare."""
    return min(settings.poll_secs, settings.roll.age_max_secs / LOOKS_PER_ROLL)
