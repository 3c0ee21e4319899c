"""valid_through on a real broker: of ordered input nothing is committed later that has a time at or below it (4.12)."""

from __future__ import annotations

import itertools
import json
import re
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import confluent_kafka as ck
import pytest

from exporter.core.valid_through import as_ms
from exporter.local.broker import create_topic
from exporter.operate.offsets_view import offset_rows
from offsets.ranges import TopicPartition
from tests.support.lakes import NOON, Export, event, millis, seldom, wait_until
from tests.support.naive_through import assert_valid_through
from tests.support.processes import ROOT
from tests.support.services import fresh_name

pytestmark = [pytest.mark.broker, pytest.mark.spark]

PARTITIONS = 3
TYPES = ("order", "click")
PACE_SECS = 0.03
"""Between two rounds of the producer."""


class Producer:
    """Writes records whose times go up, over all partitions: each is acknowledged before the next is written."""

    def __init__(self, kafka: str, topic: str) -> None:
        self._topic = topic
        self._producer = ck.Producer({"bootstrap.servers": kafka, "enable.idempotence": True, "linger.ms": 0})
        self._number = itertools.count()
        self.at = NOON
        self.ends = [0] * PARTITIONS

    def write(self, partition: int) -> None:
        """Three orders, and in the first partition a click among them."""
        for kind in ("order", "click", "order") if partition == 0 else ("order", "order", "order"):
            self.at += timedelta(milliseconds=7)
            record = event(kind, next(self._number), self.at, self.at)
            stamp = record.timestamp_ms
            self._producer.produce(self._topic, record.value, record.key, partition, timestamp=stamp)
            assert self._producer.flush(30) == 0
            self.ends[partition] += 1

    def write_until(self, true: Callable[[], bool], partitions: int) -> None:
        """Go on with the first partitions, at a pace that leaves time for others, until something is true."""
        deadline = time.monotonic() + 60
        while not true():
            assert time.monotonic() < deadline, f"not within 60 s, at {self.at}"
            for partition in range(partitions):
                self.write(partition)
            time.sleep(PACE_SECS)


@pytest.fixture
def export(kafka: str, topic: Callable[..., str], tmp_path: Path) -> Export:
    return Export(kafka, topic(PARTITIONS), tmp_path, "app", scalars={"roll_age_max_secs": 0.5, "poll_secs": 0.1})


def of_mode(e: Export, mode: str, root: Path, **scalars: Any) -> Export:
    """An app of its own on the same topic."""
    root.mkdir()
    name = fresh_name("app")
    return Export(
        e.kafka, e.topic, root, name, scalars={**e.scalars, "valid_through": mode, "group": name, **scalars}
    )


def in_rounds(e: Export) -> dict[str, Any]:
    """Settings of an app that commits in rounds."""
    control = fresh_name("control")
    create_topic(e.kafka, control, 1)
    return {"control_topic": control, "commit_interval_secs": 1.0}


def told(e: Export, event_type: str) -> list[datetime]:
    """What the versions of a table say, in their order."""
    entries = (e.place.read(file).decode().splitlines() for file in e.log(event_type))
    infos = (json.loads(line).get("commitInfo") for line in itertools.chain.from_iterable(entries))
    said = (json.loads(info.get("userMetadata") or "{}").get("valid_through") for info in infos if info)
    return [datetime.fromisoformat(text.replace("Z", "+00:00")) for text in said if text]


def is_there(e: Export) -> bool:
    """Whether the tables have their first positions in every partition."""
    return len(e.tables()) == 4 and all(len(e.log(name)) > 0 for name in e.tables())


def documented() -> Callable[[str], str]:
    """The function that the handbook has for readers."""
    page = (ROOT / "deploy" / "handbook" / "valid-through.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.S)
    names: dict[str, Any] = {}
    exec(code, names)
    found: Callable[[str], str] = names["valid_through"]
    return found


def next_offsets(e: Export) -> list[int]:
    """Of the table of orders, by partition."""
    return [e.position("order", partition)[1] + 1 for partition in range(PARTITIONS)]


def exported(apps: Sequence[Export], tasks: int, spark: Any, types: Sequence[str] = TYPES) -> datetime:
    """All types are told of often, then a partition falls silent, and `idle_aware` goes on; when that was."""
    producer = Producer(apps[0].kafka, apps[0].topic)
    with ExitStack() as stack:
        services = [stack.enter_context(e.going(spark)).service for e in apps for _ in range(tasks)]
        wait_until(lambda: all(map(is_there, apps)), 60, "the tables are anchored")
        wait_until(lambda: all(one._ownership.owned for one in services), 60, "each task has partitions")
        producer.write_until(lambda: all(len(told(e, name)) >= 3 for e in apps for name in types), PARTITIONS)
        silent_at = producer.at
        for partition in range(PARTITIONS - 1):
            producer.write(partition)
        aware = [e for e in apps if e.scalars["valid_through"] == "idle_aware"]
        producer.write_until(
            lambda: all(max(told(e, name)) > silent_at for e in aware for name in types), PARTITIONS - 1
        )
        wait_until(lambda: all(next_offsets(e) == producer.ends for e in apps), 60, "all is committed")
    for e in apps:
        assert_valid_through(e, e.scalars["valid_through"], e.settings().valid_through_time)
    return silent_at


def test_in_ordered_input_no_later_row_has_a_time_at_or_below_it(export: Export, tmp_path: Path, spark: Any) -> None:
    """A silent partition: strict says no more, idle_aware goes on; also of a type with rows in one partition only."""
    strict, aware = of_mode(export, "strict", tmp_path / "strict"), of_mode(export, "idle_aware", tmp_path / "aware")
    silent_at = exported((strict, aware), 1, spark)
    assert all(max(told(strict, name)) <= silent_at for name in TYPES)
    with aware.bench(spark) as bench:
        shown = {(row.event_type, row.tp): row.valid_through for row in offset_rows(bench, aware.settings())}
    text = shown["order", TopicPartition(aware.topic, 2)]
    assert as_ms(text) == millis(max(told(aware, "order")))
    assert documented()(aware.uri("order")) == text
    assert "exporter.valid_through" not in aware.table("order").metadata().configuration


@pytest.mark.parametrize("mode", ["idle_aware", seldom("strict")])
def test_the_leader_of_two_tasks_says_it_of_all_and_as_a_property(
    export: Export, tmp_path: Path, spark: Any, mode: str
) -> None:
    """No task has all partitions, and merged commits tell of all; the property is what was said last."""
    app = of_mode(export, mode, tmp_path / mode, **in_rounds(export))
    silent_at = exported((app,), 2, spark)
    for name in TYPES:
        configuration = app.table(name).metadata().configuration
        assert as_ms(configuration["exporter.valid_through"]) == millis(max(told(app, name)))
        assert (max(told(app, name)) > silent_at) == (mode == "idle_aware")


@pytest.mark.long
def test_by_event_time_a_table_goes_by_its_own_rows(export: Export, tmp_path: Path, spark: Any) -> None:
    """Of a type with rows in one partition only nothing is said: what is to come in the others, nobody knows."""
    strict, aware = (
        of_mode(export, mode, tmp_path / mode, valid_through_time="event") for mode in ("strict", "idle_aware")
    )
    silent_at = exported((strict, aware), 1, spark, ("order",))
    assert max(told(strict, "order")) <= silent_at
    assert told(strict, "click") == []


def test_off_nothing_of_it_is_stored(export: Export, spark: Any) -> None:
    """By default no commit says a time, of a partition or of the table, and no property is set."""
    producer = Producer(export.kafka, export.topic)
    producer.write(0)
    export.run(spark)
    entries = "".join(export.place.read(file).decode() for file in export.log("order"))
    said = [json.loads(line).get("commitInfo", {}).get("userMetadata") for line in entries.splitlines()]
    assert not any("valid_through" in text or '"time"' in text for text in [*filter(None, said), entries])
