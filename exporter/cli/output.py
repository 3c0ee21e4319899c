"""Tables on a terminal, and as tab-separated text elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

import click
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from exporter.text import escaped

FORMAT = click.option(
    "--format", "output", type=click.Choice(["text", "json"]), default="text", show_default=True, help="How to print."
)


def plain(value: object) -> str:
    """As it is: an offset stands as flags and other tools take it."""
    return "-" if value is None else str(value)


def print_table(columns: tuple[str, ...], rows: Sequence[tuple[str, ...]], numbers: Sequence[int] = ()) -> None:
    """numbers: the columns that stand to the right; a table that has them is drawn without lines, to be narrow."""
    console = Console()
    if not console.is_terminal:
        for row in (columns, *rows):
            click.echo("\t".join(map(escaped, row)))
        return
    console.print(as_table(columns, rows, numbers))


def as_table(columns: tuple[str, ...], rows: Sequence[tuple[str, ...]], numbers: Sequence[int]) -> Table:
    """Where the terminal is narrow, texts are folded and numbers never."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0)) if numbers else Table()
    for at, column in enumerate(columns):
        right = at in numbers
        table.add_column(column, justify="right" if right else "left", overflow="fold", no_wrap=right)
    for row in rows:
        table.add_row(*(escape(escaped(cell)) for cell in row))
    return table
