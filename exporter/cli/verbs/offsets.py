"""`exporter offsets`: the positions, side by side."""

from __future__ import annotations

import click

from exporter.cli.options import LOG, VERDICTS, Loading, with_settings
from exporter.cli.output import FORMAT, Output, counted, plain

COLUMNS = ("event type", "partition", "position", "end", "lag", "named", "logged", "started", "verdict", "")


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
    cells = [
        (r.event_type, str(r.tp), plain(r.position), str(r.end), counted(r.lag), plain(r.named), plain(r.logged),
         counted(r.started), r.verdict or "-", r.says) for r in rows
    ]  # fmt: skip
    output.show([row.as_dict() for row in rows], lambda text: text.table(COLUMNS, cells))
