"""The world of the write-ahead log (protocol ORDER, 5.1, 6): the real commit path and start-up, effect by effect.

One table, one topic partition, processes that both believe they own it. What runs is the exporter's own
DeltaCommitter.commit, Journal, WalKeeper's payment and LogCheck; only their effects are played here. A call that is
under way is held as the answers that its effects have got so far: each step runs the call again from its start with
these, up to the first effect without one (so the calls must be deterministic). Between any two effects other
processes move, or the process dies.

    Process  (name, life, faults left, phase, memory, answers)     the owner of its life is <name><life>
             memory: (covered, claim, begun intents, owed, down, looked through, commit ids used)
    Claim    (expected, new, commit ids offered)
    Intent   (commit id, owner, expected, new, looked through)
    World    (versions, items, (group offset, its sender), wiped)
             versions: (metadata as JSON, first, last offset), the first after the anchor is version 1
             items: intent, state, version

A fault is a call to the log without an answer, done or not, or a commit without one. wipes: the log is lost, once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from types import SimpleNamespace
from typing import Any

import exporter.protocol.commit
import exporter.wal.journal
from exporter.core.outcome import Landed, Report, Settled, Unknown
from exporter.core.writers import Claim, StagedFile, WriterKey
from exporter.errors import InvariantBroken, TableUnreadable
from exporter.protocol.commit import DeltaCommitter
from exporter.stores.memory import MemoryStore
from exporter.wal import check as wal_check
from exporter.wal import keeper as wal_keeper
from exporter.wal.check import LogCheck, broken
from exporter.wal.journal import Journal, Landing, _Begun
from exporter.wal.keeper import WalKeeper
from offsets.intents import Intent, IntentKey, IntentState, WalMismatch, WalUnreachable
from offsets.names import AppId, DataFile
from offsets.ranges import OffsetRange, TopicPartition
from offsets.table_log import APP_PROPERTY, LoggedCommit, TableView
from tests.model.search import SharedSteps, Silent, State, Step
from tests.model.world import Stopped
from tests.support.days import partition_of

APP, TYPE = "model", "A"
STORE = MemoryStore("memory://model/lake")
TP = TopicPartition("t", 0)
OWN = str(AppId(APP, TP, 0))
KEY = IntentKey(TYPE, TP, 0)
STARTS, IDLE, COMMITS, PAYS, GONE = "starts", "idle", "commits", "pays", "gone"
USER = ("user",)
NOTHING_OWED: State = ((), ())


class _Ids:
    """Stands for the module uuid in the commit path: the next commit id is what the task says."""

    next_id = ""

    def uuid4(self) -> SimpleNamespace:
        return SimpleNamespace(hex=self.next_id)


IDS = _Ids()
STUBS: tuple[tuple[Any, str, Any], ...] = (
    (exporter.protocol.commit, "uuid", IDS),
    *((module, "log", Silent()) for module in (exporter.protocol.commit, exporter.wal.journal, wal_check, wal_keeper)),
)
"""Module, name, value: to be in place while this world is searched."""


@dataclass(frozen=True)
class WalScope:
    """records: of the log. lives, offers, faults: of each process. required: the log's mode.

    drops: whether a process may drop a claim, and read everything again; and whether the table may give no answer.
    """

    records: int = 1
    processes: int = 2
    lives: int = 2
    offers: int = 1
    faults: int = 1
    wipes: bool = False
    required: bool = True
    drops: bool = False


class _Waits(BaseException):
    """A call has come to an effect that has no answer yet."""

    def __init__(self, effect: str, asked: Any) -> None:
        super().__init__(effect)
        self.effect, self.asked = effect, asked


class _Script:
    """The effects of one call: those that have an answer give it, the next one waits. Plays log, table and lake."""

    def __init__(self, answers: State, versions: State) -> None:
        self.left, self.versions = list(answers), versions
        self.app, self.event_type, self.store = APP, TYPE, STORE

    def ask(self, effect: str, asked: Any = ()) -> Any:
        if not self.left:
            raise _Waits(effect, asked)
        answer = self.left.pop(0)
        if answer == "no answer":
            raise WalUnreachable(effect)
        if answer == "contradiction":
            raise WalMismatch(effect)
        return answer

    # the write-ahead log

    def start(self, intents: Sequence[Intent]) -> None:
        self.ask("start", tuple(_bare(one) for one in intents))

    def complete(self, intents: Sequence[Intent], version: int) -> None:
        self.ask("complete", tuple((_bare(one), version) for one in intents))

    def record(self, intents: Sequence[Intent]) -> None:
        self.ask("complete", tuple((_bare(one), one.version) for one in intents))

    def fail(self, intents: Sequence[Intent]) -> None:
        self.ask("fail", tuple(_bare(one) for one in intents))

    def read(self, tp: TopicPartition) -> tuple[Intent, ...]:
        return tuple(_intent(*item) for item in self.ask("read"))

    # the lake and its table

    def table(self, event_type: str) -> _Script:
        return self

    def view(self) -> TableView:
        seen = self.ask("look")
        if seen == "silent":
            raise TableUnreadable(TYPE, "silent")
        return self.view_at(seen)

    def view_at(self, version: int) -> TableView:
        said = json.loads(self.versions[version - 1][0])["partitions"][str(TP)]["new"] if version else -1
        txns = {OWN: said, str(AppId(APP, TP, 0, "anchor")): -1}
        return TableView(version, "id", "f", txns, {APP_PROPERTY: APP})

    def commit(self, change: Any, check: Callable[[TableView | None], None]) -> int:
        base = self.ask("snapshot")
        check(self.view_at(base))
        offsets = [add["tags"] for add in change.adds]
        first = min(int(tags["first_offset"]) for tags in offsets)
        last = max(int(tags["last_offset"]) for tags in offsets)
        version = (json.dumps(change.user_metadata), first, last)
        answer = self.ask("commit", (base, bool(change.expected), version))
        if answer == "raises":
            raise OSError("no answer, or refused")
        return int(answer)

    def not_synced(self, error: BaseException) -> bool:
        return False

    def commits(self, after: int, through: int) -> list[LoggedCommit]:
        return [self.logged(version) for version in range(after + 1, through + 1)]

    def logged(self, version: int) -> LoggedCommit:
        text = self.versions[version - 1][0] if version else ""
        return LoggedCommit(version, "STREAMING UPDATE", text, (), (), False)


class _Committer(DeltaCommitter):
    """The real one; its files need no looking at, because nothing deletes here."""

    def _prepare(self, table: Any, claims: Sequence[Claim]) -> tuple[list[Claim], list[Settled]]:
        return list(claims), []


class _Task:
    """One process's objects, built from its memory and taken apart afterwards."""

    def __init__(self, owner: str, memory: State, script: _Script, required: bool) -> None:
        self.covered, claim, begun, (landings, dead), down, looked, self.used = memory
        self.claim = claim and Claim(
            WriterKey(TYPE, TP), 0, claim[0], claim[1], (_file(claim[0] + 1, claim[1]),), looked, tuple(claim[2])
        )
        self.journal = Journal(script, required, owner)  # type: ignore[arg-type]
        self.journal.down = down
        self.journal._open[TYPE] = {one[0][0]: _Begun({TP: _intent(one[0])}, one[1]) for one in begun}
        self.committer = _Committer(script, owner, {}, self.journal)  # type: ignore[arg-type]
        self.committer.trusted._checked[TYPE], self.committer.trusted._table_ids[TYPE] = looked, "id"
        self.check = LogCheck(script, self.journal)  # type: ignore[arg-type]
        self.keeper = WalKeeper(script, self.journal, self.check, tuple, 1.0)  # type: ignore[arg-type]
        self.keeper._landings = [Landing(_intent(one), version, logged) for one, version, logged in landings]
        self.keeper._dead = [_intent(one) for one in dead]
        IDS.next_id = f"{owner}c{self.used + 1}"

    def memory(self) -> State:
        self.keeper.take_owed()
        claim = self.claim and (self.claim.expected, self.claim.new, self.claim.offers)
        begun = tuple((_bare(one.intents[TP]), one.logged) for one in self.journal._open[TYPE].values())
        landings = tuple((_bare(one.intent), one.version, one.logged) for one in self.keeper._landings)
        owed = (landings, tuple(_bare(one) for one in self.keeper._dead))
        looked = self.committer.checked_through(TYPE)
        return (self.covered, claim, begun, owed, self.journal.down, looked, self.used)

    def commits(self) -> str:
        """One call of the committer; the phase that follows. The rest is what Offers does with the outcome."""
        report: Report = self.committer.commit(TYPE, [self.claim])
        self.used += 1
        settled = report.settled[0]
        if isinstance(settled.outcome, Landed) and settled.outcome.position.offset == settled.claim.new:
            self.covered, self.claim = settled.claim.new, None
            return IDLE
        if isinstance(settled.outcome, Unknown):
            self.claim = settled.claim
            return IDLE
        held = settled.claim.offers == self.claim.offers  # nothing was offered; else refused
        return IDLE if held else STARTS

    def pays(self) -> str:
        """What WalKeeper does in its thread, and with its result."""
        done = self.keeper._paying(TP)()
        if done.error is not None:
            raise done.error
        del self.keeper._landings[: done.paid[0]], self.keeper._dead[: done.paid[1]]
        return IDLE

    def starts(self) -> str:
        """Protocol 5.1: the log first, then the table; what the log lacks is put right before anything is planned."""
        self.keeper.let_go({})
        logged = self.check.read([TP])
        view = self.check._lake.table(TYPE).view()
        verdicts = self.check.judge(logged, {TYPE: view})
        if problem := broken(verdicts):
            raise problem
        self.check.settle(verdicts, {TYPE: view})
        self.committer.trust(TYPE, view)
        self.covered, self.claim = view.position(APP, TP).offset, None
        return IDLE


class WalWorld(SharedSteps):
    """All steps of all processes. Each effect is one step; what a call does between two is done with the first."""

    def __init__(self, scope: WalScope) -> None:
        self.scope = scope

    def roles(self) -> tuple[tuple[int, ...], tuple[str, ...]]:
        names = [f"P{n + 1}" for n in range(self.scope.processes)] + ["user"] * self.scope.wipes
        return tuple(range(len(names))), tuple(names)

    def first_state(self) -> tuple[State, State]:
        fresh = [self._life("ab"[n], 1, self.scope.faults) for n in range(self.scope.processes)]
        return ((), (), (0, ""), False), (*fresh, *([USER] if self.scope.wipes else []))

    def _life(self, name: str, life: int, faults: int) -> State:
        return (name, life, faults, STARTS, (-1, None, (), NOTHING_OWED, False, -1, 0), ())

    # -- moves

    def steps(self, process: State, world: State) -> Iterator[Step]:
        if process == USER:
            yield "the log is lost", (GONE,), (world[0], (), world[2], True)
        if len(process) == 1:
            return
        name, life, faults, phase, memory, answers = process
        if life < self.scope.lives and (phase != STARTS or answers or memory[1:4] != (None, (), NOTHING_OWED)):
            yield "crashes and starts again", self._life(name, life + 1, faults), world
        if phase == IDLE:
            yield from self._begins(process, world)
            return
        for text, answer, fault, after in self._answers(process, world):
            if fault <= faults:
                yield text, self._run(name, life, faults - fault, phase, memory, (*answers, answer), after), after

    def _begins(self, process: State, world: State) -> Iterator[Step]:
        """What the loop may begin: a commit, a payment, the group offset."""
        name, life, faults, _, memory, _ = process
        covered, claim, _, _, _, _, used = memory
        task = _Task(f"{name}{life}", memory, _Script((), world[0]), self.scope.required)
        if not task.keeper.holds(TYPE) and used < self.scope.offers:
            claims = [claim] if claim else [(covered, new, ()) for new in range(covered + 1, self.scope.records)]
            for one in claims:
                offered = (covered, one, *memory[2:])
                yield f"offers {one[0]}->{one[1]}", (name, life, faults, COMMITS, offered, ()), world
        if self.scope.drops and claim:
            yield "drops its claim", (name, life, faults, STARTS, (covered, None, *memory[2:]), ()), world
        if memory[3] != NOTHING_OWED or memory[4]:
            yield "pays what is owed", (name, life, faults, PAYS, memory, ()), world
        if covered + 1 > world[2][0] and TP not in task.keeper.withheld():
            yield f"group offset {covered + 1}", process, (*world[:2], (covered + 1, f"{name}{life}"), world[3])

    def _run(
        self, name: str, life: int, faults: int, phase: str, memory: State, answers: State, world: State
    ) -> State | Stopped:
        """The call again with one more answer: it waits for the next, has ended, or stops the process."""
        task = _Task(f"{name}{life}", memory, _Script(answers, world[0]), self.scope.required)
        try:
            after = {COMMITS: task.commits, PAYS: task.pays, STARTS: task.starts}[phase]()
        except _Waits:
            return (name, life, faults, phase, memory, answers)
        except (WalUnreachable, TableUnreadable, InvariantBroken) as error:
            if isinstance(error, InvariantBroken):
                return Stopped(error.message)
            after = STARTS  # the log is required and silent, or the table is: it is asked again until it answers
        return (name, life, faults, after, task.memory(), ())

    def _waits(self, process: State, world: State) -> _Waits:
        name, life, _, phase, memory, answers = process
        task = _Task(f"{name}{life}", memory, _Script(answers, world[0]), self.scope.required)
        try:
            {COMMITS: task.commits, PAYS: task.pays, STARTS: task.starts}[phase]()
        except _Waits as waits:
            return waits
        raise RuntimeError(f"{process} waits for nothing")

    def _answers(self, process: State, world: State) -> Iterator[tuple[str, Any, int, State]]:
        """Text, the answer, whether it is a fault, and the world afterwards."""
        waits = self._waits(process, world)
        versions, items, group, wiped = world
        if waits.effect == "look" and self.scope.drops:
            yield "looks at the table: no answer", "silent", 1, world
        if waits.effect in ("look", "snapshot"):
            yield f"{waits.effect}s at the table: version {len(versions)}", len(versions), 0, world
        elif waits.effect == "read":
            yield "reads the log", self.live(items), 0, world
            yield "reads the log: no answer", "no answer", 1, world
        elif waits.effect == "commit":
            base, fenced, version = waits.asked
            if self.commits(versions, base, fenced):
                after = ((*versions, version), items, group, wiped)
                yield f"commits {version[1]}..{version[2]}", len(versions) + 1, 0, after
                yield f"commits {version[1]}..{version[2]}, answer lost", "raises", 1, after
                yield "the commit raises, not landed", "raises", 1, world
            else:
                yield "the commit is refused", "raises", 0, world
        else:
            text = f"{waits.effect} {', '.join(_id_of(one) for one in waits.asked)}"
            written = self.written(items, waits.effect, waits.asked)
            if written is None:
                yield f"{text}: contradiction", "contradiction", 0, world
                return
            after = (versions, written, group, wiped)
            yield text, "ok", 0, after
            yield f"{text}: no answer", "no answer", 1, world
            yield f"{text}: done, no answer", "no answer", 1, after

    # -- the effects

    def commits(self, versions: State, base: int, fenced: bool) -> bool:
        """Delta's check: the txns that were registered as read have not changed since the snapshot."""
        return not fenced or len(versions) == base

    def live(self, items: State) -> State:
        """What a Query gives: the started intents, and the newest completed one."""
        done = [item for item in items if item[1] == "completed"]
        newest = max(done, key=lambda item: (item[0][3], item[2]), default=None)
        return tuple(item for item in items if item[1] == "started" or item == newest)

    def written(self, items: State, effect: str, asked: State) -> State | None:
        """Conditional writes, as exporter/wal/dynamodb.py words them; None if an item contradicts."""
        known = {item[0][0]: item for item in items}
        for one in asked:
            intent, version = one if effect == "complete" else (one, None)
            state = {"start": "started", "complete": "completed", "fail": "failed"}[effect]
            there = known.get(intent[0])
            if there is not None and there[1:] != (state, version) and (effect == "start" or there[1] != "started"):
                return None
            if there is not None or effect != "fail":
                known[intent[0]] = (intent, state, version)
        return tuple(sorted(known.values()))

    # -- invariants

    def broken(self, world: State) -> str:
        """ONCE, and of ORDER what the log says of a commit: failed for ever, or completed because it landed."""
        versions, items, _, _ = world
        offsets = [offset for _, first, last in versions for offset in range(first, last + 1)]
        for offset in range(self.scope.records):
            if offsets.count(offset) > 1:
                return f"ONCE: record {offset} is committed {offsets.count(offset)} times"
        landed = {json.loads(text)["commit_id"]: at for at, (text, _, _) in enumerate(versions, 1)}
        for intent, state, version in items:
            if state == "failed" and intent[0] in landed:
                return f"ORDER: the log says that {intent[0]} failed, it is version {landed[intent[0]]}"
            if state == "completed" and landed.get(intent[0]) != version:
                return f"ORDER: the log says that {intent[0]} is version {version}, it is not"
        return ""

    def went_back(self, before: State, after: State) -> str:
        """ORDER, as a check of the trace: started < Delta commit < completed < group offset; MONOTONE."""
        versions, _, group, wiped = after
        known = {item[0][0]: item[1] for item in before[1]}
        exempt = wiped or not self.scope.required
        if len(versions) > len(before[0]):
            commit_id = json.loads(versions[-1][0])["commit_id"]
            if known.get(commit_id) != "started" and not exempt:
                return f"ORDER: {commit_id} is committed, the log has it as {known.get(commit_id, 'nothing')}"
        if group != before[2] and not exempt:
            said = [json.loads(text) for text, _, last in versions if last < group[0]]
            for commit_id in (one["commit_id"] for one in said if one["owner"] == group[1]):
                if known.get(commit_id) != "completed":
                    return f"ORDER: the group offset is {group[0]}, the log has {commit_id} as {known.get(commit_id)}"
        return "MONOTONE: the group offset went back" if group < before[2] else ""

    def show(self, world: State) -> str:
        versions, items, group, wiped = world
        table = " ".join(f"{first}..{last}" for _, first, last in versions) or "empty"
        log = " ".join(f"{item[0][0]}:{item[1]}" for item in items)
        return f"table {table}  log [{log}]  group {group[0]}{'  log was lost' if wiped else ''}"

    # -- a fair run without faults

    def finished(self, world: State) -> bool:
        """Everything is committed, and the group offset says so."""
        return bool(world[2][0] == self.scope.records)

    def clean_step(self, process: State, world: State) -> Step | None:
        """The next step of one process that is left alone, whatever it has used up already."""
        fair = WalWorld(replace(self.scope, offers=1 << 10))
        unwanted = ("no answer", "lost", "raises", "crashes")
        steps = [step for step in fair.steps(process, world) if not any(word in step[0] for word in unwanted)]
        return steps[-1] if steps else None


def _file(first: int, last: int) -> StagedFile:
    path = str(DataFile(partition_of(date(2026, 1, 1)), APP, TP, 0, last, "a"))
    return StagedFile(path, OffsetRange(first, last), last - first + 1, 1, fingerprint="f")


def _bare(one: Intent) -> State:
    return (one.commit_id, one.owner, one.expected, one.new, one.checked_through)


def _intent(bare: State, state: str = "started", version: int | None = None) -> Intent:
    commit_id, owner, expected, new, checked = bare
    return Intent(KEY, commit_id, owner, expected, new, expected + 1, new, new - expected, checked, "id", "", 0,
                  IntentState(state), version)  # fmt: skip


def _id_of(asked: State) -> str:
    return str(asked[0] if isinstance(asked[0], str) else asked[0][0])
