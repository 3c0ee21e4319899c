"""Many worlds, one after the other: what they met, which broke, and how little of one is enough to break it."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from dataclasses import Field, dataclass, field, fields, replace
from itertools import combinations
from typing import Any

from tests.sim.features import CHANGES, Features
from tests.sim.mischief import POINTS
from tests.sim.world import Seen, World

SHOWN = 12
"""Pairs of features that are named."""
WORLD_SECS = 300.0
"""Simulated seconds of faults in each world."""


def in_one_order(module: str) -> None:
    """Run a module anew, unless sets of texts are gone through in the same order in all processes already."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        again = [sys.executable, "-m", module, *sys.argv[1:]]
        os.execve(sys.executable, again, {**os.environ, "PYTHONHASHSEED": "0"})


@dataclass
class Runs:
    """Sums over all worlds so far. broken: seed -> what is wrong there."""

    worlds: int = 0
    secs: float = 0.0
    wall_secs: float = 0.0
    commits: int = 0
    records: int = 0
    seen: Seen = field(default_factory=Seen)
    features: Counter[str] = field(default_factory=Counter)
    pairs: set[frozenset[str]] = field(default_factory=set)
    broken: dict[int, str] = field(default_factory=dict)

    def go(self, first: int, seconds: float) -> None:
        """Worlds of seeds from `first` on, as many as begin within so many seconds."""
        began = time.monotonic()
        seed = first
        while time.monotonic() - began < seconds:
            self.one(seed)
            seed += 1
        self.wall_secs += time.monotonic() - began

    def one(self, seed: int) -> None:
        """A world of this seed."""
        world = World(seed)
        try:
            world.run(WORLD_SECS)
        except Exception as error:  # noqa: BLE001 - whatever it is, the seed is told
            self.broken[seed] = f"{type(error).__name__}: {error}"
        self.worlds += 1
        self.secs += world.kernel.now
        self.commits += world.oracle.commits
        self.records += sum(len(of) for some in world.oracle.topics.belongs.values() for of in some.values())
        for name in vars(self.seen):
            getattr(self.seen, name).update(getattr(world.seen, name))
        found = used(world.features)
        self.features.update(found)
        self.pairs |= {frozenset(pair) for pair in combinations(found, 2)}

    def _covered(self) -> str:
        """What such worlds can meet and these have not: fault points, and pairs of features."""
        points = {*POINTS, *Features(retention=True, restored=True, change=CHANGES[0]).points}
        names = [*self.features]
        pairs = {frozenset(pair) for pair in combinations(names, 2) if not _excluded(*pair)}
        never, unkilled = sorted(points - self.seen.points.keys()), sorted(points - self.seen.kills.keys())
        apart = sorted(" + ".join(sorted(pair)) for pair in pairs - self.pairs)
        shown = f": {'; '.join(apart[:SHOWN])}{' ...' if len(apart) > SHOWN else ''}" if apart else ""
        return (
            f"covered: {len(points) - len(never)} of {len(points)} fault points passed"
            f"{f', never {chr(44).join(never)}' if never else ''}; a kill at {len(points) - len(unkilled)}, "
            f"none at {','.join(unkilled) or 'no other'}; {len(pairs & self.pairs)} of {len(pairs)} pairs of features, "
            f"not together{shown}"
        )

    def told(self) -> str:
        """What has come of it, as text."""
        kills = sum(self.seen.kills.values())
        lines = [
            f"{self.worlds} worlds, {self.secs / 3600:.1f} simulated hours in {self.wall_secs:.0f} s: {kills} kills, "
            f"{self.commits} commits, {self.records} records ({self.secs / max(1.0, self.wall_secs) / 60:.2f} "
            "simulated hours a minute)",
        ]
        for name in ("kills", "exits", "faults", "points"):
            found = getattr(self.seen, name).most_common()
            lines.append(f"{name}: " + ", ".join(f"{what} {count}" for what, count in found))
        lines.append("features: " + ", ".join(f"{what} {count}" for what, count in self.features.most_common()))
        lines.append(self._covered())
        lines += [f"BROKEN seed {seed}: {why}" for seed, why in sorted(self.broken.items())]
        return "\n".join(lines)


def _excluded(one: str, other: str) -> bool:
    """Whether no world has both: two values of one feature, or what features.py keeps apart."""
    names = {one.partition("=")[0], other.partition("=")[0]}
    return len(names) == 1 or ("restored" in names and bool(names & {"change", "retention"}))


def used(features: Features) -> list[str]:
    """The names of what a world has, beyond a plain one."""
    told = {name: value for name, value in vars(features).items() if isinstance(value, bool | str)}
    found = [f"{name}={value}" for name, value in told.items() if value not in (False, "", "off")]
    found += ["new_types"] if features.new_types else []
    return [*found, *(["tasks=1"] if features.tasks == 1 else [])]


def breaks(seed: int, features: Features, secs: float = WORLD_SECS) -> str:
    """What is wrong in a world; empty if nothing is."""
    world = World(seed, features)
    try:
        world.run(secs)
    except Exception as error:  # noqa: BLE001 - that is the question
        return f"{type(error).__name__}: {error}"
    return ""


def shrunk(seed: int, features: Features) -> Features | None:
    """As plain a world as still breaks with this seed; None if it does not break at all."""
    if not breaks(seed, features):
        return None
    plainer: list[dict[str, Any]] = [{one.name: off(one)} for one in fields(Features)]
    plainer += [{"tasks": 1}, {"tasks": 2}, {"partitions": 1}, {"partitions": 2}, {"records_per_sec": 0.5}]
    for change in plainer:
        less = replace(features, **change)
        if less != features and breaks(seed, less):
            features = less
    return features


def off(one: Field[Any]) -> Any:
    """What a feature is in a world without it."""
    return False if isinstance(one.default, bool) else one.default


def timeline(seed: int, features: Features) -> str:
    """All that happens in a world of this seed, a line each."""
    lines: list[str] = []
    world = World(seed, features, lines.append)
    lines.append(f"seed {seed}: {world.features}")
    try:
        world.run(WORLD_SECS)
        lines.append("nothing is wrong")
    except Exception as error:  # noqa: BLE001 - the last line of it
        lines.append(f"{type(error).__name__}: {error}")
    return "\n".join(lines)
