"""The broker that the demo and the tests start: it starts, comes back, ends with its parent, and says why it fails."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from exporter.demo import shop as events
from exporter.demo.produce import produce as produce_events
from exporter.errors import ConfigError, DependencyUnreachable
from exporter.local.broker import Broker, answers, create_topic
from tests.support.services import Record, produce

pytestmark = [pytest.mark.broker, pytest.mark.xdist_group("broker")]


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker that these tests may kill."""
    with Broker(tmp_path_factory.mktemp("broker") / "kafka") as broker:
        yield broker


def end_of(consumer: Consumer, partition: TopicPartition) -> int:
    """The offset after the last record, once the broker leads the partition again."""
    deadline = time.monotonic() + 30
    while True:
        try:
            return int(consumer.get_watermark_offsets(partition, timeout=10)[1])
        except KafkaException as error:
            if error.args[0].code() != KafkaError.NOT_LEADER_FOR_PARTITION or time.monotonic() > deadline:
                raise


def read_all(bootstrap: str, topic: str, partitions: int = 1) -> list[tuple[int, int, int, object, object]]:
    """(partition, offset, Kafka timestamp, key, value) of everything in a topic, partition by partition."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False})
    found: list[tuple[int, int, int, object, object]] = []
    try:
        for partition in range(partitions):
            end = end_of(consumer, TopicPartition(topic, partition))
            consumer.assign([TopicPartition(topic, partition, 0)])
            deadline, left = time.monotonic() + 30, end
            while left:
                assert time.monotonic() < deadline, f"{left} records of {topic}-{partition} did not come"
                for message in consumer.consume(left, timeout=1):
                    assert message.error() is None
                    stamp = message.timestamp()[1]
                    found.append((partition, message.offset(), stamp, message.key(), message.value()))
                    left -= 1
    finally:
        consumer.close()
    return found


def gone_within(pid: int, secs: float) -> bool:
    """Whether a process that is not our child ends in time."""
    deadline = time.monotonic() + secs
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


def test_records_survive_a_killed_broker_on_the_same_address(own: Broker) -> None:
    """kill -9 and start(): same bootstrap servers, same records, same timestamps."""
    create_topic(own.bootstrap, "kept")
    produce(own.bootstrap, "kept", {0: [Record(b"k", b"v", timestamp_ms=1_700_000_000_000), Record(None, None)]})
    before, bootstrap = read_all(own.bootstrap, "kept"), own.bootstrap
    own.kill()
    assert not own.running
    assert not answers(bootstrap, 0.5)
    own.start()
    assert own.bootstrap == bootstrap
    assert read_all(own.bootstrap, "kept") == before
    assert before[0] == (0, 0, 1_700_000_000_000, b"k", b"v")


def test_a_broker_that_ended_by_itself_can_be_started_again(own: Broker) -> None:
    """A signal from elsewhere is like a crash; stop() on what does not run does nothing."""
    os.kill(own.pid, signal.SIGKILL)
    own.stop()
    assert not own.running
    own.start()
    assert answers(own.bootstrap, 5.0)


def test_the_broker_dies_with_its_parent_however_that_dies(tmp_path: Path) -> None:
    """kill -9 of the parent, even if the thread that started the broker ended long before."""
    script = (
        "import pathlib, sys, threading; from exporter.local.broker import Broker;"
        "broker = Broker(pathlib.Path(sys.argv[1]));"
        "starter = threading.Thread(target=broker.start); starter.start(); starter.join();"
        "print(broker.pid, broker.running, flush=True); sys.stdin.read()"
    )
    root = Path(events.__file__).parents[2]
    parent = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=root,
    )
    with parent:
        assert parent.stdout is not None
        pid, running = parent.stdout.readline().split()
        assert running == "True"
        parent.kill()
    assert gone_within(int(pid), 5.0)


def test_a_broker_that_does_not_start_shows_the_end_of_its_log(tmp_path: Path) -> None:
    """A wrong property: exit code 69 and Kafka's own reason, long before the deadline."""
    began = time.monotonic()
    with pytest.raises(DependencyUnreachable, match=r"did not start[\s\S]*offsets\.topic\.num\.partitions"):
        Broker(tmp_path / "kafka", properties={"offsets.topic.num.partitions": "-1"}).start()
    assert time.monotonic() - began < 30


def test_a_folder_that_holds_something_is_refused(tmp_path: Path) -> None:
    """Nothing of a user's is overwritten."""
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(ConfigError, match="is not empty"):
        Broker(tmp_path)


def test_a_topic_can_be_created_once(kafka: str, topic: Callable[..., str]) -> None:
    """The second creation is a usage error, not a silent success over other partitions."""
    name = topic(partitions=3)
    with pytest.raises(ConfigError, match="exists already"):
        create_topic(kafka, name, 1)


def test_the_events_of_a_seed_are_at_the_same_offsets(kafka: str, topic: Callable[..., str]) -> None:
    """What is in the topic is what events() says, byte by byte, and the tally counts it."""
    name, count, partitions = topic(partitions=3), 3_001, 3
    made = produce_events(kafka, name, count, seed=7, partitions=partitions, bad_every=50)
    expected = [
        (partition, offset, event.timestamp_ms, event.key, event.value)
        for partition in range(partitions)
        for offset, event in enumerate(events.events(7, count, partition, partitions, bad_every=50))
    ]
    assert read_all(kafka, name, partitions) == expected
    assert made == events.tally(7, count, partitions, bad_every=50)


def test_events_that_are_not_acknowledged_are_an_error(kafka: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing topic: exit code 69, not a smaller number."""
    monkeypatch.setattr("exporter.demo.produce.BLOCK_MS_MAX", 1_000)
    with pytest.raises(DependencyUnreachable, match="not all events could be written"):
        produce_events(kafka, "there-is-no-such-topic", 10)
