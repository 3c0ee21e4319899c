"""Many worlds, one after the other: what they met, which broke, and how little of one is enough to break it."""

from __future__ import annotations

import gc
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import Field, dataclass, field, fields, replace
from itertools import combinations
from typing import Any

from tests.sim.delta import Unsimulated
from tests.sim.features import CHANGES, Features
from tests.sim.lines import Lines, ranges
from tests.sim.mischief import POINTS
from tests.sim.slots import Seen
from tests.sim.world import World

SHOWN = 12
"""Pairs of features that are named."""
WATCHED = 20
"""Of so many worlds one says which lines of the commit path it meets."""


def in_one_order(module: str) -> None:
    """Run a module anew, unless sets of texts are gone through in the same order in all processes already."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        again = [sys.executable, "-m", module, *sys.argv[1:]]
        os.execve(sys.executable, again, {**os.environ, "PYTHONHASHSEED": "0"})


@dataclass
class Runs:
    """Sums over all worlds so far. broken: seed -> what is wrong there. core_secs: what they took of a core.

    unmet: file of the commit path -> lines that no world has met that was watched; lines: how many each has.
    """

    worlds: int = 0
    secs: float = 0.0
    core_secs: float = 0.0
    commits: int = 0
    records: int = 0
    seen: Seen = field(default_factory=Seen)
    features: Counter[str] = field(default_factory=Counter)
    pairs: set[frozenset[str]] = field(default_factory=set)
    broken: dict[int, str] = field(default_factory=dict)
    unmet: dict[str, set[int]] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)

    def go(self, first: int, seconds: float, step: int = 1) -> None:
        """Worlds of each step-th seed from `first` on, as many as begin within so many seconds."""
        spare_collections()
        lines = Lines()
        began, core = time.monotonic(), time.process_time()
        seed = first
        while time.monotonic() - began < seconds:
            self.one(seed, lines if self.worlds % WATCHED == 0 else None)
            seed += step
        self.core_secs += time.process_time() - core
        self.unmet, self.lines = lines.left, lines.of

    def add(self, other: Runs) -> None:
        """Take in those of another process."""
        for name in ("worlds", "secs", "core_secs", "commits", "records"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self._saw(other.seen)
        self.features.update(other.features)
        self.pairs |= other.pairs
        self.broken |= other.broken
        self.unmet = {file: left & self.unmet.get(file, left) for file, left in other.unmet.items()}
        self.lines = other.lines

    def _saw(self, seen: Seen) -> None:
        for name in vars(self.seen):
            getattr(self.seen, name).update(getattr(seen, name))

    def one(self, seed: int, lines: Lines | None = None) -> None:
        """A world of this seed. lines: watches it."""
        world = World(seed, Features.fresh(seed))
        try:
            with nullcontext() if lines is None else lines.watched(world.kernel):
                world.run()
        except Unsimulated as needed:
            world.seen.faults[f"not simulated: {needed}"] += 1
        except Exception as error:  # noqa: BLE001 - whatever it is, the seed is told
            self.broken[seed] = f"{type(error).__name__}: {error}"
        self.worlds += 1
        self.secs += world.kernel.now
        self.commits += world.oracle.commits
        self.records += sum(len(of) for some in world.oracle.topics.belongs.values() for of in some.values())
        self._saw(world.seen)
        found = used(world.features)
        self.features.update(found)
        self.pairs |= {frozenset(pair) for pair in combinations(found, 2)}

    def _covered(self) -> Iterator[tuple[str, int, int, str]]:
        """What such worlds can meet: how much of it these have met, of how much, and what they have not."""
        points = {*POINTS, *Features(retention=True, restored=True, change=CHANGES[0]).points}
        for what, met in ("passed", self.seen.points), ("at which somebody is killed", self.seen.kills):
            never = sorted(points - met.keys())
            yield f"fault points {what}", len(points) - len(never), len(points), ", ".join(never)
        pairs = {frozenset(pair) for pair in combinations(self.features, 2) if not _excluded(*pair)}
        apart = sorted(" + ".join(sorted(pair)) for pair in pairs - self.pairs)
        shown = f"{'; '.join(apart[:SHOWN])}{' ...' if len(apart) > SHOWN else ''}"
        yield "pairs of features", len(pairs & self.pairs), len(pairs), shown
        for file, left in sorted(self.unmet.items()):
            yield f"lines of {file}", self.lines[file] - len(left), self.lines[file], ranges(left)

    def table(self) -> str:
        """What the worlds have covered, as a table in Markdown."""
        rows = [f"| {what} | {met} of {of} | {never} |" for what, met, of, never in self._covered()]
        exits = ", ".join(f"{what} ({count})" for what, count in self.seen.exits.most_common())
        return "\n".join(["| covered | met | never |", "|---|---|---|", *rows, f"| exits | {exits} | |"])

    def told(self) -> str:
        """What has come of it, as text."""
        kills, hours, minutes = sum(self.seen.kills.values()), self.secs / 3600, max(1.0, self.core_secs) / 60
        lines = [
            f"{self.worlds} worlds, {hours:.1f} simulated hours in {self.core_secs:.0f} s of a core: {kills} kills, "
            f"{self.commits} commits, {self.records} records ({hours / minutes:.2f} simulated hours and "
            f"{kills / minutes:.0f} kills a minute of a core)",
        ]
        for name in ("kills", "faults", "points"):
            found = getattr(self.seen, name).most_common()
            lines.append(f"{name}: " + ", ".join(f"{what} {count}" for what, count in found))
        lines.append("features: " + ", ".join(f"{what} {count}" for what, count in self.features.most_common()))
        lines += ["", self.table(), ""]
        lines += [f"BROKEN seed {seed}: {why}" for seed, why in sorted(self.broken.items())]
        return "\n".join(lines)


def spare_collections() -> None:
    """Look for cycles less often: there is much that stays, and a world ends soon."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


def tried(first: int, seconds: float, processes: int) -> Runs:
    """Worlds of fresh seeds, in so many processes: each has a part of the seeds."""
    runs = Runs()
    with ProcessPoolExecutor(processes) as pool:
        for part in pool.map(_part, range(first, first + processes), [seconds] * processes, [processes] * processes):
            runs.add(part)
    return runs


def _part(first: int, seconds: float, step: int) -> Runs:
    runs = Runs()
    runs.go(first, seconds, step)
    return runs


def _excluded(one: str, other: str) -> bool:
    """Whether no world has both: two values of one feature, or what features.py keeps apart."""
    names = {one.partition("=")[0], other.partition("=")[0]}
    return len(names) == 1 or ("restored" in names and bool(names & {"change", "reverted", "retention"}))


def used(features: Features) -> list[str]:
    """The names of what a world has, beyond a plain one."""
    told = {name: value for name, value in vars(features).items() if isinstance(value, bool | str)}
    found = [f"{name}={value}" for name, value in told.items() if value not in (False, "", "off")]
    found += ["new_types"] if features.new_types else []
    return [*found, *(["tasks=1"] if features.tasks == 1 else [])]


def breaks(seed: int, features: Features) -> str:
    """What is wrong in a world; empty if nothing is."""
    world = World(seed, features)
    try:
        world.run()
    except Unsimulated:
        return ""
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
        world.run()
        lines.append("nothing is wrong")
    except Exception as error:  # noqa: BLE001 - the last line of it
        lines.append(f"{type(error).__name__}: {error}")
    return "\n".join(lines)
