"""`exporter offsets`: the positions, side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from exporter.cli.options import LOG, VERDICTS, Loading, with_settings
from exporter.cli.output import FORMAT, Output, counted, plain

if TYPE_CHECKING:
    from exporter.operate.offsets_view import OffsetRow

COLUMNS = ("event type", "partition", "position", "end", "lag", "named", "logged", "started", "verdict")


@click.command()
@FORMAT
@with_settings(VERDICTS | LOG)
def offsets(output: Output, load: Loading) -> None:
    """Position, end and lag per event type and partition: the tables, their files' names and the log side by side."""
    from exporter.operate.offsets_view import offset_rows
    from exporter.workbench import open_workbench

    settings = load()
    with open_workbench(settings) as bench:
        rows = list(offset_rows(bench, settings))
    through = any(row.valid_through for row in rows)
    columns = (*COLUMNS, *(["valid through"] if through else []), "")
    cells = [(*_cells(row), *([row.valid_through or "-"] if through else []), row.says) for row in rows]
    output.show([row.as_dict() for row in rows], lambda text: text.table(columns, cells))


def _cells(row: OffsetRow) -> tuple[str, ...]:
    return (
        row.event_type, str(row.tp), plain(row.position), str(row.end), counted(row.lag), plain(row.named),
        plain(row.logged), counted(row.started), row.verdict or "-",
    )  # fmt: skip
