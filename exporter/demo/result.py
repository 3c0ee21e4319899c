"""What the demo has to come to and what it came to: rows, audit, the commit that its kill left unknown; as text too."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from exporter.core.routing import DEAD_LETTERS
from exporter.demo import shop
from exporter.demo.story import COLUMNS
from exporter.local.plain import PlainCommit, PlainLake
from exporter.operate.audit.report import FINDINGS, AbsentFile, AuditReport, Example, Missing, TableCount


def differences(report: AuditReport, produced: shop.ShopTally) -> list[str]:
    """What keeps the demo from being a success, in words; empty if the lake is as it must be."""
    found = [] if report.clean else [f"the audit has {report.findings} findings"]
    if report.once != produced.records or report.checked != produced.records:
        found.append(f"{produced.records:,} offsets produced, {report.checked:,} audited, {report.once:,} once")
    if report.pending or report.unchecked:
        found.append(f"{report.pending} offsets are pending, {report.unchecked} unchecked")
    rows = {table.event_type: table.rows for table in report.tables}
    for name, wanted in expected_rows(produced).items():
        if rows.get(name, 0) != wanted:
            found.append(f"table {name} has {rows.get(name, 0):,} rows instead of {wanted:,}")
    return found


def expected_rows(produced: shop.ShopTally) -> dict[str, int]:
    """Table -> rows it must have, from what was produced alone; the most frequent first."""
    return {**dict(produced.rows.most_common()), DEAD_LETTERS: produced.dead_letters}


def read_report(text: str) -> AuditReport:
    """The report that `exporter audit --format json` printed."""
    given: dict[str, Any] = json.loads(text)
    given.pop("clean")
    given["topics"] = tuple(given["topics"])
    given["tables"] = tuple(TableCount(**one) for one in given["tables"])
    given["examples"] = tuple(Example(**one) for one in given["examples"])
    given["absent"] = tuple(AbsentFile(**one) for one in given["absent"])
    given["missing_by_table"] = tuple(Missing(**one) for one in given["missing_by_table"])
    return AuditReport(**given)


def audit_line(report: AuditReport) -> str:
    """The audit in one sentence of two lines."""
    zeros = ", ".join(f"{getattr(report, kind)} {kind.replace('_', ' ')}" for kind in FINDINGS)
    return (
        f"Audit: {report.checked:,} offsets, {report.once:,} of them exactly once "
        f"({report.dead_letters:,} as dead letters);\n       {zeros}."
    )


def queries(lake: Path) -> str:
    """Two pieces of Python to paste; the first needs duckdb and deltalake, the second only this environment.

    A table: one process in forty that let DuckDB 2.0 scan a pyarrow dataset aborted as it ended.
    """
    return f"""# DuckDB over deltalake (pip install duckdb deltalake), then in python:
import duckdb; from deltalake import DeltaTable
checkout = DeltaTable({str(lake / "checkout")!r}).to_pyarrow_table(columns=["day", "total"])
duckdb.sql("SELECT day, count(*) AS orders, sum(total) AS total FROM checkout GROUP BY day ORDER BY day").show()

# Spark, in python, with nothing else installed:
from exporter.spark.session import Deployment, start; spark = start(Deployment("local[2]"), "look")
spark.read.format("delta").load({str(lake / DEAD_LETTERS)!r}).groupBy("stage", "reason").count().show(truncate=70)"""


def unknown_commits(lake: Path, acknowledged: set[tuple[str, int]]) -> list[PlainCommit]:
    """Commits with a claim of the exporter that are in the tables and that it has not heard of, oldest first."""
    commits = PlainLake(lake).look()
    return [one for one in commits if one.moves and not one.action and (one.table, one.version) not in acknowledged]


def read_tally(text: str) -> shop.ShopTally:
    """What the producing child printed."""
    made = json.loads(text)
    tally = shop.ShopTally(records=made["records"], value_bytes=made["value_bytes"])
    tally.rows.update(made["rows"])
    tally.bad.update(made["bad"])
    return tally


def show(report: AuditReport, produced: shop.ShopTally, place: Path, problems: Sequence[str]) -> None:
    """The result, on stdout: tables, audit, where the lake is, what to ask it. The whole audit if it is not clean."""
    wanted = expected_rows(produced)
    tables = {table.event_type: table for table in report.tables}
    shown = Table("table", *(["produced", "rows", "files", "days"]), box=box.SIMPLE_HEAD, pad_edge=False)
    for column in shown.columns[1:]:
        column.justify = "right"
    for name in [*wanted, *sorted(tables.keys() - wanted.keys())]:
        table = tables.get(name, TableCount(name, 0, 0, 0, -1))
        shown.add_row(name, *(f"{count:,}" for count in (wanted.get(name, 0), table.rows, table.files, table.days)))
    console = Console(width=COLUMNS, highlight=False)
    console.print(shown)
    print(audit_line(report))
    if problems:
        print(report.as_text())
        return
    print(f"Lake: {place / 'lake'}\nSettings: {place / 'exporter.toml'}\n\n{queries(place / 'lake')}", flush=True)
