"""A function of the settings' author: what it sees, what it may return, and what is made of what it raises."""

from __future__ import annotations

import signal
import threading
import time
from asyncio import CancelledError
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from exporter.core.shapes import Shape
from exporter.errors import ConfigError
from exporter.shape import function
from exporter.shape.function import check_function
from exporter.shape.shaper import Shaper
from tests.support.schemas import schema
from tests.unit.shape.rows import decoded, made, records, shaped

DECODED = schema("a BIGINT, s STRING")
ADDED = schema("twice BIGINT")
HERE = "tests.unit.shape.test_function"


def doubled(table: pa.Table) -> tuple[pa.Table, Any]:
    """Twice `a`, of the rows with an even one; -1 is not doubled."""
    for value in table.column("a").to_pylist():
        if value == -1:
            raise ValueError("nothing is twice -1")
    numbers = table.column("a")
    return table.append_column("twice", pc.multiply(numbers, 2)), pc.equal(pc.bit_wise_and(numbers, 1), 0)


def renamed(table: pa.Table) -> tuple[pa.Table, None]:
    """Another text in a decoded column, from a part of the record."""
    keys = table.column("_key").cast(pa.string())
    return pa.table({"s": pc.fill_null(keys, "none"), "twice": pa.nulls(table.num_rows)}), None


def keeps_out(table: pa.Table) -> Any:
    return table.slice(0, 0).append_column("twice", pa.array([], pa.int64())), None


def adds(table: pa.Table) -> Any:
    return doubled(table)[0].append_column("more", table.column("a")), None


def adds_nothing(table: pa.Table) -> Any:
    return table, None


def returns_a_table(table: pa.Table) -> Any:
    return table


def returns_texts(table: pa.Table) -> Any:
    return table.append_column("twice", table.column("s")), None


def masks_by_numbers(table: pa.Table) -> Any:
    return doubled(table)[0], table.column("a")


def nulls(table: pa.Table) -> Any:
    return pa.table({"a": pa.nulls(table.num_rows, pa.int64()), "twice": table.column("a")}), None


def counts_days(table: pa.Table) -> Any:
    return table.append_column("twice", table.column("a").cast(pa.int32()).cast(pa.date32())), None


def raises(table: pa.Table) -> Any:
    raise KeyError("colour")


class Mute(Exception):
    """Its own method fails."""

    def __str__(self) -> str:
        raise RuntimeError("no")


def fails_oddly(table: pa.Table) -> tuple[pa.Table, None]:
    """On some rows, each in another way."""
    ways: dict[int, BaseException] = {
        1: ValueError("\ud800"), 2: SystemExit(3), 3: GeneratorExit(), 4: Mute(), 5: RecursionError("deep"),
        6: CancelledError(),
    }  # fmt: skip
    for value in table.column("a").to_pylist():
        if value in ways:
            raise ways[value]
    return table.append_column("twice", table.column("a")), None


def hangs(table: pa.Table) -> tuple[pa.Table, None]:
    """On -1 it sleeps, on -2 it goes in circles, and catches what it can; on both for ever."""
    values, caught = table.column("a").to_pylist(), 0
    while -1 in values or -2 in values:
        try:
            time.sleep(60.0 * (-1 in values))
        except Exception:  # noqa: BLE001 - what is tested is that it cannot
            caught += 1
    return table.append_column("twice", table.column("a")), None


def takes_all_memory(table: pa.Table) -> Any:
    raise MemoryError


def shape(name: str, **more: Any) -> Shape:
    return Shape(DECODED, python=f"{HERE}:{name}", python_version="1", python_columns=ADDED, **more)


def rows(*values: int | None) -> list[dict[str, Any]]:
    return [{"a": value, "s": f"s{value}"} for value in values]


def test_a_function_adds_columns_and_leaves_rows_out() -> None:
    """As its mask says, a null of which leaves out, too; SQL sees what it added."""
    answer = shaped(shape("doubled", where="twice > 4", computed=(("four", "twice * 2"),)), rows(1, 2, 4, None, 5, 6))
    assert made(answer) == [{"a": a, "s": f"s{a}", "twice": 2 * a, "four": 4 * a} for a in (4, 6)]
    assert (answer.kept.to_pylist(), answer.filtered.to_pylist(), answer.bad) == ([2, 5], [0, 1, 3, 4], [])


def test_what_it_raises_is_the_reason_of_the_row_on_which_it_does() -> None:
    """Its neighbours are as if the row were not there."""
    answer = shaped(shape("doubled"), rows(2, -1, 4, -1, 6))
    assert answer.bad == [(row, "transform_failed: python: ValueError: nothing is twice -1") for row in (1, 3)]
    assert [row["twice"] for row in made(answer)] == [4, 8, 12]


def test_it_may_change_decoded_columns_and_sees_the_record() -> None:
    """Those that it does not return stay."""
    assert made(shaped(shape("renamed"), rows(1, 2))) == [
        {"a": 1, "s": "none", "twice": None}, {"a": 2, "s": "k1", "twice": None},
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("adds", "it returned columns that are not in python_columns, or twice: more"),
        ("adds_nothing", "it did not return twice, which python_columns names"),
        ("returns_a_table", "it returned Table, not a tuple of a pyarrow.Table and a mask"),
        ("masks_by_numbers", "the mask is no Arrow array of a boolean for each row, nor None"),
        ("raises", "KeyError: 'colour'"), ("nothing", "cannot be imported: AttributeError"),
        ("HERE", "is no function"),
    ],
)  # fmt: skip
def test_what_returns_something_else_is_told_before_anything_is_read(name: str, told: str) -> None:
    """It is called once without rows; the message names the type."""
    with pytest.raises(ConfigError) as caught:
        check_function("orders", shape(name))
    assert caught.value.message.startswith("types.orders, python: ")
    assert told in caught.value.message
    assert caught.value.hint


def test_a_function_that_can_be_called_is_none_to_be_told_of() -> None:
    """Its module is imported, and it is called without rows."""
    check_function("orders", shape("doubled"))
    with pytest.raises(ConfigError, match="cannot be imported: ModuleNotFoundError"):
        check_function("orders", Shape(DECODED, python="no_such_package.anything:f"))


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("keeps_out", "it returned 0 rows for 1: the mask says which go"),
        ("returns_texts", "it returned in twice what is no int64"),
    ],
)
def test_what_it_should_not_return_for_a_row_is_that_row_s_reason(name: str, told: str) -> None:
    """What cannot be seen without rows is found by the records, and none is lost for it."""
    check_function("orders", shape(name))
    answer = shaped(shape(name), rows(1, 2))
    assert [row for row, _ in answer.bad] == [0, 1]
    assert all(told in why for _, why in answer.bad)
    assert answer.table.column_names[:3] == ["a", "s", "twice"]


def test_a_column_that_it_changes_stays_what_the_decoder_made_it() -> None:
    """With its marks, and without nulls where none may be."""
    table = decoded(DECODED, rows(1))
    field = table.schema.field("a").with_nullable(False).with_metadata({b"exporter.evolved": b"x"})
    table = table.cast(table.schema.set(0, field))
    answer = Shaper(shape("doubled"), []).shaped(table, records(1))
    assert answer.table.schema.field("a").equals(field, check_metadata=True)
    answer = Shaper(shape("nulls"), []).shaped(table, records(1))
    assert answer.bad == [(0, "transform_failed: python: ValueError: it returned null in a, which is NOT NULL")]


def test_a_time_that_readers_of_tables_cannot_read_is_none_for_a_table() -> None:
    """As one that SQL computes."""
    added = schema("twice DATE")
    answer = shaped(Shape(DECODED, python=f"{HERE}:counts_days", python_columns=added), rows(1, 2_932_897, -719_163))
    assert [row for row, _ in answer.bad] == [1, 2]
    assert all("lies outside the years 1 to 9999" in why for _, why in answer.bad)


def test_whatever_it_raises_is_one_dead_letter_of_its_row() -> None:
    """Also what ends a process in Python's way, and what cannot be told: its neighbours are rows of the table."""
    answer = shaped(shape("fails_oddly"), rows(0, 1, 2, 3, 4, 5, 6, 7))
    assert answer.table.column("twice").to_pylist() == [0, 7]
    assert [why.removeprefix("transform_failed: python: ") for _, why in answer.bad] == [
        "ValueError: \\ud800", "SystemExit: 3", "GeneratorExit:", "Mute: (its text cannot be told: RuntimeError)",
        "RecursionError: deep", "CancelledError:",
    ]  # fmt: skip
    with pytest.raises(MemoryError):  # may be anybody's fault: rules on records that end their task say whose
        shaped(shape("takes_all_memory"), rows(1))


def test_a_row_on_which_it_does_not_come_back_is_a_dead_letter_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether it sleeps or goes in circles; a single row has a second chance, and no alarm is left behind."""
    monkeypatch.setattr(function, "CALL_SECS", 0.3)
    monkeypatch.setattr(function, "PART_SECS", 0.2)
    before = signal.getsignal(signal.SIGALRM)
    answer = shaped(shape("hangs"), rows(1, -1, 3, -2, 5))
    assert answer.table.column("twice").to_pylist() == [1, 3, 5]
    assert answer.bad == [(row, "transform_failed: python: it took longer than 0.3 s") for row in (1, 3)]
    assert [row for row, _ in shaped(shape("hangs"), rows(-1)).bad] == [0]
    with pytest.raises(TimeoutError, match="more than 3 rows of a batch"):
        shaped(shape("hangs"), rows(*[-1] * 5))
    assert signal.getsignal(signal.SIGALRM) is before and signal.getitimer(signal.ITIMER_REAL)[0] == 0.0


def test_in_a_thread_it_takes_what_it_takes() -> None:
    """An alarm would be another one's."""
    found: list[list[Any]] = []
    thread = threading.Thread(target=lambda: found.append(shaped(shape("hangs"), rows(1)).bad))
    thread.start()
    thread.join(60.0)
    assert found == [[]]
