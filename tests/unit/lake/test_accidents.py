"""What a table's log tells of repairs and switches that were interrupted. No Spark."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

from exporter.core.user_metadata import moved_to, user_metadata
from exporter.errors import LogCleaned
from exporter.lake.accidents import AppHistory
from offsets.positions import Position
from offsets.ranges import TopicPartition
from offsets.table_log import LoggedCommit, TableView
from tests.support.snapshots import P0, P1

APP = "app"


def said(action: str, tp: TopicPartition, epoch: int, app: str = APP) -> str:
    at = {tp: moved_to(Position(epoch, 9))}
    return json.dumps(user_metadata("c", app=app, checked_through=0, partitions=at, action=action))


def history(*log: str, cleaned: int = 0) -> AppHistory:
    """Of a table whose log says so, version by version. cleaned: so many of them are gone."""

    def logged(version: int) -> LoggedCommit:
        if version < cleaned:
            raise LogCleaned("gone", "")
        return LoggedCommit(version, "WRITE", log[version], (), (), False)

    table: Any = SimpleNamespace(event_type="order", logged=logged)
    return AppHistory(table, APP, TableView(len(log) - 1, "t", "f", {}, {}))


def test_an_epoch_is_told_by_the_commit_that_began_it() -> None:
    """Whoever has committed to the table since: tasks of other partitions, of this one in the epoch, others."""
    one = history(said("", P0, 0), said("rewind", P0, 1), said("anchor", P1, 0), said("", P0, 1), "")
    assert (one.begun_by(P0, 1), one.begun_by(P0, 0), one.begun_by(P1, 1)) == ("rewind", "", "")


def test_a_switch_is_told_from_a_repair() -> None:
    """What one has begun the other does not end; nor counts what another app says."""
    one = history(said("rewind", P0, 1), said("seal", P0, 2), said("rebase", P0, 2, "other"))
    assert (one.begun_by(P0, 1), one.begun_by(P0, 2)) == ("rewind", "seal")


def test_a_log_that_was_cleaned_up_tells_nothing() -> None:
    """The epoch began before what is left of it."""
    assert history(said("rewind", P0, 1), "", "", cleaned=1).begun_by(P0, 1) == ""
