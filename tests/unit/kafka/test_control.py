"""One task's end of the control topic, over clients that fail on demand: nothing is heard or said late."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.errors import KafkaTimeoutError

from exporter.kafka import control
from exporter.kafka.control import ControlTopic


class Topic:
    """Partition 0 of a topic, and whether its broker answers."""

    def __init__(self) -> None:
        self.values: list[bytes] = []
        self.is_silent = False
        self.is_deaf = False
        self.opened = 0


class Consumer:
    """As much of a client as is used; it says nothing of a broker that is gone, as the real one."""

    def __init__(self, topic: Topic) -> None:
        self._topic, self._at = topic, 0
        self._cluster = SimpleNamespace(config={})
        self.is_closed = False
        topic.opened += 1

    def assign(self, partitions: Sequence[Any]) -> None: ...

    def seek(self, partition: Any, offset: int) -> None:
        self._at = offset

    def end_offsets(self, partitions: Sequence[Any], timeout_ms: int) -> dict[Any, int]:
        if self._topic.is_silent:
            raise KafkaTimeoutError("no answer")
        return {partitions[0]: len(self._topic.values)}

    def poll(self, timeout_ms: int) -> dict[Any, list[Any]]:
        if self._topic.is_silent or self._topic.is_deaf:
            return {}
        found = [SimpleNamespace(offset=at, value=self._topic.values[at])
                 for at in range(self._at, len(self._topic.values))]  # fmt: skip
        self._at += len(found)
        return {"tp": found} if found else {}

    def close(self, timeout_ms: int) -> None:
        self.is_closed = True


class World:
    """A topic, a clock, and an end that listens."""

    def __init__(self, topic: Topic) -> None:
        self.topic = topic
        self.now = 100.0
        self.end = ControlTopic({}, "rounds", lambda: self.now)
        assert self.hear() == []

    def hear(self, after: float = 0.0) -> list[bytes]:
        self.now += after
        return self.end.receive(0)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    topic = Topic()
    monkeypatch.setattr(control, "KafkaConsumer", lambda **_: Consumer(topic))
    world = World(topic)
    yield world
    world.end.close()


def test_reading_begins_at_the_end_and_goes_on_after_a_short_silence(world: World) -> None:
    """What was said while the broker was away for a moment is heard; nothing is heard twice."""
    world.topic.values = [b"a"]
    assert world.hear() == [b"a"]
    world.topic.is_silent = True
    assert world.hear(6) == [] and "no answer" in world.end.trouble
    world.topic.is_silent = False
    world.topic.values += [b"b"]
    assert world.hear(0.5) == []
    assert (world.hear(1), world.end.trouble) == ([b"b"], "")
    assert world.topic.opened == 2


def test_what_was_said_during_a_long_silence_is_passed_over(world: World) -> None:
    """Also of the process: one that was stopped and woken does not act on rounds of then."""
    world.topic.values = [b"old"] * 1_000
    assert world.hear(31) == []
    world.topic.values += [b"new"]
    assert world.hear() == [b"new"]
    world.topic.is_silent = True
    assert world.hear(6) == []
    world.topic.values += [b"old"] * 10
    for _ in range(30):
        assert world.hear(2) == []
    world.topic.is_silent = False
    assert world.hear(2) == []
    world.topic.values += [b"new"]
    assert (world.hear(), world.end.trouble) == ([b"new"], "")


def test_a_topic_that_was_made_anew_is_heard_from_its_beginning(world: World) -> None:
    """Its end lies before what was heard of the former one."""
    world.topic.values = [b"a"] * 10
    world.hear()
    world.topic.values = [b"b"] * 3
    assert world.hear(6) == []
    assert world.hear() == [b"b"] * 3


def test_a_client_that_hears_nothing_of_what_is_there_is_opened_anew(world: World) -> None:
    """At the second look: a message may come between the first one and the reading before it."""
    world.topic.is_deaf = True
    world.topic.values = [b"a"]
    assert (world.hear(6), world.end.trouble) == ([], "")
    assert world.hear(6) == [] and "no message came" in world.end.trouble
    world.topic.is_deaf = False
    assert (world.hear(2), world.end.trouble) == ([b"a"], "")


def test_saying_never_waits_and_nothing_is_said_late(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that blocks, then fails: what waited meanwhile is lost, what is said afterwards is sent."""
    blocked, sent, made = threading.Event(), [], []

    class Producer:
        def __init__(self, **_: Any) -> None:
            self._metadata = SimpleNamespace(config={})
            made.append(self)

        def send(self, topic: str, value: bytes, partition: int) -> Any:
            if len(made) == 1:
                assert blocked.wait(60)
                raise KafkaTimeoutError("no metadata")
            sent.append((topic, value, partition))
            future = SimpleNamespace(add_callback=lambda call: (call(None), future)[1], add_errback=lambda _: future)
            return future

        def close(self, timeout: float) -> None: ...

    monkeypatch.setattr(control, "KafkaProducer", Producer)
    monkeypatch.setattr(control, "OUTBOX_MAX", 50)
    end = ControlTopic({}, "rounds")
    began = time.monotonic()
    end.send([b"late"] * 1_000)
    assert time.monotonic() - began < 5
    assert end.trouble == ""
    blocked.set()
    deadline = time.monotonic() + 60
    while not end.trouble or end._sender._outbox.qsize():
        assert time.monotonic() < deadline
    end.send([b"now", b"then"])
    end.close()
    assert sent == [("rounds", b"now", 0), ("rounds", b"then", 0)]
    assert end.trouble == ""
