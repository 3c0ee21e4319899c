"""A to_kafka job that is killed, stopped, overtaken, or loses its answers: the topic has each row once, in order."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing
from pathlib import Path

import pytest

from exporter.errors import Fenced, InvariantBroken
from exporter.faults import Fault
from exporter.kafka.transactions import Outgoing, Overtaken, TransactionalProducer
from exporter.local.children import ChildProcess, kill_quietly
from tests.support.lakes import seldom, struck, wait_until
from tests.support.processes import ROOT
from tests.support.sending import JOB, SOURCES, SendingJob, row_of, without_spark
from tests.support.sent import got
from tests.support.services import administered, fresh_name, remove_topic

pytestmark = [pytest.mark.broker, pytest.mark.drill]
SENDING = "from tests.support.sending import main; main()"
STEPS = (Fault.AFTER_DERIVE_FENCE, Fault.AFTER_DERIVE_SEND, Fault.BEFORE_DERIVE_COMMIT, Fault.AFTER_DERIVE_COMMIT)


def require_all(kafka: str, topic: str, count: int) -> None:
    """Each row once, by its header; of each source partition in order, within a partition of the topic."""
    found = got(kafka, topic)
    numbers = [int(dict(one.headers)["n"]) for one in found]
    assert sorted(numbers) == list(range(count))
    for one, number in zip(found, numbers, strict=True):
        row = row_of(number)
        assert (one.key, one.value, one.headers) == (row.key, row.value, row.headers)
    for partition in {one.partition for one in found}:
        here = [number for one, number in zip(found, numbers, strict=True) if one.partition == partition]
        for source in range(len(SOURCES)):
            line = [number for number in here if number % len(SOURCES) == source]
            assert line == sorted(line)


def child(
    kafka: str, app: str, topic: str, count: int, log: Path, faults: str = ""
) -> AbstractContextManager[ChildProcess]:
    """A process that sends; nothing of it is left afterwards."""
    environment = {"PYTHONPATH": str(ROOT), "EXPORTER_FAULTS": faults}
    return closing(ChildProcess([SENDING, kafka, app, topic, str(count)], environment, log))


@pytest.fixture
def no_spark() -> Iterator[None]:
    streams, orders = without_spark()
    with streams, orders:
        yield


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kills", [2, seldom(10)])
def test_kills_at_each_step_and_at_random_lose_and_double_nothing(
    kafka: str, tmp_path: Path, rng: random.Random, kills: int
) -> None:
    """ONCE: kill -9 at each named step, then some at moments that are drawn; each next process goes on."""
    app, topic, log = fresh_name("app"), fresh_name("sent"), tmp_path / "log"
    count = 500 * kills
    for step in STEPS:
        times = 1 if step is Fault.AFTER_DERIVE_FENCE else rng.randint(2, 20)
        with child(kafka, app, topic, count, log, f"{step.value}@{JOB}:kill:{times}") as process:
            assert process.join(60) == -signal.SIGKILL, log.read_text()
    for _ in range(kills):
        with child(kafka, app, topic, count, log) as process:
            process.join(rng.uniform(0.8, 3.0))
    with child(kafka, app, topic, count, log) as process:
        assert process.join(120) == 0, log.read_text()
    require_all(kafka, topic, count)
    assert len(got(kafka, topic, "read_uncommitted")) > count


@pytest.mark.timeout(120)
@pytest.mark.parametrize("step", [Fault.BEFORE_DERIVE_COMMIT, Fault.AFTER_DERIVE_COMMIT])
def test_a_process_that_wakes_up_is_fenced_and_says_so(kafka: str, tmp_path: Path, no_spark: None, step: Fault) -> None:
    """FENCE: the first one is stopped within a transaction or after it; the second one sends the rest; woken, the
    first one ends with 75, names the second and has sent nothing."""
    app, topic, log, count = fresh_name("app"), fresh_name("sent"), tmp_path / "log", 600
    with child(kafka, app, topic, count, log, f"{step.value}@{JOB}:stop:9") as first:
        wait_until(first.stopped, 60, "the first one is stopped")
        second, began = SendingJob(kafka, app, topic, count), time.monotonic()
        assert second._topic.progress() is not None
        assert time.monotonic() - began < 15, "whoever only looks waits for no transaction"
        second.through()
        kill_quietly(first.pid, signal.SIGCONT)
        assert first.join(60) == Fenced.exit_code, log.read_text()
        second.run()
    assert second._around.owner in log.read_text()
    require_all(kafka, topic, count)


def test_of_two_at_once_the_first_is_fenced(kafka: str, no_spark: None) -> None:
    """FENCE: whoever came later goes on undisturbed; the first one does not fence it back."""
    app, topic, count = fresh_name("app"), fresh_name("sent"), 400
    first, second = SendingJob(kafka, app, topic, count), SendingJob(kafka, app, topic, count)
    first.run()
    second.run()
    with pytest.raises(Fenced, match=second._around.owner):
        first.through()
    second.through()
    require_all(kafka, topic, count)


def test_what_the_first_one_commits_until_it_is_fenced_is_not_sent_again(
    kafka: str, no_spark: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FENCE: the progress is read once nobody else can move it; read before, rows are sent twice."""
    app, topic, count = fresh_name("app"), fresh_name("sent"), 400
    first, second = SendingJob(kafka, app, topic, count), SendingJob(kafka, app, topic, count)
    fence = second._topic.fence

    def late(partitions: int, replication: int) -> None:
        first.through()
        fence(partitions, replication)

    monkeypatch.setattr(second._topic, "fence", late)
    first.run()
    second.through()
    require_all(kafka, topic, count)


@pytest.mark.parametrize("step", STEPS)
def test_a_lost_answer_doubles_nothing(kafka: str, no_spark: None, step: Fault) -> None:
    """OUTCOME: whatever is raised, before or after the commit, the next run begins with what the topic says."""
    app, topic, count = fresh_name("app"), fresh_name("sent"), 300
    job = SendingJob(kafka, app, topic, count)
    with struck(f"{step.value}@{JOB}:raise:{1 if step is Fault.AFTER_DERIVE_FENCE else 5}"):
        job.through()
    job.seen = 0
    job.through()
    require_all(kafka, topic, count)


def test_progress_that_is_gone_stops_the_job(kafka: str, no_spark: None) -> None:
    """ONCE: brokers forget a group after a while; a topic with records and no progress is never sent to."""
    app, topic, count = fresh_name("app"), fresh_name("sent"), 100
    SendingJob(kafka, app, topic, count).through()
    with administered(kafka) as admin:
        admin.delete_groups([f"{app}.derive.{JOB}"])
    with pytest.raises(InvariantBroken, match="no progress") as told:
        SendingJob(kafka, app, topic, count).through()
    assert "offsets.retention.minutes" in told.value.hint
    require_all(kafka, topic, count)


def test_a_topic_that_was_made_again_gets_all_rows(kafka: str, no_spark: None) -> None:
    """Its progress is that of the topic that is gone, whether the brokers have forgotten it by now or not."""
    app, topic, count = fresh_name("app"), fresh_name("sent"), 100
    SendingJob(kafka, app, topic, count).through()
    remove_topic(kafka, topic)
    SendingJob(kafka, app, topic, count).through()
    require_all(kafka, topic, count)


def test_an_idle_job_keeps_its_progress_alive(kafka: str, no_spark: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a day without a row it says again what it has said; the topic gets nothing by it."""
    app, topic, count = fresh_name("app"), fresh_name("sent"), 50
    job = SendingJob(kafka, app, topic, count)
    job.through()
    before = job._topic.progress()
    assert job.run().idle and job._topic.progress() == before
    monkeypatch.setattr(time, "time", lambda: 1e10)
    assert job.run().idle
    after = job._topic.progress()
    assert before and after and (after.at, after.number, after.rows) == (10**10, before.number + 1, count)
    require_all(kafka, topic, count)


def test_an_epoch_that_is_gone_is_never_taken_back(kafka: str, topic: Callable[..., str]) -> None:
    """FENCE: a process whose records are refused in the middle of a transaction does not fence whoever has fenced it,
    as it would with a new epoch, which its client asks for if it is let."""
    id, to = fresh_name("id"), topic(1)
    first, second = (TransactionalProducer({"bootstrap_servers": [kafka]}, id, to, 1_000, "none") for _ in range(2))
    try:
        first.fence()
        first._producer.begin_transaction()
        first._flushed([first._producer.send(to, b"1", partition=0)])
        second.fence()
        with pytest.raises(Overtaken):
            first._asked(lambda: first._flushed([first._producer.send(to, b"2", partition=0)]))
        time.sleep(1.0)  # as long as the client could need to do so
        second.send([Outgoing(0, None, b"3")], {}, JOB, 10)
        assert [one.value for one in got(kafka, to)] == [b"3"]
    finally:
        first.close()
        second.close()
