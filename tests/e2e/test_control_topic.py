"""The control topic over a real broker: heard in order, deleted and made anew, not there, and a broker that is gone."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import pytest
from kafka import KafkaAdminClient
from kafka.errors import UnknownTopicOrPartitionError

from exporter.kafka import control
from exporter.kafka.control import ControlTopic
from exporter.kafka.topics import TopicReader
from exporter.local.broker import Broker, create_topic
from exporter.operate.check.check import check_broker
from offsets.selection import Topics
from tests.support.lakes import Export
from tests.support.services import administered, fresh_name

pytestmark = [pytest.mark.broker, pytest.mark.xdist_group("broker")]
SECS = 60.0


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker's silence is noticed sooner, and the same way."""
    monkeypatch.setattr(control, "LOOK_SECS", 0.5)
    monkeypatch.setattr(control, "RETRY_SECS", 0.2)
    monkeypatch.setattr(control, "DELIVERY_MS", 2_500)
    monkeypatch.setattr(control, "BLOCK_MS", 1_000)


@contextmanager
def ends(bootstrap: str, topic: str, count: int) -> Iterator[list[ControlTopic]]:
    """Several tasks' ends of the topic, that all listen already if it is there."""
    with ExitStack() as stack:
        found = [ControlTopic({"bootstrap_servers": [bootstrap]}, topic) for _ in range(count)]
        for one in found:
            stack.callback(one.close)
            assert one.receive(0.01) == []
        yield found


def until(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECS
    while not what():
        assert time.monotonic() < deadline


def heard(end: ControlTopic, count: int) -> list[bytes]:
    """The next messages, as soon as so many have come."""
    found: list[bytes] = []
    until(lambda: len([found.extend(end.receive(0.1))]) == 1 and len(found) >= count)
    return found


def heard_again(said_by: ControlTopic, heard_by: Sequence[ControlTopic]) -> None:
    """Once all is well again what is said is heard: said until it is, for what was said before is lost."""
    for end in heard_by:
        until(lambda end=end: said_by.send([b"again"]) or b"again" in end.receive(0.2))  # type: ignore[misc]
    for end in (said_by, *heard_by):
        until(lambda end=end: (end.receive(0.05), end.trouble)[1] == "")  # type: ignore[misc]


def deleted(admin: KafkaAdminClient, topic: str) -> None:
    """Returns when it is gone."""
    admin.delete_topics([topic])

    def is_gone() -> bool:
        with suppress(UnknownTopicOrPartitionError):
            return bool(admin.describe_topics([topic])[0]["error_code"])
        return True

    until(is_gone)


def test_what_one_says_all_hear_in_order_from_when_they_listen(kafka: str, topic: Callable[..., str]) -> None:
    """Its own messages too; what was said before nobody waits for any more."""
    name = topic()
    with ends(kafka, name, 1) as (early,):
        early.send([b"before"])
        assert heard(early, 1) == [b"before"]
        with ends(kafka, name, 2) as (one, other):
            said = [b"%d" % number for number in range(300)]
            one.send(said)
            assert heard(one, 300) == heard(other, 300) == heard(early, 300) == said
            other.send([b"x" * 300_000])
            assert heard(early, 1) == [b"x" * 300_000]
            assert {end.trouble for end in (early, one, other)} == {""}


def test_a_topic_may_be_deleted_and_made_anew_or_not_be_there_yet(kafka: str, topic: Callable[..., str]) -> None:
    """Trouble is told meanwhile, nothing is raised, nobody's call takes long, and it goes on by itself."""
    name = topic()
    with administered(kafka) as admin, ends(kafka, name, 2) as (one, other):
        one.send([b"%d" % number for number in range(20)])
        heard(other, 20)
        deleted(admin, name)
        until(lambda: one.receive(0.1) == [] and one.trouble != "")
        began = time.monotonic()
        one.send([b"lost"] * 100)
        assert time.monotonic() - began < 0.5
        with ends(kafka, name, 1) as (late,):
            until(lambda: late.receive(0.1) == [] and late.trouble != "")
            create_topic(kafka, name)
            heard_again(one, (other, late))
            heard_again(late, (one,))


@pytest.mark.long
def test_a_broker_that_is_gone_is_trouble_until_it_is_back(tmp_path: Path) -> None:
    """As what is exported waits for it, so does this, in its own way."""
    with Broker(tmp_path / "kafka") as broker:
        name = fresh_name()
        create_topic(broker.bootstrap, name)
        with ends(broker.bootstrap, name, 2) as (one, other):
            heard_again(one, (other,))
            broker.kill()
            until(lambda: one.receive(0.1) == [] and one.trouble != "")
            until(lambda: other.send([b"lost"]) is None and other.receive(0.1) == [] and other.trouble != "")
            broker.start()
            heard_again(other, (one,))


def test_check_makes_the_topic_and_says_what_is_wrong_with_one(
    kafka: str, topic: Callable[..., str], tmp_path: Path
) -> None:
    """One partition that forgets after an hour, as many replicas as what is exported; made once, never changed."""
    e = Export(kafka, topic(partitions=2), tmp_path, "app").with_(control_topic=fresh_name())

    def found(create: bool = False, **changed: str) -> list[tuple[str, str]]:
        told = check_broker(e.with_(**changed).settings(), create)
        return [(one.level, one.says) for one in told if one.what in ("control topic", "rights")]

    name = e.settings().control_topic
    assert found() == [("error", f"topic {name} does not exist")]
    assert [level for level, _ in found(create=True)] == ["ok"]
    assert found() == found(create=True)
    with administered(kafka) as admin:
        described = admin.describe_topics([name])[0]
        assert [len(one["replica_nodes"]) for one in described["partitions"]] == [1]
    with closing(TopicReader({"bootstrap_servers": [kafka]}, Topics((name,)), "read_committed")) as reader:
        told = reader.configuration(name)
    assert (told["cleanup.policy"], told["retention.ms"]) == ("delete", "3600000")
    bad = topic(partitions=3, config={"cleanup.policy": "compact", "max.message.bytes": "1000"})
    assert found(control_topic=bad) == [
        ("warn", f"{bad} has 3 partitions: only the first one is used"),
        ("error", f"{bad} has cleanup.policy compact, which takes no message without a key"),
        ("warn", f"{bad} takes messages of 1,000 bytes at most: larger offers are lost, and committed by their tasks"),
    ]
    own = [*check_broker(Export(kafka, e.topic, tmp_path, "app").settings(), create_control=True)]
    assert [(one.level, one.says) for one in own if one.what == "control topic"] == [
        ("error", "there is no name for it")
    ]
