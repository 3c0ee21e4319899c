"""What a range is when brokers fail while it is read: all of it, or an error; from a real cluster of three."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from exporter.fetch import leader, ranges
from exporter.fetch.ranges import RangeWanted
from offsets.ranges import TopicPartition
from tests.support.brokers import Brokers, three_brokers
from tests.support.lakes import Export, mixed, seldom, wait_until, writing, wrong_places
from tests.support.processes import Process, running
from tests.support.segments import damage, damaged_batches, segment_of
from tests.support.services import Record, fresh_name, produce

pytestmark = [pytest.mark.broker, pytest.mark.xdist_group("brokers")]

MANY = 6_000


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    with three_brokers(tmp_path_factory.mktemp("pki")) as made:
        yield made


@pytest.fixture(autouse=True)
def small_and_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many answers for a range, and less patience than on duty."""
    monkeypatch.setattr(leader, "FETCH_BYTES", 1 << 16)
    monkeypatch.setattr(ranges, "ANSWER_SECS", 3.0)
    monkeypatch.setattr(ranges, "_IDLE", leader.Idle())


def values(first: int, count: int) -> list[bytes]:
    return [b"%d %s" % (number, b"x" * 100) for number in range(first, first + count)]


def sent(brokers: Brokers, topic: str, some: Sequence[bytes]) -> None:
    """In batches of a hundred."""
    produce(brokers.bootstrap, topic, {0: [Record(None, one) for one in some]}, {"batch.num.messages": "100"})


def wanted(brokers: Brokers, topic: str, end: int, start: int = 0, **client: str) -> RangeWanted:
    options = {"bootstrap_servers": [brokers.bootstrap], **client}
    return RangeWanted(options, TopicPartition(topic, 0), start, end, "read_committed", 1 << 20)


def read(of: RangeWanted) -> Iterator[list[bytes]]:
    """The values, batch by batch."""
    for batch in ranges.records(of):
        yield batch.column("value").to_pylist()


def all_of(of: RangeWanted) -> list[bytes]:
    return [one for some in read(of) for one in some]


def test_a_leader_that_dies_or_hangs_while_it_is_read_costs_no_record(brokers: Brokers) -> None:
    """Another one leads, and what it gives is what the first would have given."""
    topic, some = brokers.topic([2, 3, 1]), values(0, MANY)
    sent(brokers, topic, some)
    for gone in (brokers.without, brokers.hanging):
        leads = brokers.led_by(topic, (2, 3))
        reading = read(wanted(brokers, topic, MANY))
        found = next(reading)
        with gone(leads):
            brokers.led_by(topic, [node for node in (1, 2, 3) if node != leads])
            found += [one for batch in reading for one in batch]
        assert found == some
        brokers.in_sync(topic, (1, 2, 3))


def test_a_connection_waits_for_the_next_range_and_is_made_anew_where_it_is_gone(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two ranges in a row the second logs in nowhere; but where the broker was away in between."""
    topic, some = brokers.topic([2], partitions=2), values(0, 1000)
    sent(brokers, topic, some)
    logged_in: list[int] = []
    log_in = leader.PartitionLeader._log_in

    def counted(self: leader.PartitionLeader, tp: TopicPartition, node: int | None, deadline: float) -> None:
        log_in(self, tp, node, deadline)
        logged_in.append(self.node)

    monkeypatch.setattr(leader.PartitionLeader, "_log_in", counted)
    assert all_of(wanted(brokers, topic, 500)) == some[:500]
    assert all_of(wanted(brokers, topic, 1000, start=500)) == some[500:]
    assert logged_in == [2]
    with brokers.without(2):
        pass
    assert all_of(wanted(brokers, topic, 700, start=3)) == some[3:700]
    assert logged_in == [2, 2]
    other = RangeWanted({"bootstrap_servers": [brokers.bootstrap]}, TopicPartition(topic, 1), 0, 3, "read_committed", 1)
    produce(brokers.bootstrap, topic, {1: [Record(None, b"x")] * 3})
    assert all_of(other) == [b"x"] * 3
    assert logged_in == [2, 2], "one connection serves all that its broker leads of the topic"


def test_the_nearest_replica_is_read_and_the_leader_where_that_is_gone(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the rack of the task and those of the brokers."""
    topic, some = brokers.topic([2, 3]), values(0, MANY)
    sent(brokers, topic, some)
    asked: list[int] = []
    ask = leader.PartitionLeader.ask

    def noted(self: leader.PartitionLeader, offset: int, epoch: int) -> None:
        asked.append(self.node)
        ask(self, offset, epoch)

    monkeypatch.setattr(leader.PartitionLeader, "ask", noted)
    near = wanted(brokers, topic, MANY, client_rack="r3")
    assert all_of(near) == some
    assert asked[0] == 2 and {*asked[1:]} == {3}, "the leader says who is near"
    asked.clear()
    assert all_of(near) == some and asked[0] == 2 and {*asked[1:]} == {3}
    reading = read(near)
    found = next(reading)
    with brokers.without(3):
        found += [one for batch in reading for one in batch]
    assert found == some and asked[-1] == 2


def test_a_log_that_was_cut_by_an_unclean_election_is_no_range(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it ends too early, or goes on with other records where those that were read stood."""
    monkeypatch.setattr(ranges, "STALL_SECS", 6.0)
    topic = brokers.topic([2, 3], {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"})
    both, lost, other = values(0, 2000), values(2000, 2000), values(7000, 3000)
    sent(brokers, topic, both)
    with brokers.without(3):
        brokers.in_sync(topic, [2])
        sent(brokers, topic, lost)
        reading = read(wanted(brokers, topic, 4000))
        found: list[bytes] = []
        while len(found) < 3000:
            found += next(reading)
        brokers.nodes[2].kill()
    brokers.led_by(topic, [3])
    with pytest.raises(ValueError, match="before 4000"):
        all_of(wanted(brokers, topic, 4000))
    sent(brokers, topic, other)
    with pytest.raises(ValueError, match=r"the log was cut at \d+ and goes on otherwise"):
        list(reading)
    assert found == [*both, *lost][: len(found)]
    assert all_of(wanted(brokers, topic, 5000)) == [*both, *other]
    brokers.nodes[2].start()


def test_a_topic_that_is_made_again_is_no_part_of_a_range(brokers: Brokers) -> None:
    """Its records have the same offsets; but a range that begins now is the new one's."""
    topic = brokers.topic([2, 3])
    sent(brokers, topic, values(0, MANY))
    reading = read(wanted(brokers, topic, MANY))
    next(reading)
    brokers.delete(topic)
    brokers.topic([3, 2], name=topic)
    again = values(MANY, MANY)
    sent(brokers, topic, again)
    with pytest.raises(ValueError, match="was made again"):
        list(reading)
    assert all_of(wanted(brokers, topic, MANY)) == again


@pytest.mark.drill
@pytest.mark.spark
@pytest.mark.parametrize("how", ["without", seldom("hanging")])
def test_an_export_goes_on_whichever_leader_dies_or_hangs(brokers: Brokers, tmp_path: Path, how: str) -> None:
    """Under load, by TLS and a login, in a task of its own, which never ends; each record is where it belongs, once."""
    topic = brokers.topic([2, 3, 1], partitions=2)
    e = Export(brokers.secured, topic, tmp_path, fresh_name("app"), kafka_client=brokers.login)
    with running(e) as task, writing(brokers.bootstrap, topic):
        for leads in (2, 3):
            brokers.led_by(topic, [leads])
            works(task)
            with getattr(brokers, how)(leads):
                brokers.led_by(topic, [node for node in (1, 2, 3) if node != leads])
                works(task)
            brokers.in_sync(topic, (1, 2, 3))
        works(task)
    with running(e, "--until-caught-up") as task:
        assert task.wait() == 0, task.text
    assert wrong_places(replace(e, kafka=brokers.bootstrap)) == {}
    with running(e, verb="audit") as audit:
        assert audit.wait() == 0, audit.text


def works(task: Process) -> None:
    """It reads on."""
    seen = task.text.count("round_read")
    wait_until(lambda: task.text.count("round_read") > seen, 120, f"another round\n{task.text[-3000:]}")


def test_a_throttled_client_waits_and_gets_all(brokers: Brokers) -> None:
    """A broker answers with nothing, and with nothing at all for a while, to who is over its quota."""
    topic, some = brokers.topic([2]), values(0, MANY)
    sent(brokers, topic, some)
    brokers.throttle("slow", 200_000)
    assert all_of(wanted(brokers, topic, MANY, client_id="slow")) == some


@pytest.mark.long
def test_a_batch_that_is_damaged_on_the_leader_is_exported_once_a_whole_replica_leads(
    brokers: Brokers, tmp_path: Path
) -> None:
    """The steps of the page for who is on call: dump, stop the broker, take its copy away, start it again."""
    topic = brokers.topic([2, 3, 1])
    for first in (0, 10, 20):
        produce(brokers.bootstrap, topic, {0: mixed(10, first=first)})
    brokers.in_sync(topic, (1, 2, 3))
    segments = {number: segment_of(node.log_path.parent, topic) for number, node in brokers.nodes.items()}
    damage(segments[2], 1)
    e = Export(brokers.bootstrap, topic, tmp_path, fresh_name("app"))
    with running(e) as task:
        task.wait_for("the checksum of the batch at offset 10 is wrong")
        assert {number: damaged_batches(one) for number, one in segments.items()} == {1: [], 2: [(10, 19)], 3: []}
        with brokers.stopped(2):
            wait_until(lambda: set(e.positions(0).values()) == {(0, 29)}, 120, "another one leads, and all is exported")
            shutil.rmtree(segments[2].parent)
        brokers.in_sync(topic, (1, 2, 3))
        assert damaged_batches(segments[2]) == []
    assert wrong_places(e) == {}
