"""The world of coordinated commits (protocol 4.11): tasks that offer, leaders that merge, a channel that keeps nothing.

Two tasks that both believe they own the same partitions of one table, as in pair_world.py; each has a leader of its
own, and all four go on after whatever pause. What a task makes of what it hears, and of a time-out, is the exporter's
own RoundMember, over DeltaCommitter.found and land; what a leader puts into one commit is the exporter's own choice.
The channel holds a few messages: each may be heard by anybody, any number of times, in any order, at any time; when it
is full, the next one takes the place of any. So losing, doubling, delaying and clearing are all in it, and with `lies`
outcomes that nobody found, too. At any time a leader may be told a made-up offer without files, of the right position:
to anywhere if it is not signed, to the end of the partition or beyond if it is. A commit that was given up and lands
later is a leader's, which has the offer under the same id.

    Process  (writers, open, name)
    Writer   as in pair_world.py
    Open     (offer id, claims with the ids that each was offered under, SAID or LOST)      None: nothing is offered
    World    (table, log, intents, channel, leaders, told, altered)
             table: per partition (position, committed offsets)      log: (offer id, ((partition, new, has files), ...))
             intents: (offer id, partition, new, state) of claims with files, in the write-ahead log; LEFT: by a task
             that is no more, or has given it up
             channel: ("offer", id, claims) and ("outcome", landed ids, dropped ids)
             leaders: per process the offers of a commit without an answer, or None
             told: what a group offset says that the table or the log of intents does not, or empty
             altered: how often the table's metadata have changed; what was staged fits them every second time
    claims   ((partition, expected, new, files), ...)

Reading and integrating is one step (overlapping rounds are world.py's). Begin and Ready say only when a task rolls and
a leader commits, which is any time here. Ids that nothing names any more are forgotten and used again.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import exporter.coordinate.channel
import exporter.coordinate.member
import exporter.protocol.commit
from exporter.coordinate.channel import TopicChannel
from exporter.coordinate.member import RoundMember, _Offered
from exporter.coordinate.messages import encode
from exporter.coordinate.signature import Signature
from exporter.core import merging
from exporter.core.coordination import Offer, OfferedClaim, Outcome
from exporter.core.outcome import Landed, Prepared, Report, Unknown
from exporter.core.writers import Claim, StagedFile, drop, freeze, staged_range_error
from exporter.errors import InvariantBroken
from exporter.protocol.commit import DeltaCommitter
from offsets.names import AppId
from offsets.table_log import APP_PROPERTY, LoggedCommit, TableView
from tests.model.pair_world import BOTH, TPS, TYPE, PairScope, PairWorld, _claims, _compact
from tests.model.search import Silent, Step, remember
from tests.model.world import APP, Move, SharedMove, State, Stopped, _offsets, _put

SAID, LOST = "said", "lost"
STARTED, COMPLETED, FAILED, LEFT = "started", "completed", "failed", "left"
SIGNATURE = Signature(lambda: b"key", lambda: 0.0)
OPEN = 0b100
EVERYTHING = BOTH | OPEN


STUBS: tuple[tuple[Any, str, Any], ...] = tuple(
    (module, "log", Silent())
    for module in (exporter.protocol.commit, exporter.coordinate.member, exporter.coordinate.channel)
)
"""Module, name, value: to be in place while this world is searched."""


@dataclass(frozen=True)
class CoordinateScope:
    """logs, drops, revokes, markers: as in pair_world.py. messages: that the channel holds. merged: of one commit.

    ids: of one task that anything may still name. lies: outcomes are made up. leads: how many of the two have a leader.
    owns: the partitions that each task takes for its own. alters: how often the table's metadata change, at most.
    forgets: offers that can never land vanish from the channel. finds: the log answers when positions are read again.
    """

    logs: tuple[str, str] = ("A", "A")
    messages: int = 3
    merged: int = 2
    ids: int = 2
    leads: int = 2
    owns: tuple[tuple[int, ...], ...] = ((0, 1), (0,))
    lies: bool = False
    alters: int = 0
    forgets: bool = True
    drops: bool = False
    revokes: bool = False
    markers: bool = True
    finds: bool = True


class _Committer(DeltaCommitter):
    """The real one; what files say of themselves is nobody's matter here."""

    def _add(self, claim: Claim, file: StagedFile, commit_id: str) -> dict[str, Any]:
        return {}


class _Lands(Exception):
    """A task begins to commit by itself."""


class _Looking:
    """The committer of a member. committer: that looks; None: it has, in vain. landing: what it commits then."""

    def __init__(self, committer: DeltaCommitter | None) -> None:
        self.committer = committer
        self.landing: Prepared | None = None

    def found(self, prepared: Prepared) -> Report | None:
        return self.committer.found(prepared) if self.committer else None

    def fall_back(self, prepared: Prepared) -> Report:
        self.landing = prepared
        raise _Lands


class _Lake:
    """A lake of one table as it is now, its only commit in the log, and a journal that takes down what it is told."""

    app, event_type, store, on = APP, TYPE, None, False

    def __init__(self, seen: State, ids: State = (), answers: bool = False) -> None:
        """seen: as CoordinateWorld.seen has it. ids: in the log. answers: whether a commit does."""
        self.seen, self.ids, self.answers = seen, ids, answers
        self.landed: dict[tuple[int, str], int] = {}
        self.failed: tuple[tuple[int, str], ...] = ()

    def table(self, event_type: str) -> _Lake:
        return self

    def view(self) -> TableView:
        positions, fits = self.seen
        at = {str(AppId(APP, tp, 0)): now for tp, now in zip(TPS, positions, strict=True)}
        return TableView(1, "id", "" if fits else "altered", at, {APP_PROPERTY: APP})

    def commits(self, after: int, through: int) -> list[LoggedCommit]:
        said = json.dumps({"commit_id": "merged", "offers": self.ids})
        return [LoggedCommit(1, "WRITE", said, (), (), False)] if after < 1 <= through else []

    def commit(self, change: Any, check: Callable[[TableView], Any]) -> int:
        check(self.view())
        if not self.answers:
            raise OSError("no answer")
        return 1

    def not_synced(self, error: BaseException) -> bool:
        return False

    def settle(self, event_type: str, landed: Any, failed: Any) -> None:
        self.landed = {(TPS.index(tp), one): at for (tp, one), at in landed.items()}
        self.failed = tuple((TPS.index(tp), one) for tp, one in failed)


class CoordinateWorld(PairWorld):
    """All steps from a state. A task's own reading is local; whatever is said, written or looked at is shared."""

    def __init__(self, scope: CoordinateScope) -> None:
        super().__init__(PairScope(scope.logs, drops=scope.drops, revokes=scope.revokes, markers=scope.markers))
        self.bounds = scope
        remember(self, "settling", "hearing", "falls_back", "frozen", "due", "choice", "found", "lasting", "went_on")
        remember(self, "made_up")

    def roles(self) -> tuple[tuple[int, ...], tuple[str, ...]]:
        return (0, 1), ("P1", "P2")

    def first_state(self) -> tuple[State, State]:
        fresh = (-1, -1, (), None)
        owned = [tuple(fresh if p in mine else None for p in range(len(TPS))) for mine in self.bounds.owns]
        world = (tuple((-1, ()) for _ in TPS), (), (), (), (None, None), "", 0)
        return world, ((owned[0], None, "a"), (owned[1], None, "b"))

    def local_moves(self, process: State) -> list[Move]:
        return [*self._reads(process), *self._drops(process)]

    def shared_moves(self, process: State, tables: State) -> list[SharedMove]:
        moves: list[SharedMove] = []
        for step in (self._offered, self._lands, self._looks, self._recovers, self._crashes, self._alters, self._leads):
            moves.extend(step(process, tables))
        return [(text, *self._tidied(after, new), reads, writes) for text, after, new, reads, writes in moves]

    # -- the task

    def _offered(self, process: State, tables: State) -> Iterator[SharedMove]:
        """Freeze any of the due writers; claims that were offered before ride along; the same offer said again."""
        writers, mine, name = process
        if mine is not None:
            if mine[2] == SAID:
                yield from self._says("says its offer again", process, tables, ("offer", mine[0], _bare(mine[1])), OPEN)
            return
        again = [p for p, writer in enumerate(writers) if writer and writer[3]]
        due = [p for p, writer in enumerate(writers) if writer and self.due(p, writer)]
        number = next(n for n in itertools.count(1) if f"{name}{n}" not in _used(process, tables))
        if number > self.bounds.ids:
            return
        for count in range(0 if again else 1, len(due) + 1):
            for fresh in itertools.combinations(due, count):
                yield from self._prepares(process, tables, fresh, again, f"{name}{number}")

    def due(self, p: int, writer: State) -> bool:
        return self._is_due(self.real_writer(p, writer))

    def _prepares(
        self, process: State, tables: State, fresh: State, again: list[int], offer_id: str
    ) -> Iterator[SharedMove]:
        """Started in the log, then said."""
        writers, _, name = process
        claims = tuple(self.frozen(p, writers[p]) for p in sorted({*fresh, *again}))
        text = f"offers {offer_id}: "
        for claim in claims:
            if isinstance(claim, Stopped):
                yield text, claim, tables, EVERYTHING, EVERYTHING
                return
        after = process
        for p, *claim in claims:
            after = _put(after, p, (*writers[p][:3], tuple(claim)))
        mine = tuple((*claim[:4], (*claim[4], offer_id)) for claim in claims)
        started = {(offer_id, p, new, STARTED) for p, _, new, files, _ in claims if files}
        world = (*tables[:2], tuple(sorted({*tables[2], *started})), *tables[3:])
        used = sum(1 << p for p in {*fresh, *again}) | OPEN
        opened = (after[0], (offer_id, mine, SAID), name)
        yield from self._says(text + _claims(_bare(mine)), opened, world, ("offer", offer_id, _bare(mine)), used)

    def frozen(self, p: int, writer: State) -> State | Stopped:
        """The claim that a writer has, or gets now: partition, and as in the writer."""
        try:
            real = self.real_writer(p, writer)
            claim = real.claim or freeze(real, 0).claim
            problem = staged_range_error(claim) if claim else "no claim"
        except InvariantBroken as error:
            return Stopped(error.message)
        if claim is None or problem:
            return Stopped(problem)
        return (p, claim.expected, claim.new, tuple(_offsets(file) for file in claim.files), claim.offers)

    def _says(self, text: str, process: State, tables: State, message: State, used: int) -> Iterator[SharedMove]:
        """The message takes a free place in the channel, or that of any other."""
        channel = tables[3]
        if message in channel:
            yield text, process, tables, used, used
            return
        full = len(channel) >= self.bounds.messages
        for at in range(len(channel) if full else 1):
            kept = (*channel[:at], *channel[at + 1 :]) if full else channel
            world = (*tables[:3], tuple(sorted((*kept, message), key=repr)), *tables[4:])
            yield text, process, world, used, used

    def _lands(self, process: State, tables: State) -> Iterator[SharedMove]:
        """It has looked in vain, and commits by itself what it has offered; others may have been faster meanwhile."""
        if process[1] is None or process[1][2] != SAID:
            return
        writers, (offer_id, claims, _), name = process
        offer_id, claims = self.falls_back(offer_id, claims)
        process = (writers, (offer_id, claims, SAID), name)
        lost = (writers, (offer_id, claims, LOST), name)
        yield "commits by itself: raises, not landed", lost, tables, OPEN, OPEN
        settled = self.settling("lands", claims, offer_id, self.seen(tables), self.logged(claims, tables))
        if settled[0] is None:
            return
        world = self.written(tables, ((offer_id, _bare(claims)),))
        yield f"commits {offer_id} by itself, answer lost", lost, world, OPEN, OPEN
        yield f"commits {offer_id} by itself", *self.settled_all(process, world, settled), EVERYTHING, EVERYTHING

    def falls_back(self, offer_id: str, claims: State) -> tuple[str, State]:
        """What a task commits by itself of an offer that it did not find (4.11)."""
        looking = _Looking(None)
        _, one = self.member(looking, offer_id, claims)
        one.tick(1.0)
        landing = looking.landing
        if landing is None:
            raise RuntimeError(f"{offer_id} is not committed")
        return landing.commit_id, tuple(self.bare_claim(claim) for claim in landing.offers)

    def bare_claim(self, claim: Claim) -> State:
        files = tuple(_offsets(file) for file in claim.files)
        return TPS.index(claim.key.tp), claim.expected, claim.new, files, claim.offers

    def member(self, looking: _Looking, offer_id: str, claims: State) -> tuple[Future[Report], RoundMember]:
        """A task that waits for what becomes of its offer; its time is over at 1."""
        inline = SimpleNamespace(submit=lambda run, *given: run(*given))
        one = RoundMember(APP, "task", looking, inline, SimpleNamespace(), 1.0, lambda: None)  # type: ignore[arg-type]
        future: Future[Report] = Future()
        offer = self.real_offer(offer_id, _bare(claims))
        one._open[offer_id] = _Offered(self.prepared(offer_id, claims), offer, future, 0.0, 1.0)
        return future, one

    def prepared(self, offer_id: str, claims: State) -> Prepared:
        return Prepared(TYPE, offer_id, tuple(self.real_claim(one[0], one[1:]) for one in claims), (), {}, 0.0)

    def _looks(self, process: State, tables: State) -> Iterator[SharedMove]:
        """After a commit that did not return, a time-out, or an outcome that was heard: the log says what became."""
        mine = process[1]
        if mine is None:
            return
        offer_id, claims, status = mine
        seen, ids = self.seen(tables), self.logged(claims, tables)
        for text, landed, dropped in self.hints(offer_id, tables[3]) if status == SAID else [("looks", False, False)]:
            if status == SAID:
                settled = self.hearing(landed, dropped, claims, offer_id, seen, ids)
            else:
                settled = self.settling("raises", claims, offer_id, seen, ids)
            if settled[0] is not None:
                after, world = self.settled_all(process, tables, settled)
                found = ", ".join(f"p{p} {kind}" for p, kind, _ in settled[0])
                yield f"{text}: {found}", after, world, EVERYTHING, EVERYTHING

    def hints(self, offer_id: str, channel: State) -> Iterator[tuple[str, bool, bool]]:
        """What makes a task look: nothing heard in time, or what somebody says of its offer: landed, dropped."""
        yield "looks", False, False
        for kind, landed, dropped in channel:
            if kind == "outcome" and offer_id in landed:
                yield "hears that it landed, looks", True, False
            if kind == "outcome" and offer_id in dropped:
                yield "hears that it was dropped, looks", False, True

    def hearing(self, landed: bool, dropped: bool, claims: State, offer_id: str, seen: State, ids: State) -> State:
        """What a task makes of what it is told, or of its time-out, as `settling` has it."""
        lake = _Lake(seen, ids)
        future, one = self.member(_Looking(self.committer(lake)), offer_id, claims)
        if landed or dropped:
            told = (offer_id,) if landed else ()
            one.hear(Outcome(APP, "leader", "", TYPE, 1, 0, told, {offer_id: "model"} if dropped else {}), 0.0)
        else:
            one.tick(1.0)
        if isinstance(future.exception(0.0), _Lands):
            return None, (), ()
        return self.told_of(lake, future.result(0.0))

    def committer(self, lake: _Lake) -> _Committer:
        return _Committer(lake, "task", {}, lake, others_commit=True)  # type: ignore[arg-type]

    def settling(self, kind: str, claims: State, offer_id: str, seen: State, ids: State) -> State:
        """What the exporter makes of a commit of its own: per claim (partition, outcome, position), and what the log
        is told.

        None if nothing is settled: it is refused.
        """
        lake = _Lake(seen, ids, kind == "lands")
        report = self.committer(lake).land(self.prepared(offer_id, claims))
        return (None, (), ()) if kind == "lands" and report.version is None else self.told_of(lake, report)

    def told_of(self, lake: _Lake, report: Report) -> State:
        told = tuple(
            (TPS.index(one.claim.key.tp), type(one.outcome).__name__.lower(), getattr(one.outcome, "position", None))
            for one in report.settled
        )
        return told, tuple(lake.landed), lake.failed

    def settled_all(self, process: State, tables: State, settled: State) -> tuple[State, State]:
        """What the loop makes of the outcomes, and the log and the group offset of what it is told."""
        claims = {p: tuple(claim) for p, *claim in process[1][1]}
        after = (process[0], None, process[2])
        for p, kind, position in settled[0]:
            writer = after[0][p]
            if writer and writer[3] and writer[3][:3] == claims[p][:3]:
                after = _put(after, p, self.went_on(p, (*writer[:3], claims[p]), kind, position))
        given_up = {(claims[p][3][-1], p): LEFT for p, kind, _ in settled[0] if kind == "stale"}
        states = given_up | {(one, p): COMPLETED for p, one in settled[1]} | {(one, p): FAILED for p, one in settled[2]}
        intents = tuple((one, p, new, states.get((one, p), state)) for one, p, new, state in tables[2])
        return after, (*tables[:2], intents, *tables[3:])

    def went_on(self, p: int, writer: State, kind: str, position: Any) -> State | None:
        """The writer afterwards; None: it is read again."""
        if kind == "stale":
            return _compact(drop(self.real_writer(p, writer)))
        found: Any = Unknown() if kind == "unknown" else Landed(position) if kind == "landed" else None
        return self.settled(p, writer, found) if found else None

    def logged(self, claims: State, tables: State) -> State:
        ids = {one for *_, offers in claims for one in offers}
        return tuple(sorted(one for one, _ in tables[1] if one in ids))

    def _recovers(self, process: State, tables: State) -> Iterator[SharedMove]:
        """A fresh reading, the log among it, once no offer is open (4.1: what it names is unresolved until then)."""
        for p, writer in enumerate(process[0]):
            if writer is None and process[1] is None and p in self.bounds.owns["ab".index(process[2])]:
                at = tables[0][p][0]
                landed = dict(tables[1]) if self.bounds.finds else {}
                found = ((*one[:3], COMPLETED) if one[1] == p and one[0] in landed else one for one in tables[2])
                world = (*tables[:2], tuple(found), *tables[3:])
                yield f"reads p{p} again: {at}", _put(process, p, (at, at, (), None)), world, OPEN, 1 << p

    def _crashes(self, process: State, tables: State) -> Iterator[SharedMove]:
        """The task and its leader are one process."""
        after = ((None, None), None, process[2])
        world = self._with_leader(process, tables, None)
        world = (*world[:2], tuple(self.judged(one, process[2], world) for one in world[2]), *world[3:])
        if (after, world) != (process, tables):
            yield "crashes and starts again", after, world, EVERYTHING, EVERYTHING

    def judged(self, intent: State, name: str, tables: State) -> State:
        """5.1: what a start makes of the intents of the life before."""
        if intent[0][0] != name or intent[3] != STARTED:
            return intent
        return (*intent[:3], COMPLETED if intent[0] in dict(tables[1]) else LEFT)

    def _alters(self, process: State, tables: State) -> Iterator[SharedMove]:
        if tables[6] < self.bounds.alters:
            yield "somebody changes the table's metadata", process, (*tables[:6], tables[6] + 1), 0, 0

    def seen(self, tables: State) -> State:
        """Of the table: its positions, and whether what was staged fits it."""
        return _positions(tables), not tables[6] % 2

    # -- the leader

    def _leads(self, process: State, tables: State) -> Iterator[SharedMove]:
        """It commits what it has heard, any offers in any order; or it looks what became of a commit of its own."""
        at = "ab".index(process[2])
        if at >= self.bounds.leads:
            return
        if self.bounds.lies:
            yield from self._lies(process, tables)
        if tables[4][at] is not None:
            yield from self._finds_out(process, tables, tables[4][at])
            return
        offers = [message[1:] for message in tables[3] if message[0] == "offer"]
        for count in range(1, self.bounds.merged + 1):
            for heard in itertools.permutations(offers, count):
                yield from self._merges(process, tables, heard)
        for text, chosen in self.made_up(self.seen(tables)):
            yield text, process, self.written(tables, chosen), 0, 0

    def made_up(self, seen: State) -> State:
        """What a leader commits of offers that somebody makes up: how it is told, and the offer."""
        found = []
        for p, log in enumerate(self.scope.logs):
            for new in range(seen[0][p] + 1, len(log) + 2):
                offer = ("x", ((p, seen[0][p], new, ()),))
                for signed in (False, True) if new >= len(log) else (False,):
                    if self.is_heard(offer, signed) and (chosen := self.choice((offer,), seen)[0]):
                        found.append((f"L: commits a made-up offer, p{p} to {new}{', signed' * signed}", chosen))
        return tuple(found)

    def is_heard(self, offer: State, signed: bool) -> bool:
        """Whether a task takes a value of the control topic for an offer."""
        value = encode(self.real_offer(*offer))
        wire = SimpleNamespace(receive=lambda _: [SIGNATURE.put_on(value) if signed else value])
        return bool(TopicChannel(wire, APP, SIGNATURE).hear(0))  # type: ignore[arg-type]

    def _merges(self, process: State, tables: State, heard: State) -> Iterator[SharedMove]:
        """All that it has heard of, in one commit, but what does not belong there."""
        chosen, dropped = self.choice(heard, self.seen(tables))
        if not chosen:
            yield from self._tells(f"L: drops {', '.join(dropped)}", process, tables, (), dropped)
            return
        merged = "+".join(one for one, _ in chosen)
        lost = self._with_leader(process, tables, tuple(chosen))
        yield f"L: the commit of {merged} raises, not landed", process, lost, 0, 0
        yield f"L: commits {merged}, answer lost", process, self.written(lost, chosen), 0, 0
        landed = tuple(one for one, _ in chosen)
        yield from self._tells(f"L: commits {merged}", process, self.written(tables, chosen), landed, dropped)

    def choice(self, offers: State, seen: State) -> tuple[State, State]:
        """The offers that go into one commit, as they do, and the ids of those that do not (4.11)."""
        real = [self.real_offer(*offer) for offer in offers]
        ends = {tp: len(log) for tp, log in zip(TPS, self.scope.logs, strict=True)}
        found = merging.choose(APP, _Lake(seen).view(), real, merging.beyond(real, ends))
        said = {(one, claim[0]): claim for one, claims in offers for claim in claims}
        chosen = tuple(
            (offer.id, tuple(said[offer.id, TPS.index(one.tp)] for one in offer.claims)) for offer in found.offers
        )
        return chosen, tuple(found.dropped)

    def real_offer(self, offer_id: str, claims: State) -> Offer:
        said = tuple(OfferedClaim(TPS[p], 0, expected, new, {}) for p, expected, new, _ in claims)
        fits = (("", ""),) if any(files for *_, files in claims) else ()
        return Offer(APP, offer_id, "task", TYPE, "id", "", 0, said, (), fits)

    def _finds_out(self, process: State, tables: State, call: State) -> Iterator[SharedMove]:
        """Offers of a commit that did not return, each by looking; what is unknown is told to nobody."""
        quiet = self._with_leader(process, tables, None)
        landed, dropped = self.found(call, self.seen(tables), tuple(one for one, _ in tables[1]))
        text = "L: looks, " + (", ".join([*(f"{one} landed" for one in landed), *dropped]) or "unknown")
        if landed or dropped:
            yield from self._tells(text, process, quiet, landed, dropped)
        else:
            yield text, process, quiet, 0, 0

    def found(self, offers: State, seen: State, ids: State) -> tuple[State, State]:
        """Of offers whose commit did not return: the ids of what has landed, and of what never will."""
        found = merging.settled(APP, _Lake(seen).view(), [self.real_offer(*offer) for offer in offers], ids)
        return found.landed, tuple(found.dropped)

    def _tells(
        self, text: str, process: State, tables: State, landed: State, dropped: State
    ) -> Iterator[SharedMove]:
        return self._says(text, process, tables, ("outcome", tuple(sorted(landed)), tuple(sorted(dropped))), 0)

    def _lies(self, process: State, tables: State) -> Iterator[SharedMove]:
        """Somebody says what nobody has found."""
        for offer_id in sorted({one[0] for one in tables[2] if one[3] == STARTED}):
            yield from self._tells(f"L: makes up that {offer_id} landed", process, tables, (offer_id,), ())
            yield from self._tells(f"L: makes up that {offer_id} was dropped", process, tables, (), (offer_id,))

    def _with_leader(self, process: State, tables: State, leader: State | None) -> State:
        at = "ab".index(process[2])
        return (*tables[:4], (*tables[4][:at], leader, *tables[4][at + 1 :]), *tables[5:])

    def written(self, tables: State, offers: State) -> State:
        """One commit with these offers, and their ids in the log."""
        table, log = list(tables[0]), dict(tables[1])
        for one, claims in offers:
            for p, _, new, files in claims:
                rows = (offset for file in files for offset in file)
                table[p] = (new, tuple(sorted([*table[p][1], *rows])))
            log[one] = tuple((p, new, bool(files)) for p, _, new, files in claims)
        return (tuple(table), tuple(sorted(log.items())), *tables[2:])

    def _tidied(self, process: State, tables: State) -> tuple[State, State]:
        """What nothing can come back to is forgotten; of the other task's only what the world alone can tell."""
        if isinstance(process, Stopped):
            return process, tables
        table, log, intents, channel, leaders, _, altered = tables
        writers, mine, name = process
        channel = self.lasting(channel, _positions(tables), mine[0] if mine else "", name)
        alive = {message[1] for message in channel if message[0] == "offer"} | ({mine[0]} if mine else set())
        alive |= {one for call in leaders for one, _ in call or ()}
        intents = tuple(one for one in intents if one[0] in alive or one[0][0] != name)
        known = alive | {one for one, _ in log}
        writers = tuple(writer and (*writer[:3], writer[3] and _known(writer[3], known)) for writer in writers)
        mine = mine and (mine[0], tuple(_known(claim, known) for claim in mine[1]), mine[2])
        claims = [writer[3] for writer in writers if writer and writer[3]] + [*(mine[1] if mine else ())]
        kept = {one for claim in claims for one in claim[-1]} | {one for one, *_ in intents}
        log = tuple(one for one in log if one[0] in kept or one[0][0] != name)
        told = self.told(process, tables)
        return (writers, mine, name), (table, log, intents, channel, leaders, told, altered)

    def told(self, process: State, tables: State) -> str:
        """ORDER: the group offset says what is covered, which may be said as soon as it is."""
        landed = dict(tables[1])
        for p, writer in enumerate(process[0]):
            covered = writer[0] if writer else -1
            if covered > tables[0][p][0]:
                return f"the group offset of p{p} is {covered + 1}, the table is at {tables[0][p][0]}"
            for one, at, new, state in tables[2]:
                if one[0] == process[2] and one in landed and (at, state) == (p, STARTED) and new <= covered:
                    return f"the group offset of p{p} is {covered + 1}, the log has {one} as {state}"
        return ""

    def lasting(self, channel: State, positions: State, mine: str, name: str) -> State:
        """The messages that still say something: ids are never used again for real, and are here.

        An offer whose expected position has passed is dropped by whoever hears it; an outcome is for an offer that
        is open.
        """
        left = []
        for message in channel:
            if message[0] == "offer":
                passed = any(positions[p] > expected for p, expected, *_ in message[2])
                lasts = not (self.bounds.forgets and passed) or message[1] == mine
            else:
                said = (tuple(one for one in ids if one[0] != name or one == mine) for ids in message[1:])
                message = ("outcome", *said)
                lasts = bool(message[1] or message[2])
            if lasts and message not in left:
                left.append(message)
        return tuple(sorted(left, key=repr))

    # -- invariants

    def broken(self, tables: State) -> str:
        """ONCE and COVER of the table; of ORDER what the log and the group offset say of it."""
        table, log, intents, _, _, told, _ = tables
        landed = {(one, p): new for one, parts in log for p, new, _ in parts}
        for one, p, new, state in intents:
            if state == COMPLETED and landed.get((one, p)) != new:
                return f"ORDER: the log says that {one} has moved p{p} to {new}, it has not"
            if state == FAILED and (one, p) in landed:
                return f"ORDER: the log says that {one} failed, it has moved p{p}"
        return f"ORDER: {told}" if told else super().broken(table)

    def went_back(self, before: State, after: State) -> str:
        """MONOTONE; and of ORDER that nothing with files lands that the log was not told of."""
        started = {(one, p) for one, p, _, state in before[2] if state in (STARTED, LEFT)}
        known = dict(before[1])
        for one, parts in after[1]:
            missing = [p for p, _, files in parts if files and (one, p) not in started and one not in known]
            if missing:
                return f"ORDER: {one} has moved p{missing[0]}, the log was not told before"
        return super().went_back(before[0], after[0])

    def finished(self, tables: State) -> bool:
        return super().finished(tables[0])

    def show(self, tables: State) -> str:
        said = " ".join(self._shown(one) for one in tables[3])
        return f"{super().show(tables[0])}  channel [{said}]"

    def _shown(self, message: State) -> str:
        if message[0] == "offer":
            return str(message[1])
        return ",".join([*(f"{one} landed" for one in message[1]), *(f"{one} dropped" for one in message[2])])

    def clean_step(self, process: State, tables: State) -> Step | None:
        """The next step of a task that is left alone, without a leader: it falls back to commits of its own."""
        shared = self.shared_moves(process, tables)
        for words in ("looks", "by itself", "reads"):
            for text, after, new, *_ in shared:
                if text.startswith(words) or text.endswith(words):
                    return text, after, new
        reads = [move for move in self.local_moves(process) if move[0].startswith("reads")]
        offers = [move for move in shared if move[0].startswith("offers")]
        if offers:
            return offers[-1][:3]
        return (reads[-1][0], reads[-1][1], tables) if reads else None


def _positions(tables: State) -> State:
    return tuple(at for at, _ in tables[0])


def _bare(claims: State) -> State:
    """As a message has them: without what they were offered under before."""
    return tuple(claim[:4] for claim in claims)


def _known(claim: State, known: set[str]) -> State:
    """A claim without the ids that can be in no log any more."""
    return (*claim[:-1], tuple(one for one in claim[-1] if one in known))


def _used(process: State, tables: State) -> set[str]:
    """The ids that anything names."""
    writers, mine, _ = process
    _, log, intents, channel, leaders, *_ = tables
    claimed = {one for writer in writers if writer and writer[3] for one in writer[3][3]}
    told = {one for message in channel if message[0] == "outcome" for ids in message[1:] for one in ids}
    offered = {message[1] for message in channel if message[0] == "offer"}
    offered |= {one for call in leaders for one, _ in call or ()}
    return claimed | told | offered | {one for one, *_ in (*log, *intents)} | ({mine[0]} if mine else set())
