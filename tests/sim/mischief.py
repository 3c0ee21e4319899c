"""What happens to tasks: they are killed, at any moment or at a fault point, stand still, are cut off, get SIGTERM."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.sim.network import REGISTRY, SERVICES

if TYPE_CHECKING:
    from tests.sim.world import World

POINTS = (
    "after_join", "before_positions", "after_wal_read", "after_anchor", "after_positions", "after_plan",
    "before_staged_file", "after_read", "after_integrate", "before_wal_started", "after_wal_started",
    "before_delta_commit", "after_delta_commit", "before_offer", "after_offer", "before_begin", "after_begin",
    "before_merged_commit", "after_merged_commit", "before_outcome", "after_outcome", "before_fall_back",
    "before_wal_completed", "after_wal_completed", "before_group_offset", "after_group_offset", "in_lease_renewal",
)  # fmt: skip
"""Where the code under test passes a fault point in any such world."""
RARE = 5
"""So many times as often a kill waits at a point that is passed in few worlds."""


class Mischief:
    """One world's."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._armed: list[tuple[str, int]] = []

    def ends(self) -> None:
        """No kill waits for a point any more."""
        self._armed.clear()

    def passes(self, fault: Any, what: str) -> None:
        """A fault point is passed: a kill may be waiting for this one."""
        world = self._world
        world.seen.points[fault.value] += 1
        if not self._armed or world.kernel.current is None:
            return
        name = fault.value
        due = (name, 1) in self._armed
        self._armed = [(one, left - (one == name)) for one, left in self._armed if (one, left) != (name, 1)]
        if due:
            process = world.kernel.current.process
            world.say(f"killed at {name}")
            world.seen.kills[name] += 1
            world.kernel.kill(process)
            world.kernel.here()

    def happens(self) -> None:
        """Something happens to one of the tasks, and is planned again."""
        world, features = self._world, self._world.features
        if world.quiet:
            return
        rng, kernel = world.kernel.rng, world.kernel
        slot = rng.choice(world.slots)
        kernel.after(rng.expovariate(1 / features.kill_every_secs), self.happens)
        if slot.process is None or not slot.process.alive:
            return
        drawn = rng.random()
        if world.calm:  # nothing that ends one
            drawn = 0.7 + 0.2 * drawn
        if drawn < 0.35:
            self._armed.append((rng.choice((*POINTS, *features.points * RARE)), rng.choice((1, 1, 1, 2, 5))))
            del self._armed[: -features.armed]
        elif drawn < 0.7 or not (world.calm or features.sleeps or features.cuts or features.sigterms):
            world.say(f"{slot.process} is killed")
            world.seen.kills["at any moment"] += 1
            kernel.kill(slot.process)
        elif drawn < 0.8 and features.sleeps:
            secs = rng.choice((0.5, 5.0, 12.0, 40.0)) * (0.5 + rng.random())
            world.say(f"{slot.process} sleeps for {secs:.1f} s")
            world.seen.faults["sleeps"] += 1
            kernel.pause(slot.process, secs)
        elif drawn < 0.9 and features.cuts:
            services = (*SERVICES, REGISTRY) if features.registry else SERVICES
            service, who = rng.choice(services), rng.choice((slot.process, None))
            secs = rng.choice((2.0, 10.0, 30.0)) * (0.5 + rng.random())
            world.say(f"{who or 'everybody'} reaches the {service} no more for {secs:.1f} s")
            world.seen.faults[f"cut off from {service}"] += 1
            world.network.cut_off(who, service, secs)
        elif features.sigterms and slot.service is not None and not world.calm:
            world.say(f"{slot.process} gets SIGTERM")
            world.seen.faults["SIGTERM"] += 1
            slot.service.stop()
