"""The machines of one task's loop, put together from its parts. Each has its own state; the loop gives each its turn.

`writers` is asked whenever it is needed: the loop replaces its writers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from exporter.core.coordination import Commits
from exporter.core.writers import Writers
from exporter.rounds.rounds import Rounds
from exporter.task.anchoring import Anchoring
from exporter.task.deriving import Deriving
from exporter.task.ends import Ends
from exporter.task.finish import Finish
from exporter.task.group_offset import GroupOffset
from exporter.task.growing import Growing
from exporter.task.limits import LoopLimits
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

Waking = Callable[[Future[Any]], Future[Any]]
"""Makes a future wake the loop when it is done."""


@dataclass(frozen=True, kw_only=True)
class Machines:
    """The machines, in the order in which they have their turns."""

    keeper: WalKeeper
    ownership: Ownership
    rounds: Rounds
    manifests: Manifests
    anchoring: Anchoring
    offers: Offers
    retention: Retention
    recovering: Recovering
    settling: Settling
    ends: Ends
    schema_ids: SchemaIds
    next_round: NextRound
    group_offset: GroupOffset
    finish: Finish
    registering: Registering
    deriving: Deriving


def machines(
    parts: Parts,
    pool: ThreadPoolExecutor,
    commits: Commits,
    *,
    drop: Callable[[Collection[TopicPartition]], Mapping[TopicPartition, int]],
    writers: Callable[[], Writers],
) -> Machines:
    """pool: where anchors are made. drop: as in Ownership."""

    def waking(future: Future[Any]) -> Future[Any]:
        future.add_done_callback(lambda _: parts.wake.set())
        return future

    rounds = parts.rounds(waking)
    ownership = Ownership(totals=parts.watch.totals, drop=drop)
    retention = Retention(topics=parts.topics, known=parts.known)
    ends = _ends(parts, retention, writers)
    keeper = WalKeeper(
        parts.lake, parts.journal, parts.log_check, lambda: (*parts.known.tables,),
        parts.limits.wal_verify_secs, waking,
    )  # fmt: skip
    widen = parts.recovery.met.widen if parts.lake.type_widening else None
    growing = Growing(lake=parts.lake, known=parts.known, widen=widen)
    offers = Offers(
        lake=parts.lake, committer=parts.committer, known=parts.known, keeper=keeper, watch=parts.watch,
        commits=commits, wake=parts.wake.set,
    )  # fmt: skip
    return Machines(
        keeper=keeper,
        ownership=ownership,
        rounds=rounds,
        manifests=_manifests(parts, rounds, ends, ownership, growing),
        anchoring=_anchoring(parts, ownership, growing, pool, waking),
        offers=offers,
        retention=retention,
        recovering=_recovering(parts, ownership, waking),
        settling=Settling(
            routing=parts.routing, known=parts.known, committer=parts.committer, poison=parts.poison
        ),
        ends=ends,
        schema_ids=_schema_ids(parts, waking),
        next_round=_next_round(parts, rounds, offers),
        group_offset=GroupOffset(commit=parts.membership.commit, wake=parts.wake.set),
        finish=_finish(parts, ends, ownership),
        registering=Registering(register=parts.register, watch=parts.watch),
        deriving=Deriving(jobs=parts.jobs, watch=parts.watch, waking=waking),
    )


def _ends(parts: Parts, retention: Retention, writers: Callable[[], Writers]) -> Ends:
    return Ends(
        topics=parts.topics,
        watch=parts.watch,
        others=parts.others.partitions,
        check=lambda bounds: retention.check(bounds, writers()),
        look_secs=look_secs(parts.limits),
        with_an_end=parts.until_caught_up,
    )


def _manifests(parts: Parts, rounds: Rounds, ends: Ends, ownership: Ownership, growing: Growing) -> Manifests:
    return Manifests(
        lake=parts.lake,
        rounds=rounds,
        ends=ends,
        known=parts.known,
        growing=growing,
        watch=parts.watch,
        new_types_max=parts.limits.new_types_max,
        read_again=ownership.read_again,
    )


def _anchoring(
    parts: Parts, ownership: Ownership, growing: Growing, pool: ThreadPoolExecutor, waking: Waking
) -> Anchoring:
    return Anchoring(
        app=parts.lake.app,
        anchor=lambda wanted: parts.recovery.met.anchor(wanted, growing.to_make),
        known=parts.known,
        committer=parts.committer,
        read_again=ownership.read_again,
        pool=pool,
        waking=waking,
    )


def _recovering(parts: Parts, ownership: Ownership, waking: Waking) -> Recovering:
    return Recovering(
        recovery=parts.recovery,
        known=parts.known,
        ownership=ownership,
        watch=parts.watch,
        alive=parts.alive,
        waking=waking,
    )


def _schema_ids(parts: Parts, waking: Waking) -> SchemaIds:
    source = parts.schemas if parts.routing.has_ids else None
    return SchemaIds(source=source, registry=parts.routing.registry, watch=parts.watch, waking=waking)


def _next_round(parts: Parts, rounds: Rounds, offers: Offers) -> NextRound:
    return NextRound(
        lake=parts.lake,
        routing=parts.routing,
        limits=parts.limits,
        known=parts.known,
        committer=parts.committer,
        rounds=rounds,
        offers=offers,
        poison=parts.poison,
    )


def _finish(parts: Parts, ends: Ends, ownership: Ownership) -> Finish:
    return Finish(
        with_an_end=parts.until_caught_up,
        ends=ends,
        ownership=ownership,
        membership=parts.membership,
        others=parts.others,
        watch=parts.watch,
        poll_secs=parts.limits.poll_secs,
    )


def look_secs(limits: LoopLimits) -> float:
    """Seconds between two looks at the ends. Each may begin a small round, for nothing where commits are rare."""
    return min(limits.poll_secs, limits.roll.age_max_secs / LOOKS_PER_ROLL)
