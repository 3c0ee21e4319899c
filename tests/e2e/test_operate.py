"""A task as the person on call sees it: its health server, its status, and outages that it lives through."""

from __future__ import annotations

import os
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from exporter.errors import DependencyUnreachable
from exporter.local.broker import Broker, create_topic
from exporter.monitor.health import Health, HealthServer
from exporter.monitor.outages import KAFKA, STORAGE
from exporter.monitor.watch import Watch
from exporter.operate import status as how_far
from tests.support.lakes import Export, Exports, Going, mixed, wait_until, wrong_places
from tests.support.services import fresh_name, produce
from tests.support.snapshots import at, scraped

pytestmark = [pytest.mark.broker, pytest.mark.spark]

CAUGHT_UP_SECS = 60.0


@contextmanager
def served(task: Going) -> Iterator[tuple[Watch, str]]:
    """The watch of a task that runs in this process, and the URL of its health server."""
    watch: Watch = task.service._watch
    server = HealthServer("127.0.0.1", 0, Health(watch, 60.0))
    try:
        yield watch, f"http://127.0.0.1:{server.port}"
    finally:
        server.close()


def caught_up(url: str) -> how_far.Status:
    return how_far.wait_caught_up(lambda: how_far.fetch(url), CAUGHT_UP_SECS)


def troubles(watch: Watch) -> set[str]:
    return set(watch.snapshot.troubles) if watch.snapshot is not None else set()


def test_a_task_tells_how_far_it_is_and_lives_through_an_outage_of_its_storage(exports: Exports, spark: Any) -> None:
    """What it serves is what the tables hold; with the storage gone it waits, not ready, and goes on where it was."""
    e = exports(2, event_time_late_max_secs=0)
    lake, real = e.root / "lake", e.root / "storage"
    real.mkdir()
    lake.symlink_to(real)
    e.send({0: mixed(300), 1: mixed(200, first=1000)})
    with e.going(spark) as task, served(task) as (watch, url):
        began_ms = time.time() * 1000
        status = caught_up(url)
        assert watch.snapshot is not None
        found = scraped(watch.snapshot)
        rows = {name: len(e.rows(name)) for name in e.tables()}
        assert found["exporter_records_committed_total"] == {at({"event_type": name}): n for name, n in rows.items()}
        assert sum(rows.values()) == found["exporter_records_read_total"][()] == 500
        assert set(found["exporter_lag_records"].values()) == set(found["exporter_lag_seconds"].values()) == {0.0}
        assert sum(found["exporter_records_dead_lettered_total"].values()) == rows["dead_letters"]
        assert found["exporter_verdicts"] == {at({"verdict": "agree"}): 8.0}
        assert all(table["complete_through_ms"] >= began_ms - 60_000 for table in status["tables"])
        with e.bench(spark) as bench:
            tables = how_far.table_status(bench, e.settings())
        with urllib.request.urlopen(f"{url}/", timeout=30) as page:
            shown = page.read().decode()
        assert f"<h1>Export {e.app}</h1>" in shown and "no consumer lag" in shown and "<td>dead_letters</td>" in shown
        names = ("event_type", "topic", "partition", "committed", "epoch", "end", "lag")
        both = [sorted(tuple(one[name] for name in names) for one in s["positions"]) for s in (status, tables)]
        assert both[0] == both[1]
        os.replace(link_to(e.root / "nowhere"), lake)
        e.send({0: mixed(100, first=2000)})
        wait_until(lambda: STORAGE in troubles(watch), 60, "the outage is seen")
        assert "storage does not answer" in how_far.fetch(url)["not_ready"]
        os.replace(link_to(real), lake)
        caught_up(url)
        assert troubles(watch) == set()
    assert wrong_places(e) == {}


def link_to(target: Path) -> Path:
    """A link under another name, to be moved over the one that is there."""
    link = target.parent / fresh_name("link")
    link.symlink_to(target)
    return link


@pytest.mark.long
def test_a_task_lives_through_an_outage_of_its_broker_and_gives_up_after_the_time_for_it(
    tmp_path: Path, spark: Any
) -> None:
    """Not ready, a line a minute, no exit; it goes on by itself. With less patience it ends with 69."""
    with Broker(tmp_path / "kafka") as broker:
        topic = fresh_name()
        create_topic(broker.bootstrap, topic, 1)
        produce(broker.bootstrap, topic, {0: mixed(100)})
        e = Export(broker.bootstrap, topic, tmp_path, fresh_name("app"))
        with capture_logs() as logs, e.going(spark, 300) as task, served(task) as (watch, url):
            caught_up(url)
            broker.kill()
            wait_until(lambda: KAFKA in troubles(watch), 60, "the outage is seen")
            since = watch.snapshot.troubles[KAFKA].since  # type: ignore[union-attr]
            wait_until(lambda: time.monotonic() - since > 65, 90, "a minute of it is over")
            assert "kafka does not answer" in how_far.fetch(url)["not_ready"]
            broker.start()
            produce(broker.bootstrap, topic, {0: mixed(100, first=2000)})
            caught_up(url)
        seen = [line for line in list(logs) if line["event"] in ("outage_seen", "outage_ended")]
        assert [line["event"] for line in seen] == ["outage_seen", "outage_seen", "outage_ended"]
        assert wrong_places(e) == {}
        with e.with_(give_up_secs=5).service(spark, until_caught_up=False) as service:
            task = Going(service)
            with served(task) as (_, url):
                caught_up(url)
            broker.kill()
            assert isinstance(task.ended(120), DependencyUnreachable)
