"""The brokers: topics with records and holes, retention, topics that are made again, a group, a control topic.

    Broker.produce ── a partition's log ── read by rounds (rounds.py), asked for its ends by SimTopics
    Coordinator ── who is in the group ── Assigned, Leaving, Revoked, as kafka/group.py hands them to the loop
    SimWire ── the control topic: each member hears what was said since it came
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from exporter.errors import BrokerSilent
from exporter.kafka.assignment import Assigned, AssignmentChange, Leaving, Revoked
from exporter.kafka.topics import EXPORTER, GroupMember
from offsets.ranges import TopicIdentity, TopicPartition
from offsets.selection import Topics
from tests.sim.kernel import Kernel, Process, SimEvent
from tests.sim.network import BROKER, CONTROL, Network

CLUSTER = "sim-cluster"


@dataclass(frozen=True)
class Record:
    """One record. kind: the event type that it names, or what is wrong with it. at_ms: its time. day: of its event.
    poison: whose rounds end on it: all, weak, or empty. more: further fields of its value. schema: the id that its
    value names, where they name some."""

    offset: int
    kind: str
    at_ms: int
    day: str
    poison: str = ""
    more: tuple[tuple[str, int | str], ...] = ()
    schema: int | None = None


@dataclass
class Log:
    """One partition. first: the first offset that is still there; end: the next one. stable: as end, of what can be
    read by who reads committed records only. open_from: where a transaction began that is open; in_transaction: its
    records."""

    first: int = 0
    end: int = 0
    stable: int = 0
    records: dict[int, Record] = field(default_factory=dict)
    open_from: int | None = None
    in_transaction: set[int] = field(default_factory=set)


@dataclass
class Topic:
    """One topic, by its id."""

    id: str
    logs: list[Log]


class Broker:
    """All brokers of one world. produced: told of each record that is there, with its partition. schema: the id that a
    record's value names which is made now."""

    def __init__(self, kernel: Kernel, network: Network) -> None:
        self.kernel = kernel
        self.network = network
        self.topics: dict[str, Topic] = {}
        self.produced: Callable[[TopicPartition, Record], None] = lambda tp, record: None
        self.schema: Callable[[], int | None] = lambda: None
        self.groups: dict[str, Coordinator] = {}
        self.said: dict[str, list[bytes]] = defaultdict(list)
        self._gathered: dict[str, list[bytes]] = defaultdict(list)
        self.hearing: dict[str, list[SimEvent]] = defaultdict(list)
        self.group_offsets: dict[TopicPartition, int] = {}
        self._ids = itertools.count(1)

    def make(self, topic: str, partitions: int) -> None:
        """A new topic in the place of one of this name, if there is one."""
        self.topics[topic] = Topic(f"id-{next(self._ids)}", [Log() for _ in range(partitions)])

    def log(self, tp: TopicPartition) -> Log:
        return self.topics[tp.topic].logs[tp.partition]

    def partitions(self, topics: Iterable[str]) -> list[TopicPartition]:
        return [TopicPartition(one, number) for one in sorted(topics) for number in range(len(self.topics[one].logs))]

    def produce(self, tp: TopicPartition, kind: str, day: str, at_ms: int, holes: int = 0, **more: Any) -> None:
        """Append a record, behind so many offsets that nobody ever sees. more: of it, what is seldom said."""
        log = self.log(tp)
        record = Record(log.end + holes, kind, at_ms, day, schema=self.schema(), **more)
        log.records[record.offset] = record
        log.end = record.offset + 1
        if log.open_from is None:
            log.stable = log.end
        elif self.kernel.rng.random() < 0.5:
            log.in_transaction.add(record.offset)
        self.produced(tp, record)

    def trim(self, tp: TopicPartition, first: int) -> None:
        """Retention: what is before an offset is gone."""
        log = self.log(tp)
        log.first = max(log.first, min(first, log.end))
        for offset in [offset for offset in log.records if offset < log.first]:
            del log.records[offset]

    def grow(self, topic: str) -> None:
        """One more partition; the groups hear of it when they next ask."""
        self.topics[topic].logs.append(Log())
        for group in self.groups.values():
            self.kernel.after(30 * self.kernel.rng.random(), group.balance)

    def say(self, topic: str, values: Sequence[bytes]) -> None:
        """Of a control topic: it is there for all that listen."""
        self.said[topic] += values
        for news in self.hearing[topic]:
            news.set()

    def gather(self, topic: str, value: bytes, secs: float) -> None:
        """It is there with all that is said within so long, in this order."""
        if not self._gathered[topic]:
            self.kernel.after(secs, lambda: self.say(topic, self._gathered.pop(topic)))
        self._gathered[topic].append(value)

    def asked(self, answer: Callable[[], Any]) -> Any:
        return self.network.read(BROKER, answer, lambda what: BrokerSilent(f"the broker did not answer: {what}"))


class SimTopics:
    """What TopicReader says, of the simulated brokers."""

    def __init__(self, broker: Broker, topics: Topics, client: Mapping[str, Any]) -> None:
        self._broker = broker
        self.topics = topics
        self.client = client
        self.greeting = None

    def cluster_id(self) -> str:
        return CLUSTER

    def _there(self) -> list[str]:
        return [name for name in self._broker.topics if self.topics.match(name)]

    def _identity(self, name: str) -> TopicIdentity:
        topic = self._broker.topics[name]
        return TopicIdentity(CLUSTER, topic.id, tuple(range(len(topic.logs))))

    def identities(self) -> dict[str, TopicIdentity]:
        found: dict[str, TopicIdentity] = self._broker.asked(
            lambda: {name: self._identity(name) for name in sorted(self._there())}
        )
        return found

    require = identities

    def identities_of(self, topics: Collection[str]) -> dict[str, TopicIdentity]:
        def answer() -> dict[str, TopicIdentity]:
            if missing := sorted({*topics} - self._broker.topics.keys()):
                raise BrokerSilent(f"topic {missing[0]} is unknown now")
            return {name: self._identity(name) for name in sorted(topics)}

        found: dict[str, TopicIdentity] = self._broker.asked(answer)
        return found

    def _of(self, tps: Collection[TopicPartition], what: Callable[[Log], int]) -> dict[TopicPartition, int]:
        if not tps:
            return {}
        found: dict[TopicPartition, int] = self._broker.asked(lambda: {tp: what(self._broker.log(tp)) for tp in tps})
        return found

    def first_offsets(self, tps: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return self._of(tps, lambda log: log.first)

    def end_offsets(self, tps: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return self._of(tps, lambda log: log.stable)

    def high_watermarks(self, tps: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return self._of(tps, lambda log: log.end)

    def offset_bytes(self, tps: Collection[TopicPartition]) -> float:
        return 100.0

    def members(self, group: str) -> tuple[GroupMember, ...]:
        found: tuple[GroupMember, ...] = self._broker.asked(lambda: self._broker.groups[group].described())
        return found

    def assignments(self, group: str) -> dict[str, frozenset[TopicPartition]]:
        return {member.id: member.partitions for member in self.members(group)}

    def close(self) -> None:
        """Holds nothing."""


class SimMembership:
    """A task in the group: an Assignment, as kafka/group.py makes one."""

    failure = None

    def __init__(self, coordinator: Coordinator, process: Process, wake: Callable[[], None], roll_secs: float) -> None:
        self.coordinator = coordinator
        self.process = process
        self.wake = wake
        self.roll_secs = roll_secs
        self.trouble = ""
        self.news: list[AssignmentChange] = []
        self.ownership = itertools.count(1)
        self.has: set[TopicPartition] = set()
        self.leaving: set[TopicPartition] = set()
        self.left = False
        coordinator.joins(self)

    def changes(self) -> list[AssignmentChange]:
        news, self.news = self.news, []
        return news

    def tell(self, *news: AssignmentChange) -> None:
        self.news += news
        self.wake()

    def commit(self, next_offsets: Mapping[TopicPartition, int]) -> str:
        broker = self.coordinator.broker

        def answer() -> str:
            if self not in self.coordinator.members:
                return "UnknownMemberIdError"  # as brokers do: who was thrown out overwrites nothing
            broker.group_offsets.update(next_offsets)
            return ""

        try:
            return str(broker.asked(answer))
        except BrokerSilent as error:
            return str(error)

    def is_spare(self) -> bool:
        return not self.has

    def waits(self) -> bool:
        return False

    def close(self) -> None:
        self.left = True
        self.coordinator.leaves(self)


class Coordinator:
    """The group's. A member that is dead or stands still is thrown out after its session; it hears so when it wakes."""

    def __init__(self, kernel: Kernel, broker: Broker, topics: Topics, session_secs: float) -> None:
        self.kernel = kernel
        self.broker = broker
        self.topics = topics
        self.session_secs = session_secs
        self.members: list[SimMembership] = []
        self.rebalances = 0
        self._silent_since: dict[SimMembership, float] = {}
        self._beat()

    def _beat(self) -> None:
        """Twice a second: who is silent for longer than a session is out; who is out and speaks again joins anew."""
        now = self.kernel.now
        for member in [*self.members]:
            speaks = member.process.alive and member.process.paused_until <= now
            speaks = speaks and not self.broker.network.is_cut(member.process, BROKER)
            if speaks:
                self._silent_since.pop(member, None)
            elif now - self._silent_since.setdefault(member, now) >= self.session_secs:
                self._throw_out(member)
        self.kernel.after(0.5, self._beat)

    def _throw_out(self, member: SimMembership) -> None:
        self._silent_since.pop(member, None)
        self.members.remove(member)
        lost, member.has, member.leaving = sorted(member.has), set(), set()
        self.balance()
        if not member.process.alive:
            return

        def wakes() -> None:
            process = member.process
            if not process.alive or member.left:
                return
            if process.paused_until > self.kernel.now or self.broker.network.is_cut(process, BROKER):
                self.kernel.after(0.5, wakes)
                return
            member.tell(*(Revoked(tp, lost=True) for tp in lost))
            self.joins(member)

        self.kernel.after(0.1, wakes)

    def joins(self, member: SimMembership) -> None:
        """A moment later: joining takes a round trip or more."""

        def joined() -> None:
            if member.process.alive and not member.left and member not in self.members:
                self.members.append(member)
                self.balance()

        self.kernel.after(0.1 + self.kernel.rng.random(), joined)

    def leaves(self, member: SimMembership) -> None:
        """It says so: nobody waits for its session."""
        if member in self.members:
            self.members.remove(member)
            member.has = set()
            self.balance()

    def balance(self) -> None:
        """Cooperative and sticky: who has too many lets some go first, and only then others get them."""
        self.rebalances += 1
        everything = self.broker.partitions(name for name in self.broker.topics if self.topics.match(name))
        if not self.members:
            return
        fair = -(-len(everything) // len(self.members))
        for member in self.members:
            staying = sorted(member.has - member.leaving)
            if len(staying) > fair:
                self._take_away(member, self.kernel.rng.sample(staying, len(staying) - fair))
        self._give_out(everything)

    def _give_out(self, everything: Sequence[TopicPartition]) -> None:
        taken = {tp for member in self.members for tp in member.has}
        given: dict[SimMembership, list[TopicPartition]] = defaultdict(list)
        for tp in everything:
            if tp not in taken:
                least = min(self.members, key=lambda member: len(member.has) - len(member.leaving))
                least.has.add(tp)
                given[least].append(tp)
        for member, tps in given.items():
            self.kernel.after(0.05 + 0.2 * self.kernel.rng.random(), self._assign, member, tps)

    def _assign(self, member: SimMembership, tps: Sequence[TopicPartition]) -> None:
        if member.process.alive and member in self.members:
            still = [tp for tp in tps if tp in member.has]
            member.tell(*(Assigned(tp, next(member.ownership)) for tp in still))

    def _take_away(self, member: SimMembership, tps: Sequence[TopicPartition]) -> None:
        rolled, deadline = SimEvent(self.kernel), self.kernel.now + member.roll_secs
        member.leaving |= {*tps}
        member.tell(Leaving(frozenset(tps), rolled))

        def look() -> None:
            if member not in self.members:
                return
            standing = member.process.paused_until > self.kernel.now
            if not rolled.is_set() and (self.kernel.now < deadline or standing):
                self.kernel.after(0.05, look)
                return
            member.has -= {*tps}
            member.leaving -= {*tps}
            member.tell(*(Revoked(tp, lost=False) for tp in sorted(tps)))
            self.balance()

        self.kernel.after(0.05, look)

    def described(self) -> tuple[GroupMember, ...]:
        return tuple(
            GroupMember(str(number), f"{EXPORTER}sim", member.process.name, frozenset(member.has))
            for number, member in enumerate(self.members)
        )


class SimWire:
    """A task's end of the control topic: bytes, lossy."""

    def __init__(self, broker: Broker, topic: str, process: Process) -> None:
        self._broker = broker
        self._said = broker.said[topic]
        self._topic = topic
        self._process = process
        self._heard = len(self._said)
        self._news = SimEvent(broker.kernel)
        broker.hearing[topic].append(self._news)

    @property
    def trouble(self) -> str:
        return "no answer" if self._broker.network.is_cut(self._process, CONTROL) else ""

    def send(self, values: Sequence[bytes]) -> None:
        network, kernel = self._broker.network, self._broker.kernel
        weather = network.weather[CONTROL]
        for value in values:
            if network.is_cut(self._process, CONTROL) or kernel.rng.random() < weather.lost_request:
                network.met[f"{CONTROL}: lost"] += 1
                continue
            if weather.batch_secs:
                self._broker.gather(self._topic, value, weather.batch_secs)
                continue
            kernel.after(weather.secs * (0.5 + kernel.rng.random()), self._broker.say, self._topic, [value])
            if kernel.rng.random() < weather.late:
                network.met[f"{CONTROL}: twice"] += 1
                kernel.after(5 * kernel.rng.random(), self._broker.say, self._topic, [value])

    def receive(self, timeout_secs: float) -> list[bytes]:
        if self._heard == len(self._said):
            self._news.clear()
            self._news.wait(timeout_secs)
        if self._broker.network.is_cut(self._process, CONTROL):
            self._heard = len(self._said)
            return []
        heard, self._heard = self._said[self._heard :], len(self._said)
        return heard

    def close(self) -> None:
        if self._news in (hearing := self._broker.hearing[self._topic]):
            hearing.remove(self._news)
