"""Part later: columns that came later, filled for the rows of before; and rows in the order of what is asked for.

Budget 15 min: 10 M records are exported with all columns and with two, then the others are declared, and filled. What a
backfill does in a second is told beside what an export does, and whether readers see the same rows in both tables. Of
one user's rows it is told which files a reader has to open, with and without `order_by`.
"""

from __future__ import annotations

from pathlib import Path

import deltalake
import pyarrow as pa

from exporter.local.children import EXPORTER
from tests.bench.desk import Desk, Filled, Run, checked
from tests.bench.figures import Outcome, Row, Target, rounded
from tests.bench.load import Load
from tests.bench.same_rows import EVENT

RECORDS = 10_000_000
SHARE_MIN = 0.5
FILE_BYTES = 16 << 20
"""Of a packed file."""
NAME, USER = "page_view", "user_id"


def run(desk: Desk) -> Outcome:
    """An export, a backfill, an OPTIMIZE, an order."""
    outcome, load = Outcome(), Load(types=1)
    whole, late = desk.lake(), desk.lake()
    with desk.broker():
        topic = desk.topic(load, desk.count(RECORDS, least=20_000))
        exported = checked(desk.export(desk.config(topic, whole), weighed=True), topic)
        checked(desk.export(_narrow(desk, topic, late)), topic)
        config = desk.config(topic, late)
        desk.export(config)
    filled = desk.run([EXPORTER, "backfill", "--apply", "--format", "json", "--config", str(config)], weighed=True)
    rows = topic.tally.records
    speeds = {"export": rows / exported.secs, "backfill": rows / (filled.ended - filled.started)}
    outcome.tables["Columns that came later"] = [
        _row("export with all columns", exported, rows, exported.secs),
        _row("backfill of all but two, start and end counted", filled, rows, filled.ended - filled.started),
    ]
    share = speeds["backfill"] / speeds["export"]
    outcome.targets.append(Target("backfill, of the throughput of an export", share, SHARE_MIN, "x", at_least=True))
    compared = desk.module("tests.bench.same_rows", [str(whole / NAME), str(late / NAME)])
    outcome.tables["The filled table and one that had the columns"] = compared.of(EVENT)
    read = []
    for what, more in (("packed by OPTIMIZE", ""), (f"order_by {USER}", f'order_by = ["{USER}"]')):
        config = desk.config(topic, whole, maintain_file_bytes_max=FILE_BYTES)
        config.write_text(config.read_text() + more + "\n")
        done = desk.run([EXPORTER, "maintain", "--apply", "--format", "json", "--config", str(config)], weighed=True)
        read.append({"files": what, **_asked(whole), "core-s to write them": rounded(done.usage.total())})
    outcome.tables["What a filter on one user reads"] = read
    return outcome


def _narrow(desk: Desk, topic: Filled, lake: Path) -> Path:
    """All columns but two are in `_rescued`; the time is in none, since it says when an event was."""
    config = desk.config(topic, lake)
    (ddl,) = topic.load.declared().values()
    config.write_text(config.read_text().replace(ddl, "seq BIGINT, ts TIMESTAMP"))
    return config


def _row(what: str, run: Run, rows: int, secs: float) -> Row:
    return {
        "what": what, "rows": rows, "secs": rounded(secs), "rows/s": round(rows / secs),
        "core-s/M": rounded(run.usage.total() / rows * 1e6), "peak PSS, MiB": round(run.usage.pss_bytes / 2**20),
    }  # fmt: skip


def _asked(lake: Path) -> Row:
    """Files that may have rows of the user in the middle, by their statistics, and all; by bytes too."""
    adds = pa.table(deltalake.DeltaTable(str(lake / NAME)).get_add_actions(flatten=True)).to_pylist()
    bounds = [(add[f"min.{USER}"], add[f"max.{USER}"], add["size_bytes"]) for add in adds]
    user = (min(low for low, _, _ in bounds) + max(high for _, high, _ in bounds)) // 2
    asked = [size for low, high, size in bounds if low <= user <= high]
    return {
        "files read": len(asked), "of": len(bounds), "MB read": rounded(sum(asked) / 1e6),
        "of MB": rounded(sum(size for _, _, size in bounds) / 1e6),
    }  # fmt: skip
