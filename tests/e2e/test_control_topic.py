"""The control topic over a real broker: heard in order, deleted and made anew, not there, and a broker that is gone."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from kafka import KafkaAdminClient
from kafka.errors import UnknownTopicOrPartitionError

from exporter.kafka import control
from exporter.kafka.control import ControlTopic
from exporter.local.broker import Broker, create_topic
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
        until(lambda end=end: end.receive(0.05) != [] and not end.trouble or not end.trouble)  # type: ignore[misc]


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
