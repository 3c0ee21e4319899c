"""`exporter infer`: what a topic holds, and the settings that follow."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from exporter.cli.options import Loading, with_settings
from exporter.cli.output import FORMAT, Output, TextOutput, counted
from exporter.settings.scalars import S3
from exporter.text import escaped

if TYPE_CHECKING:
    from exporter.operate.infer.infer import Inference

INFERRED = frozenset(
    ("brokers", "topics", "topics_pattern", "group", "app", "table_root", "isolation", "record_bytes_max")
) | S3 | {"event_time_min", "event_time_ahead_max_secs", "evolve", "keys_max"}
ASSUMED = {
    "group": "exporter", "table_root": "/lake", "type_from": {"kind": "topic"}, "event_time": {"kind": "record"},
    "new_type": "table",
}  # fmt: skip
"""What an inference goes by where nothing is given; of these none is looked at."""
COLUMNS = ("path", "in", "kinds", "column", "examples", "")


@click.command()
@click.option("--records", type=click.IntRange(min=1), default=10_000, show_default=True, help="Records to read.")
@click.option("--types", "only", default="", metavar="A,B", help="Only these event types.")
@click.option("--show-values", is_flag=True, help="Show examples as they are, not as 9s and as.")
@click.option("--write", "path", type=click.Path(path_type=Path), help="Make a settings file; never overwrites one.")
@click.option("--columns-folder", "folder", type=click.Path(path_type=Path), help="With --write: a file a type here.")
@FORMAT
@with_settings(INFERRED, ASSUMED)
def infer(
    records: int, only: str, show_values: bool, path: Path | None, folder: Path | None, output: Output, load: Loading
) -> None:
    """What the records look like, by event type: fields, kinds, columns; from a sample. Needs no settings file.

    With --write and --evolve add no columns are declared: they come by themselves.
    """
    from exporter.operate.infer.infer import infer as inferred
    from exporter.operate.infer.proposal import first_of
    from exporter.settings.first import write_first

    if path is None and folder is not None:
        raise click.UsageError("--columns-folder says how --write is to be done")
    settings = load()
    found = inferred(settings, records, [name.strip() for name in only.split(",") if name.strip()], show_values)
    output.show(found.as_dict(), lambda text: _tell(found, text))
    if path is not None:
        for file in write_first(first_of(settings, found, path), path, settings.file, folder):
            output.note(f"written: {file}")


def _tell(found: Inference, text: TextOutput) -> None:
    from exporter.operate.infer.told import column_lines, head_lines, type_lines

    def lines(told: Iterable[str]) -> None:
        for line in told:
            text.line(escaped(line))

    lines(head_lines(found))
    for one in found.types:
        lines(type_lines(one))
        text.table(COLUMNS, [
            (row.path, f"{row.share:.1%}", ", ".join(f"{counted(n)} {kind}" for kind, n in row.kinds.items()),
             row.column or "-", ", ".join(row.examples), row.says) for row in one.paths
        ])  # fmt: skip
        lines(column_lines(one))
