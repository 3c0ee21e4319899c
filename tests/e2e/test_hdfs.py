"""Tables in HDFS: commits of several processes, tasks that are killed, and a NameNode that does not answer."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import hdfs_native
import pytest

from exporter.local.server import free_ports
from exporter.stores.store import Store
from exporter.stores.stores import open_store
from tests.support.hdfs import LocalHdfs
from tests.support.lakes import Export, Exports, mixed, wrong_places
from tests.support.processes import outlives_a_kill, running
from tests.support.racing import race
from tests.support.services import fresh_name

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.xdist_group("hdfs")]

OUTAGE_SECS_MAX = 240.0


def nameservice(uri: str, folder: Path) -> dict[str, str]:
    """Environment in which hdfs://lake is a NameNode, and one before it that is gone."""
    told = {
        "dfs.nameservices": "lake", "dfs.ha.namenodes.lake": "gone,here",
        "dfs.namenode.rpc-address.lake.gone": f"127.0.0.1:{free_ports(1)[0]}",
        "dfs.namenode.rpc-address.lake.here": uri.removeprefix("hdfs://"),
        "dfs.client.failover.proxy.provider.lake":
            "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider",
    }  # fmt: skip
    lines = [f"<property><name>{name}</name><value>{text}</value></property>" for name, text in told.items()]
    (folder / "hdfs-site.xml").write_text(f"<configuration>{''.join(lines)}</configuration>")
    return {"HADOOP_CONF_DIR": str(folder)}


def assert_each_record_once(e: Export, uri: str) -> None:
    """By delta-rs on a copy that hdfs-native alone has made. uri: of the NameNode."""
    path = str(e.scalars["table_root"]).removeprefix("hdfs://").partition("/")[2]
    client = hdfs_native.Client(uri)
    for one in client.list_status(f"/{path}", recursive=True):
        if not one.isdir:
            copy = e.root / "lake" / one.path.removeprefix(f"/{path}/")
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(client.read(one.path).read())
    assert wrong_places(e) == {}


@pytest.mark.long
def test_of_two_processes_that_commit_at_once_no_commit_is_lost(hdfs: Store, tmp_path: Path) -> None:
    """FENCE: Delta's own log store renames a version into place, over nothing."""
    race(hdfs.below(fresh_name("race")), tmp_path, commits=30)


def test_a_nameservice_is_the_name_node_that_answers(
    hdfs: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files in $HADOOP_CONF_DIR say where they are; one that is gone is passed over."""
    for name, text in nameservice(hdfs.uri(), tmp_path).items():
        monkeypatch.setenv(name, text)
    store = open_store(f"hdfs://lake/{fresh_name('lake')}")
    store.write_once("order/x", b"1")
    assert store.read("order/x") == b"1" and store.names() == ["order"]
    assert open_store(f"{hdfs.uri()}/{store.uri().rpartition('/')[2]}").read("order/x") == b"1"


def test_a_killed_task_s_work_is_completed_by_the_next_and_the_audit_agrees(exports: Exports, hdfs: Store) -> None:
    """ONCE: kill -9 after some commits, restart, audit; delta-rs finds each record once, too."""
    e = exports(2, table_root=f"{hdfs.uri()}/{fresh_name('lake')}")
    outlives_a_kill(e)
    assert_each_record_once(e, hdfs.uri())


@pytest.fixture
def own() -> Iterator[LocalHdfs]:
    """One that may be killed."""
    with LocalHdfs() as hdfs:
        yield hdfs


@pytest.mark.long
@pytest.mark.parametrize("how", ["killed", "silent"])
def test_a_name_node_that_is_gone_or_silent_is_an_outage_and_nothing_is_lost(
    exports: Exports, own: LocalHdfs, tmp_path: Path, how: str
) -> None:
    """The task says so, stays, and goes on by itself once it answers; a nameservice is called by its name."""
    env = nameservice(own.uri, tmp_path) if how == "killed" else {}
    e = exports(
        2, table_root=f"{'hdfs://lake' if env else own.uri}/{fresh_name('lake')}", round_records_max=100,
        roll_records_max=100,
    )  # fmt: skip
    e.send({0: mixed(200), 1: mixed(200, first=1000)})
    with running(e, env=env) as task:
        task.wait_for("commit_landed")
        if how == "killed":
            own.kill()
        else:
            os.kill(own.pid, signal.SIGSTOP)
        e.send({0: mixed(150, first=2000), 1: mixed(100, first=3000)})
        task.wait_for("outage_seen", OUTAGE_SECS_MAX)
        if how == "killed":
            own.start()
        else:
            os.kill(own.pid, signal.SIGCONT)
        task.wait_for("outage_ended", OUTAGE_SECS_MAX)
        task.signal_group(signal.SIGTERM)
        assert task.wait() == 0, task.text
    for verb, *flags in (("run", "--until-caught-up"), ("audit",)):
        with running(e.with_(group=fresh_name("group")), *flags, verb=verb, env=env) as again:
            assert again.wait() == 0, again.text
    assert_each_record_once(e, own.uri)
