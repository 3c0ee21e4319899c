"""Rows to the partitions of their table: none is lost, moved or misread, however many values there are."""

from __future__ import annotations

import json
from datetime import date, datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.executor.by_partition import FEW, Unsplit
from exporter.executor.partitioning import Partitioning
from offsets.partitions import NULL, TEXT_BYTES_MAX, Spec, fits

NOON = datetime(2026, 1, 31, 12, tzinfo=timezone.utc)
COLUMNS = {"s": pa.string(), "n": pa.int64(), "b": pa.bool_(), "d": pa.date32()}


def decoded(rows: list[dict[str, Any]], first: int = 0) -> pa.Table:
    """As a decoder gives them: columns, `_rescued`, the event time last. `at` counts the rows, from `first` on."""
    columns = {name: pa.array([row.get(name) for row in rows], kind) for name, kind in COLUMNS.items()}
    columns["at"] = pa.array(range(first, first + len(rows)), pa.int64())
    columns["_rescued"] = pa.array([row.get("_rescued") for row in rows], pa.string())
    times = [row.get("time", NOON) for row in rows]
    return pa.table({**columns, "_event_time": pa.array(times, pa.timestamp("us", "UTC"))})


values = st.fixed_dictionaries({
    "s": st.sampled_from(["", "a", "b/c", "\0", NULL, "x" * 300, "é" * 40]) | st.none() | st.text(max_size=3),
    "n": st.none() | st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1),
    "b": st.none() | st.booleans(),
    "d": st.none() | st.dates(),
    "time": st.integers(0, 100).map(lambda hours: NOON + timedelta(hours=hours)),
    "_rescued": st.none() | st.just('{"z":1}'),
})  # fmt: skip
identities = st.sampled_from([(), ("s",), ("s", "n"), ("b", "d"), ("d", "s", "n", "b"), ("gone",), ("gone", "b")])


def text_of(value: Any) -> str | None:
    """A value as Delta writes it in a log; None for what is null there. Source: the Delta protocol."""
    if value is None:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if not isinstance(value, str) or fits(value) else None


@settings(deadline=None)
@given(st.lists(values, min_size=1, max_size=40), st.sampled_from(["day", "hour", "month", "none"]), identities)
def test_each_row_is_once_in_its_own_partition_with_all_of_its_values(
    rows: list[dict[str, Any]], unit: str, identity: tuple[str, ...]
) -> None:
    """ONCE, and a value is in the log, in a column of the file, or in `_rescued`; offsets stay in order."""
    rows = [{**row, "s": None if row["s"] is None else row["s"].encode("utf-8", "ignore").decode()} for row in rows]
    spec = Spec(unit, identity)
    partitioning, unsplit = Partitioning(spec), Unsplit()
    half = (len(rows) + 1) // 2
    for first in range(0, len(rows), half):
        keys, table = partitioning.cut(decoded(rows[first : first + half], first))
        assert not {*identity} & {*table.column_names}
        unsplit.add(table, keys)
    seen: list[int] = []
    for number, part in unsplit.split():
        partition = partitioning.partition(number)
        found = part.to_pylist()
        assert [row["at"] for row in found] == sorted(row["at"] for row in found)
        seen += [row["at"] for row in found]
        for row in found:
            sent = rows[row["at"]]
            assert partition == spec.at(sent["time"], [text_of(sent.get(name)) for name in identity])
            rescued = json.loads(row["_rescued"] or "{}")
            kept = {"s": sent["s"]} if "s" in identity and sent["s"] is not None and not fits(sent["s"]) else {}
            assert rescued == {**(json.loads(sent["_rescued"]) if sent["_rescued"] else {}), **kept}
            assert all(row[name] == sent[name] for name in COLUMNS.keys() - {*identity})
    assert sorted(seen) == list(range(len(rows)))


def test_many_values_are_split_by_one_sort() -> None:
    """As many partitions as rows: each of them once, in the order of the offsets."""
    rows = [{"n": number % 1000} for number in range(3 * 1000)]
    partitioning, unsplit = Partitioning(Spec("none", ("n",))), Unsplit()
    keys, table = partitioning.cut(decoded(rows))
    unsplit.add(table, keys)
    parts = {partitioning.partition(number).values["n"]: part["at"].to_pylist() for number, part in unsplit.split()}
    assert len(parts) == 1000 > FEW
    assert parts == {str(n): [n, n + 1000, n + 2000] for n in range(1000)}


@pytest.mark.parametrize("text", ["", "a\0b", NULL, "x" * (TEXT_BYTES_MAX + 1)])
def test_a_text_that_is_null_as_a_partition_is_kept_in_rescued(text: str) -> None:
    """`_rescued` stays one JSON object; the neighbours are not touched."""
    keys, table = Partitioning(Spec("day", ("s",))).cut(
        decoded([{"s": text}, {"s": "a"}, {"s": text, "_rescued": '{"z":[1.50]}'}, {"_rescued": '{"y":2}'}])
    )
    member = json.dumps({"s": text})[1:-1].replace('": "', '":"')
    assert table["_rescued"].to_pylist() == [f"{{{member}}}", None, f'{{{member},"z":[1.50]}}', '{"y":2}']
    assert len(set(keys.to_pylist())) == 2


def test_dates_and_numbers_have_deltas_texts() -> None:
    """Also the first and the last date that there is."""
    partitioning = Partitioning(Spec("none", ("d", "n", "b")))
    rows = [{"d": date.min, "n": -(2**63), "b": True}, {"d": date.max, "n": 0, "b": False}]
    keys, _ = partitioning.cut(decoded(rows))
    assert [partitioning.partition(key).values for key in keys.to_pylist()] == [
        {"d": "0001-01-01", "n": str(-(2**63)), "b": "true"}, {"d": "9999-12-31", "n": "0", "b": "false"}
    ]  # fmt: skip
