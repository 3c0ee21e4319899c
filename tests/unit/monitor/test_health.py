"""The health server over HTTP, and outages: told once a minute, given up in the end."""

from __future__ import annotations

import json
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from exporter.errors import ConfigError, DependencyUnreachable
from exporter.monitor.health import ENDPOINTS, START_SECS_MAX, TICK_SECS_MAX, Health, HealthServer
from exporter.monitor.outages import KAFKA, PAUSE, STORAGE, TELL_SECS, Outages
from exporter.monitor.watch import BLINK_SECS, PROBE_SECS, Watch
from exporter.stores.file import FileStore
from offsets.ranges import TopicPartition
from tests.support.snapshots import P0, P1, writer

BUSY_SECS = 600.0


class Task:
    """A watch with a clock that the test sets, behind a real server on a free port."""

    def __init__(self) -> None:
        self.now = 0.0
        self.trouble = ""
        self.watch = Watch("app", "me", give_up_secs=1000, clock=lambda: self.now, probe=lambda: self.trouble)
        self.server = HealthServer("127.0.0.1", 0, Health(self.watch, BUSY_SECS, lambda: self.now))

    def get(self, path: str, method: str = "GET") -> tuple[int, str, str]:
        """Status, content type, body."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.server.port}{path}", method=method)
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.status, answer.headers["Content-Type"], answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.headers["Content-Type"], error.read().decode()

    def passed(self, waiting: bool = False, wal_waits: bool = False) -> None:
        """One iteration of the loop."""
        one = writer("order", P0, 5)
        lacking = [P0] if waiting else []
        self.watch.tick(self.now, [P0], lacking, {one.key: one}, {P0: "agree"}, {}, wal_waits, None, False)


@pytest.fixture
def task() -> Iterator[Task]:
    made = Task()
    yield made
    made.server.close()


def test_a_start_is_healthy_and_not_ready_and_has_a_bound(task: Task) -> None:
    """Until the loop has passed once there are no metrics; a start that takes too long is a hung one."""
    assert task.get("/healthz")[:1] == (200,)
    assert task.get("/readyz") == (503, "text/plain; charset=utf-8", "it is starting\n")
    told = {"app": "app", "ready": False, "not_ready": "it is starting", "hangs": ""}
    assert json.loads(task.get("/status")[2]) == told
    assert "exporter_" not in task.get("/metrics")[2]
    task.now = START_SECS_MAX + 1
    assert task.get("/healthz")[0] == 503


def test_a_loop_that_does_not_pass_any_more_is_not_healthy(task: Task) -> None:
    """Within its bound it is; what recovers partitions beside it gets more time, and does not hide that it hangs."""
    task.passed()
    task.now += TICK_SECS_MAX
    assert (task.get("/healthz")[0], task.get("/readyz")[0]) == (200, 200)
    task.now += 1
    assert (task.get("/healthz")[0], task.get("/readyz")[0]) == (503, 503)
    hangs = f"one iteration of the loop has taken {TICK_SECS_MAX + 1:.0f} s"
    assert hangs in task.get("/healthz")[2] and json.loads(task.get("/status")[2])["hangs"].startswith(hangs)
    assert f"<li>the task hangs: {hangs}" in task.get("/")[2]
    task.passed()
    with task.watch.busy():
        task.now += BUSY_SECS
        task.passed()
        assert task.get("/healthz")[0] == 200
        task.now += 1
        assert "recovering partitions has taken" in task.get("/healthz")[2]
        task.watch.still_busy()
        assert task.get("/healthz")[0] == 200
        task.now += TICK_SECS_MAX
        assert task.get("/healthz")[0] == 503
    task.passed()
    assert task.get("/healthz")[0] == 200


def test_ready_turns_red_while_something_is_missing(task: Task) -> None:
    """Not recovered, or the write-ahead log is waited for: red with the reason; healthy all the same."""
    task.passed(waiting=True)
    assert task.get("/readyz")[2] == "1 of 1 partitions are not recovered yet\n"
    task.passed(wal_waits=True)
    assert task.get("/readyz")[:2] == (503, "text/plain; charset=utf-8")
    assert task.get("/healthz")[0] == 200
    task.passed()
    assert task.get("/readyz")[2] == "ok\n"


def test_metrics_and_status_are_what_their_readers_expect(task: Task) -> None:
    """Prometheus text and JSON; another path tells what there is; nothing but reading is answered."""
    task.passed()
    status, kind, text = task.get("/metrics")
    assert (status, kind.split(";")[0]) == (200, "text/plain")
    assert 'exporter_committed_offset{app="app",partition="0",topic="events"} 5.0' in text
    status, kind, text = task.get("/status")
    assert (status, kind) == (200, "application/json")
    assert json.loads(text)["positions"][0]["committed"] == 5
    assert task.get("/healthz", "HEAD")[0] == 200
    assert task.get("/nothing")[0] == 404
    assert all(endpoint in task.get("/nothing")[2] for endpoint in ENDPOINTS)
    assert task.get("/healthz", "POST")[0] == 405


@pytest.mark.parametrize("path", ENDPOINTS)
def test_who_asks_for_the_head_gets_no_body(task: Task, path: str) -> None:
    """A client that keeps its connection would take the body for the next answer."""
    task.passed()
    with socket.create_connection(("127.0.0.1", task.server.port), timeout=10) as asked, asked.makefile("rb") as told:
        asked.sendall(f"HEAD {path} HTTP/1.0\r\n\r\n".encode())
        head, _, body = told.read().partition(b"\r\n\r\n")
    assert b" 200 " in head and body == b""
    lengths = [int(line.split(b":")[1]) for line in head.splitlines() if line.startswith(b"Content-Length")]
    assert len(lengths) == 1 and lengths[0] > 0


def test_a_port_that_is_taken_is_told_as_a_setting() -> None:
    """Exit code 2, with the setting's name."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(ConfigError, match="cannot listen on 127") as caught:
            HealthServer("127.0.0.1", taken.getsockname()[1], Health(Watch(), 1))
    assert "http_port" in caught.value.hint


# --- outages


def test_an_outage_is_told_once_a_minute_and_given_up_in_the_end() -> None:
    """One line at once, then one a minute, one at its end; past the time for it the task ends with 69."""
    outages = Outages(give_up_secs=600)
    with capture_logs() as logs:
        for second in range(600):
            outages.seen(KAFKA, "silent", float(second))
    assert [line["secs"] for line in logs] == list(range(0, 600, int(TELL_SECS)))
    with pytest.raises(DependencyUnreachable, match="kafka has not answered for 601 s: silent") as caught:
        outages.seen(KAFKA, "silent", 601.0)
    assert caught.value.exit_code == 69
    with capture_logs() as logs:
        outages.over(KAFKA, 602.0)
        outages.over(KAFKA, 603.0)
        outages.seen(KAFKA, "silent", 700.0)
    assert [(line["event"], line["secs"]) for line in logs] == [("outage_ended", 602), ("outage_seen", 0)]


def test_tries_come_less_often_the_longer_an_outage_lasts() -> None:
    """From a second up to half a minute."""
    outages = Outages()
    outages.seen(STORAGE, "gone", 0.0)
    assert [outages.pause_secs(STORAGE, now) for now in (0.0, 40.0, 1000.0)] == [1.0, 5.0, PAUSE.most_secs]
    assert outages.pause_secs(KAFKA, 1000.0) == 1.0


def test_an_outage_of_the_storage_ends_by_itself_and_is_given_up_too(task: Task) -> None:
    """While it is open each iteration asks the storage again."""
    task.trouble = "gone"
    assert task.watch.storage_is_out(0.0)
    task.passed()
    assert "storage does not answer: gone" in task.get("/readyz")[2]
    task.trouble = ""
    task.now += PROBE_SECS
    task.passed()
    assert task.get("/readyz")[0] == 200
    task.trouble = "gone"
    task.watch.storage_is_out(task.now)
    task.now += 1001
    with pytest.raises(DependencyUnreachable, match="storage"):
        task.passed()


def test_a_storage_that_is_silent_is_asked_once_in_a_passing(task: Task) -> None:
    """Each question may take seconds, and each table that fails asks one; one that answers is asked as often."""
    asked: list[int] = []
    task.watch.probe = lambda: asked.append(1) or task.trouble  # type: ignore[func-returns-value]
    task.trouble = "silent"
    assert [task.watch.storage_is_out(now) for now in (1.0, 1.0, 1.0, 2.0)] == [True] * 4 and len(asked) == 2
    task.trouble = ""
    assert [task.watch.storage_is_out(3.0), task.watch.storage_is_out(3.0)] == [False] * 2 and len(asked) == 4


def test_a_storage_that_failed_and_answers_by_now_was_out_but_not_again_and_again(task: Task) -> None:
    """What fails for ever is a person's to look at, however well the rest is."""
    assert [task.watch.blinked("no answer", at) for at in (0.0, 10.0, 20.0, 30.0)] == [True, True, True, False]
    assert "no answer" in task.watch.outages.open[STORAGE].error
    assert task.watch.blinked("no answer", BLINK_SECS)


def test_a_partition_is_given_up_that_was_stuck_without_a_break_for_as_long(task: Task) -> None:
    """From the first iteration that saw it so; one that passed a record meanwhile begins anew."""

    def passed(stuck: dict[TopicPartition, str]) -> list[TopicPartition]:
        task.watch.tick(task.now, [P0], [], {}, {}, {}, False, None, False, stuck)
        return [*task.watch.hopeless]

    found = []
    for secs, stuck in ((0, {P0: "torn"}), (999, {P0: "torn"}), (0, {}), (0, {P0: "torn"}), (999, {P0: "still"})):
        task.now += secs
        found.append(passed(stuck))
    task.now += 1
    assert found == [[]] * 5 and passed({P0: "still"}) == [P0] and task.watch.hopeless == {P0: "still"}
    assert passed({P1: "another's"}) == []


def test_the_storage_is_asked_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A root that is there answers; one that is gone, is no folder, is read-only or full does not."""
    store = FileStore(str(tmp_path))
    assert store.trouble() == ""
    assert "No such file" in store.below("gone").trouble()
    (tmp_path / "file").write_text("")
    assert "Not a directory" in store.below("file").trouble()

    def pretend(**changes: Any) -> str:
        class Free:
            f_flag, f_bavail, f_frsize = changes.get("flag", 0), changes.get("blocks", 10**6), 4096

        monkeypatch.setattr("os.statvfs", lambda path: Free())
        return store.trouble()

    assert pretend() == ""
    assert "read-only" in pretend(flag=1)
    assert "is full" in pretend(blocks=0)
