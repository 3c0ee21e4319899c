"""Breadth-first search by number of steps, and the shortest history to a violation.

A local move of one process is invisible to the other until the process touches a table. So a
stored state is taken just after a shared move, and each edge is "some local moves of one
process, then one shared move". Of the local moves only those are taken on which the shared
move depends, directly or through others (by footprints: what a move reads and writes); the
rest can as well come after it. The same tables are reached as with every interleaving
(Mazurkiewicz traces), in far fewer states. Costs count all moves. Processes of one role
start alike and take the same steps, so they are interchangeable: within a role they are sorted.
"""

from __future__ import annotations

import functools
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

State = tuple[Any, ...]
Step = tuple[str, Any, State]
"""Text, process and tables afterwards."""
Node = tuple[int, ...]
Edge = tuple[int, int, str, int, int, str]
"""Cost, index of the local state in the closure, text of the shared move, process and tables after, what it breaks."""


Footprint = tuple[int, int]
"""What a move reads and writes, as bits."""

Local = tuple[int, int, str, int, frozenset[Footprint]]
"""Process, distance, text of the last move, index of the state before, footprints of moves nothing depends on yet."""


class SearchableWorld(Protocol):
    """What the search needs of a world. Processes that refuse to go on are of a type called Stopped."""

    def local_moves(self, process: Any) -> list[tuple[str, Any, int, int]]: ...

    def shared_moves(self, process: Any, tables: Any) -> list[tuple[str, Any, Any, int, int]]: ...

    def broken(self, tables: Any) -> str: ...

    def went_back(self, before: Any, after: Any) -> str: ...

    def show(self, tables: Any) -> str: ...


class Silent:
    """A logger that says nothing."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_, **__: None


class SharedSteps:
    """A world each of whose steps may depend on any other: none is taken for local."""

    def steps(self, process: Any, tables: Any) -> Iterable[Step]:
        """Those that a process can take."""
        raise NotImplementedError

    def local_moves(self, process: Any) -> list[tuple[str, Any, int, int]]:
        return []

    def shared_moves(self, process: Any, tables: Any) -> list[tuple[str, Any, State, int, int]]:
        return [(*step, 0, 0) for step in self.steps(process, tables)]


def remember(world: Any, *names: str) -> None:
    """Have these methods of a world answer from memory: pure functions of hashable arguments, asked over and over."""
    for name in names:
        setattr(world, name, functools.cache(getattr(world, name)))


@dataclass(frozen=True)
class Found:
    """The result of a search. violation and history are empty if there is none."""

    states: int
    edges: int
    depth: int
    secs: float
    violation: str = ""
    steps: int = 0
    history: tuple[str, ...] = ()
    complete: bool = True

    def __str__(self) -> str:
        size = f"{self.states} states, {self.edges} edges, depth {self.depth}, {self.secs:.1f} s"
        if not self.violation:
            return f"{'no violation' if self.complete else 'no violation YET (state limit)'}: {size}"
        return "\n".join([f"{self.violation} after {self.steps} steps ({size})", *self.history])


@dataclass
class _Interned:
    """Values <-> small integers."""

    values: list[Any] = field(default_factory=list)
    index: dict[Hashable, int] = field(default_factory=dict)

    def id_of(self, value: Hashable) -> int:
        number = self.index.get(value)
        if number is None:
            number = self.index[value] = len(self.values)
            self.values.append(value)
        return number


class Search:
    """One search of one world. stops_count: a process that refuses to go on is a violation (GUARD)."""

    def __init__(self, world: SearchableWorld, stops_count: bool = True, names: tuple[str, ...] = ("P1", "P2")) -> None:
        self.world = world
        self.stops_count = stops_count
        self.names = names
        self.tables = _Interned()
        self.processes = _Interned()
        self.closures: dict[int, list[Local]] = {}
        self.local: dict[int, list[tuple[str, int, Footprint]]] = {}
        self.shared: dict[tuple[int, int], list[tuple[str, int, int, Footprint]]] = {}
        self.edges: dict[tuple[int, int], list[Edge]] = {}
        self.verdicts: dict[tuple[int, int], str] = {}
        self.parents: dict[Node, tuple[Node, int, Edge] | None] = {}

    # -- moves

    def closure(self, pid: int) -> list[Local]:
        """All local states that the process can reach alone."""
        found = self.closures.get(pid)
        if found is not None:
            return found
        found = [(pid, 0, "", -1, frozenset())]
        seen: set[tuple[int, frozenset[Footprint]]] = {(pid, frozenset())}
        at = 0
        while at < len(found):
            here, distance, _, _, loose = found[at]
            for text, number, footprint in self._moves(here):
                after = frozenset({footprint, *(one for one in loose if not _depend(one, footprint))})
                if (number, after) not in seen:
                    seen.add((number, after))
                    found.append((number, distance + 1, text, at, after))
            at += 1
        self.closures[pid] = found
        return found

    def _moves(self, pid: int) -> list[tuple[str, int, Footprint]]:
        known = self.local.get(pid)
        if known is None:
            process = self.processes.values[pid]
            moves = [] if _stopped(process) else self.world.local_moves(process)
            known = [(text, self.processes.id_of(after), (reads, writes)) for text, after, reads, writes in moves]
            self.local[pid] = known
        return known

    def _shared(self, pid: int, tid: int) -> list[tuple[str, int, int, Footprint]]:
        known = self.shared.get((pid, tid))
        if known is None:
            moves = self.world.shared_moves(self.processes.values[pid], self.tables.values[tid])
            known = [
                (text, self.processes.id_of(after), self.tables.id_of(tables), (reads, writes))
                for text, after, tables, reads, writes in moves
                if self.stops_count or not _stopped(after)
            ]
            self.shared[pid, tid] = known
        return known

    def edges_of(self, pid: int, tid: int) -> list[Edge]:
        """The cheapest way to each (process, tables) by local moves and one shared move."""
        known = self.edges.get((pid, tid))
        if known is not None:
            return known
        best: dict[tuple[int, int], tuple[int, int, str]] = {}
        closure = self.closure(pid)
        reached = {local[0] for local in closure}
        for at, (here, distance, _, _, loose) in enumerate(closure):
            if _stopped(self.processes.values[here]):
                if self.stops_count:
                    best[here, tid] = (distance, at, "stops")
                continue
            for text, after, new_tid, footprint in self._shared(here, tid):
                target = (after, new_tid)
                if (new_tid == tid and after in reached) or (target in best and best[target][0] <= distance + 1):
                    continue
                if all(_depend(one, footprint) for one in loose):
                    best[target] = (distance + 1, at, text)
        self.edges[pid, tid] = [(*way, *target, self.violation(tid, *target)) for target, way in best.items()]
        return self.edges[pid, tid]

    def violation(self, tid: int, pid: int, after_tid: int) -> str:
        """What a step to this process and these tables breaks, if anything."""
        key = (tid, after_tid)
        if _stopped(self.processes.values[pid]):
            return f"GUARD: stops, {self.processes.values[pid].reason}"
        if key not in self.verdicts:
            before, after = self.tables.values[tid], self.tables.values[after_tid]
            self.verdicts[key] = self.world.broken(after) or self.world.went_back(before, after)
        return self.verdicts[key]

    # -- search

    def run(self, tables: Any, processes: tuple[Any, ...], states_max: int = 10_000_000) -> Found:
        """Search from one state until a violation, the end, or `states_max`."""
        began = time.monotonic()
        pids = [self.processes.id_of(process) for process in processes]
        first = (self.tables.id_of(tables), *(pids[place] for place in self._places(pids)))
        self.parents = {first: None}
        cost = {first: 0}
        buckets: list[deque[tuple[Node, str]]] = [deque([(first, "")])]
        states, edge_count, depth = 0, 0, 0
        level = 0
        while level < len(buckets):
            while buckets[level]:
                node, problem = buckets[level].popleft()
                if problem:
                    secs = time.monotonic() - began
                    return Found(states, edge_count, level, secs, problem, level, self._history(node, problem))
                if cost[node] < level:
                    continue
                states += 1
                depth = level
                if states >= states_max:
                    return Found(states, edge_count, depth, time.monotonic() - began, complete=False)
                edge_count += self._expand(node, level, cost, buckets)
            level += 1
        return Found(states, edge_count, depth, time.monotonic() - began)

    def _expand(self, node: Node, level: int, cost: dict[Node, int], buckets: list[deque[tuple[Node, str]]]) -> int:
        tid, pids = node[0], node[1:]
        count = 0
        for slot, pid in enumerate(pids):
            if slot and pid == pids[slot - 1]:
                continue
            first, end = self._alike(slot, len(pids))
            before, others, after = pids[:first], (*pids[first:slot], *pids[slot + 1 : end]), pids[end:]
            edges = self.edges_of(pid, tid)
            count += len(edges)
            for edge in edges:
                at = level + edge[0]
                mine = sorted((edge[3], *others)) if others else (edge[3],)
                target = (edge[4], *before, *mine, *after) if not edge[5] else (-1 - len(self.parents), *node)
                if cost.get(target, 1 << 30) <= at:
                    continue
                cost[target] = at
                self.parents[target] = (node, slot, edge)
                while len(buckets) <= at:
                    buckets.append(deque())
                buckets[at].append((target, edge[5]))
        return count

    def _alike(self, slot: int, count: int) -> tuple[int, int]:
        """The first and the last place, exclusive, of the processes that are interchangeable with this one."""
        return 0, count

    def _places(self, pids: list[int]) -> list[int]:
        """Where the process of each place of a sorted node comes from."""
        return sorted(range(len(pids)), key=lambda place: (pids[place], place))

    def _history(self, node: Node, problem: str) -> tuple[str, ...]:
        """The shortest way to the node, as a timeline: a lane per process, what it does, the tables afterwards."""
        chain = []
        here: Node | None = node
        while here is not None and (link := self.parents[here]) is not None:
            chain.append(link)
            here = link[0]
        chain.reverse()
        names = list(self.names)
        lanes = list(names[: len(node) - 1] if node[0] >= 0 else names[: len(node) - 2])
        lines = [" " * 7 + " ".join(lanes)]
        step = 0
        for before, slot, edge in chain:
            pid = before[1 + slot]
            texts = self._path(pid, edge)
            for text, tables in texts:
                step += 1
                where = self.world.show(self.tables.values[tables]) if tables is not None else ""
                mark = "✕" if text.startswith("crashes") else "●"
                marks = (f"{mark if lane == names[slot] else '│':<{len(lane)}}" for lane in lanes)
                lines.append(f"  t{step:<3} {' '.join(marks)}  {text:<58} {where}".rstrip())
            after = list(before[1:])
            after[slot] = edge[3]
            names = [names[place] for place in self._places(after)]
        return (*lines, f"       => {problem}")

    def _path(self, pid: int, edge: Edge) -> list[tuple[str, int | None]]:
        path: list[tuple[str, int | None]] = []
        closure = self.closure(pid)
        at = edge[1]
        while at > 0:
            path.append((closure[at][2], None))
            at = closure[at][3]
        path.reverse()
        if edge[2] != "stops":
            path.append((edge[2], edge[4]))
        return path


class RoleSearch(Search):
    """A search in which processes differ by role (old and new tasks); those of one role are interchangeable.

    roles: per process, ascending. A role of its own for each process leaves every one where it is.
    """

    def __init__(self, world: SearchableWorld, roles: tuple[int, ...], names: tuple[str, ...], **options: Any) -> None:
        super().__init__(world, names=names, **options)
        self.roles = roles
        self.alike = [(roles.index(role), roles.index(role) + roles.count(role)) for role in roles]

    def _alike(self, slot: int, count: int) -> tuple[int, int]:
        return self.alike[slot]

    def _places(self, pids: list[int]) -> list[int]:
        return sorted(range(len(pids)), key=lambda place: (self.roles[place], pids[place], place))


def _depend(one: Footprint, other: Footprint) -> bool:
    """True if the order of the two moves may matter."""
    return bool(one[1] & (other[0] | other[1]) or one[0] & other[1])


def _stopped(process: Any) -> bool:
    return type(process).__name__ == "Stopped"
