"""Where several things are wrong of one kind, all of them are named at once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from exporter.core.writers import Parked
from exporter.errors import ConfigError
from exporter.task.finish import ROUNDS_FAIL, left_out
from exporter.workbench import parse_schemas
from tests.support.snapshots import P0, P1, writer


def test_all_event_types_with_broken_columns_are_named() -> None:
    """What declares none and what no table here can hold, in one error of exit code 2, each with its hint."""
    with pytest.raises(ConfigError) as caught:
        parse_schemas({"a": "broken", "b": "day BIGINT", "c": "broken"})
    assert caught.value.message.startswith("3 event types have columns that cannot be used:")
    for told in ("types.a: ", "types.b, column 'day': ", "types.c: ", "hint: rename it"):
        assert told in caught.value.message


def test_all_tables_that_could_not_be_written_are_named_at_the_end_of_a_run() -> None:
    """With partitions, offsets and reason; not the first one only."""
    parked = [
        replace(writer(name, tp, covered), parked=Parked(reason, 0.0))
        for name, tp, covered, reason in (("order", P1, 4, "full"), ("order", P0, -1, "full"), ("click", P0, 9, "odd"))
    ]
    assert left_out(parked, {}).message.splitlines() == [
        "table click cannot be written: odd; offsets that were not exported: events-0 from 10 on",
        "  table order cannot be written: full; offsets that were not exported: events-0 from 0 on, events-1 from 5 on",
    ]


def test_a_partition_that_cannot_be_read_on_is_named_once_and_not_with_every_table() -> None:
    """Why, and what helps; what is wrong with a table of another partition stands beside it."""
    parked = replace(writer("order", P1, 4), parked=Parked("full", 0.0))
    stuck = {P0: f"{ROUNDS_FAIL}: corrupt batch"}
    found = left_out([parked, writer("order", P0, -1), writer("click", P0, 9)], stuck)
    assert found.message.splitlines() == [
        "table order cannot be written: full; offsets that were not exported: events-1 from 5 on",
        "  events-0 cannot be read on, its rounds fail again and again: corrupt batch",
    ]
    assert "exporter check" in found.hint and "repair --skip" in found.hint
    assert "exporter check" not in left_out((), stuck).hint and "schemas" not in found.hint
    unregistered = left_out((), {P0: "from offset 4 on it waits for schema id 7: the registry has no such schema"})
    assert "register the schemas" in unregistered.hint and "repair" not in unregistered.hint
