"""Erasing in a real table: what Delta refuses, what the verb says."""

from __future__ import annotations

import json
import shutil
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

from exporter.arrow.own_columns import PLACES
from exporter.cli.main import cli
from exporter.core.outcome import Landed
from exporter.core.writers import Claim, WriterKey
from exporter.errors import InvariantBroken
from exporter.lake.change import Change
from exporter.lake.lake import Lake
from exporter.lake.settling import Moved
from exporter.lake.table import Check, DeltaTable
from exporter.operate.erase.erasing import Erasing
from exporter.protocol.commit import DeltaCommitter
from exporter.protocol.erasures import Erasures
from offsets.erased import erased
from offsets.positions import Position
from offsets.ranges import TopicPartition
from offsets.table_log import TableView
from tests.support.lakes import create_anchored, stage_offsets
from tests.support.sessions import Kept

pytestmark = pytest.mark.spark

P0 = TopicPartition("events", 0)
NAME = "order"


@pytest.fixture
def lake(spark: Any, tmp_path: Path) -> Lake:
    made = Lake(spark, tmp_path, "erasing")
    create_anchored(made, NAME, {P0: Position(0, -1)})
    for covered in (-1, 4):
        commit(made, covered)
    return made


def commit(lake: Lake, covered: int) -> None:
    """Five more rows, whose ids are their offsets."""
    committer, view = DeltaCommitter(lake, "test", {}), seen(lake)
    committer.trust(NAME, view)
    file = stage_offsets(lake, NAME, P0, list(range(covered + 1, covered + 6)), date(2026, 1, 31))
    report = committer.commit(NAME, [Claim(WriterKey(NAME, P0), 0, covered, covered + 5, (file,), view.version)])
    assert all(isinstance(settled.outcome, Landed) for settled in report.settled), report


def seen(lake: Lake) -> TableView:
    view = lake.table(NAME).view()
    assert view is not None
    return view


def ids(lake: Lake) -> list[int]:
    rows = deltalake.DeltaTable(lake.table(NAME).uri).to_pyarrow_table(columns=["id"])
    return sorted(rows.column("id").to_pylist())


def recorded(lake: Lake, *offsets: int, epoch: int = 0) -> int:
    places = [{"topic": P0.topic, "partition": 0, "epoch": epoch, "offset": offset} for offset in offsets]
    return Erasures(lake).add(pa.Table.from_pylist(places, PLACES), datetime.now(timezone.utc))


def work(lake: Lake) -> Erasing:
    return Erasing(lake, lake.table(NAME), seen(lake), Erasures(lake).read())


def test_a_table_does_not_say_that_it_has_none_where_a_file_has_come(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the snapshot of that commit and its version: Delta refuses it. Once more, and it is said."""
    assert recorded(lake, 3, 7) == 1
    positions = dict(seen(lake).transactions)
    began = DeltaTable._begun

    def meanwhile(table: DeltaTable, change: Change, check: Check) -> Any:
        found = began(table, change, check)
        if change.reads_all:
            monkeypatch.setattr(DeltaTable, "_begun", began)
            commit(lake, 9)
        return found

    monkeypatch.setattr(DeltaTable, "_begun", meanwhile)
    with pytest.raises(Moved):
        work(lake).apply()
    left = [number for number in range(15) if number not in (3, 7)]
    assert ids(lake) == left and erased(seen(lake)) == 0 and work(lake).is_due
    assert work(lake).apply().rows == 0
    assert ids(lake) == left and erased(seen(lake)) == 1 and not work(lake).is_due
    assert {**positions, "erasing/events/0/0": 14, "erasing/erased": 1} == {**seen(lake).transactions}


def test_an_offset_of_a_topic_that_was_created_again_is_another_record_s(lake: Lake) -> None:
    """What was erased of the one stays in the other, each found by its epoch (protocol 7.2)."""
    lake.table(NAME).commit(Change((), {"erasing/rebased/events/0/1": -1}, {"commit_id": "x"}), lambda now: None)
    recorded(lake, 3, epoch=1)
    assert work(lake).apply().rows == 0 and 3 in ids(lake)
    recorded(lake, 4)
    assert work(lake).apply().rows == 1 and ids(lake) == [0, 1, 2, 3, 5, 6, 7, 8, 9]


def test_who_finds_less_than_tables_know_of_stops(lake: Lake) -> None:
    """Somebody has taken the table of erased records away; what they were of would come back."""
    recorded(lake, 3)
    work(lake).apply()
    assert Erasures(lake).known_to([seen(lake)]).offsets(P0, 0) == {3}
    shutil.rmtree(Path(lake.root) / "_erased.records")
    with pytest.raises(InvariantBroken, match="know of 1 erasures"):
        Erasures(lake).known_to([seen(lake)])


def typed(lake: Lake, monkeypatch: pytest.MonkeyPatch, *flags: str) -> Result:
    """`exporter erase` on the shared session, with brokers that nobody asks."""
    config, values = Path(lake.root) / "exporter.toml", Path(lake.root) / "values.txt"
    config.write_text(
        f'brokers = ["nowhere:1"]\ntopics = ["events"]\ngroup = "{lake.app}"\ntable_root = "{lake.root}"\n'
        '[type_from]\nkind = "topic"\n[event_time]\nkind = "record"\n[types.order]\ncolumns = "id BIGINT"\n'
        '[derive.newest]\nkind = "mirror"\nsource = "order"\nkeys = ["id"]\n'
    )
    values.write_text("3\n8\n99\n")
    with monkeypatch.context() as patch:
        patch.setattr(
            "exporter.operate.maintain.run.open_lake",
            lambda settings: Lake(Kept(lake.session), settings.table_root, lake.app),
        )
        asked = ["erase", "--config", str(config), "--subject-column", "id", "--values", str(values), *flags]
        return CliRunner().invoke(cli, asked)


def test_the_verb_shows_what_it_finds_and_what_it_did(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is written without --apply; with it each table says what became of it, and once more there is none."""
    dry = typed(lake, monkeypatch)
    assert dry.exit_code == 0, dry.output
    assert "order\t2" in dry.stdout and "--apply erases 2 records" in dry.stderr and len(ids(lake)) == 10
    assert "topic events: Kafka keeps 2 records" in dry.output and "made of these tables: newest" in dry.output
    done = typed(lake, monkeypatch, "--apply", "--format", "json")
    assert done.exit_code == 0, done.output
    *steps, told = map(json.loads, done.stdout.splitlines())
    assert [(step["table"], step["what"], step["outcome"], step["rows"]) for step in steps] == [
        ("order", "erase", "done", 2)
    ]  # fmt: skip
    assert told == {
        "rows": {"order": 2}, "records": 2, "unseen": 0, "topics": {"events": 2}, "jobs": ["newest"], "erasure": 1
    }  # fmt: skip
    assert ids(lake) == [0, 1, 2, 4, 5, 6, 7, 9]
    again = typed(lake, monkeypatch, "--apply")
    assert again.exit_code == 0 and "nothing to do" in again.output
