"""`exporter status`: from a task's server or the tables, for people, for programs, and for scripts that wait."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from rich.console import Console
from rich.table import Table

from exporter.cli.main import cli
from exporter.errors import DependencyUnreachable, FoundProblem
from exporter.monitor.health import Health, HealthServer
from exporter.monitor.snapshot import Outage
from exporter.monitor.watch import Watch
from exporter.operate import status as how_far
from exporter.settings.load import load
from exporter.settings.reference import example_toml
from tests.support.settings import written
from tests.support.snapshots import P0, busy_snapshot, snapshot, writer


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return written(tmp_path)


@pytest.fixture
def task() -> Iterator[tuple[Watch, int]]:
    """A watch that is served, and its port."""
    watch = Watch("exports", "me")
    watch.snapshot = busy_snapshot()
    server = HealthServer("127.0.0.1", 0, Health(watch, 1.0, lambda: 1000.0))
    yield watch, server.port
    server.close()


def test_watching_outlives_the_task_that_is_watched(
    file: Path, task: tuple[Watch, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task that ends and starts again is watched on; meanwhile a line says that none answers."""
    looks: list[float] = []

    def sleep(secs: float) -> None:
        looks.append(secs)
        if len(looks) == 3:
            raise KeyboardInterrupt

    answers = iter((True, False, True))

    def fetch(url: str) -> how_far.Status:
        if not next(answers):
            raise DependencyUnreachable(f"no task answers at {url}: refused")
        return {"from": url, "positions": []}

    monkeypatch.setattr("exporter.cli.verbs.status.time.sleep", sleep)
    monkeypatch.setattr(how_far, "fetch", fetch)
    found = run("--config", str(file), "--url", "http://here:1", "--watch")
    assert found.exit_code == 0
    assert found.stdout.count("no consumer lag") == 2
    assert "no task answers at http://here:1: refused; asked again every 2 s" in found.stderr


def run(*arguments: str) -> Any:
    return CliRunner().invoke(cli, ["status", *arguments], env={**os.environ, "COLUMNS": "100"})


def test_a_task_is_asked_where_the_settings_say_that_it_serves(file: Path, task: tuple[Watch, int]) -> None:
    """Text: a row per table, with -v one per position and the protocol's words; JSON: what /status says."""
    _, port = task
    text = run("--config", str(file), "--http-port", str(port))
    assert text.exit_code == 0, text.output
    head = [
        "app: 1 partition into 2 tables, a consumer lag of 20 records, 1.0 min at most",
        "look at 3 things:",
        "  kafka has not answered for 10 s: silent: exporter check",
        "  25% of the commits fail: see commit_refused and commit_unknown in the log",
        "  3 dead letters, 3.00% of the records: exporter dead-letters list",
        "since the task began: 100 records read, 80 rows committed, 3 dead letters, left out by filters: order 5, "
        "of no table 2",
        "derive mirrored: 70 rows in 3 runs, 40 s behind",
        "events to topic: 5 messages by this task",
        "all tables are complete through 2027-01-15 07:59:00 UTC",
        "tables are valid through 2027-01-15T07:59:55.000Z, 1 without",
    ]
    asked_of = f"asked: task host:1:a at http://127.0.0.1:{port}"
    assert text.output.splitlines() == [
        *head,
        asked_of,
        "\t".join(how_far.TABLE_COLUMNS),
        "click\t15\t0\t2027-01-15 07:59:00",
        "order\t20\t1\t2027-01-15 07:59:00",
    ]
    text = run("--config", str(file), "--http-port", str(port), "-v")
    assert text.output.splitlines() == [
        *head,
        "not ready: kafka does not answer: silent",
        "coordinated, leads: 5 rounds, 9 commits of 18 offers, 1 of 6 offers unanswered",
        "where the time went: commit 700.0 s, read 0.3 s (fetch 25%, decode 75%)",
        asked_of,
        "\t".join(how_far.COLUMNS),
        "click\tevents-0\t15\t20\t31\t15\t0\tagree",
        "order\tevents-0\t10\t20\t31\t20\t1\tagree",
    ]
    asked = run("--config", str(file), "--url", f"http://127.0.0.1:{port}/", "--format", "json")
    assert json.loads(asked.output)["positions"] == busy_snapshot().as_dict()["positions"]


def test_a_task_that_was_named_and_does_not_answer_is_an_error(file: Path) -> None:
    """69, and not another answer from somewhere else; the one of the settings is asked only if it answers."""
    result = run("--config", str(file), "--url", "http://127.0.0.1:9")
    assert isinstance(result.exception, DependencyUnreachable)
    assert how_far.answering("") == how_far.answering("http://127.0.0.1:9") == ""


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:9108"),
        ("0.0.0.0", "http://127.0.0.1:9108"),
        ("::", "http://[::1]:9108"),
        ("10.1.2.3", "http://10.1.2.3:9108"),
    ],
)
def test_the_url_of_a_task_follows_from_its_settings(file: Path, host: str, url: str) -> None:
    """Who listens everywhere is asked at this machine."""
    assert how_far.server_url(load(file, {"http_host": host, "http_port": "9108"}, {})) == url
    assert how_far.server_url(load(file, {"http_host": host}, {})) == ""


def test_waiting_ends_when_what_was_there_at_first_is_committed() -> None:
    """Later records are not waited for; a task that is away or not ready for a while is."""
    moments: list[Any] = [
        DependencyUnreachable("away"),
        snapshot(owned=frozenset({P0}), waiting=frozenset({P0})).as_dict(),
        snapshot(writer("order", P0, 5), ends={P0: 11}).as_dict(),
        snapshot(writer("order", P0, 10), writer("late", P0, 9), ends={P0: 20}).as_dict(),
        snapshot(writer("order", P0, 10), ends={P0: 20}, troubles={"kafka": Outage(0.0, "silent")}).as_dict(),
        snapshot(writer("order", P0, 10), ends={P0: 30}).as_dict(),
    ]
    left = list(moments)

    def ask() -> Any:
        moment = left.pop(0)
        if isinstance(moment, Exception):
            raise moment
        return moment

    assert how_far.wait_caught_up(ask, 100, lambda: 0.0, lambda secs: None)["positions"][0]["end"] == 30
    assert left == []


def test_waiting_for_too_long_is_a_found_problem_that_says_what_is_left() -> None:
    """Exit code 1; the number of offsets, or why the task is not ready."""
    now = [0.0]

    def sleep(secs: float) -> None:
        now[0] += secs

    for moment, says in (
        (snapshot(writer("order", P0, 5), ends={P0: 1011}).as_dict(), "1,005 offsets are not committed"),
        (snapshot(writer("order", P0, 5), ends={P0: 11}, readable={P0: 6}, open_secs={P0: 1200.4}).as_dict(),
         "5 offsets are not committed; a transaction has been open for 1,200 s in events-0"),
        ({**snapshot(writer("order", P0, 5), ends={P0: 6}).as_dict(), "ends_secs": 12.5},
         "the ends of the topics were not asked for since"),
        (snapshot(writer("order", P0, 5), stopping=True).as_dict(), "it is stopping"),
    ):
        now[0] = 0.0
        with pytest.raises(FoundProblem, match=says):
            how_far.wait_caught_up(lambda found=moment: found, 10, lambda: now[0], sleep)
        assert 10 <= now[0] < 13


def test_only_ends_that_were_read_since_count() -> None:
    """What was sent just before the wait began may be behind the ends that a task read a moment earlier."""
    now = [0.0]

    def ask() -> dict[str, Any]:
        now[0] += 1.0
        seen = snapshot(writer("order", P0, 5), ends={P0: 6 if now[0] < 3 else 11})
        done = snapshot(writer("order", P0, 10), ends={P0: 11})
        return {**(done if now[0] > 4 else seen).as_dict(), "ends_secs": now[0] + 0.1 if now[0] < 3 else 0.2}

    found = how_far.wait_caught_up(ask, 100, lambda: now[0], lambda secs: None)
    assert found["positions"][0]["end"] == 11


def from_tables(*positions: tuple[str, int, int | None, int]) -> Any:
    """What table_status() gives: event type, partition, committed or None, end."""
    made = [
        {"event_type": name, "topic": "events", "partition": partition, "committed": committed, "end": end,
         "read": None, "lag": None, "staged_rows": None, "staged_bytes": None, "verdict": ""}
        for name, partition, committed, end in positions
    ]  # fmt: skip
    return {"from": "tables", "app": "app", "positions": made}


@pytest.mark.parametrize(
    ("found", "says"),
    [
        ({"from": "x", "ready": False, "not_ready": "it is starting"}, "it is starting"),
        (
            {"from": "x", **snapshot(owned=frozenset({P0}), waiting=frozenset({P0})).as_dict()},
            "1 of 1 partitions are not recovered yet",
        ),
        (
            {"from": "x", **snapshot(writer("order", P0, 5), owned=frozenset({P0}), ends={}).as_dict()},
            "not known yet: 1 of 1 partitions without a known end",
        ),
        (from_tables(("order", 0, None, 31), ("click", 0, None, 31)), "1 of 1 partitions without a known position"),
        (from_tables(("order", 0, 9, 31), ("order", 1, None, 7)), "a consumer lag of at least 21 records"),
        (from_tables(("order", 0, 9, 31), ("click", 0, None, 31)), "into 2 tables, a consumer lag of 21 records"),
        (from_tables(("order", 0, 30, 31), ("order", 1, 6, 7)), "2 partitions into 1 table, no consumer lag"),
        ({"from": "x", **snapshot(owned=frozenset()).as_dict()}, "no consumer lag"),
    ],
    ids=["a task that starts", "a partition that is not recovered", "ends that are not read", "a lake without tables",
         "a partition that is new", "a type that is new", "all is there", "a spare task"],
)  # fmt: skip
def test_how_far_behind_is_unknown_as_long_as_a_position_or_an_end_is(found: Any, says: str) -> None:
    """Never 0 behind for what nobody has looked at; what is known is told beside it."""
    head = how_far.head_lines(found)[:2]
    assert says in "; ".join(head)
    assert ("no consumer lag" in head[0]) == says.endswith("no consumer lag")


def test_nobody_has_caught_up_before_the_positions_are_known() -> None:
    """`--wait-caught-up` on a lake without tables, or with a partition that no table knows, waits on."""
    for first in (from_tables(("order", 0, None, 31)), from_tables(("a", 0, 9, 10), ("a", 1, None, 0))):
        moments = [first, from_tables(("order", 0, 30, 31))]
        found = how_far.wait_caught_up(lambda left=moments: left.pop(0), 100, lambda: 0.0, lambda secs: None)
        assert (moments, found["positions"][0]["committed"]) == ([], 30)


def test_a_screen_shows_those_that_are_furthest_behind() -> None:
    """More positions than lines: the rest is counted; the columns fit into a hundred characters."""
    writers = [writer(f"type_{number:03d}", P0, number) for number in range(200)]
    found = snapshot(*writers, ends={P0: 1_000_000_000}).as_dict()
    shown, left_out = how_far.position_rows(found, 3)
    assert ([row[0] for row in shown], left_out) == (["type_000", "type_001", "type_002"], 197)
    console, table = Console(width=100), Table(*how_far.COLUMNS)
    for row in shown:
        table.add_row(*row)
    with console.capture() as capture:
        console.print(table)
    assert max(map(len, capture.get().splitlines())) <= 100
    assert "…" not in capture.get()


def test_names_are_not_squeezed_on_a_narrow_screen() -> None:
    """Of 100 columns the offsets of an old topic leave no room for names: read and end are left out, the lag stays."""
    offset = "1,234,567,890,123"
    row = ("checkout_payment_authorised", "web.page-views-117", offset, offset, offset, "2,100,876", "9", "agree")
    columns, rows, numbers = how_far.fitted([row], 100)
    assert columns == ("event type", "partition", "committed", "lag", "staged", "verdict")
    assert (rows, numbers) == ([(row[0], row[1], offset, "2,100,876", "9", "agree")], (2, 3, 4))
    assert sum(max(len(name), len(cell)) + 2 for name, cell in zip(columns, rows[0], strict=True)) <= 100
    for width in (200, None):
        assert how_far.fitted([row], width) == (how_far.COLUMNS, [row], (2, 3, 4, 5, 6))
    assert how_far.fitted([], 20)[1] == []


def test_the_example_is_written_to_stdout_and_needs_no_settings(tmp_path: Path, monkeypatch: Any) -> None:
    """`exporter config --write-example > exporter.toml`, in an empty folder; what it writes can be loaded."""
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli, ["config", "--write-example"])
    assert (result.exit_code, result.stdout) == (0, example_toml())
    (tmp_path / "written.toml").write_text(result.stdout)
    assert load(tmp_path / "written.toml", {}, {}).http_port == 0


@dataclass
class FakeScreen:
    """A terminal on which each row takes so many lines."""

    width: int
    height: int
    lines_of_a_row: int = 1

    def lines(self, columns: tuple[str, ...], rows: Sequence[tuple[str, ...]], numbers: Sequence[int]) -> int:
        """With those around the rows."""
        return how_far.TABLE_LINES + self.lines_of_a_row * len(rows)


def test_a_page_has_as_many_rows_as_the_screen_shows() -> None:
    """Without a screen all of them; with one as many as stand below the head, fewer where names take several lines."""
    found = from_tables(*((f"type_{number}", 0, 0, 100) for number in range(100)))
    whole = how_far.page_of(found, True)
    assert (len(whole.rows), whole.left_out, whole.columns) == (100, 0, how_far.COLUMNS)
    assert whole.head == how_far.head_lines(found, True)
    page = how_far.page_of(found, True, FakeScreen(200, 26))
    assert (len(page.rows), page.left_out) == (18, 82)
    assert len(page.head) + how_far.TABLE_LINES + len(page.rows) + 1 == 26
    folded = how_far.page_of(found, True, FakeScreen(200, 26, lines_of_a_row=3))
    assert (len(folded.rows), folded.left_out) == (18 * 18 // 58, 95)
    tables = how_far.page_of(found, screen=FakeScreen(200, 26))
    assert (tables.columns, len(tables.rows) + tables.left_out) == (how_far.TABLE_COLUMNS, 100)
    assert len(how_far.page_of(found, screen=FakeScreen(30, 26)).rows) < len(tables.rows), "the head takes more lines"
    assert len(how_far.page_of(found, True, FakeScreen(200, 1)).rows) == how_far.SCREEN_ROWS_MIN
    assert "read" not in how_far.page_of(found, True, FakeScreen(30, 26)).columns
