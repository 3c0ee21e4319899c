"""`exporter maintain`: keep the tables small and quick, once or on a schedule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from exporter.cli.options import CODEC, LAKE, MAINTAINED, Loading, with_settings
from exporter.cli.output import FORMAT, Output, TextOutput, counted
from exporter.errors import FoundProblem

if TYPE_CHECKING:
    from exporter.operate.maintain.step import MaintenanceStep

COLUMNS = ("table", "step", "day", "files", "bytes", "outcome", "")


@click.command()
@click.option("--types", default="", help="Only the tables of these event types, comma-separated.")
@click.option("--schedule", is_flag=True, help="Stay, and work at the times of `maintain_cron`, until stopped.")
@click.option(
    "--vacuum-hours", type=click.IntRange(24), metavar="HOURS",
    help="VACUUM keeps deleted files for so long, whatever the tables say.",
)  # fmt: skip
@click.option("--apply", is_flag=True, help="Do it; without it nothing is written or deleted.")
@FORMAT
@with_settings(LAKE | MAINTAINED | CODEC)
def maintain(types: str, schedule: bool, vacuum_hours: int | None, apply: bool, output: Output, load: Loading) -> None:
    """Delete what is too old, fill columns that came later, OPTIMIZE closed days, checkpoint, sweep and VACUUM the
    tables, while tasks go on; needs no broker."""
    from exporter.operate.maintain.run import maintain as run_maintain

    if schedule and not apply:
        raise click.UsageError("--schedule needs --apply: a dry run is for once")
    only = {name for name in types.split(",") if name}
    steps = run_maintain(load(), only, apply, schedule, lambda step: output.data(step.as_dict()), vacuum_hours or 0)
    if schedule:
        return
    tell_steps(steps, output)


def tell_steps(steps: Sequence[MaintenanceStep], output: Output) -> None:
    """All of them at the end. Raises FoundProblem if one failed."""
    output.text(lambda text: _tell(steps, text))
    if any(step.outcome == "due" for step in steps):
        output.note("nothing was written: --apply does it")
    if failed := sum(step.outcome == "failed" for step in steps):
        raise FoundProblem(f"{failed} of the steps failed", "the lines above say why; the other tables were maintained")


def _tell(steps: Sequence[MaintenanceStep], text: TextOutput) -> None:
    cells = [(s.table, s.what, s.day, counted(s.files), counted(s.bytes), s.outcome, _says(s)) for s in steps]
    text.table(COLUMNS, cells)
    outcomes = Counter(step.outcome for step in steps)
    sums = ", ".join(f"{count:,} {outcome}" for outcome, count in sorted(outcomes.items()))
    text.note(f"{len(steps):,} steps in {len({step.table for step in steps}):,} tables: {sums or 'nothing to do'}")


def _says(step: MaintenanceStep) -> str:
    """Behind how many rows it is of, where it tells."""
    return ": ".join(filter(None, (f"{counted(step.rows)} rows" if step.rows else "", step.says)))
