"""What can happen: every scenario by its name. Each begins on an empty lake and ends with an audit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from exporter.drill import (
    coordinated,
    crowd,
    derived,
    kills,
    lifetimes,
    mishaps,
    outages,
    registry,
    soak,
    store,
    streams,
)  # fmt: skip
from exporter.drill.run import Run

COMPACTED = {"cleanup.policy": "compact", "segment.ms": "2000", "min.cleanable.dirty.ratio": "0.01"}
ANY_TIME = {"message.timestamp.after.max.ms": str(2**63 - 1)}
"""Newer brokers refuse timestamps that lie an hour ahead; a topic may allow them."""


@dataclass(frozen=True)
class Scenario:
    """name: as it is asked for. needs: broker, dynamodb, disk or store, of its own. config: of the topic.

    partitions: of the topic. alone: it is not one of `all`: it lasts for --minutes, or needs the machine for itself.
    """

    name: str
    play: Callable[[Run], None]
    needs: str = ""
    config: Mapping[str, str] | None = None
    partitions: int = 2
    alone: bool = False

    @property
    def what(self) -> str:
        return (self.play.__doc__ or "").strip().partition("\n")[0]


_ALL = (
    Scenario("fault-points", kills.fault_points),
    Scenario("fault-points-beside", kills.fault_points_beside),
    Scenario("random-kills", kills.random_kills),
    Scenario("routed", kills.routed),
    Scenario("kills-in-recovery", kills.kills_in_recovery),
    Scenario("zombie-holds-more", kills.zombie_holds_more),
    Scenario("zombie-holds-less", kills.zombie_holds_less),
    Scenario("zombie-steps", kills.zombie_steps),
    Scenario("rebalance-storm", kills.rebalance_storm),
    Scenario("sigterm-storm", kills.sigterm_storm),
    Scenario("broker-killed", outages.broker_killed, needs="broker"),
    Scenario("dynamodb-lost", outages.dynamodb_lost, needs="dynamodb"),
    Scenario("storage-fails", outages.storage_fails),
    Scenario("storage-slow", outages.storage_slow),
    Scenario("storage-full", outages.storage_full, needs="disk"),
    Scenario("one-type-fails", outages.one_type_fails),
    Scenario("one-type-unstaged", outages.one_type_cannot_be_staged),
    Scenario("clock-steps", outages.clock_steps),
    Scenario("time-zones", outages.time_zones),
    Scenario("restored", mishaps.restored),
    Scenario("dropped", mishaps.dropped),
    Scenario("file-deleted", mishaps.file_deleted),
    Scenario("optimized", mishaps.optimized),
    Scenario("power-cut", mishaps.power_cut, needs="disk"),
    Scenario("retention", mishaps.retention),
    Scenario("replayed", mishaps.replayed),
    Scenario("poison", streams.poison),
    Scenario("out-of-range", streams.out_of_range),
    Scenario("kafka-timestamps", streams.kafka_timestamps, config=ANY_TIME),
    Scenario("transactions", streams.transactions_and_compaction, config=COMPACTED),
    Scenario("new-types", streams.new_types),
    Scenario("registry", registry.registry),
    Scenario("derived", derived.derived),
    Scenario("derived-rewound", derived.derived_rewound),
    Scenario("lifetimes", lifetimes.lifetimes),
    Scenario("coordinated", coordinated.coordinated),
    Scenario("coordinated-lossy", coordinated.lossy),
    Scenario("coordinated-topic", coordinated.topic_deleted),
    Scenario("coordinated-sleepers", coordinated.sleepers),
    Scenario("coordinated-mixed", coordinated.mixed_modes, partitions=3),
    Scenario("coordinated-crowd", crowd.crowd, partitions=crowd.PARTITIONS, alone=True),
    Scenario("store-throttles", store.throttles, needs="store"),
    Scenario("store-slow", store.slow, needs="store"),
    Scenario("store-down", store.down, needs="store"),
    Scenario("store-gives-up", store.gives_up, needs="store"),
    Scenario("store-loses-replies", store.loses_replies, needs="store"),
    Scenario("store-fails-one", store.fails_one, needs="store"),
    Scenario("soak", soak.soak, config=soak.CONFIG, partitions=soak.PARTITIONS, alone=True),
)
SCENARIOS = {scenario.name: scenario for scenario in _ALL}
