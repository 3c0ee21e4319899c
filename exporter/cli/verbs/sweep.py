"""`exporter sweep`: data files that no commit can name any more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from exporter.cli.options import LAKE, Loading, with_settings
from exporter.cli.output import FORMAT, Output, TextOutput, counted

if TYPE_CHECKING:
    from exporter.operate.maintain.sweep import SweptTable


@click.command()
@click.option("--apply", is_flag=True, help="Delete the files; without it they are only listed.")
@FORMAT
@with_settings(LAKE)
def sweep(apply: bool, output: Output, load: Loading) -> None:
    """Data files that killed tasks left behind and that no commit can name any more; needs no broker."""
    from exporter.operate.maintain.sweep import sweep as run_sweep
    from exporter.workbench import open_lake

    with open_lake(load()) as lake:
        swept = list(run_sweep(lake, apply))
    output.show([vars(table) for table in swept], lambda text: _tell(swept, apply, text))


def _tell(swept: Sequence[SweptTable], apply: bool, text: TextOutput) -> None:
    sums = [(t.event_type, len(t.paths), t.bytes, t.deleted) for t in swept]
    text.table(("event type", "files", "bytes", "deleted"), [(name, *map(counted, of)) for name, *of in sums])
    files, size, deleted = (sum(column) for column in zip((0, 0, 0), *(of for _, *of in sums), strict=True))
    told = f"{deleted:,} deleted" if apply else "nothing was deleted" + (": --apply does it" if files else "")
    text.note(f"{files:,} files of {size:,} bytes in {len(sums):,} tables can go; {told}")
