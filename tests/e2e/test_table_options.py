"""What tables are made and filled with, by settings: in every commit of a table's life, and in no fingerprint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from exporter.core.routing import DEAD_LETTERS
from exporter.errors import ConfigError
from exporter.operate.dead_letters.listing import Chosen
from exporter.operate.dead_letters.replay import Replay
from exporter.workbench import open_workbench
from tests.support.lakes import DDL, Export, Exports, bad, delete_before, event
from tests.support.services import Record

pytestmark = [pytest.mark.broker, pytest.mark.spark]

OLD = {"order": DDL["order"]}
NEW = {"order": DDL["order"], "click": DDL["click"]}
KEPT = "delta.logRetentionDuration"


def records(count: int, first: int = 0) -> list[Record]:
    """In turn: an order, a click, what nothing can decode."""
    made = (lambda n: event("order", n), lambda n: event("click", n), lambda n: bad(b"{"))
    return [made[number % 3](number) for number in range(first, first + count)]


def codecs(e: Export) -> set[str]:
    """Of all files on disk, whether a commit names them or not."""
    found = set()
    for path in (e.root / "lake").rglob("*.parquet"):
        if "_delta_log" not in path.parts:
            group = pq.read_metadata(path).row_group(0)
            found |= {group.column(column).compression for column in range(group.num_columns)}
    return found


def kept(e: Export) -> dict[str, str | None]:
    """Table -> its own value of KEPT."""
    return {name: e.table(name).metadata().configuration.get(KEPT) for name in e.tables()}


def test_files_have_the_codec_and_new_tables_the_properties_that_are_set(
    kafka: str, exports: Exports, tmp_path: Path, spark: Any
) -> None:
    """Rounds, merges, gaps, drains and replays alike; a table that is there keeps its properties, and nothing switches.

    The last of it: a table made by a later task, with other settings, has those of that task.
    """
    text = f'[table_properties]\n"{KEPT}" = "interval {{}} days"'
    e = exports(2, types=OLD, more=text.format(60), parquet_compression="gzip", on_gap="record")
    e.send({0: records(30), 1: records(30)})
    e.run(spark)
    assert (codecs(e), kept(e)) == ({"GZIP"}, dict.fromkeys((DEAD_LETTERS, "order"), "interval 60 days"))
    e.send({0: records(30, first=30)})
    delete_before(e, 40)
    e.run(spark)
    positions = e.positions()
    later = Export(kafka, e.topic, tmp_path, e.app, types=OLD, more=text.format(90), scalars=e.scalars)
    later.run(spark)
    assert later.positions() == positions, "properties switch nothing"
    new = Export(kafka, e.topic, tmp_path, e.app, types=NEW, more=text.format(90), scalars=e.scalars)
    new.run(spark)
    with new.bench(spark) as bench:
        fed = {(row.outcome, row.name): row.rows for row in Replay(bench.lake, bench.routing, Chosen()).run(True)}
    assert fed["fed", "click"] == 27
    assert (codecs(e), kept(e)) == (
        {"GZIP"}, {DEAD_LETTERS: "interval 60 days", "order": "interval 60 days", "click": "interval 90 days"}
    )  # fmt: skip
    wrong = Export(kafka, e.topic, tmp_path, e.app, types=NEW, more=text.format("some"), scalars=e.scalars)
    with pytest.raises(ConfigError, match="some days"):
        open_workbench(wrong.settings(), spark)
