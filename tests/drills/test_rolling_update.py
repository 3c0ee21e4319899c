"""Tasks of two versions in one group, as a rolling update and its way back have them; one of each pair is killed.

The version before is the last one whose JVM read Kafka: its code comes from the history of this repository.
"""

from __future__ import annotations

import io
import signal
import subprocess
import tarfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from exporter.local.broker import create_topic
from exporter.spark.archives import extract
from tests.support.lakes import Exports, mixed, seldom, writing, wrong_places
from tests.support.processes import ROOT, Process, descendants, running
from tests.support.services import fresh_name

pytestmark = [pytest.mark.broker, pytest.mark.drill]

BEFORE = "b4c0791aad55833b3e0cbd869f2ee037ba404a83"
WORKS_SECS = 6.0


@pytest.fixture
def before(tmp_path: Path) -> Mapping[str, str]:
    """The environment in which a task is of the version before."""
    asked = ["git", "-C", str(ROOT), "archive", BEFORE, "exporter", "offsets"]
    archived = subprocess.run(asked, capture_output=True, check=False)
    if archived.returncode:
        pytest.skip("the history of this checkout does not go back to the version before")
    with tarfile.open(fileobj=io.BytesIO(archived.stdout)) as code:
        extract(code, tmp_path / "before")
    return {"PYTHONPATH": str(tmp_path / "before")}


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("mode", [seldom("own"), seldom("coordinated")])
@pytest.mark.parametrize("forward", [True, False], ids=["forward", "back"])
def test_tasks_of_two_versions_share_a_group(
    kafka: str, exports: Exports, before: Mapping[str, str], mode: str, forward: bool
) -> None:
    """From two of one version to two of the other, and one of them back again, under load; each record is where it
    belongs, once, and the audits of both versions say so."""
    control = fresh_name("control")
    create_topic(kafka, control)
    told = {"control_topic": control, "commit_interval_secs": 0.5} if mode == "coordinated" else {}
    e = exports(2, **told, session_timeout_secs=None)
    e.send({partition: mixed(2000, 5000 * partition) for partition in range(2)})
    before = {**before, "EXPORTER_COMMIT_MODE": mode, "EXPORTER_SESSION_TIMEOUT_MS": "6000"}
    now = {"EXPORTER_SESSION_TIMEOUT_SECS": "6"}
    first, second = (before, now) if forward else (now, before)
    with ExitStack() as stack, writing(kafka, e.topic):

        def begun(version: Mapping[str, str]) -> Process:
            task = stack.enter_context(running(e, env=version))
            task.works_for(WORKS_SECS)
            return task

        one, two = begun(first), begun(first)
        assert {*map(_has_source, (one, two))} == {forward}, "the code is that of its version"
        one.signal(signal.SIGTERM)
        assert one.wait() == 0, one.text
        three = begun(second)
        two.signal_group(signal.SIGKILL)
        two.wait()
        four = begun(second)
        three.signal_group(signal.SIGKILL)
        three.wait()
        five = begun(first)
        for task in (four, five):
            task.signal(signal.SIGTERM)
            assert task.wait() == 0, task.text
    with running(e, "--until-caught-up") as task:
        assert task.wait() == 0, task.text
    assert wrong_places(e) == {}
    for version in (before, {}):
        with running(e, verb="audit", env=version) as audit:
            assert audit.wait() == 0, audit.text


def _has_source(task: Process) -> bool:
    """Whether its JVM has Spark's Kafka source open, which only the version before has."""
    files = [one for pid in descendants(task.pid) for one in Path(f"/proc/{pid}/fd").iterdir()]
    return any("spark-sql-kafka" in str(one.resolve()) for one in files)
