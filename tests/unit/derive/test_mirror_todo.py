"""What a mirror's own log says of the statement that landed last."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from exporter.derive.mirror_todo import overtaken
from exporter.errors import LogCleaned
from exporter.lake.table import DeltaTable
from offsets.table_log import LoggedCommit, TableView


class Log:
    """A mirror's log: what each version's metadata say; None for one that is not the job's."""

    def __init__(self, *said: dict[str, Any] | None, gone: int = 0) -> None:
        self.said, self.gone = said, gone

    def logged(self, version: int) -> LoggedCommit:
        if version < self.gone:
            raise LogCleaned(f"version {version} is gone")
        said = self.said[version]
        text = "" if said is None else json.dumps({"commit_id": f"c{version}", "derive": "m", **said})
        return LoggedCommit(version, "MERGE", text, (), (), False)


def beneath(log: Log) -> str:
    return overtaken(cast(DeltaTable, log), TableView(len(log.said) - 1, "id", "", {}), "m")


@pytest.mark.parametrize(
    "log",
    [
        Log({}),
        Log({}, {"based_on": 0}),
        Log({}, {"based_on": 0}, {"based_on": 1}),
        Log({}, None, {"based_on": 0}, None),
        Log({}, {"based_on": 0}, {"based_on": 0}, {}),
        Log({}, {"based_on": 0}, {"based_on": 0, "derive": "another"}),
        Log(None, {"based_on": 0}, gone=1),
        Log({}, {"based_on": 0, "purged": True}, {"based_on": 0}),
    ],
)
def test_a_statement_of_the_newest_state_lies_on_no_other(log: Log) -> None:
    """OPTIMIZE, other jobs and commits that compare the run count for nothing; nor does what came before those."""
    assert beneath(log) == ""


def test_a_statement_that_did_not_know_another_one_is_seen() -> None:
    """Both were made of version 0: the later one knows nothing of what the source took back of the other's rows."""
    assert beneath(Log({}, {"based_on": 0}, {"based_on": 0})).startswith("version 1 of the mirror lies beneath")
    assert beneath(Log({}, {"based_on": 0}, {"based_on": 0}, {"based_on": 2, "purged": True})).startswith("version 1")
    assert beneath(Log({}, {"based_on": 0}, None, {"based_on": 0}, None)).startswith("version 1 of the mirror")
