"""Coordinated commits at random: messages lost and doubled, leaders killed, tasks that hang and wake, lost replies.

Whatever happens, every record is in the tables once; and once it is calm again, soon. A seed says what happened.
"""

from __future__ import annotations

import random

import pytest

from exporter.core.coordination import Begin, Message
from tests.support.coordinated import INTERVAL_SECS, TIMEOUT_SECS, TYPES, Task, World

SECS, FAILOVER_SECS = 150.0, 6.0


class Chaos:
    """What happens to a world, by a seed."""

    def __init__(self, seed: int) -> None:
        self.world = World(partitions=6)
        self.draws = random.Random(seed)
        self.world.topic.lost = lambda message: self.strikes(message, 0.15)
        self.world.topic.doubled = lambda message: self.strikes(message, 0.15)
        self.tasks = [self.world.start(0, 1), self.world.start(2, 3), self.world.start(4, 5)]
        self.spare: list[tuple[float, list[int]]] = []
        self.kills = 0

    def strikes(self, _: Message, part: float) -> bool:
        return self.draws.random() < part

    def goes_on(self) -> None:
        """Half a second passes, in which something may happen."""
        draws, world = self.draws, self.world
        world.produce(draws.randint(1, 5), draws.randrange(6), types=[draws.choice(TYPES)])
        task = draws.choice(world.tasks)
        match draws.choices(["nothing", "kill", "hang", "wake", "reply", "own"], [60, 2, 3, 8, 3, 2])[0]:
            case "kill" if len(world.tasks) > 1:
                self.kill(task)
            case "hang":
                task.hung = True
            case "wake":
                self.wake()
            case "reply":
                draws.choice([task.merger, task.committer]).reply_is_lost(arrived=draws.random() < 0.5)
            case "own" if not task.hung:
                self.commits_by_itself(task)
        for at, numbers in [one for one in self.spare if one[0] <= world.now]:
            self.spare.remove((at, numbers))
            world.start(*numbers)
        world.passes(0.5)

    def kill(self, task: Task) -> None:
        """Its partitions are another one's when the group has noticed."""
        self.kills += 1
        self.world.kill(task)
        self.spare.append((self.world.now + FAILOVER_SECS, [tp.partition for tp in task.owned]))

    def wake(self) -> None:
        for task in self.world.tasks:
            task.hung = False

    def commits_by_itself(self, task: Task) -> None:
        """A second task has the same partitions and commits beside it: of mixed modes, or a zombie."""
        world = self.world
        twin = world.start(*(tp.partition for tp in task.owned))
        world.kill(twin)
        name = self.draws.choice(TYPES)
        if claims := world.claims(twin, name):
            twin.committer.commit(name, claims)

    def calms_down(self) -> None:
        """Everybody is there and awake, and messages arrive."""
        self.world.topic.loses()
        self.world.topic.doubles()
        self.wake()
        for _, numbers in self.spare:
            self.world.start(*numbers)


@pytest.mark.parametrize("seed", range(12))
def test_every_record_is_there_once_whatever_happens(seed: int) -> None:
    """And all of it in the time that a task waits for an answer, and two rounds, after the last accident."""
    chaos = Chaos(seed)
    while chaos.world.now < SECS:
        chaos.goes_on()
    chaos.calms_down()
    chaos.world.until(chaos.world.is_all_there, TIMEOUT_SECS + 2 * INTERVAL_SECS, f"calm (seed {seed})")
    chaos.world.require_exact()


def test_a_version_per_table_and_round_is_about_what_it_takes() -> None:
    """Thirty rounds with rows of every task in each, a leader killed five times: at most 1.2 versions."""
    world = World(partitions=6)
    for numbers in ((0, 1), (2, 3), (4, 5)):
        world.start(*numbers)
    rounds = 30
    for number in range(rounds):
        if number % 6 == 3:
            (leader,) = [task for task in world.tasks if world.tps[0] in task.owned]
            numbers = [tp.partition for tp in leader.owned]
            world.kill(leader)
            world.produce(1)
            world.passes(2 * FAILOVER_SECS)
            world.start(*numbers)
        for _ in range(10):
            world.produce(1)
            world.passes(INTERVAL_SECS / 10)
    world.until(world.is_all_there, 2 * INTERVAL_SECS, "the end")
    world.require_exact()
    begun = len({one.round_id for one in world.topic.said if isinstance(one, Begin)})
    assert all(world.versions(name) <= 1.2 * begun for name in TYPES), ([*map(world.versions, TYPES)], begun)
