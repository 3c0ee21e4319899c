"""Several topics, topics and partitions that come, go and are replaced while a task runs, and who reads what."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from kafka.errors import ClusterAuthorizationFailedError

from exporter.core.routing import DEAD_LETTERS
from exporter.errors import ConfigError, InvariantBroken
from exporter.kafka.topics import TopicReader
from exporter.local.broker import create_topic
from exporter.operate.check.check import check_broker
from exporter.operate.offsets_view import offset_rows
from exporter.protocol import truncation
from exporter.settings import model
from offsets import Invariant
from offsets.ranges import TopicPartition
from offsets.selection import Topics
from tests.support import naive
from tests.support.lakes import DDL, Export, Exports, bad, event, mixed, seldom, wait_until, wrong_places
from tests.support.services import administered, fresh_name, produce, remove_topic

pytestmark = [pytest.mark.broker, pytest.mark.spark]

@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is new is noticed."""
    monkeypatch.setattr(model, "TOPICS_REFRESH_SECS", 0.3)


def at(e: Export, offset: int, partition: int = 0, topic: str = "") -> Callable[[], bool]:
    """Whether every table covers the offset."""

    def reached() -> bool:
        try:
            positions = e.positions(partition, topic)
        except AssertionError:
            return False
        return len(positions) == len(e.types) + 1 and all(found[1] >= offset for found in positions.values())

    return reached


def is_exact(e: Export, offsets: int) -> None:
    """A naive audit is clean, and there are as many rows."""
    naive.assert_each_once(e)
    assert sum(len(e.offsets(name)) for name in e.tables()) == offsets


def test_two_topics_go_into_one_set_of_tables(exports: Exports, topic: Callable[..., str], spark: Any) -> None:
    """ONCE per topic, though partition numbers and offsets are the same; a topic that is added later joins in."""
    e, other = exports(2), topic(1)
    e.send({0: mixed(60), 1: mixed(40, first=100)})
    produce(e.kafka, other, {0: mixed(50, first=200)})
    e.run(spark)
    both = e.with_(topics=[e.topic, other])
    both.run(spark)
    assert both.run(spark).totals.records == 0
    assert wrong_places(both) == wrong_places(both, topic=other) == {}
    assert set(both.positions(0, other).values()) == {(0, 49)}
    is_exact(both, 150)
    with both.bench(spark) as bench:
        ends = {(row.event_type, row.tp): (row.end, row.lag) for row in offset_rows(bench, both.settings())}
        ids = {name: one.topic_id for name, one in bench.topics.identities().items()}
    checked = {finding.says for finding in check_broker(both.settings()) if finding.what == "topic"}
    assert checked == {f"{e.topic}, 2 partitions, id {ids[e.topic]}", f"{other}, 1 partitions, id {ids[other]}"}
    assert len(ends) == 4 * 3
    assert ends["order", TopicPartition(other, 0)] == (50, 0)
    assert {(tags["topic"], tags["topic_id"]) for tags in file_tags(both, "order")} == set(ids.items())
    assert both.table("order").metadata().configuration.items() >= {
        f"exporter.topic_id.{name}": topic_id for name, topic_id in ids.items()
    }.items()


def file_tags(e: Export, event_type: str) -> Iterator[dict[str, str]]:
    """The tags of every file that a commit has added."""
    for path in sorted((e.root / "lake" / event_type / "_delta_log").glob("*.json")):
        for line in path.read_text().splitlines():
            if (add := json.loads(line).get("add")) is not None:
                yield add["tags"]


@pytest.mark.long
def test_a_row_of_one_topic_under_another_is_found_by_the_audit(
    exports: Exports, topic: Callable[..., str], spark: Any
) -> None:
    """Coordinates are those of a topic: the same partition and offset of another one is no match, but a clash there."""
    first, other = exports(), topic()
    e = first.with_(topics=[first.topic, other])
    e.send({0: [event("order", 1), event("order", 2)]})
    produce(e.kafka, other, {0: [event("click", 1), event("click", 2)]})
    e.run(spark)
    folder = e.root / "lake" / "order"
    spark.sql(f"UPDATE delta.`{folder}` SET _kafka.topic = '{other}' WHERE id = 2")
    report = e.audit(spark)
    assert (report.missing, report.twice, report.findings) == (1, 1, 2), report.as_text()
    assert {str(example) for example in report.examples} == {
        f"missing: order {e.topic}-0: 1",
        f"twice: click {other}-0: 1 (also in order)",
    }


def test_the_topic_may_be_the_event_type(kafka: str, tmp_path: Path, spark: Any) -> None:
    """type_from.kind = topic, with a pattern: one table per topic, also for a topic whose name needs escaping."""
    prefix = fresh_name("shop")
    names = [f"{prefix}.order", f"{prefix}.click", f"{prefix}.other"]
    types = {names[0]: DDL["order"], names[1]: DDL["click"]}
    pattern = {"topics": [], "topics_pattern": prefix + r"\.[a-z]+"}
    e = Export(kafka, names[0], tmp_path, fresh_name("app"), types, pattern, type_from='kind = "topic"')
    create_topic(kafka, prefix)
    for number, name in enumerate(names):
        create_topic(kafka, name)
        kind = ("order", "click", "order")[number]
        produce(kafka, name, {0: [event(kind, number * 10 + row) for row in range(5)]})
    produce(kafka, prefix, {0: mixed(5)})
    e.run(spark)
    placed = [set(map(tuple, e.placed(name).values())) for name in (*names, prefix)]
    assert placed == [{(names[0],)}, {(names[1],)}, {(DEAD_LETTERS,)}, set()]
    assert (e.root / "lake" / names[0].replace(".", "~2E")).is_dir()
    is_exact(e, 15)


def test_a_topic_that_begins_to_match_the_pattern_is_exported_and_one_that_goes_is_let_go(
    kafka: str, tmp_path: Path, spark: Any
) -> None:
    """While the task runs, which began without any topic: nothing of the new ones is missed, nothing stops it."""
    prefix = fresh_name("p")
    pattern = {"topics": [], "topics_pattern": f"{prefix}-.*"}
    e = Export(kafka, f"{prefix}-one", tmp_path, fresh_name("app"), scalars=pattern)
    late = f"{prefix}-late"
    with e.going(spark):
        create_topic(kafka, e.topic)
        produce(kafka, e.topic, {0: mixed(30)})
        wait_until(at(e, 29), 120, "the first topic is exported")
        create_topic(kafka, late, 2)
        produce(kafka, late, {0: mixed(20, first=100), 1: mixed(10, first=200)})
        wait_until(lambda: at(e, 19, 0, late)() and at(e, 9, 1, late)(), 120, "the late topic is exported")
        is_exact(e, 60)
        remove_topic(e.kafka, late)
        produce(kafka, e.topic, {0: mixed(10, first=300)})
        wait_until(at(e, 39), 120, "the remaining topic goes on")
    assert wrong_places(e) == {}
    assert (len(e.placed()), len(e.placed(late))) == (40, 30)


STATIC = {"assignment": "static", "partitions": "0/1"}


@pytest.mark.parametrize(
    "assignment", [pytest.param({}, id="group"), seldom(STATIC, id="static")]
)
def test_partitions_that_are_added_begin_at_their_first_record(
    exports: Exports, spark: Any, monkeypatch: pytest.MonkeyPatch, assignment: dict[str, str]
) -> None:
    """While the task runs, and although the first position was the latest: what is in them before they are noticed."""
    monkeypatch.setattr(model, "TOPICS_REFRESH_SECS", 2.0)
    e = exports(first_position="latest", **assignment)
    e.send({0: mixed(20)})
    with e.going(spark):
        wait_until(at(e, 19), 120, "anchored at the end")
        with administered(e.kafka) as admin:
            admin.create_partitions({e.topic: 3})
        wait_until(lambda: partitions(e) == 3, 30, "three partitions")
        e.send({0: mixed(10, first=20), 1: mixed(30, first=100), 2: mixed(5, first=200)})
        wait_until(lambda: at(e, 29)() and at(e, 29, 1)() and at(e, 4, 2)(), 120, "the new partitions are exported")
    assert sorted(e.placed()) == sorted(
        [(0, offset) for offset in range(20, 30)]
        + [(1, offset) for offset in range(30)]
        + [(2, offset) for offset in range(5)]
    )
    is_exact(e, 45)


def partitions(e: Export) -> int:
    with administered(e.kafka) as admin:
        return len(admin.describe_topics([e.topic])[0]["partitions"])


@pytest.mark.parametrize("more", [5, seldom(60)], ids=["fewer records than before", "more records than before"])
def test_a_topic_that_is_made_again_stops_the_running_task(
    exports: Exports, spark: Any, monkeypatch: pytest.MonkeyPatch, more: int
) -> None:
    """MONOTONE: with more records than before it is only its id that tells; not one of them reaches a table."""
    monkeypatch.setattr(model, "TOPICS_REFRESH_SECS", 30.0)
    e = exports(poll_secs=4)
    e.send({0: mixed(20)})
    with e.going(spark) as task:
        wait_until(at(e, 19), 120, "the first topic is exported")
        remove_topic(e.kafka, e.topic)
        create_topic(e.kafka, e.topic)
        e.send({0: mixed(more, first=500)})
        stopped = task.ended()
    assert isinstance(stopped, InvariantBroken)
    assert (stopped.invariant, stopped.exit_code) == (Invariant.MONOTONE, 70)
    assert f"topic id of {e.topic} was" in stopped.message
    assert f"{e.topic}-0 through offset 19" in stopped.message
    assert "repair --rebase" in stopped.hint
    assert len(e.placed()) == 20
    assert set(e.positions().values()) == {(0, 19)}


def test_a_log_that_is_shorter_than_the_tables_stops_the_running_task(
    exports: Exports, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MONOTONE: the same topic, but its end lies below the position, three times in a row."""
    e = exports()
    e.send({0: mixed(20)})
    monkeypatch.setattr(truncation, "TRUNCATION_SECS", 0.1)
    ends, marks = TopicReader.end_offsets, TopicReader.high_watermarks
    with e.going(spark) as task:
        wait_until(at(e, 19), 120, "all is exported")
        monkeypatch.setattr(TopicReader, "high_watermarks", shorter(marks))
        monkeypatch.setattr(TopicReader, "end_offsets", shorter(ends))
        stopped = task.ended()
    assert isinstance(stopped, InvariantBroken)
    assert stopped.exit_code == 70
    assert f"{e.topic}-0: the log ends at 12, the tables are at 19: offsets 12..19" in stopped.message
    assert "repair --rebase" in stopped.hint


def shorter(real: Callable[..., dict[TopicPartition, int]]) -> Callable[..., dict[TopicPartition, int]]:
    """As if an unclean election had lost the last eight records."""
    return lambda reader, tps: {tp: end - 8 for tp, end in real(reader, tps).items()}


@pytest.mark.long
def test_static_tasks_export_their_shares_one_after_the_other(
    exports: Exports, topic: Callable[..., str], spark: Any
) -> None:
    """0/2 and 1/2 make the whole of two topics; a list too; the group offsets are there for lag tools."""
    first, other = exports(3), topic(2)
    e = first.with_(topics=[first.topic, other], assignment="static")
    e.send({partition: mixed(20, first=100 * partition) for partition in range(3)})
    produce(e.kafka, other, {partition: mixed(10, first=1000 + 100 * partition) for partition in range(2)})
    e.with_(partitions="0/2").run(spark)
    assert {partition for partition, _ in e.placed()} == {0, 2}
    assert {partition for partition, _ in e.placed(other)} == {0}
    e.with_(partitions="1/2").run(spark)
    assert wrong_places(e) == wrong_places(e, topic=other) == {}
    e.send({2: [bad(b"x")], 1: [event("click", 999)]})
    e.with_(partitions="1,2").run(spark)
    assert wrong_places(e) == wrong_places(e, topic=other) == {}
    is_exact(e.with_(partitions="0/1"), 82)
    with administered(e.kafka) as admin:
        written = {(tp.topic, tp.partition): at.offset for tp, at in admin.list_group_offsets([e.app])[e.app].items()}
    assert written[e.topic, 0] == 20 and written[other, 1] == 10
    with pytest.raises(ConfigError, match="no topic has a partition 7"):
        e.with_(partitions="1,7").run(spark)


@pytest.mark.parametrize("static", [False, seldom(True)], ids=["group", "static"])
def test_a_task_for_which_no_partition_is_left_is_caught_up(exports: Exports, spark: Any, static: bool) -> None:
    """More tasks than partitions: `--until-caught-up` ends while the other task goes on, and takes nothing from it."""
    e = exports()
    e.send({0: mixed(10)})
    spare = e.with_(assignment="static", partitions="1/2") if static else e
    with e.going(spark) as task:
        wait_until(at(e, 9), 120, "the one task has the one partition")
        assert spare.run(spark).totals.records == 0
        e.send({0: mixed(10, first=10)})
        wait_until(at(e, 19), 120, "the one task goes on")
        assert task.service.totals.refused == 0
    assert wrong_places(e) == {}


def test_how_large_records_are_is_asked_before_the_first_large_round(
    kafka: str, topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the partitions that are asked for, replicas counted once; where a task may not ask, it is simply not known."""
    name, options = topic(2), {"bootstrap_servers": [kafka], "security_protocol": "PLAINTEXT"}
    first, second = (TopicPartition(name, partition) for partition in range(2))
    produce(kafka, name, {0: [bad(b"x" * 1_000)] * 50, 1: [bad(b"y" * 9_000)] * 50})
    reader = TopicReader(options, Topics(names=(name,)), "read_committed")
    try:
        assert 1_000 < reader.offset_bytes([first]) < 1_100
        assert 5_000 < reader.offset_bytes([first, second]) < 5_200
        assert reader.offset_bytes([]) == 0.0

        def refused(*_: object) -> None:
            raise ClusterAuthorizationFailedError

        monkeypatch.setattr(reader._admin, "describe_log_dirs", refused)
        assert reader.offset_bytes([first]) == 0.0
    finally:
        reader.close()


def test_a_topic_that_is_not_there_is_told_with_the_one_that_was_meant(kafka: str, topic: Callable[..., str]) -> None:
    """As settings are."""
    name = topic(1)
    reader = TopicReader({"bootstrap_servers": [kafka]}, Topics((f"{name}s",)), "read_committed")
    with closing(reader), pytest.raises(ConfigError, match=f"topic {name}s does not exist") as told:
        reader.require()
    assert told.value.hint.startswith(f"did you mean {name}? Else create it first")
