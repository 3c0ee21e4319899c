"""The page of a running task: what /status says and nothing else, always as text, over HTTP and in a browser."""

from __future__ import annotations

import json
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from exporter.display.live import REFRESH_MS, ROWS_MAX, SCRIPT, Point, live_page
from exporter.display.style import STYLE, policy
from exporter.monitor import health
from exporter.monitor.health import PAGE_SECS, PAGE_SHARE, Health, HealthServer
from exporter.monitor.history import POINTS_MAX, PointHistory, point
from exporter.monitor.snapshot import Outage, Snapshot
from exporter.monitor.watch import Watch
from offsets.ranges import TopicPartition
from tests.support.lakes import wait_until
from tests.support.snapshots import NOW_MS, P0, busy_snapshot, snapshot, writer

HOSTILE = "</main><script>alert('1')</script>\"'><img src=x onerror=alert(2)>&amp;\x1b\u202e"
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def later(secs: float, **changes: Any) -> Snapshot:
    """The busy task some seconds on."""
    found = busy_snapshot()
    return replace(found, at=found.at + secs, wall_ms=found.wall_ms + int(secs * 1000), **changes)


class Served:
    """A task's page behind a real server. now: of its clock."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.watch = Watch("app", "me", clock=lambda: self.now)
        self.app = Health(self.watch, 1.0, lambda: self.now)
        self.server = HealthServer("127.0.0.1", 0, self.app)
        self.url = f"http://127.0.0.1:{self.server.port}"

    def get(self, path: str = "/") -> tuple[str, Any]:
        """Text and headers."""
        with urllib.request.urlopen(self.url + path, timeout=10) as answer:
            return answer.read().decode(), answer.headers


@pytest.fixture
def served() -> Iterator[Served]:
    made = Served()
    yield made
    made.server.close()


def test_the_page_is_served_with_a_policy_that_allows_its_own_script_and_style_alone(served: Served) -> None:
    """By their hashes; it may ask its own server, stand in no frame, and is kept by nobody."""
    served.watch.snapshot = busy_snapshot()
    text, headers = served.get()
    assert headers["Content-Type"] == "text/html; charset=utf-8" and headers["Cache-Control"] == "no-store"
    allowed = headers["Content-Security-Policy"]
    assert allowed == f"{policy(SCRIPT)}; frame-ancestors 'none'" and "unsafe" not in allowed
    assert "default-src 'none'" in allowed and "connect-src 'self'" in allowed
    assert f"<script>{SCRIPT}</script>" in text and f"<style>{STYLE}</style>" in text
    assert headers["X-Content-Type-Options"] == "nosniff" and headers["Referrer-Policy"] == "no-referrer"


def test_the_page_shows_nothing_that_status_does_not_tell(served: Served) -> None:
    """It is made of what /status answers, read back from JSON, and of nothing else."""
    for moment in (None, snapshot(), busy_snapshot()):
        served.watch.snapshot, served.now = moment, served.now + PAGE_SECS + 1
        assert served.get()[0] == live_page(json.loads(served.get("/status")[0]), ())


def test_names_and_reasons_are_only_ever_text(served: Served) -> None:
    """Of types, topics, tasks, outages and reasons: markup in them is shown as it was written."""
    tp = TopicPartition(HOSTILE, 0)
    served.watch.snapshot = snapshot(
        writer(HOSTILE, tp, 5), ends={tp: 9}, troubles={HOSTILE: Outage(990.0, HOSTILE)}, stuck={tp: HOSTILE},
        app=HOSTILE, owner=HOSTILE, verdicts={tp: HOSTILE}, outgrown={HOSTILE: [HOSTILE]},
    )  # fmt: skip
    text, _ = served.get()
    assert text.count("<script") == text.count("<main>") == text.count("</main>") == 1
    assert "<img" not in text and "\x1b" not in text and "\u202e" not in text
    assert text.count("&lt;script&gt;alert(&#x27;1&#x27;)&lt;/script&gt;") >= 8


def test_the_page_tells_how_far_the_task_is_and_what_helps(served: Served) -> None:
    """The verdict with commands, the few figures that count, tables and partitions."""
    served.watch.snapshot = busy_snapshot()
    text, _ = served.get()
    assert "<title>Export app: look at 3 things</title>" in text
    assert "<li>kafka has not answered for 10 s: silent: <code>exporter check</code></li>" in text
    assert "<div><b>20</b><span>consumer lag, records</span></div>" in text
    assert "<div><b>3</b><span>dead letters</span></div>" in text
    assert "<td>click</td>" in text and "<td>events-0</td>" in text
    assert "derive mirrored: 70 rows in 3 runs, 40 s behind" in text
    served.watch.snapshot, served.now = snapshot(writer("order", P0, 5), ends={P0: 6}), served.now + PAGE_SECS + 1
    assert "<title>Export app: all well</title>" in served.get()[0]


def test_many_lookers_cost_one_page(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """For two seconds the same one is served, for longer if it takes long to make; the loop waits for none of them."""
    made: list[int] = []
    took, page = [0.0], live_page

    def slow(*arguments: Any) -> str:
        made.append(1)
        served.now += took[0]
        return page(*arguments)

    monkeypatch.setattr(health, "live_page", slow)
    served.watch.snapshot = busy_snapshot()
    first = {served.get()[0] for _ in range(5)}
    served.watch.snapshot = later(3600.0)
    assert {served.get()[0]} == first and len(made) == 1
    served.now += PAGE_SECS + 0.1
    took[0] = 1.0
    assert {served.get()[0]} != first and len(made) == 2
    served.now += 1.0 / PAGE_SHARE - 1.1
    assert served.get() and len(made) == 2
    served.now += 0.2
    assert served.get() and len(made) == 3


def test_a_lake_of_many_tables_is_told_by_those_that_are_furthest_behind() -> None:
    """The page stays small; the rest is counted, and /status has all of it."""
    writers = [writer(f"type_{number:04d}", P0, number) for number in range(2_000)]
    text = live_page(snapshot(*writers, ends={P0: 5_000}).as_dict(), ())
    assert "type_0000" in text and "type_0200" not in text and f"and {2_000 - ROWS_MAX:,} more" in text
    assert len(text) < 40_000


def test_the_history_is_one_hour_and_no_more() -> None:
    """A ring in memory; what a hanging loop left behind is not noted again; an unknown lag stays unknown."""
    history = PointHistory()
    history.note(None)
    assert history.points == ()
    for number in range(POINTS_MAX + 50):
        history.note(later(number * 10.0))
        history.note(later(number * 10.0))
    assert len(history.points) == POINTS_MAX
    assert history.points[0].at_ms == NOW_MS + 500_000
    assert point(busy_snapshot()) == Point(NOW_MS, 20, 100, 80, 3)
    assert point(snapshot(writer("order", P0, 5), ends={})).lag is None


def test_the_last_hour_is_drawn_from_point_to_point() -> None:
    """What is behind, records read a second, new dead letters; of an unknown lag there is no line."""
    points = [Point(NOW_MS + at * 10_000, None if at < 2 else 500 - at, at * 1_000, 0, at // 10) for at in range(30)]
    text = live_page(busy_snapshot().as_dict(), points)
    assert text.count("<polyline") == 2 and "Records read a second" in text and "dead letters: 2" in text
    assert "<div><b>100</b><span>records read a second</span></div>" in text
    assert "No dead letter in this time." in live_page(busy_snapshot().as_dict(), points[:5])
    assert "The last hour" not in live_page(busy_snapshot().as_dict(), ())


def test_the_server_notes_points_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a thread of its own, that ends with it."""
    monkeypatch.setattr(health, "EVERY_SECS", 0.01)
    served = Served()
    served.watch.snapshot = busy_snapshot()
    wait_until(lambda: len(served.app._history.points) == 1, 30, "a point")
    served.server.close()
    assert not any(thread.is_alive() for thread in served.server._threads)


def browsed(url: str, profile: Path) -> subprocess.CompletedProcess[str]:
    """What Chromium has made of a page after three of its refreshments, and what it logs."""
    return subprocess.run(
        [
            str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}",
            "--enable-logging=stderr", f"--virtual-time-budget={REFRESH_MS * 3}", "--dump-dom", url,
        ],
        capture_output=True, text=True, timeout=100, check=True,
    )  # fmt: skip


@pytest.mark.skipif(BROWSER is None, reason="there is no Chromium")
def test_a_browser_runs_the_page_and_brings_it_up_to_date(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its policy lets the script and the style in; what is new is swapped in, and nothing of a name is run."""
    asked: list[int] = []
    evil = "<img src=x onerror=\"document.title='owned'\">"

    def page() -> str:
        asked.append(1)
        dead_letters = busy_snapshot().totals.copy()
        dead_letters.committed["order"] = 1_000_000 + len(asked)
        found = later(len(asked) * 5.0, totals=dead_letters, verdicts={P0: evil})
        return live_page({**found.as_dict(), "hangs": ""}, [point(later(at * 10.0)) for at in range(5)])

    monkeypatch.setattr(served.app, "page", page)
    done = browsed(served.url, tmp_path)
    assert len(asked) >= 2 and f"<b>{1_000_000 + 1:,}</b>" not in done.stdout and "1,000,00" in done.stdout
    assert "Refused" not in done.stderr and "violates" not in done.stderr and "Uncaught" not in done.stderr
    assert "<title>Export app: look at 3 things</title>" in done.stdout and '<p id="lost" hidden' in done.stdout
    assert "&lt;img src=x" in done.stdout


@pytest.mark.skipif(BROWSER is None, reason="there is no Chromium")
def test_a_browser_says_when_the_task_answers_no_more(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was shown stays, with a line that says so."""
    answers = iter([live_page(busy_snapshot().as_dict(), ())])
    monkeypatch.setattr(served.app, "page", lambda: next(answers, "it is gone"))
    shown = browsed(served.url, tmp_path).stdout
    assert '<p id="lost">The task does not answer' in shown and "<td>events-0</td>" in shown
