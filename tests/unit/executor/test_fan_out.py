"""Records of several tables or of none: renames, patterns, unrouted ones, filters, and what is counted of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.core.manifest import COPIES, FILTERED
from exporter.core.routing import DEAD_LETTERS, Routing
from exporter.core.shapes import Rename, Shape
from exporter.core.writers import Fragment, PartitionPlan
from exporter.executor import readers
from exporter.executor.route import Router
from exporter.executor.stage import stage
from exporter.rounds.told import round_result
from exporter.shape.shaper import Shaped
from offsets.names import table_folder
from tests.support.orders import order_of
from tests.unit.executor.test_stage import ALL, ROUTING, SCHEMA, TP, batch, record, run

BOTH = replace(ROUTING, matches=(("a", "a|x.*"), ("b", "b|x.*")))
"""What begins with x is in both tables."""


class Odd:
    """A shaper that fails on the number 7, filters odd numbers and keeps even ones."""

    sees_record = True

    def __init__(self, shape: Shape | None, constants: object) -> None:
        self.shape = shape

    def shaped(self, decoded: pa.Table, record: pa.Table) -> Shaped:
        """As Shaper."""
        numbers = decoded["n"].to_pylist()
        assert record["_kafka"].type.field(2).name == "offset" and record.num_rows == len(numbers)
        kept = pa.array([row for row, n in enumerate(numbers) if n % 2 == 0], pa.int32())
        filtered = pa.array([row for row, n in enumerate(numbers) if n % 2 and n != 7], pa.int32())
        bad = [(row, "transform_failed: m: seven") for row, n in enumerate(numbers) if n == 7]
        return Shaped(decoded.take(kept), kept, filtered, bad)


@pytest.fixture
def odd(monkeypatch):
    """The shaper of these tests, in place of that of settings."""
    monkeypatch.setattr(readers, "Shaper", Odd)


FILTERING = replace(BOTH, shapes=(("a", Shape(SCHEMA, where="n % 2 = 0")),))


def dead_letters(root: Path) -> list[tuple[int, str | None, str, str]]:
    """Offset, event type, stage and reason's code of the dead letters, in their order."""
    rows = []
    for path in (root / table_folder(DEAD_LETTERS)).rglob("*.parquet"):
        for row in pq.read_table(path, partitioning=None).to_pylist():
            rows.append((row["_kafka"]["offset"], row["event_type"], row["stage"], row["reason"].partition(":")[0]))
    return sorted(rows, key=lambda row: (row[0], row[1] or ""))


def test_a_record_is_in_each_table_whose_pattern_fits_it(tmp_path):
    """Once in each; one that has no number is a dead letter of each table, told apart by the event type."""
    values = [record("x1", 1), record("a", 2), record("b", 3), record("x2", "?"), record("x1", 5)]
    files, counts = run(tmp_path, [batch(values)], ALL, routing=BOTH)
    assert files == {"a": [[0, 1, 4]], "b": [[0, 2, 4]], DEAD_LETTERS: [[3, 3]]}
    assert dead_letters(tmp_path) == [(3, "a", "decode", "type_mismatch"), (3, "b", "decode", "type_mismatch")]
    assert counts[COPIES] == 3 and counts["records"] == 5 and counts["dead_letters"] == 2


def test_a_record_that_is_dead_as_a_whole_has_one_letter(tmp_path):
    """However many tables would take it."""
    routing = replace(BOTH, record_bytes_max=100)
    values = [None, record("x1", int("9" * 90)), b"{}", record("nobody's", 1)]
    files, _ = run(tmp_path, [batch(values)], ALL, routing=routing)
    assert files == {DEAD_LETTERS: [[0, 1, 2, 3]]}
    stages = [(None, "route", "tombstone"), (None, "size", "too_long"), (None, "route", "no_type"),
              ("nobody's", "route", "unknown_type")]  # fmt: skip
    assert dead_letters(tmp_path) == [(at, *told) for at, told in enumerate(stages)]


def test_each_table_of_a_record_has_its_own_bound(tmp_path):
    """What one of them has already is staged for the other alone, and its dead letters go by their bound."""
    values = [record("x", n) for n in (0, 1, 2)] + [record("x", "?")] * 2
    files, counts = run(tmp_path, [batch(values)], {DEAD_LETTERS: 3, "a": 1, "b": -1}, routing=BOTH)
    assert files == {"a": [[2]], "b": [[0, 1, 2]], DEAD_LETTERS: [[4, 4]]}
    assert counts[COPIES] == 2


def test_renames_come_first_and_the_first_that_fits_whole_counts(tmp_path):
    """Groups are filled in; a dead letter says the new name."""
    rules = (Rename("old\\.(.)", "$1"), Rename(".*x.*", "b"), Rename("(?P<it>a)", "${it}"), Rename("gone", "new"))
    routing = replace(ROUTING, renames=rules)
    values = [record(name, 1) for name in ("old.a", "old.aa", "xx", "a", "gone", "b")]
    files, _ = run(tmp_path, [batch(values)], ALL, routing=routing)
    assert files == {"a": [[0, 3]], "b": [[2, 5]], DEAD_LETTERS: [[1, 4]]}
    assert [row[1] for row in dead_letters(tmp_path)] == ["old.aa", "new"]


@pytest.mark.parametrize(("unrouted", "staged", "counted"), [
    ("dead_letter", {"a": [[0]], DEAD_LETTERS: [[1, 2, 3, 4]]}, 0),
    ("count", {"a": [[0]], DEAD_LETTERS: [[3, 4]]}, 2),
    ("b", {"a": [[0]], "b": [[1, 2]], DEAD_LETTERS: [[3, 4]]}, 0),
])  # fmt: skip
def test_records_that_no_table_takes(tmp_path, unrouted, staged, counted):
    """Those without an event type or a value are dead letters, whatever is done with the others."""
    values = [record("a", 1), record("y", 2), record("z", 3), None, b"{}"]
    files, counts = run(tmp_path, [batch(values)], ALL, routing=replace(ROUTING, unrouted=unrouted))
    assert files == staged and counts.get(FILTERED + DEAD_LETTERS, 0) == counted


def test_counted_records_are_those_beyond_the_letters_bound(tmp_path):
    """And none while the plan does not list the dead letters: their count belongs to what their position passes."""
    routing = replace(ROUTING, unrouted="count")
    values = [record("y", n) for n in range(5)]
    _, counts = run(tmp_path / "1", [batch(values)], {**ALL, DEAD_LETTERS: 2}, routing=routing)
    assert counts[FILTERED + DEAD_LETTERS] == 2
    _, counts = run(tmp_path / "2", [batch(values)], {"a": -1}, routing=routing)
    assert FILTERED + DEAD_LETTERS not in counts


def test_rows_that_are_filtered_are_counted_and_in_no_table(tmp_path, odd):
    """Only beyond the type's bound; the other table of a record has it all the same; what fails is a dead letter."""
    values = [record("x", n) for n in (1, 2, 3, 7, 4, 5)]
    files, counts = run(tmp_path, [batch(values)], {**ALL, "a": 0}, routing=FILTERING)
    assert files == {"a": [[1, 4]], "b": [[0, 1, 2, 3, 4, 5]], DEAD_LETTERS: [[3]]}
    assert dead_letters(tmp_path) == [(3, "a", "transform", "transform_failed")]
    assert counts[FILTERED + "a"] == 2 and counts[COPIES] == 5


def test_a_batch_that_is_filtered_whole_is_counted(tmp_path, odd):
    """And nothing is staged for it; of a type that the plan does not list nothing is counted either."""
    values = [record("a", n) for n in (1, 3, 5)]
    files, counts = run(tmp_path / "1", [batch(values)], ALL, routing=FILTERING)
    assert files == {} and counts[FILTERED + "a"] == 3
    _, counts = run(tmp_path / "2", [batch(values)], {DEAD_LETTERS: -1}, routing=FILTERING)
    assert FILTERED + "a" not in counts


def test_a_fragment_has_the_counts_of_its_partition(tmp_path, odd):
    """Summed over the tasks that read it."""
    routing: Routing = replace(FILTERING, unrouted="count")
    plan = PartitionPlan(TP, 1, 2, 0, 10, ALL)
    order = order_of(tmp_path, routing, {TP: plan})
    rows: list[Mapping[str, object]] = []
    for first, names in ((0, "xyx"), (3, "yya")):
        values = [record(name, 1) for name in names]
        (manifest,) = stage(order, _one(batch(values, first)))
        rows += manifest.to_pylist()
    result = round_result(order, rows)
    (fragment,) = result.fragments
    assert isinstance(fragment, Fragment)
    assert dict(fragment.filtered) == {"a": 3, DEAD_LETTERS: 3}
    assert result.counts[FILTERED + "a"] == 3


def _one(part: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    yield part


def test_without_rules_nothing_is_counted(tmp_path):
    """No key comes to the counts of a configuration that has none of it."""
    _, counts = run(tmp_path, [batch([record("a", 1), record("c", 2)])], ALL)
    assert COPIES not in counts and not any(name.startswith(FILTERED) for name in counts)



@pytest.mark.parametrize("sent", [b'{"type": "x", "n": 1, "type": "b"}', b'{"type": "x", "n": 1, "\\u0074ype": "y"}'])
def test_what_a_value_says_twice_leads_nowhere(tmp_path, sent):
    """Whoever reads all of a value finds the second event type; a dead letter of each table that it was read for."""
    value = sent.replace(b"1", b'1, "ts": "2025-12-31T12:00:00Z"')
    files, _ = run(tmp_path, [batch([value])], ALL, routing=BOTH)
    assert set(files) == {DEAD_LETTERS}


SAID = st.text("axy.", min_size=1, max_size=3)
PATTERNS = st.sampled_from([".*", "a.*", "x|y", "[ax]+", "y"])
RULES = st.builds(
    lambda renames, matches, unrouted: replace(
        ROUTING, renames=tuple(Rename(*one) for one in renames), matches=tuple(sorted(matches.items())),
        unrouted=unrouted,
    ),
    st.lists(st.tuples(PATTERNS, st.sampled_from(["a", "b", "x", "c"])), max_size=3),
    st.dictionaries(st.sampled_from("ab"), PATTERNS),
    st.sampled_from(["dead_letter", "count", "a", "b"]),
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(RULES, st.lists(SAID, max_size=12))
def test_where_a_record_goes_depends_on_what_it_says_alone(routing, names):
    """Of a batch as of each record by itself: all of its tables, else counted, another type's or a dead letter."""
    routed = Router(routing).route(batch([record(name, 1) for name in names]))
    for row, name in enumerate(names):
        found = sorted(table for table, rows in routed.groups.items() if row in rows.to_pylist())
        dead = row in routed.dead.column("index").to_pylist()
        counted = row in routed.counted.to_pylist()
        assert found == list(routing.destinations_of(name))
        assert (dead, counted) == (not found and routing.unrouted == "dead_letter",
                                   not found and routing.unrouted == "count")  # fmt: skip
    assert all(rows.to_pylist() == sorted(rows.to_pylist()) for rows in routed.groups.values())


def test_sql_sees_the_record_beside_its_value(tmp_path):
    """Where it stood, its key, its headers; what is computed stands in the table; null is not true."""
    where = "n > 1 AND _kafka.topic = 'topic.with.dots' AND _key = 'k'::BLOB AND _headers IS NULL"
    shape = Shape(SCHEMA, computed=(("at", '_kafka."offset"'),), where=where)
    routing = replace(BOTH, shapes=(("a", shape),))
    values = [record("x", n) for n in (1, 2, None, 3)]
    files, counts = run(tmp_path, [batch(values)], ALL, routing=routing)
    assert files == {"a": [[1, 3]], "b": [[0, 1, 2, 3]]} and counts[FILTERED + "a"] == 2
    (path,) = (tmp_path / table_folder("a")).rglob("*.parquet")
    assert pq.read_table(path, partitioning=None)["at"].to_pylist() == [1, 3]
