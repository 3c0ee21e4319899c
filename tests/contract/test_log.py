"""What every write-ahead log does, whatever it is kept in (offsets.intents.WriteAheadLog), and its leases.

On the one in memory, which is stricter than any real one; on DynamoDB's, over a fake of DynamoDB and over a real one.
"""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from exporter.wal.dynamodb import DynamoDbLog
from exporter.wal.dynamodb_calls import Calls, connect
from exporter.wal.dynamodb_table import WalTableState, create_table
from exporter.wal.lease_keeper import LeaseKeeper
from exporter.wal.memory import Memory, MemoryLog
from offsets.intents import Intent, IntentKey, IntentState, WalMismatch, WalUnreachable, WriteAheadLog
from offsets.leases import Lease, LeaseTaken
from offsets.names import BadName
from offsets.ranges import TopicPartition
from tests.support.fake_dynamodb import FakeDynamoDb
from tests.support.services import fresh_name

TP = TopicPartition("events", 0)
REAL = pytest.param("dynamodb", marks=pytest.mark.xdist_group("dynamodb"))


@dataclass
class Ways:
    """Logs of several processes over one store."""

    open: Callable[[str, float], WriteAheadLog]

    def log(self, app: str = "app", now: float = 1_000_000_000.0) -> WriteAheadLog:
        """now: what the process takes for the time, in seconds since 1970."""
        return self.open(app, now)


@pytest.fixture(params=["memory", "fake", REAL])
def ways(request: pytest.FixtureRequest) -> Ways:
    """The real one is started when it is first asked for."""
    if request.param == "memory":
        memory = Memory()
        return Ways(lambda app, now: MemoryLog(app, memory))
    client = FakeDynamoDb() if request.param == "fake" else connect(request.getfixturevalue("dynamodb")).client
    table = fresh_name("wal")
    assert create_table(Calls(client, 10, local=True), table) == WalTableState()
    return Ways(lambda app, now: DynamoDbLog(Calls(client, 10), table, app, 14, now=lambda: now))


@dataclass
class Lossy:
    """A log of which each n-th call is done, but its answer is lost."""

    log: Any
    every: int
    count: Any = field(default_factory=lambda: itertools.count(1))

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            answer = getattr(self.log, name)(*arguments)
            if next(self.count) % self.every == 0:
                raise WalUnreachable("no answer")
            return answer

        return call

    def until_answered(self, name: str, *arguments: Any) -> Any:
        """As whoever asks does: once more with the same."""
        while True:
            try:
                return getattr(self, name)(*arguments)
            except WalUnreachable:
                continue


def intent(commit_id: str, new: int, tp: TopicPartition = TP, kind: str = "order", epoch: int = 0) -> Intent:
    return Intent(IntentKey(kind, tp, epoch), commit_id, "me", new - 10, new, new - 9, new, 7, 3, "table", "f" * 64, 5)


def done(one: Intent, version: int) -> Intent:
    return replace(one, state=IntentState.COMPLETED, version=version)


def commits(log: WriteAheadLog, *numbers: int) -> None:
    """Commits of one writer that landed, each in the version of its number."""
    for number in numbers:
        log.start([intent(f"c{number}", number * 10)])
        log.complete([intent(f"c{number}", number * 10)], number)


def states(log: WriteAheadLog, tps: Sequence[TopicPartition]) -> list[tuple[str, IntentState]]:
    """Of all that is under way, done as the newest, or failed."""
    found = [one for tp in tps for one in (*log.read(tp), *log.failed(tp)[0])]
    return sorted((one.commit_id, one.state) for one in found)


def test_a_start_reads_what_is_under_way_and_the_newest_that_is_done(ways: Ways) -> None:
    """Started intents and one completed per type and epoch, by key and position; not what is another partition's."""
    log, rest = ways.log(), "refund/é~ x"
    commits(log, 1, 2, 3, 4, 5)
    log.start([intent("c6", 60)])
    log.start([intent("e1", 70, epoch=1)])
    log.complete([intent("e1", 70, epoch=1)], 9)
    log.start([intent("r1", 10, kind=rest), intent("f1", 20, kind=rest)])
    log.fail([intent("f1", 20, kind=rest)])
    log.start([intent("x", 10, TopicPartition("events", 1))])
    orders = done(intent("c5", 50), 5), intent("c6", 60), done(intent("e1", 70, epoch=1), 9)
    assert log.read(TP) == ways.log().read(TP) == (*orders, intent("r1", 10, kind=rest))
    assert log.read(TopicPartition("other", 0)) == ()


def test_the_log_of_another_app_is_another_one(ways: Ways) -> None:
    """Intents and leases of one topic partition, of two apps that share what they are kept in."""
    one, two = ways.log("one"), ways.log("two")
    one.start([intent("c1", 10)])
    held = one.acquire(TP, "me")
    assert two.read(TP) == () and two.lease(TP) is None
    two.complete([intent("c1", 10)], 4)
    assert two.acquire(TP, "you").token == 1
    assert one.read(TP) == (intent("c1", 10),) and one.lease(TP) == held


def test_an_older_commit_that_is_finished_late_does_not_become_the_newest(ways: Ways) -> None:
    """A finisher may come after the next commit."""
    log = ways.log()
    log.start([intent("c1", 10)])
    log.start([intent("c2", 20)])
    log.complete([intent("c2", 20)], 2)
    log.complete([intent("c1", 10)], 1)
    assert log.read(TP) == ways.log().read(TP) == (done(intent("c2", 20), 2),)


def test_whatever_was_done_may_be_done_again(ways: Ways) -> None:
    """Start, complete and fail meet what they wrote; another's word is a mismatch and changes nothing."""
    log, other = ways.log(), ways.log()
    one, two = intent("c1", 10), intent("c2", 20)
    for again in (log, log, other):
        again.start([one, two])
    for again in (log, other, log):
        again.complete([one], 1)
        again.fail([two])
    before = states(log, [TP])
    with pytest.raises(WalMismatch, match="is completed"):
        log.start([one])
    with pytest.raises(WalMismatch, match=r"completed \(version 1\), this process that it is completed \(version 2\)"):
        log.complete([one], 2)
    with pytest.raises(WalMismatch):
        log.fail([one])
    with pytest.raises(WalMismatch, match="is failed"):
        log.complete([two], 2)
    with pytest.raises(WalMismatch, match="is failed"):
        log.start([two])
    assert states(log, [TP]) == before == [("c1", IntentState.COMPLETED), ("c2", IntentState.FAILED)]


def test_a_call_that_is_refused_for_one_intent_has_written_none(ways: Ways) -> None:
    """The partitions of one commit stand or fall together."""
    log, tps = ways.log(), [TopicPartition("events", number) for number in range(3)]
    log.start([intent("c1", 10, tps[1])])
    log.complete([intent("c1", 10, tps[1])], 1)
    with pytest.raises(WalMismatch):
        log.start([intent("c1", 10, tp) for tp in tps])
    assert [log.read(tp) for tp in tps] == [(), (done(intent("c1", 10, tps[1]), 1),), ()]


def test_only_what_is_new_is_started_and_only_what_landed_is_recorded(ways: Ways) -> None:
    """A mistake of the caller, before anything is asked."""
    log = ways.log()
    with pytest.raises(ValueError, match="not a new intent"):
        log.start([done(intent("c1", 10), 1)])
    with pytest.raises(ValueError, match="not a completed intent"):
        log.record([intent("c1", 10)])
    with pytest.raises(BadName):
        log.start([intent("not/a/commit", 10)])
    assert log.read(TP) == ()


def test_what_a_table_says_is_written_again_when_the_log_was_lost(ways: Ways) -> None:
    """Completed intents of several versions, in any order. One that is not there did not land, and that is all."""
    log = ways.log()
    history = [done(intent(f"c{number}", number * 10), number) for number in (3, 1, 2)]
    log.record([*history, done(intent("r1", 50, kind="refund"), 1)])
    log.record(history)
    assert ways.log().read(TP) == (history[0], done(intent("r1", 50, kind="refund"), 1))
    log.fail([intent("never", 90)])
    assert ("never", IntentState.FAILED) not in states(log, [TP])
    log.complete([intent("c4", 40)], 4)  # its start was lost too
    assert ways.log().read(TP)[0] == done(intent("c4", 40), 4)


def test_a_commit_of_many_partitions_is_whole(ways: Ways) -> None:
    """More than DynamoDB takes in one call."""
    tps = [TopicPartition("events", number) for number in range(101)]
    log = ways.log()
    for number in (1, 2):
        log.start([intent(f"c{number}", number * 10, tp) for tp in tps])
        log.complete([intent(f"c{number}", number * 10, tp) for tp in tps], number)
    log.start([])
    assert {log.read(tp) == (done(intent("c2", 20, tp), 2),) for tp in (tps[0], tps[57], tps[100])} == {True}


@pytest.mark.parametrize("every", [2, 3])
def test_whoever_gets_no_answer_asks_again(ways: Ways, every: int) -> None:
    """What the first call wrote is what the second one finds."""
    lossy, pair = Lossy(ways.log(), every), [TP, TopicPartition("events", 1)]
    for number in range(1, 6):
        some = [intent(f"c{number}", number * 10, tp) for tp in pair]
        lossy.until_answered("start", some)
        lossy.until_answered("complete", some, number)
    lossy.until_answered("start", [intent("f", 90)])
    lossy.until_answered("fail", [intent("f", 90)])
    lease = lossy.until_answered("acquire", TP, "me")
    for _ in range(4):
        lease = lossy.until_answered("renew", lease)
    lossy.until_answered("release", lease)
    plain = ways.log()
    assert plain.read(TP) == (done(intent("c5", 50), 5),)
    assert plain.lease(TP) == replace(lease, released=True)
    assert states(plain, [TP]) == [("c5", IntentState.COMPLETED), ("f", IntentState.FAILED)]


def test_what_failed_is_told_as_long_as_the_history_is_kept(ways: Ways) -> None:
    """Of one partition, in the order of time; not what is under way, what is done, or what others have."""
    log = ways.log()
    made = [replace(intent(f"c{n}", n * 10, kind=f"t{n % 3}"), started_ms=100 - n) for n in range(1, 9)]
    other = intent("x", 10, TopicPartition("events", 1))
    log.start([*made, other])
    log.complete([made[0]], 1)
    log.fail([*made[1:7], other])
    log.acquire(TP, "me")
    found, whole = ways.log().failed(TP)
    assert whole and found == tuple(replace(one, state=IntentState.FAILED) for one in reversed(made[1:7]))
    assert ways.log().failed(TopicPartition("events", 2)) == ((), True)


def test_two_challengers_a_thousand_times_never_both_get_a_lease(ways: Ways) -> None:
    """Of two that saw the same token and counter exactly one takes it; the token rises by one each time."""
    logs = [ways.log(), ways.log()]
    seen: list[Lease | None] = [None]
    won: Counter[int] = Counter()
    taken: list[list[Lease]] = [[]]
    gate = threading.Barrier(2)
    failed: list[BaseException] = []

    def challenge(number: int) -> None:
        try:
            for turn in range(1000):
                gate.wait(30)
                try:
                    taken[-1].append(logs[number].acquire(TP, f"{number}/{turn}", seen[0]))
                    won[number] += 1
                except LeaseTaken:
                    pass
                gate.wait(30)
                if number == 0:
                    seen[0] = taken[-1][-1]
                    taken.append([])
        except BaseException as error:
            failed.append(error)
            gate.abort()
            raise

    racers = [threading.Thread(target=challenge, args=(number,)) for number in (0, 1)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join(120)
    assert not failed
    assert [len(each) for each in taken[:-1]] == [1] * 1000
    assert [each[0].token for each in taken[:-1]] == list(range(1, 1001))
    assert won.total() == 1000


def test_the_renewal_of_an_owner_that_slept_is_refused(ways: Ways) -> None:
    """Its lease was taken meanwhile; what it releases then is not another's."""
    log = ways.log()
    mine = log.renew(log.acquire(TP, "sleeper", routing="f"))
    with pytest.raises(LeaseTaken) as caught:
        log.acquire(TP, "other")
    assert caught.value.lease == mine
    theirs = log.acquire(TP, "other", mine)
    assert theirs.token == mine.token + 1
    with pytest.raises(LeaseTaken) as caught:
        log.renew(mine)
    assert caught.value.lease == theirs
    log.release(mine)
    assert log.lease(TP) == theirs
    log.release(theirs)
    assert log.acquire(TP, "third").token == theirs.token + 1


def test_a_renewal_whose_answer_was_lost_does_not_pass_for_a_later_one(ways: Ways) -> None:
    """A challenger may have watched it since: the next renewal is a write of its own."""
    log = ways.log()
    lease = log.acquire(TP, "owner")
    log.renew(lease)  # its answer is lost: the owner goes on with what it had
    assert log.renew(lease).counter == lease.counter + 2


def test_a_challenger_that_saw_an_older_counter_gets_nothing(ways: Ways) -> None:
    """A renewal between its look and its try is enough."""
    log = ways.log()
    first = log.acquire(TP, "owner")
    log.renew(first)
    with pytest.raises(LeaseTaken):
        log.acquire(TP, "other", first)


@pytest.mark.parametrize("ahead", [0.0, 3600.0, -3600.0])
def test_clocks_an_hour_apart_change_nothing(ways: Ways, ahead: float) -> None:
    """Neither wall clock nor monotonic clock of another machine counts: a challenger waits lease_secs of its own."""
    time_ = [0.0]

    def keeper(name: str, more: float) -> LeaseKeeper:
        log = ways.log(now=1e9 + more)
        return LeaseKeeper(log, name, 10, lambda tp: None, clock=lambda: time_[0] + more, threaded=False)

    owner, other = keeper("owner", 0.0), keeper("other", ahead)
    owner.take([TP])
    owner.beat()
    other.take([TP])
    for second in range(1, 30):
        time_[0] = float(second)
        owner.beat()
        other.beat()
        assert owner.held() == {TP} and not other.held()
    for second in range(30, 39):
        time_[0] = float(second)
        other.beat()
        assert not other.held()
    time_[0] = 39.5
    assert not owner.check(TP)
    other.beat()
    assert other.held() == {TP}


def test_a_lease_that_is_nobodys_is_taken_and_given_back(ways: Ways) -> None:
    """Its token rises with each taking, also the owner's own, and its counter begins anew."""
    log = ways.log()
    assert log.lease(TP) is None
    first = log.acquire(TP, "me", routing="f")
    assert first == Lease(TP, "me", 1, 0, "f") == log.lease(TP)
    again = log.acquire(TP, "me")
    assert (again.token, log.renew(again).counter) == (2, 1)
    with pytest.raises(LeaseTaken):
        log.renew(first)
    with pytest.raises(LeaseTaken) as caught:
        ways.log().renew(Lease(TopicPartition("events", 7), "me", 1, 0))
    assert caught.value.lease is None


STRICT: dict[str, Callable[[WriteAheadLog], Any]] = {
    "one item twice": lambda log: log.start([intent("a", 10), intent("a", 10)]),
    "another range than it was begun with": lambda log: log.complete([replace(intent("begun", 10), first=2)], 1),
    "a later position in an earlier version": lambda log: log.record([done(intent("later", 60), 4)]),
    "no range": lambda log: log.start([replace(intent("a", 10), first=11)]),
    "a lease that was given back": lambda log: log.renew(replace(log.acquire(TP, "me"), released=True)),
    "a lease that was watched for another partition": lambda log: log.acquire(TP, "me", Lease(("t", 1), "a", 1, 1)),
    "an owner without a name": lambda log: log.acquire(TP, ""),
}


@pytest.mark.parametrize("asked", STRICT)
def test_the_log_in_memory_is_stricter_than_any_other(asked: str) -> None:
    """What no writer of ours may do is an AssertionError, which no code catches."""
    log = MemoryLog("app")
    log.start([intent("begun", 10)])
    log.record([done(intent("c5", 50), 5)])
    with pytest.raises(AssertionError):
        STRICT[asked](log)


def test_the_log_in_memory_counts_its_calls_by_how_they_ended() -> None:
    """As the metrics tell it of the real one."""

    def around(name: str, go_on: Callable[[], Any]) -> Any:
        if name == "read":
            raise WalUnreachable("cut")
        return go_on()

    log = MemoryLog("app", around=around)
    log.acquire(TP, "me")
    with pytest.raises(LeaseTaken):
        log.acquire(TP, "other")
    with pytest.raises(WalUnreachable):
        log.read(TP)
    assert log.calls == {("acquire", "answered"): 1, ("acquire", "refused"): 1, ("read", "unreachable"): 1}
    assert log.counts == {"acquire": 2, "read": 1}
