"""Three versions of each schema, interleaved, while exporters are killed and the registry hangs, and forgets all."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka as ck
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from exporter.core.routing import DEAD_LETTERS
from exporter.local.registry import LocalRegistry
from offsets.positions import live_position
from offsets.ranges import TopicPartition
from tests.support.lakes import NOON, Export, Process, messages, millis, running, seldom, wait_until
from tests.support.registered import TYPES, VERSIONS, Writer, columns_of, write_reader
from tests.support.services import fresh_name

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.drill]

PARTITIONS = 3
STALLED = PARTITIONS - 1
"""The partition of each topic that has records of an id which is not recorded yet."""
LIFE_SECS_MAX = 120.0


class Size(NamedTuple):
    """Of a run. records: in both topics together, while all goes well. outage_secs: for how long the registry hangs."""

    records: int
    kills: int
    outage_secs: float


SHORT, FULL = Size(4_000, 2, 6.0), Size(100_000, 10, 120.0)


@pytest.fixture
def registry_server() -> Iterator[LocalRegistry]:
    """A real registry of the test's own: it is stopped, and killed."""
    with LocalRegistry() as server:
        yield server


class Story:
    """One run: a producer, and one exporter after the other."""

    def __init__(self, e: Export, protobuf: str, server: LocalRegistry, size: Size, rng: random.Random) -> None:
        self.e, self.server, self.size, self.rng = e, server, size, rng
        self.topics = {"Order": e.topic, "Payment": protobuf, "Line": protobuf}
        self.writer = Writer(server.url, e.topic, protobuf, e.root, rng)
        self.sent: dict[tuple[str, int], int] = {(topic, p): 0 for topic in self.topics.values() for p in range(3)}
        self.failed: list[object] = []
        self.number = 0
        config = {"bootstrap.servers": e.kafka, "enable.idempotence": True, "log_level": 3}
        self._producer = ck.Producer(config | {"on_delivery": self._answered})
        self._logs: dict[str, tuple[set[Path], dict[str, int]]] = {name: (set(), {}) for name in (*TYPES, DEAD_LETTERS)}

    def _answered(self, error: Any, _message: Any) -> None:
        if error is not None:
            self.failed.append(error)

    def load(self, count: int, versions: tuple[int, ...], partitions: tuple[int, ...] = (0, 1, 2)) -> None:
        """Write as many records, half of them to each topic, of these versions by chance."""
        for _ in range(count):
            self.number += 1
            is_order = self.number % 4 < 2
            topic = self.topics["Order" if is_order else "Line"]
            write = self.writer.order if is_order else self.writer.message
            partition = self.rng.choice(partitions)
            value = write(self.rng.choice(versions), self.number)
            self._producer.produce(topic, value, None, partition, timestamp=millis(NOON))
            self.sent[topic, partition] += 1
            if self.number % 1000 == 0:
                self._producer.poll(0)
        assert self._producer.flush(60) == 0 and not self.failed

    def covered(self, topic: str, partition: int) -> int:
        """The last offset which all tables of a topic's types have taken or passed; -1 if there is none yet."""
        names = [DEAD_LETTERS, *(name for name, of in self.topics.items() if of == topic)]
        return min(self._position(name, TopicPartition(topic, partition)) for name in names)

    def _position(self, name: str, tp: TopicPartition) -> int:
        """Of one table; only what is new in its log is read."""
        seen, versions = self._logs[name]
        for path in sorted({*(self.e.folder(name) / "_delta_log").glob("*.json")} - seen):
            for line in path.read_text().splitlines():
                if (txn := json.loads(line).get("txn")) is not None:
                    versions[txn["appId"]] = txn["version"]
            seen.add(path)
        found = live_position(versions, self.e.app, tp)
        return found.offset if found is not None else -1

    def reached(self, ends: dict[tuple[str, int], int], task: Process) -> None:
        """Wait until all records before these offsets are covered."""

        def done() -> bool:
            assert task.popen.poll() is None, task.text[-4000:]
            return all(self.covered(*tp) >= end - 1 for tp, end in ends.items())

        wait_until(done, LIFE_SECS_MAX, f"all tables cover {ends}")

    def life(self) -> Any:
        """An exporter, in a group of its own: the session of one that was killed need not be waited for."""
        return running(self.e.with_(group=fresh_name("group")))

    def killed(self, versions: tuple[int, ...], count: int) -> None:
        """One life, which ends while there is work."""
        self.load(count // 2, versions)
        with self.life() as task:
            after = self.rng.choice(["", "positions_recovered", "commit_landed", "commit_landed"])
            if after:
                task.wait_for(after)
            self.load(count - count // 2, versions)
            time.sleep(self.rng.uniform(0, 1.5 if after else 6))  # the random moment
            os.kill(task.pid, signal.SIGKILL)
            assert task.wait(10) == -signal.SIGKILL, task.text

    def outage(self) -> None:
        """The registry hangs; a version that it has, and of which nothing is recorded yet, comes meanwhile.

        Known ids go on, in a task that is killed and in the next one; the partitions with the others wait.
        """
        self.writer.order(3, 0)
        for number in (1, 2):
            self.writer.message(3, number)
        with self.life() as task:
            self.reached(self.sent, task)
            os.kill(self.server.pid, signal.SIGSTOP)
            until = time.monotonic() + self.size.outage_secs
            self.load(60, (1, 2), (STALLED,))
            ends = {tp: end for tp, end in self.sent.items() if tp[1] == STALLED}
            self.load(60, (3,), (STALLED,))
            self.load(200, VERSIONS, (STALLED,))
            self.known_go_on(task, ends)
            os.kill(task.pid, signal.SIGKILL)
            assert task.wait(10) == -signal.SIGKILL
        with self.life() as task:
            self.known_go_on(task, ends)
            while time.monotonic() < until:
                time.sleep(min(5.0, self.size.outage_secs / 6))  # pace of the load
                self.known_go_on(task, ends)
            assert "schema_missing" in task.text
            assert not self.e.rows(DEAD_LETTERS)
            os.kill(self.server.pid, signal.SIGCONT)
            self.reached(self.sent, task)

    def known_go_on(self, task: Process, ends: dict[tuple[str, int], int]) -> None:
        """New records of known ids are exported, while others are held up at these offsets."""
        self.load(60, (1, 2), tuple(range(STALLED)))
        self.reached({tp: end for tp, end in self.sent.items() if tp[1] != STALLED} | ends, task)
        assert {tp: self.covered(*tp) + 1 for tp in ends} == ends

    def forgets(self) -> None:
        """The registry is wiped and filled with other ids: the exporter ends with 70 and a hint, and so does the next.
        """
        with self.life() as task:
            self.reached(self.sent, task)
            before = dict(self.sent)
            self.server.kill()
            self.server.start()
            SchemaRegistryClient({"url": self.server.url}).register_schema("first", Schema('{"type": "int"}', "AVRO"))
            old = self.writer
            self.writer = Writer(self.server.url, self.topics["Order"], self.topics["Line"], self.e.root, self.rng)
            for version in reversed(VERSIONS):
                self.writer.order(version, 0)
                self.writer.message(version, 1)
            new = max(self.writer.ids.keys() - old.ids.keys())
            kind, version = self.writer.ids[new]
            topic = self.topics["Order" if kind == "avro" else "Line"]
            write = self.writer.order if kind == "avro" else self.writer.message
            self._producer.produce(topic, write(version, 5), None, 0, timestamp=millis(NOON))
            assert self._producer.flush(60) == 0 and not self.failed
            self.tells_the_contradiction(task)
            self.writer, self.sent = old, before
        with self.life() as task:
            self.tells_the_contradiction(task)

    def tells_the_contradiction(self, task: Process) -> None:
        assert task.wait() == 70, task.text[-4000:]
        said = json.loads(task.text.splitlines()[-1])
        assert (said["event"], said["exit_code"]) == ("task_failed", 70), said
        assert "has another schema under id" in said["error"] and "[schema_registry] name" in said["hint"], said

    def compared(self) -> int:
        """Each record is one row of its table, and says what independent readers say; how many there are."""
        found: dict[tuple[str, int, int], tuple[str, dict[str, Any]]] = {}
        for name in TYPES:
            for row in self.e.rows(name):
                at = (row["_kafka"]["topic"], row["_kafka"]["partition"], row["_kafka"]["offset"])
                assert at not in found, f"{at} is there twice"
                found[at] = name, row
        count = 0
        for topic in {*self.topics.values()}:
            for message in messages(self.e.kafka, topic):
                at = (topic, message.partition(), message.offset())
                if at[2] >= self.sent[at[:2]]:
                    continue  # of the registry that was filled anew
                said = self.writer.said(message.value())
                name, row = found.pop(at)
                rest = json.loads(row["_rescued"] or "{}")
                assert (name, columns_of(row, [*said.row]), rest) == said, at
                count += 1
        assert not found and not self.e.rows(DEAD_LETTERS)
        return count


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("size", [seldom(SHORT, id="short"), seldom(FULL, id="full")])
def test_versions_of_schemas_are_read_as_others_read_them_whatever_happens(
    size: Size,
    kafka: str,
    topic: Callable[..., str],
    tmp_path: Path,
    spark: Any,
    registry_server: LocalRegistry,
) -> None:
    """ONCE, VERDICT: by fastavro and upb, after kills, a registry that hangs, and one that forgot everything."""
    seed = int(os.environ.get("DRILL_SEED", random.SystemRandom().randrange(1 << 32)))
    print(f"DRILL_SEED={seed}")
    write_reader(tmp_path)
    avro, protobuf = topic(PARTITIONS), topic(PARTITIONS)
    more = [f'[topic_formats."{protobuf}"]', 'kind = "protobuf"', 'frame = "confluent"']
    more += ['schema_files = ["proto3/shop/payments.proto"]', "[schema_registry]"]
    more += [f'urls = ["{registry_server.url}"]', "timeout_secs = 2"]
    e = Export(
        kafka, avro, tmp_path, fresh_name("app"), dict(TYPES),
        {"topics": [avro, protobuf], "roll_age_max_secs": 0.3, "roll_records_max": 2_000},
        'kind = "record"', type_from='kind = "schema"\nname = "short"', more="\n".join(more),
        value_format='kind = "avro"\nframe = "confluent"\nschema_files = ["order.avsc", "address.avsc"]',
    )  # fmt: skip
    story = Story(e, protobuf, registry_server, size, random.Random(seed))
    began, each = time.monotonic(), size.records // (size.kills + 1)
    for _ in range((size.kills - 1) // 2):
        story.killed((1, 2), each)
    story.load(each, (1, 2))
    story.outage()
    print(f"the outage is over after {time.monotonic() - began:.0f} s")
    for _ in range(size.kills // 2):
        story.killed(VERSIONS, each)
    story.load(max(0, size.records - story.number), VERSIONS)
    story.forgets()
    print(f"the registry has forgotten after {time.monotonic() - began:.0f} s")
    assert story.compared() >= size.records
    report = e.audit(spark)
    assert report.clean, report.as_text()
    print(f"{story.number} records, {size.kills} kills: {time.monotonic() - began:.0f} s")
