"""Tables in Azure's storage, as its emulator has it: commits of several processes, and tasks that are killed."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import deltalake
import pytest

from exporter.stores.store import Store
from tests.support.azurite import KEY
from tests.support.lakes import Exports, expected_places
from tests.support.processes import outlives_a_kill
from tests.support.racing import race
from tests.support.services import fresh_name

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.xdist_group("azure")]


@pytest.mark.long
def test_of_two_processes_that_commit_at_once_no_commit_is_lost(azure: Store, tmp_path: Path) -> None:
    """FENCE: Delta's own log store renames a version into place on the condition that it is not there."""
    race(azure.below(fresh_name("race")), tmp_path)


@pytest.mark.long
def test_a_killed_task_s_work_is_completed_by_the_next_and_the_audit_agrees(
    exports: Exports, azure: Store, tmp_path: Path
) -> None:
    """ONCE: kill -9 after some commits, restart, audit; delta-rs finds each record once, too. No key is in a log."""
    root = azure.below(fresh_name("lake"))
    e = exports(2, table_root=root.uri())
    outlives_a_kill(e)
    assert places(root, e.topic) == expected_places(e.kafka, e.topic)
    assert not any(KEY in log.read_text(errors="replace") for log in tmp_path.glob("*.log"))


def places(root: Store, topic: str) -> dict[tuple[int, int], list[str]]:
    """(partition, offset) -> every table that holds it, once per row; by delta-rs."""
    found: dict[tuple[int, int], list[str]] = defaultdict(list)
    for name in root.names():
        rows = deltalake.DeltaTable(root.uri(name)).to_pyarrow_dataset().to_table(columns=["_kafka"])
        for row in rows.column("_kafka").to_pylist():
            assert row["topic"] == topic
            found[row["partition"], row["offset"]].append(name)
    return dict(found)
