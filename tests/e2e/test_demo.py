"""`exporter demo` as a user runs it: small, but with a real broker, a real kill -9 and a real audit."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import psutil
import pytest

from exporter.demo import shop as events
from exporter.demo.result import differences, expected_rows
from exporter.demo.settings import settings_toml
from exporter.demo.shop_types import EVENT_TYPES
from exporter.local.broker import answers
from exporter.local.dynamodb import runs_here
from exporter.operate.audit.report import AuditReport, TableCount
from exporter.settings.load import load
from tests.support.lakes import seldom

RECORDS = 5_000
DEMO_SECS_MAX = 800.0

DEMO = [sys.executable, "-c", "from exporter.entry import main; main()", "demo"]


def run_demo(folder: Path, log: Path, *flags: str) -> tuple[int, str, set[psutil.Process]]:
    """Exit code, stdout, and every process that was seen below the demo while it ran."""
    began, seen = time.monotonic(), set[psutil.Process]()
    answer = log.with_suffix(".out")
    with log.open("wb") as errors, answer.open("wb") as output:
        command = [*DEMO, "--records", str(RECORDS), "--folder", str(folder), *flags]
        demo = psutil.Popen(command, stdout=output, stderr=errors, cwd=Path(events.__file__).parents[2])
        try:
            while demo.poll() is None and time.monotonic() - began < DEMO_SECS_MAX:
                seen |= set(demo.children(recursive=True))
                time.sleep(0.1)
        finally:
            if demo.poll() is None:
                demo.terminate()
            demo.wait(60)
    return demo.returncode, answer.read_text(), seen


def alive(process: psutil.Process) -> bool:
    """Whether it still runs; a zombie that nobody has waited for does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def declares(folder: Path, told: str, shown: str) -> None:
    """Pasted queries run, and the write-ahead log has told what became of the commit that was cut off."""
    assert "killed between the Delta commit of" in told
    if runs_here():
        assert "The write-ahead log said started; " in told and "finish log" in told
    assert "0 missing, 0 twice" in shown
    assert all(event_type.name in shown for event_type in EVENT_TYPES)
    for query, expected in zip(shown.split("# ")[1:], ("orders", "reason"), strict=True):
        assert expected in pasted(query.partition("\n")[2])


def infers(folder: Path, told: str, shown: str) -> None:
    """The settings are those that `infer` wrote; each record is in the table of its type, none is a dead letter."""
    assert f"{RECORDS:,} looked at: 10 event types by `type`" in told
    assert "(0 as dead letters)" in shown
    settings = load(folder / "exporter.toml", {}, {})
    assert (settings.event_time.path, settings.roll_age_max_secs) == ("ts", 5)
    assert {*settings.declared} == {one.name for one in EVENT_TYPES}


def takes_from_a_registry(folder: Path, told: str, shown: str) -> None:
    """No type and no column is declared; each record is once in its table, also those of a later writer."""
    assert "Schema registry" in told
    settings = load(folder / "exporter.toml", {}, {})
    assert settings.value_format.kind == "avro" and not settings.types
    assert {one.name for one in EVENT_TYPES} <= {path.name for path in (folder / "lake").iterdir()}


def derives(folder: Path, told: str, shown: str) -> None:
    """A mirror has one row of each user that logged in, and the orders of the example come to what they must."""
    assert "transaction 10000 is done: {1, 200, 2, 3.98}." in told
    assert "transaction 10001 is done: {2, 100, 1, 5.99}." in told
    logins = deltalake.DeltaTable(str(folder / "lake" / "login")).to_pyarrow_table(columns=["user_id"])
    assert f"last_login: {len(set(logins['user_id'].to_pylist())):,} rows" in told


@pytest.mark.broker
@pytest.mark.drill
@pytest.mark.timeout(1000)
@pytest.mark.parametrize(
    ("flags", "proves"),
    [
        pytest.param([], declares, id="declared"),
        seldom(["--infer"], infers, id="infer"),
        seldom(["--format", "avro"], takes_from_a_registry, id="avro"),
        seldom(["--derive"], derives, id="derive"),
    ],
)
def test_the_demo_kills_its_exporter_and_still_has_each_record_once(
    tmp_path: Path, flags: list[str], proves: Callable[[Path, str, str], None]
) -> None:
    """Exit code 0, every offset once, and nothing left running."""
    folder, log = tmp_path / "demo", tmp_path / "demo.log"
    exit_code, shown, seen = run_demo(folder, log, *flags)
    told = log.read_text()
    assert exit_code == 0, told
    assert "kill -9" in told
    assert f"{RECORDS:,} offsets, {RECORDS:,} of them exactly once" in shown
    proves(folder, told, shown)
    assert len(seen) >= 5, "broker, producer, two exporters, audit"
    assert [process for process in seen if alive(process)] == []
    settings = load(folder / "exporter.toml", {}, {})
    assert not answers(settings.brokers[0], 0.5)
    assert Path(settings.store.uri()).is_dir()


def pasted(code: str) -> str:
    """What a fresh Python prints for a query of the demo."""
    root = Path(events.__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=200, cwd=root, env=dict(os.environ)
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def clean_report(produced: events.ShopTally, **changed: Any) -> AuditReport:
    """The report of a lake that holds exactly what was produced."""
    tables = tuple(TableCount(name, rows, 1, 1, 1) for name, rows in expected_rows(produced).items())
    known: dict[str, Any] = {"checked": produced.records, "once": produced.records, "tables": tables}
    return AuditReport(("shop_events",), **{**known, **changed})


def test_a_lake_that_is_as_produced_has_no_differences() -> None:
    """Clean audit, all offsets once, each table with its rows."""
    produced = events.tally(1, 1000, 4, bad_every=50)
    assert differences(clean_report(produced), produced) == []


@pytest.mark.parametrize(
    "changed",
    [{"missing": 1}, {"once": 999}, {"pending": 1}, {"unchecked": 1}, {"tables": ()}, {"checked": 0, "once": 0}],
    ids=str,
)
def test_a_demo_that_proves_less_is_no_success(changed: dict[str, Any]) -> None:
    """A clean audit of fewer records, pending ones, or other rows than produced fails the demo as findings do."""
    produced = events.tally(1, 1000, 4, bad_every=50)
    assert differences(clean_report(produced, **changed), produced)


def test_the_settings_file_is_one_that_the_exporter_loads(tmp_path: Path) -> None:
    """Also where the folder's name needs quoting."""
    lake = tmp_path / 'a "strange" föld\\er' / "lake"
    config = tmp_path / "exporter.toml"
    config.write_text(settings_toml("127.0.0.1:9092", lake, 200_000), "utf-8")
    settings = load(config, {}, {})
    assert settings.store.uri() == str(lake)
    assert settings.declared == events.schemas()
