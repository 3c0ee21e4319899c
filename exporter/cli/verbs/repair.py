"""`exporter repair`: put positions right after an accident."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from exporter.cli.options import CODEC, LOG, VERDICTS, Loading, with_settings
from exporter.cli.output import FORMAT, Output, TextOutput, counted, plain

if TYPE_CHECKING:
    from exporter.operate.repair.steps import RepairRow

COLUMNS = ("table", "partition", "position", "becomes", "files out", "")


@click.command()
@click.option("--rewind", "action", flag_value="rewind", help="A table was restored, overwritten, replaced or removed.")
@click.option("--rebase", "action", flag_value="rebase", help="The topic was deleted and created again.")
@click.option("--log", "action", flag_value="log", help="The write-ahead log lags behind the tables, or was lost.")
@click.option("--adopt", "former", metavar="APP", help="The tables are another app's: go on with them under ours.")
@click.option(
    "--skip",
    "skipped",
    metavar="TOPIC:PARTITION:FIRST[-LAST]",
    help="Give up records that no task gets past; comma-separated.",
)
@click.option("--apply", is_flag=True, help="Do it; without it nothing is written.")
@FORMAT
@with_settings(VERDICTS | LOG | CODEC | {"first_position", "type_widening"})
def repair(
    action: str | None, former: str | None, skipped: str | None, apply: bool, output: Output, load: Loading
) -> None:
    """Put positions right after an accident; shows what it would do unless --apply is given."""
    from exporter.operate.repair.reading import NothingToRepair
    from exporter.operate.repair.repair import repair as run_repair
    from exporter.operate.repair.skip import skipped_offsets
    from exporter.workbench import first_position, open_journal, open_workbench

    asked = [action, former and "adopt", skipped and "skip"]
    if len(what := [one for one in asked if one]) != 1:
        raise click.UsageError("give one of --rewind, --rebase, --log, --adopt APP and --skip OFFSETS")
    settings = load()
    offsets = skipped_offsets(skipped or "", settings.topics or ())
    with open_workbench(settings) as bench:
        journal = open_journal(settings, bench.routing)
        try:
            rows = run_repair(bench, what[0], former or "", first_position(settings), apply, journal, offsets)
        except NothingToRepair as nothing:
            output.note(nothing.message)
            rows = []
    output.show({"applied": apply, "changes": [row.as_dict() for row in rows]}, lambda text: _tell(rows, apply, text))


def _tell(rows: Sequence[RepairRow], apply: bool, text: TextOutput) -> None:
    if rows:
        cells = [(r.table, plain(r.tp), plain(r.old), plain(r.new), counted(r.removed), r.says) for r in rows]
        text.table(COLUMNS, cells)
        done = "done" if apply else "nothing was written: --apply does it"
        text.note(f"{len(rows):,} positions in {len({row.table for row in rows}):,} tables; {done}")
