"""A real Spark cluster beside a real S3: what takes executors or the master away costs time and no record."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from exporter.local.broker import create_topic
from exporter.local.children import kill_quietly
from exporter.spark.jars import cache_folder
from exporter.stores.store import Store
from tests.support.cluster import Cluster, cluster
from tests.support.doors import oauth_broker, oauth_lines
from tests.support.lakes import S3_GROUP, Export, Exports, mixed, wait_until, wrong_places
from tests.support.processes import Process, descendants, running
from tests.support.token_server import TokenServer, token_server

pytestmark = [
    pytest.mark.broker,
    pytest.mark.spark,
    pytest.mark.drill,
    pytest.mark.timeout(600),
    S3_GROUP,
    pytest.mark.parametrize("place", ["s3"], indirect=True),
]

PARTITIONS = 4
STANDS_STILL_SECS = 5.0
END_SECS_MAX = 300.0
SECRET = "client+secret% of ours"
EXECUTORS = '[spark]\n"spark.executor.memory" = "512m"\n'


@pytest.fixture
def spark_cluster(s3: Store) -> Iterator[Cluster]:
    """Its workers have the credentials of the S3."""
    with cluster() as started:
        yield started


@pytest.fixture
def export(exports: Exports, spark_cluster: Cluster) -> Export:
    e = exports(PARTITIONS, more=EXECUTORS)
    return e.with_(spark_master=spark_cluster.url, driver_host="127.0.0.1")


AUDIT = """
from exporter.operate.audit import parts
parts.CLUSTER_OFFSETS, parts.PART_OFFSETS, by = 1, 1_000, parts.spread
parts.spread = lambda session, *rest: print("by", session.sparkContext.master, rest[1]) or by(session, *rest)
"""
"""For an audit a short topic is worth a cluster, in parts of a few records; it says by whom, and in how many."""


def written(e: Export, records: int, first: int = 0) -> None:
    each = records // PARTITIONS
    e.send({partition: mixed(each, first + each * partition) for partition in range(PARTITIONS)})


def events(task: Process, *names: str) -> list[dict[str, Any]]:
    """What it has said of these names so far."""
    return [dict(said.fields) for said in task.events() if said.name in names]


def read(task: Process) -> int:
    """Records of its rounds so far."""
    return sum(one["records"] for one in events(task, "round_read"))


def wait_to_read(task: Process, records: int) -> None:
    def there() -> bool:
        assert task.ended() is None, task.text[-4000:]
        return read(task) >= records

    wait_until(there, END_SECS_MAX, f"{records} records read, {read(task)} are\n{task.text[-2000:]}")


def lose_an_executor(e: Export, task: Process, spark: Cluster, records: int, first: int) -> None:
    """Hold the Python of one that is idle, write records, and kill it once a round waits for it and for nothing else.

    Its task runs by then: one that has not begun to would be no failure to Spark.
    """
    victim = spark.executors()[0]
    workers = descendants(victim)
    for pid in workers:
        kill_quietly(pid, signal.SIGSTOP)
    written(e, records, first)
    seen, since = -1, time.monotonic()

    def waits() -> bool:
        nonlocal seen, since
        if (now := read(task)) != seen:
            seen, since = now, time.monotonic()
        return time.monotonic() - since > STANDS_STILL_SECS

    wait_until(waits, END_SECS_MAX, "a round that waits for the executor")
    for pid in (victim, *workers):
        kill_quietly(pid)


def stopped(task: Process) -> None:
    task.signal(signal.SIGTERM)
    assert task.wait(END_SECS_MAX) == 0, task.text[-4000:]


def audited(e: Export, spark: Any) -> None:
    """Each record is where its key says, once, by a plain reader; and the audit finds nothing."""
    assert wrong_places(e) == {}
    e.proven(spark)


def test_a_round_that_loses_its_executor_is_read_again_and_no_record_is_poison(
    export: Export, spark_cluster: Cluster, spark: Any
) -> None:
    """Its task is not tried again here, as if every executor were lost: the round fails, and is read as it was."""
    e = replace(export, more=f'{EXECUTORS}"spark.task.maxFailures" = 1\n')
    written(e, 4_000)
    with running(e) as task:
        wait_to_read(task, 4_000)
        lose_an_executor(e, task, spark_cluster, 8_000, 4_000)
        wait_to_read(task, 12_000)
        assert len(events(task, "round_lost")) == 1
        assert events(task, "round_failed", "record_condemned") == []
        stopped(task)
    audited(e, spark)


@pytest.mark.long
def test_an_audit_is_divided_by_the_cluster(export: Export, spark_cluster: Cluster) -> None:
    """Its executors read the topic and the tables, and what they find is what is there."""
    written(export, 4_000)
    with running(export, "--until-caught-up") as task:
        assert task.wait(END_SECS_MAX) == 0, task.text[-4000:]
    with running(export, "--format", "json", verb="audit", prelude=AUDIT) as task:
        assert task.wait(END_SECS_MAX) == 0, task.text[-4000:]
    (report,) = (json.loads(line) for line in task.text.splitlines() if line.startswith('{"clean"'))
    assert (report["once"], report["clean"]) == (4_000, True)
    assert f"by {spark_cluster.url} 4" in task.text


@pytest.mark.long
def test_200_000_records_outlive_an_executor_and_a_master(export: Export, spark_cluster: Cluster, spark: Any) -> None:
    """An executor is killed in a round: Spark does its tasks elsewhere. The master is killed and comes back with what
    it knew: the task goes on with what executors it has, and gets another one for the next that is killed."""
    e = export.with_(round_records_max=20_000)
    written(e, 40_000)
    with running(e) as task:
        wait_to_read(task, 40_000)
        lose_an_executor(e, task, spark_cluster, 40_000, 40_000)
        wait_to_read(task, 80_000)
        assert events(task, "tasks_tried_again")
        spark_cluster.master.kill()
        written(e, 40_000, 80_000)
        wait_to_read(task, 120_000)
        spark_cluster.master.start()
        wait_until(lambda: spark_cluster.master.says("Recovery complete"), END_SECS_MAX, "the master's recovery")
        lose_an_executor(e, task, spark_cluster, 80_000, 120_000)
        wait_to_read(task, 200_000)
        wait_until(lambda: len(spark_cluster.executors()) == 2, END_SECS_MAX, "another executor from the new master")
        assert events(task, "round_failed", "round_lost", "record_condemned") == []
        stopped(task)
    audited(e, spark)


@pytest.mark.long
def test_a_task_that_its_master_has_forgotten_ends_and_the_next_one_goes_on(export: Export, spark: Any) -> None:
    """A master without recovery: its workers end all executors, and no new one ever comes. 69, instead of a hang.

    The jars are on the executors' class path here, and none is sent to them."""
    with cluster(recovers=False) as forgetful:
        baked = ":".join(f"{cache_folder(name)}/*" for name in ("spark", "s3"))  # as in an image: nothing is fetched
        more = f'{EXECUTORS}"spark.jars" = ""\n"spark.executor.extraClassPath" = "{baked}"\n'
        e = replace(export, more=more).with_(spark_master=forgetful.url, round_records_max=2_000, round_secs_max=20)
        written(e, 40_000)
        with running(e) as task:
            wait_to_read(task, 1)
            forgetful.master.kill()
            forgetful.master.start()
            assert task.wait(END_SECS_MAX) == 69, task.text[-4000:]
            assert "no executor" in task.text
        with running(e, "--until-caught-up") as task:
            assert task.wait(END_SECS_MAX) == 0, task.text[-4000:]
    audited(e, spark)


@pytest.mark.long
def test_executors_ask_the_driver_for_tokens(export: Export, tmp_path: Path) -> None:
    """They fetch the class for it, and need nothing that a token is made from."""
    server = TokenServer({"exporter": SECRET}, life_secs=60)
    jwks = server.signer.write_jwks(tmp_path / "jwks.json")
    with token_server(server), oauth_broker(jwks, 5_000) as broker:
        create_topic(broker.bootstrap, export.topic, 2)
        opened = replace(export, kafka=broker.bootstrap)
        opened.send({0: mixed(40), 1: mixed(5)})
        e = replace(export, kafka=broker.login, kafka_client=oauth_lines(server.url, SECRET))
        with running(e, "--until-caught-up") as task:
            assert task.wait(END_SECS_MAX) == 0, task.text[-4000:]
        assert wrong_places(opened) == {}
        assert SECRET not in task.text
