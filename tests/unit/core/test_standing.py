"""Where a table stands, as programs read it: the keys, their order and what is null are a contract."""

from __future__ import annotations

import json

import pytest

from exporter.core.standing import TableStanding
from exporter.operate.offsets_view import OffsetRow
from offsets.positions import Position
from tests.support.snapshots import P0, busy_snapshot

NAMED = '{"event_type": "order", "topic": "events", "partition": 0, '
ROW = '"named": 95, "logged": 90, "started": 1, "verdict": "agree", "says": "x", "valid_through": null}'
STATUS = '"staged_rows": null, "staged_bytes": null, "owner": null, "verdict": "agree", "says": "x"}'


@pytest.mark.parametrize(
    ("position", "of_offsets", "of_status"),
    [
        (Position(1, 92), '"position": 92, "epoch": 1, "end": 100, "lag": 7, ',
         '"committed": 92, "epoch": 1, "read": null, "end": 100, "lag": 7, '),
        (None, '"position": null, "epoch": null, "end": 100, "lag": null, ',
         '"committed": null, "epoch": null, "read": null, "end": 100, "lag": null, '),
    ],
    ids=["anchored", "not yet"],
)  # fmt: skip
def test_offsets_and_a_status_of_the_tables_tell_it(position: Position | None, of_offsets: str, of_status: str) -> None:
    """Each in its own words."""
    row = OffsetRow("order", P0, position, 100, 95, 90, 1, "agree", "x")
    assert json.dumps(row.as_dict()) == NAMED + of_offsets + ROW
    assert json.dumps(row.as_status(row.verdict, says=row.says)) == NAMED + of_status + STATUS


def test_a_task_tells_what_it_has_read_and_staged_too() -> None:
    """As /status serves it."""
    assert json.dumps(busy_snapshot().as_dict()["positions"][1]) == NAMED + (
        '"committed": 10, "epoch": 0, "read": 20, "end": 31, "lag": 20, "staged_rows": 1, "staged_bytes": 100, '
        '"owner": "host:1:a", "verdict": "agree"}'
    )


def test_a_table_that_has_not_begun_is_behind_by_all_offsets() -> None:
    """Of what is not known nothing is told."""
    assert TableStanding("order", P0, None, 100).behind == 100
    assert TableStanding("order", P0, Position(0, 5), None).behind is None
    assert TableStanding("order", P0, Position(0, 105), 100).lag == 0
