"""Tasks whose keys end while they run, for real: a profile's process gives keys, gates refuse those that are over."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from exporter.stores.store import Store
from tests.support.expiring import Gate, Profile
from tests.support.lakes import Export, Exports, seldom, writing, wrong_places
from tests.support.places import bucket_of
from tests.support.processes import running
from tests.support.services import fresh_name
from tests.support.wals import Log

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.drill, pytest.mark.xdist_group("s3")]

LIVES = 2.2
"""Of keys, that each task works."""


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("life_secs", "kills"), [(6, 1), seldom(20, 2), seldom(60, 2)])
def test_tasks_outlive_their_keys(
    kafka: str, exports: Exports, tmp_path: Path, s3: Store, dynamodb: str, life_secs: int, kills: int
) -> None:
    """ONCE, and none ends by it: neither Python's chain nor the JVM's, nor the log's. Each is killed after two lives.

    Of 40 good requests one is refused as if its keys had ended on their way; by themselves they seldom do.
    """
    profile, place = Profile(tmp_path, life_secs), bucket_of(s3.below(fresh_name("lake")))
    with Gate(place.endpoint, share=1 / 40) as gate, Gate(dynamodb, share=1 / 40) as of_the_log:
        log = Log(dynamodb, fresh_name("wal"))
        e = exports(2, at=replace(place, endpoint=gate.endpoint))
        e = log.of(e, wal_endpoint=of_the_log.endpoint).with_(roll_age_max_secs=0.5, heartbeat_secs=0.5)
        with writing(kafka, e.topic, per_sec=100):
            for _ in range(kills):
                with running(e.with_(group=fresh_name("group")), env=profile.environment) as task:
                    task.wait_for("commit_landed")
                    task.works_for(LIVES * life_secs)
                    task.killed()
        catches_up(e, profile)
        if "started" in log.states():  # under way as its task was killed: the next start says what became of it
            catches_up(e, profile)
    assert wrong_places(replace(e, at=place)) == {}
    assert log.states().keys() <= {"completed", "failed"}, log.states()
    for asked in (gate, of_the_log):
        assert not asked.strangers and asked.on_the_way > 1, "all asked with keys of the profile"
    print(f"{gate.passed} and {of_the_log.passed} requests, {profile.made} keys, {len(gate.late)} came late")


def catches_up(e: Export, profile: Profile) -> None:
    """A task that ends by itself."""
    with running(e.with_(group=fresh_name("group")), "--until-caught-up", env=profile.environment) as task:
        assert task.wait() == 0, task.text[-4000:]
