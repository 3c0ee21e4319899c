"""The maintenance of a real table: files of closed days change, rows and positions do not."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime, timezone
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

from exporter.cli.main import cli
from exporter.core.outcome import Landed
from exporter.core.writers import Claim, StagedFile, WriterKey
from exporter.errors import ConfigError, FoundProblem
from exporter.lake.lake import Lake
from exporter.operate.maintain.maintain import Maintenance, MaintenanceLimits
from exporter.operate.maintain.step import MaintenanceStep
from exporter.protocol.commit import DeltaCommitter
from offsets.positions import Position
from offsets.ranges import TopicPartition
from tests.support.lakes import create_anchored, stage_offsets
from tests.support.sessions import Kept

pytestmark = pytest.mark.spark

P0 = TopicPartition("events", 0)
CLOSED = date(2026, 1, 31)
LIMITS = MaintenanceLimits(late_secs=3600, file_bytes_max=1 << 29, stage_age_max_secs=21_600)


@pytest.fixture
def lake(spark: Any, tmp_path: Path) -> Lake:
    return Lake(spark, tmp_path, "maintaining")


def staged(lake: Lake, name: str, first: int, last: int, day: date = CLOSED, aged_days: int = 0) -> StagedFile:
    """One file, written so many days ago."""
    file = stage_offsets(lake, name, P0, list(range(first, last + 1)), day)
    at = time.time() - aged_days * 86_400
    os.utime(Path(lake.table(name).uri) / file.path, (at, at))
    return file


def commit(lake: Lake, name: str, expected: int, new: int, files: Sequence[StagedFile]) -> None:
    committer, view = DeltaCommitter(lake, "test", {}), lake.table(name).view()
    assert view is not None
    committer.trust(name, view)
    report = committer.commit(name, [Claim(WriterKey(name, P0), 0, expected, new, tuple(files), view.version)])
    assert all(isinstance(settled.outcome, Landed) for settled in report.settled), report


def two_files(lake: Lake, name: str, *days: date) -> None:
    """A table of two commits, each with five offsets of each day; the files of one commit would be merged."""
    create_anchored(lake, name, {P0: Position(0, -1)})
    covered = -1
    for _ in range(2):
        firsts = [(covered + 1 + 5 * number, day) for number, day in enumerate(days)]
        files = [staged(lake, name, first, first + 4, day) for first, day in firsts]
        commit(lake, name, covered, covered + 5 * len(days), files)
        covered += 5 * len(days)


def contents(lake: Lake, name: str) -> tuple[list[int], Any]:
    """Ids of all rows, and the positions."""
    view = lake.table(name).view()
    assert view is not None
    rows = deltalake.DeltaTable(lake.table(name).uri).to_pyarrow_table(columns=["id"])
    return sorted(rows.column("id").to_pylist()), dict(view.transactions)


def per_day(lake: Lake, name: str) -> Counter[str]:
    """Live files of each day."""
    return Counter(Path(uri).parent.name for uri in deltalake.DeltaTable(lake.table(name).uri).file_uris())


def on_disk(lake: Lake, name: str) -> set[str]:
    folder = Path(lake.table(name).uri)
    return {str(path.relative_to(folder)) for path in folder.glob("day=*/*")}


def turn(lake: Lake, *names: str) -> list[MaintenanceStep]:
    work = Maintenance(lake, LIMITS)
    return list(work.steps(work.tables(names), True))


def typed(lake: Lake, monkeypatch: pytest.MonkeyPatch, *flags: str, scalars: str = "") -> Result:
    """`exporter maintain` on the shared session, with brokers that nobody asks."""
    config = Path(lake.root) / "exporter.toml"
    config.write_text(
        f'brokers = ["nowhere:1"]\ntopics = ["events"]\ngroup = "{lake.app}"\ntable_root = "{lake.root}"\n{scalars}\n'
        '[type_from]\nkind = "topic"\n[event_time]\nkind = "record"\n[types.order]\ncolumns = "id BIGINT"\n'
    )
    with monkeypatch.context() as patch:
        patch.setattr(
            "exporter.operate.maintain.run.open_lake",
            lambda settings: Lake(Kept(lake.session), settings.table_root, lake.app),
        )
        return CliRunner().invoke(cli, ["maintain", "--config", str(config), *flags])


def test_closed_days_are_compacted_once_and_only_when_told(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dry run writes nothing; today stays; orphans go, what may be committed stays and can be."""
    today = datetime.now(timezone.utc).date()
    two_files(lake, "order", CLOSED, today)
    before = contents(lake, "order")
    waiting, aged = staged(lake, "order", 20, 29), staged(lake, "order", 30, 39, aged_days=8)
    dead = staged(lake, "order", 3, 4, today)
    there = on_disk(lake, "order")

    dry = typed(lake, monkeypatch, "--format", "json")
    assert dry.exit_code == 0 and "--apply does it" in dry.stderr, dry.output
    due = [json.loads(line) for line in dry.stdout.splitlines()]
    assert [(s["table"], s["what"], s["day"], s["files"], s["outcome"]) for s in due] == [
        ("order", "optimize", str(CLOSED), 2, "due"),
        ("order", "sweep", "", 1, "due"),
        ("order", "vacuum", "", 1, "due"),
    ]
    assert on_disk(lake, "order") == there and len(list(Path(lake.table("order").uri).iterdir())) == 3

    done = typed(lake, monkeypatch, "--apply", "--format", "json")
    assert done.exit_code == 0, done.output
    assert [json.loads(line) for line in done.stdout.splitlines()] == [{**step, "outcome": "done"} for step in due]
    assert contents(lake, "order") == before
    assert per_day(lake, "order") == {f"day={CLOSED}": 1, f"day={today}": 2}
    assert there - on_disk(lake, "order") == {aged.path, dead.path}
    commit(lake, "order", 19, 29, [waiting])
    assert contents(lake, "order")[0] == list(range(30))


def test_a_retention_that_could_reach_what_may_still_be_committed_is_refused(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other steps are done, VACUUM is not, and the exit code is 1; so it is with what cannot be understood."""
    two_files(lake, "order", CLOSED)
    old = staged(lake, "order", 10, 19, aged_days=2)
    retention = "('delta.deletedFileRetentionDuration' = 'interval 1 day')"
    lake.session.sql(f"ALTER TABLE delta.`{lake.table('order').uri}` SET TBLPROPERTIES {retention}")
    monkeypatch.setattr("exporter.operate.maintain.maintain.CHECKPOINT_COMMITS", 2)
    failed = typed(lake, monkeypatch, "--apply", scalars="roll_age_max_secs = 43_200")
    assert isinstance(failed.exception, FoundProblem) and failed.exception.exit_code == 1, failed.output
    assert f"order\toptimize\t{CLOSED}\t2\t" in failed.stdout and "order\tcheckpoint\t\t0\t0\tdone" in failed.stdout
    assert len(list((Path(lake.table("order").uri) / "_delta_log").glob("*.checkpoint*.parquet"))) == 1
    assert "order\tvacuum\t\t0\t0\tfailed\tdelta.deletedFileRetentionDuration = interval 1 day" in failed.stdout
    assert old.path in on_disk(lake, "order")
    wrong = typed(lake, monkeypatch, "--types", "ordre")
    assert isinstance(wrong.exception, ConfigError) and "'ordre'" in str(wrong.exception)
    assert typed(lake, monkeypatch, "--schedule").exit_code == 2


def test_a_person_may_give_the_retention(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorter than the table says, and never so short that a file could go which may still be committed."""
    two_files(lake, "order", CLOSED)
    old, waiting = staged(lake, "order", 10, 19, aged_days=2), staged(lake, "order", 20, 29)
    given = ("--apply", "--vacuum-hours", "24")
    assert "vacuum" not in typed(lake, monkeypatch, "--apply").stdout
    refused = typed(lake, monkeypatch, *given, scalars="roll_age_max_secs = 43_200")
    assert "--vacuum-hours = interval 24 hours is not longer" in refused.stdout and old.path in on_disk(lake, "order")
    assert typed(lake, monkeypatch, *given).exit_code == 0
    assert old.path not in on_disk(lake, "order") and waiting.path in on_disk(lake, "order")
    assert contents(lake, "order")[0] == list(range(10))


def test_a_vacuum_that_would_take_entries_of_the_log_is_not_begun(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a store's listing names no folders: whatever Delta would do, the log and the files stay."""
    two_files(lake, "order", CLOSED)
    staged(lake, "order", 10, 19, aged_days=8)
    there, real = on_disk(lake, "order"), type(lake.session).sql

    def sql(session: Any, text: str) -> Any:
        entry = f"{lake.table('order').uri}/_delta_log/{0:020d}.json"
        rows = real(session, text).collect()
        return SimpleNamespace(collect=lambda: [*rows, SimpleNamespace(path=entry)])

    monkeypatch.setattr(type(lake.session), "sql", sql)
    failed = turn(lake)[-1]
    assert (failed.what, failed.outcome) == ("table", "failed") and "entries of the table's log" in failed.says
    assert there < on_disk(lake, "order") and len(contents(lake, "order")[0]) == 10


def test_of_two_at_once_the_second_lets_the_table_be(lake: Lake) -> None:
    """While one is between two steps of a table; it is free again when that one ends."""
    two_files(lake, "order", CLOSED)
    first = Maintenance(lake, LIMITS).steps(["order"], True)
    assert next(first).outcome == "done"
    assert [(step.table, step.what, step.outcome) for step in turn(lake)] == [("order", "table", "skipped")]
    assert list(first) == []
    assert turn(lake) == []


@pytest.mark.long
def test_even_two_that_see_no_lock_do_no_harm(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Delta lets one OPTIMIZE of a day land and the other steps back; nothing fails, nothing is doubled."""
    names = ("click", "order", "payment")
    for name in names:
        two_files(lake, name, CLOSED, date(2026, 1, 30))
    before, found = {name: contents(lake, name) for name in names}, dict[int, list[MaintenanceStep]]()
    monkeypatch.setattr("exporter.operate.maintain.maintain._locked", lambda table: contextlib.nullcontext(True))
    threads = [threading.Thread(target=lambda n=n: found.update({n: turn(lake)})) for n in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(200)
    assert set(found) == {1, 2}
    assert {step.outcome for steps in found.values() for step in steps} <= {"done", "skipped"}, found
    assert {files for name in names for files in per_day(lake, name).values()} == {1}
    assert {name: contents(lake, name) for name in names} == before


def test_rows_are_put_in_order_once_and_again_when_a_tenth_is_not(lake: Lake) -> None:
    """By one column and by a curve through two: files of a closed day can be told apart by their bounds, rows and
    positions stay. A few late rows wait; who rewrites the files takes the order away; today is not touched."""
    today = datetime.now(timezone.utc).date()
    limits = replace(LIMITS, file_bytes_max=4_000, orders={"order": ("id",)})
    create_anchored(lake, "order", {P0: Position(0, -1)})
    for number in range(3):
        first = 600 * number
        files = [mixed_up(lake, first, 500), staged(lake, "order", first + 500, first + 599, today)]
        commit(lake, "order", first - 1, first + 599, files)
    before = contents(lake, "order")

    def ordered(limits: MaintenanceLimits = limits) -> list[tuple[str, str, int]]:
        steps = Maintenance(lake, limits).steps(["order"], True)
        return [(step.what, step.outcome, step.files) for step in steps if step.what in ("order", "optimize", "table")]

    assert ordered() == [("order", "done", 3)]
    bounds = sorted(bounds_of(lake, "order"))
    assert len(bounds) > 2 and all(last < first for (_, last), (first, _) in pairwise(bounds))
    assert contents(lake, "order") == before and per_day(lake, "order")[f"day={today}"] == 3
    assert ordered() == []
    commit(lake, "order", 1799, 1801, [staged(lake, "order", 1800, 1801)])
    assert ordered() == []
    assert ordered(LIMITS) == [("optimize", "done", len(bounds) + 1)]
    assert ordered() == [("order", "done", 1)]
    both = replace(limits, orders={"order": ("id", "_kafka.offset")})
    assert ordered(both) == [("order", "done", len(bounds))] and ordered(both) == []
    wrong = list(Maintenance(lake, replace(limits, orders={"order": ("none",)})).steps(["order"], True))
    assert [step.outcome for step in wrong] == ["failed"] and "order_by" in wrong[0].says


def mixed_up(lake: Lake, first: int, count: int) -> StagedFile:
    """Ids of which each file has some everywhere."""
    offsets = [*range(first, first + count)]
    return stage_offsets(lake, "order", P0, offsets, CLOSED, ids=[offset * 7_919 % 100_003 for offset in offsets])


def bounds_of(lake: Lake, name: str) -> list[tuple[int, int]]:
    """The least and the greatest id of each file of the closed day."""
    adds = pa.table(deltalake.DeltaTable(lake.table(name).uri).get_add_actions(flatten=True)).to_pylist()
    return [(add["min.id"], add["max.id"]) for add in adds if add["partition.day"] == CLOSED]
