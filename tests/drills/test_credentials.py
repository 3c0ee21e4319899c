"""Tasks whose keys end while they run, for real: a profile's process gives keys, gates refuse those that are over."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.expiring import Gate, Profile
from tests.support.lakes import S3_GROUP, Exports, seldom, writing, wrong_places
from tests.support.places import Bucket
from tests.support.processes import running
from tests.support.services import fresh_name
from tests.support.wals import Log

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.drill, S3_GROUP]

LIVES = 2.2
"""Of keys, that each task works."""


@pytest.mark.timeout(900)
@pytest.mark.parametrize("place", ["s3"], indirect=True)
@pytest.mark.parametrize(("life_secs", "kills"), [(6, 1), seldom(20, 2), seldom(60, 2)])
def test_tasks_outlive_their_keys(
    exports: Exports, tmp_path: Path, place: Bucket, spark: Any, dynamodb: str, life_secs: int, kills: int
) -> None:
    """ONCE, and none ends by it: neither Python's chain nor the JVM's, nor the log's. Each is killed after two lives.

    Of 40 good requests (of the log's 20) one is refused as if its keys had ended on their way: by themselves few do.
    Whoever catches up has other keys, and goes past the gates.
    """
    profile, log = Profile(tmp_path, life_secs), Log(dynamodb, fresh_name("wal"))
    e = log.of(exports(2, roll_age_max_secs=0.5, heartbeat_secs=0.5))
    with Gate(place.endpoint, share=1 / 40) as gate, Gate(dynamodb, share=1 / 20) as of_the_log:
        gated = replace(e, at=replace(place, endpoint=gate.endpoint)).with_(wal_endpoint=of_the_log.endpoint)
        with writing(e.kafka, e.topic, per_sec=100):
            for _ in range(kills):
                with running(gated.with_(group=fresh_name("group")), env=profile.environment) as task:
                    task.wait_for("commit_landed")
                    task.works_for(LIVES * life_secs)
                    task.killed()
    e.run(spark)
    if "started" in log.states():  # under way as its task was killed: the next start says what became of it
        e.run(spark)
    assert wrong_places(e) == {}
    assert log.states().keys() <= {"completed", "failed"}, log.states()
    for asked in (gate, of_the_log):
        assert not asked.strangers and asked.on_the_way > 1, "all asked with keys of the profile"
    print(f"{gate.passed} and {of_the_log.passed} requests, {profile.made} keys, {len(gate.late)} came late")
