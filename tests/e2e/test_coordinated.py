"""Eight members that commit in rounds, as processes: few versions, none late, whoever of them dies."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from exporter.drill import crowd
from tests.drills.test_drill import started

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.long]


@pytest.mark.timeout(1800)
def test_eight_members_make_one_version_per_table_and_round_while_their_leader_is_killed_five_times(
    tmp_path: Path,
) -> None:
    """12 partitions, 10 tables, at least 30 rounds of 5 s: at most 1.2 versions per table and round, the audit clean,
    and no record later than two rounds and the time in which the group gives away what a dead member had."""
    flags = ("--scenario", "coordinated-crowd", "--records", "500", "--folder", str(tmp_path / "d"))
    told, _ = started(*flags).communicate(timeout=1700)
    found = json.loads(told)
    assert (found["runs"], found["clean"], found["audits"], found["kills"]) == (1, 1, 1, crowd.KILLS), found
    figures = found["coordinated-crowd"]
    assert figures["rounds"] >= crowd.ROUNDS
    assert figures["versions_per_table_and_round"]["max"] <= 1.2
    assert figures["late_secs"]["max"] <= 2 * crowd.INTERVAL_SECS + figures["failover_secs"]["max"]
    assert figures["claims_per_commit"] > crowd.PARTITIONS / 2
