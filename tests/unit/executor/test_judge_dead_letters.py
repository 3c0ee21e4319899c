"""What becomes of dead letters by the recorded schemas: texts alone count, whatever was decided before (4.9)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pytest

from exporter.core.schemas import KnownSchemas, UnknownId
from exporter.core.shapes import Shape
from exporter.executor.judge_dead_letters import RECORD, STAYS, judge, missing_ids
from exporter.formats.formats import FORMATS
from offsets.ranges import TopicPartition
from tests.support.fake_schemas import FRAMED, TEXT, FramedPairs, value
from tests.unit.executor.test_stage import KAFKA_TIME_US, SCHEMA
from tests.unit.executor.test_stage_frames import ROUTING

TP = TopicPartition("t", 0)
KNOWN = KnownSchemas({7: (UnknownId({TP: 100}), TEXT), 8: (UnknownId({TP: 100}),)})


@pytest.fixture(autouse=True)
def framed_pairs(monkeypatch):
    """The format of these tests."""
    monkeypatch.setitem(FORMATS, "avro", FramedPairs)


def dead_letters(*records: tuple[str, bytes | None], of_types: Sequence[str | None] = ()) -> pa.RecordBatch:
    """Topic and value of each; the type that it is of, if it is not of its whole record."""
    rows = [
        {"topic": topic, "value": value, "partition": 0, "offset": at, "timestamp": KAFKA_TIME_US, "epoch": 0}
        for at, (topic, value) in enumerate(records)
    ]
    for row, of_type in zip(rows, of_types, strict=False):
        row["of_type"] = of_type
    return pa.RecordBatch.from_pylist(rows, schema=RECORD)


GOOD = "n=1;type=a"


def test_a_letter_is_read_by_the_text_that_came_after_it():
    """What has none stays, with its reason; so does what is bad whatever its schema is."""
    batch = dead_letters(("t", value(7, GOOD)), ("t", value(8, GOOD)), ("t", value(9, GOOD)), ("t", None), ("t", b"x"))
    (judged,) = judge(ROUTING, KNOWN.texts, iter([batch]))
    assert judged["targets"].to_pylist() == [["a"], None, None, None, None]
    reasons = ["unknown_schema_id: 8", "unknown_schema_id: 9", "tombstone: the value is null"]
    assert judged["verdict"].to_pylist()[:4] == [None, *reasons]
    assert judged["verdict"][4].as_py()


def test_letters_of_each_topic_are_read_by_its_format():
    """In the order in which they came, neighbours of other topics among them."""
    routing = replace(ROUTING, topic_formats=(("plain", replace(FRAMED, frame="none")),))
    batch = dead_letters(("t", value(8, GOOD)), ("plain", value(7, GOOD)), ("t", value(7, GOOD)), ("plain", b"x"))
    (judged,) = judge(routing, KNOWN.texts, iter([batch]))
    assert judged["targets"].to_pylist() == [None, ["a"], ["a"], None]
    assert judged["verdict"][0].as_py() == "unknown_schema_id: 8" and judged["verdict"][3].as_py()


def test_the_ids_that_are_asked_for_are_those_without_a_text():
    """As often as dead letters have them, so that those are asked first that matter."""
    values = [value(8, ""), value(7, ""), value(9, ""), value(8, ""), None, b"\0\xff\xff\xff\xff"]
    batch = dead_letters(*(("t", one) for one in values))
    found = [one for part in missing_ids(ROUTING, KNOWN.texts, iter([batch])) for one in part["id"].to_pylist()]
    assert sorted(map(int, found)) == [8, 8, 9]
    unframed = replace(ROUTING, value_format=replace(FRAMED, frame="none"))
    assert not any(len(part) for part in missing_ids(unframed, KNOWN.texts, iter([batch])))


FANNED = replace(ROUTING, matches=(("a", "a|x.*"), ("b", "b|x.*")))


def test_a_letter_of_one_type_is_judged_for_that_type_alone():
    """One of a whole record goes to all of its tables, or to none if one of them refuses it."""
    good, other, bad = "n=1;type=x1", "n=1;type=a", "n=x;type=x1"
    sent = [("t", value(7, pairs)) for pairs in (good, good, other, other, bad, bad)]
    (judged,) = judge(FANNED, KNOWN.texts, iter([dead_letters(*sent, of_types=[None, "b", None, "b", None, "a"])]))
    assert judged["targets"].to_pylist() == [["a", "b"], ["b"], ["a"], None, None, None]
    codes = [why and why.partition(":")[0] for why in judged["verdict"].to_pylist()]
    assert codes == [None, None, None, "of_another_type", "type_mismatch", "type_mismatch"]


def test_a_letter_that_would_be_in_no_table_stays():
    """A replay makes nothing vanish: what is counted now stays a dead letter, and so does what is filtered."""
    routing = replace(ROUTING, unrouted="count")
    sent = [("t", value(7, pairs)) for pairs in ("n=1;type=y", GOOD)]
    (judged,) = judge(routing, KNOWN.texts, iter([dead_letters(*sent)]))
    assert judged["verdict"].to_pylist() == ["unrouted", None] and judged["targets"].to_pylist() == [None, ["a"]]
    shapes = (("a", Shape(SCHEMA, where="_kafka.\"offset\" > 0")),)
    two = dead_letters(*[("t", value(7, "n=1;type=a"))] * 2)
    (judged,) = judge(replace(FANNED, shapes=shapes), KNOWN.texts, iter([two]))
    assert judged["verdict"].to_pylist() == ["filtered", None] and judged["targets"].to_pylist() == [None, ["a"]]
    assert set(STAYS) == {"unrouted", "filtered", "of_another_type"}
