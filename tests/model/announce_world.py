"""The world of announced versions (protocol 4.13): tasks that commit, lead or believe so, crash, and tell a consumer.

What runs is the exporter's own Follower; its effects are played here, each in a step of its own: the call is run again
from its start with the answers so far, up to the first effect without one, as in wal_world.py. A task commits once it
knows that it is kept where announcing begins. Anybody may lead at any time, so both may announce at once. The consumer
skips a version at or below the last one that it knows.

    Task    (pointer that its follower knows, None: not yet; whether it is to be kept; begun, call, answers)
    World   (versions, oldest that the log has, pointer that is kept, last version that the consumer knows, faults left)
            versions: per version whether it has rows            pointer: (announced, looked), NOTHING: of no table
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from exporter.announce.follower import Follower
from exporter.announce.pointers import Pointer, Pointers
from exporter.announce.seams import Trouble
from tests.model.search import SharedSteps, State, Step
from tests.model.world import APP

TABLE = "A"
NOTHING: State = ()
BEGINS, PASSES = "begins", "passes"
FRESH: State = (None, False, False, "", ())


@dataclass(frozen=True)
class AnnounceScope:
    """log: of each version whether it has rows ("r") or not ("."). there: how many of them are at first.

    faults: calls to the consumer, or to who keeps the pointer, without an answer. cleans: the log loses old versions.
    """

    log: str = "rr.r"
    there: int = 1
    tasks: int = 2
    faults: int = 1
    cleans: bool = False


class _Waits(BaseException):
    """An effect has no answer yet."""

    def __init__(self, effect: str, asked: Any = None) -> None:
        super().__init__(effect)
        self.effect, self.asked = effect, asked


class _Script:
    """The effects of one call. Plays the tables' logs, the sink, and who keeps pointers."""

    def __init__(self, answers: State) -> None:
        self.left = list(answers)

    def _ask(self, effect: str, asked: Any = None) -> Any:
        if not self.left:
            raise _Waits(effect, asked)
        if (answer := self.left.pop(0)) == "no answer":
            raise Trouble(effect)
        return answer

    def tables(self) -> Collection[str]:
        return [TABLE] * self._ask("tables")

    def newest(self, table: str) -> int | None:
        return int(self._ask("newest"))

    def oldest(self, table: str, after: int) -> int:
        return int(self._ask("oldest", after))

    def lines(self, table: str, version: int) -> list[str] | None:
        rows = self._ask("reads", version)
        if rows is None:
            return None
        add = {"path": "day=2026-01-01/f", "dataChange": True, "stats": json.dumps({"numRecords": int(rows)})}
        told = json.dumps({"commit_id": "c", "app": APP})
        return [json.dumps({"commitInfo": {"userMetadata": told}}), json.dumps({"add": add})]

    def send(self, messages: Mapping[str, bytes]) -> Mapping[str, str]:
        said = json.loads(messages[TABLE])
        answer = self._ask("sends", (said.get("first", said["version"]), said["version"]))
        return {} if answer == "taken" else {TABLE: "not acknowledged"}

    def load(self) -> dict[str, Pointer] | None:
        return _pointers(self._ask("loads"))

    def save(self, pointers: Pointers) -> Collection[str]:
        self._ask("keeps", _bare(pointers))
        return ()

    def close(self) -> None:
        """There is nothing to end."""


class AnnounceWorld(SharedSteps):
    """All steps of all processes. Each touches the log, the consumer or what is kept."""

    def __init__(self, scope: AnnounceScope) -> None:
        self.scope = scope

    def roles(self) -> tuple[tuple[int, ...], tuple[str, ...]]:
        return (0,) * self.scope.tasks, tuple(f"T{n + 1}" for n in range(self.scope.tasks))

    def first_state(self) -> tuple[State, State]:
        rows = tuple(kind == "r" for kind in self.scope.log[: self.scope.there])
        return (rows, 0, None, len(rows) - 1, self.scope.faults), (FRESH,) * self.scope.tasks

    def steps(self, process: State, world: State) -> Iterator[Step]:
        known, _, begun, call, _ = process
        versions, oldest, *rest = world
        if process != FRESH:
            yield "crashes and starts again", FRESH, world
        if self.may_commit(begun) and len(versions) < len(self.scope.log):
            yield f"commits version {len(versions)}", process, ((*versions, self._has_rows(versions)), oldest, *rest)
        if self.scope.cleans and oldest < len(versions) - 1:
            yield f"the log loses what is before {len(versions) - 1}", process, (versions, len(versions) - 1, *rest)
        if not call:
            if known is None:
                yield from self._goes_on((*process[:3], BEGINS, ()), world)
            else:
                yield "leads no more", (None, False, begun, "", ()), world
                yield from self._goes_on((*process[:3], PASSES, ()), world)
        else:
            yield from self._goes_on(process, world)

    def may_commit(self, begun: bool) -> bool:
        """4.13: it is kept where announcing begins, before anything is committed."""
        return begun

    def _has_rows(self, versions: State) -> bool:
        return self.scope.log[len(versions)] == "r"

    def _goes_on(self, process: State, world: State) -> Iterator[Step]:
        """One more answer: the call waits for the next, or has ended."""
        waits = self._run(process)
        if not isinstance(waits, _Waits):
            raise RuntimeError(f"{process} waits for nothing")
        for text, answer, fault, after in self._answers(waits, world):
            if fault <= world[4]:
                more = (*process[:4], (*process[4], answer))
                ended = self._run(more)
                yield text, more if isinstance(ended, _Waits) else ended, (*after[:4], world[4] - fault)

    def _run(self, process: State) -> _Waits | State:
        known, changed, begun, call, answers = process
        script = _Script(answers)
        follower = Follower(APP, script, script, script, lambda: 0.0)
        follower._pointers, follower._changed = _pointers(known), changed
        try:
            if call == BEGINS:
                follower.begin()
                begun = True
            else:
                follower.passed(lambda: True)
        except _Waits as waits:
            return waits
        except Trouble:
            pass  # it is tried again
        return (_bare(follower._pointers), follower._changed, begun, "", ())

    def _answers(self, waits: _Waits, world: State) -> Iterator[tuple[str, Any, int, State]]:
        """Text, the answer, whether it is a fault, and the world afterwards."""
        versions, oldest, kept, last, faults = world
        asked = waits.asked
        newest = len(versions) - 1
        if waits.effect == "tables":
            yield "looks which tables there are", int(bool(versions)), 0, world
        elif waits.effect == "newest":
            yield f"looks for the newest version: {newest}", newest, 0, world
        elif waits.effect == "oldest":
            yield f"looks for the oldest version: {oldest}", max(oldest, asked + 1), 0, world
        elif waits.effect == "reads":
            there = oldest <= asked <= newest
            yield f"reads version {asked}", versions[asked] if there else None, 0, world
        elif waits.effect == "loads":
            yield f"asks how far it is: {kept}", kept, 0, world
            yield "asks how far it is: no answer", "no answer", 1, world
        elif waits.effect == "keeps":
            after = (versions, oldest, asked, last, faults)
            yield f"keeps {asked}", "done", 0, after
            yield f"keeps {asked}, no answer", "no answer", 1, after
            yield f"keeps {asked}: not done, no answer", "no answer", 1, world
        else:
            after = (versions, oldest, kept, self.heard(asked, world), faults)
            yield f"tells of {_shown(asked)}", "taken", 0, after
            yield f"tells of {_shown(asked)}, not acknowledged", "not acknowledged", 1, after
            yield f"tells of {_shown(asked)}: it is lost", "not acknowledged", 1, world

    def heard(self, asked: State, world: State) -> Any:
        """The last version that the consumer knows; a text if it will never hear of one."""
        versions, last = world[0], world[3]
        first, version = asked
        if isinstance(last, str) or version <= last:
            return last
        missed = [one for one in range(last + 1, first) if versions[one]]
        return f"version {missed[0]} is not told before {version}" if missed else version

    # -- invariants

    def broken(self, world: State) -> str:
        """TOLD: the consumer hears of every version with rows, in order, and what is kept is never ahead of it."""
        versions, _, kept, last, _ = world
        if isinstance(last, str):
            return f"TOLD: {last}"
        ahead = [one for one in range(last + 1, kept[1] + 1 if kept else 0) if versions[one]]
        return f"TOLD: {kept} is kept, version {ahead[0]} was not told" if ahead else ""

    def went_back(self, before: State, after: State) -> str:
        return ""

    def finished(self, world: State) -> bool:
        """All that has rows was told."""
        return len(world[0]) == len(self.scope.log) and not any(world[0][world[3] + 1 :])

    def clean_step(self, process: State, world: State) -> Step | None:
        """The next step of a task that is left alone, and leads."""
        unwanted = ("crashes", "leads no more", "not", "no answer", "lost", "loses")
        moves = [move for move in self.steps(process, world) if not any(word in move[0] for word in unwanted)]
        commits = [move for move in moves if move[0].startswith("commits")]
        return (commits or moves or [None])[0]

    def show(self, world: State) -> str:
        versions, oldest, kept, last, _ = world
        log = "".join("." if not rows else "r" for rows in versions)
        return f"log {log or 'none'} from {oldest}, kept {kept}, consumer at {last}"


def _pointers(bare: State | None) -> dict[str, Pointer] | None:
    return None if bare is None else {TABLE: Pointer(*bare)} if bare else {}


def _bare(pointers: Pointers | None) -> State | None:
    return None if pointers is None else tuple(pointers.get(TABLE, NOTHING))


def _shown(asked: State) -> str:
    first, version = asked
    return f"version {version}" if first == version else f"versions {first} to {version}"
