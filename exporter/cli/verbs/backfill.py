"""`exporter backfill`: columns that a table got later are filled for the rows that it had before."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from exporter.cli.options import CODEC, VERDICTS, Loading, with_settings
from exporter.cli.output import FORMAT, Output
from exporter.cli.verbs.maintain import tell_steps

if TYPE_CHECKING:
    from exporter.operate.maintain.step import MaintenanceStep


@click.command()
@click.option("--types", default="", help="Only the tables of these event types, comma-separated.")
@click.option("--apply", is_flag=True, help="Do it; without it nothing is written.")
@FORMAT
@with_settings(VERDICTS | CODEC)
def backfill(types: str, apply: bool, output: Output, load: Loading) -> None:
    """Fill columns that came later with what `_rescued` has of them, one commit a day and table, while tasks go on."""
    from exporter.operate.maintain.run import backfill as run_backfill

    def told(step: MaintenanceStep) -> None:
        output.data(step.as_dict())

    tell_steps(run_backfill(load(), {name for name in types.split(",") if name}, apply, told), output)
