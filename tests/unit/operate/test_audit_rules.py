"""The audit's own opinion on rules: which tables take an event type, which columns are as the value has them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.core.routing import EventTime, Routing, TypeFrom
from exporter.core.shapes import Rename, Shape
from exporter.operate.audit.opinion import JudgedRecord, Opinion, Taker
from exporter.operate.audit.records import AuditedRecord
from exporter.proof.codes import DEAD_LETTER, EITHER, UNROUTED, sifted, sifted_from
from exporter.proof.readers.reading import Readings
from exporter.proof.rules.routes import Routes, has_routes
from exporter.proof.rules.values import alike
from offsets.ranges import TopicPartition
from tests.support.naive_rules import COUNTED, takers

TYPES = ("a", "b", "order.v1")
CODES = {"dead_letters": DEAD_LETTER, **{name: code for code, name in enumerate(TYPES, 1)}, "new": 4}
NAMES = {code: name for name, code in CODES.items()}


def schema(**columns: str) -> str:
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in columns.items()]
    return json.dumps({"type": "struct", "fields": fields})


def routing_of(**changed: Any) -> Routing:
    """Three declared types, their name in the header, unless it is said otherwise."""
    types = tuple((name, schema(id="long")) for name in TYPES)
    known = {"type_from": TypeFrom("header", "t"), "event_time": EventTime("record"), "types": types}
    return Routing(**{**known, **changed})


@pytest.mark.parametrize(
    ("changed", "text", "takers"),
    [
        ({}, "a", (1,)),
        ({}, "c", (DEAD_LETTER,)),
        ({}, None, (DEAD_LETTER,)),
        ({"unrouted": "count"}, "c", (UNROUTED,)),
        ({"unrouted": "count"}, "", (DEAD_LETTER,)),
        ({"unrouted": "b"}, "c", (2,)),
        ({"unrouted": "b"}, None, (DEAD_LETTER,)),
        ({"matches": (("a", ".*"), ("b", "b|c"))}, "c", (1, 2)),
        ({"matches": (("a", ".*"), ("b", "b|c"))}, "order.v1", (1, 3)),
        ({"matches": (("a", "x"),)}, "a", (DEAD_LETTER,)),
        ({"matches": (("a", "(?s).*"),)}, "\n../é", (1,)),
        ({"renames": (Rename("(.*)-(?P<v>.)", "${v}"), Rename("x-.*", "b"))}, "x-a", (1,)),
        ({"renames": (Rename("x(y)?", "a$1"),)}, "x", (1,)),
        ({"renames": (Rename("x", "$$"),), "matches": (("b", r"\$"),)}, "x", (2,)),
        ({"renames": (Rename("x.*", "a"),)}, "wx", (DEAD_LETTER,)),
        ({"renames": (Rename("a", "b"), Rename("b", "c"))}, "a", (2,)),
        ({"new_type": "table"}, "new", (4,)),
        ({"new_type": "table"}, "newer", (DEAD_LETTER,)),
        ({"new_type": "table", "unrouted": "count"}, "A", (UNROUTED,)),
        ({"new_type": "table", "unrouted": "a"}, "new", (4,)),
    ],
)
def test_which_tables_take_an_event_type(changed: dict[str, Any], text: str | None, takers: tuple[int, ...]) -> None:
    """Renames come first, the whole text counts, and a record that says no type is a dead letter whatever is wanted."""
    assert Routes(routing_of(**changed), CODES).takers(text) == takers


PATTERNS = st.sampled_from(["a", "b", ".*", "a|c", "[ab]+", "(.)-(.)", "(?P<x>.*)-c", "c?", r"\$"])
TARGETS = st.sampled_from(["a", "b", "c", "$$", "$0", "new"])
TEXTS = st.sampled_from(["a", "b", "c", "ab", "a-c", "new", "A", "order.v1", "$", "dead_letters", " ", "é"])


@given(
    st.lists(st.tuples(PATTERNS, TARGETS), max_size=2),
    st.dictionaries(st.sampled_from(TYPES), PATTERNS, max_size=3),
    st.sampled_from(["dead_letter", "count", "b"]),
    st.sampled_from(["dead_letter", "table"]),
    TEXTS,
)
def test_it_is_the_exporter_s_opinion(renames: Any, matches: Any, unrouted: str, new_type: Any, text: str) -> None:
    """Written a second time, it comes to the same tables; the naive checker's third one too."""
    routing = routing_of(
        renames=tuple(Rename(*one) for one in renames),
        matches=tuple(sorted(matches.items())),
        unrouted=unrouted,
        new_type=new_type,
    )
    found = [NAMES.get(code) for code in Routes(routing, CODES).takers(text)]
    plain = takers(json.loads(routing.to_json()), text)
    wanted = list(routing.tables_of(text))
    if not wanted and unrouted == "b":
        wanted = ["b"]
    if not set(wanted) <= CODES.keys():
        assert found == ["dead_letters"], "its table is not there yet"
    elif wanted:
        assert found == plain == wanted
    else:
        assert found == [None if unrouted == "count" else "dead_letters"]
        assert plain == ([COUNTED] if unrouted == "count" else []) or " " in text or "é" in text


def seen(value: str, name: str = "") -> JudgedRecord:
    """A record. name: its event type, where the header says it."""
    headers = [{"key": "t", "value": name.encode()}] if name else []
    return JudgedRecord(AuditedRecord(TopicPartition("t", 0), 5, 0, b"k", value.encode(), len(value), headers))


def told(routing: Routing, *values: str) -> list[list[tuple[int, int]]]:
    """The takers of records, and what is expected of each."""
    judge = Opinion(routing, CODES, Readings({}))
    found = []
    for one in map(seen, values):
        takers = judge.takers(one)
        for at, taker in enumerate(takers):
            if taker.code in judge.filters:
                (kept,) = judge.filters[taker.code].judged([judge.document(one)], [one.record.as_seen()])
                takers[at] = Taker(taker.code, kept)
        found.append([(taker.code, judge.expected(one, taker)) for taker in takers])
    return found


def test_which_tables_take_a_record_and_what_their_filters_make_of_it() -> None:
    """Each table by itself; what is no text in the value is no event type."""
    shapes = (("a", Shape(schema(id="long"), where="id > 3")),)
    matches = (("a", ".*"), ("b", "b|7|true"))
    routing = routing_of(type_from=TypeFrom("json", "t.n"), matches=matches, shapes=shapes)
    found = told(
        routing,
        '{"t": {"n": "b"}, "id": 4}',
        '{"t": {"n": "b"}, "id": 3}',
        '{"t": {"n": "c"}, "id": "4"}',
        "{}",
        '{"t": {"n": 7}, "id": 4}',
        '{"t": {"n": "7"}, "id": 4}',
        '{"t": {"n": true}}',
        '{"t": {"n": {}}}',
        '{"t": {"n": "b"}, "id": 4',
    )
    no_type = [(DEAD_LETTER, DEAD_LETTER)]
    assert found == [
        [(1, 1), (2, 2)], [(1, sifted(1)), (2, 2)], [(1, EITHER)], no_type, no_type, [(1, 1), (2, 2)], *[no_type] * 3,
    ]  # fmt: skip


def test_a_configuration_without_rules_is_none_that_asks_for_routes() -> None:
    """Nothing is done for it that was not done before."""
    assert not has_routes(routing_of())
    assert all(map(has_routes, [
        routing_of(unrouted="count"), routing_of(matches=(("a", ".*"),)), routing_of(renames=(Rename("a", "b"),)),
    ]))  # fmt: skip


def test_the_code_of_a_filter_says_its_table() -> None:
    """And no other code does."""
    assert [sifted_from(sifted(code)) for code in range(1, 50)] == list(range(1, 50))
    assert [sifted_from(code) for code in range(-9, 10)] == [None] * 19


LETTERS_ALIKE = (Path(__file__).parents[2] / "golden" / "letters.txt").read_text(encoding="utf-8").splitlines()


def test_the_audit_takes_letters_for_one_as_spark_does() -> None:
    """By the pattern matching of Python, and not as the exporter folds them: all of Unicode."""
    wrong = [line for line in LETTERS_ALIKE for one in line for other in line if not alike(f"a{one}", f"A{other}")]
    assert wrong == []
    firsts = "".join(line[0] for line in LETTERS_ALIKE)
    for line in LETTERS_ALIKE:
        found = re.findall(re.escape(line[0]), firsts, re.IGNORECASE)
        assert found == [line[0]]
    assert alike("\u0130d", "i\u0307D") and alike("I\u0307", "\u0131") and not alike("o\u0307", "o")
    assert not alike("stra\u00dfe", "strasse")
