"""Gap rows whose file cannot be written now."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from exporter.core.routing import DEAD_LETTERS
from exporter.lake.settling import Failed
from exporter.protocol.gap_rows import GapRows
from offsets.gaps import Gap
from offsets.ranges import OffsetRange, TopicPartition
from offsets.table_log import TableView


class Silent:
    """A store that takes nothing."""

    def below(self, folder: str) -> Silent:
        return self

    def write_once(self, path: str, body: object) -> None:
        raise OSError(5, "503: slow down")


def test_a_file_that_cannot_be_written_is_tried_again_and_ends_no_task_by_itself() -> None:
    """As a commit that fails: everything is read again, and only what lasts is told."""
    tables = SimpleNamespace(app="app", table=lambda name: SimpleNamespace(event_type=name, store=Silent()))
    tables.compression = ""
    anchors: Any = SimpleNamespace(lake=tables)
    gap = Gap("order", TopicPartition("events", 0), 0, OffsetRange(5, 9))
    dead_letters = TableView(1, "id", "f", {"app/events/0/0": 9})
    with pytest.raises(Failed) as failed:
        GapRows(anchors).close({DEAD_LETTERS: dead_letters}, [gap])
    assert failed.value.table.event_type == DEAD_LETTERS and "slow down" in str(failed.value)
