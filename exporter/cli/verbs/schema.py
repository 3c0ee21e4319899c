"""`exporter schema`: the columns of the tables."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from exporter.cli.options import LAKE, Loading, with_settings
from exporter.cli.output import FORMAT, Output, TextOutput, counted, plain
from exporter.text import escaped

if TYPE_CHECKING:
    from exporter.operate.schema.schema import TableSchema

COLUMNS = ("column", "type", "from", "first seen", "since version", "hint")
RESCUED = ("in _rescued", "rows", "kinds", "its column")


@click.command()
@click.option("--types", "only", default="", metavar="A,B", help="Only these event types.")
@click.option(
    "--rescued-rows", type=click.IntRange(min=0), default=10_000, show_default=True,
    help="Rows of a table, with something in _rescued, to look at; 0: none.",
)  # fmt: skip
@FORMAT
@with_settings(LAKE)
def schema(only: str, rescued_rows: int, output: Output, load: Loading) -> None:
    """Each table's columns, where each came from and since when, and what stays in _rescued. Needs no broker."""
    from exporter.operate.schema.schema import table_schemas
    from exporter.workbench import open_lake, schemas_of

    settings = load()
    with open_lake(settings) as lake:
        declared = schemas_of(settings)
        names = [name.strip() for name in only.split(",") if name.strip()]
        hints = {name: table.hints for name, table in settings.types.items()}
        for found in table_schemas(lake, declared, hints, names, rescued_rows):
            output.show(found.as_dict(), partial(_tell, found))


def _tell(found: TableSchema, text: TextOutput) -> None:
    text.line(escaped(f"{found.event_type}, version {found.version}"))
    text.table(COLUMNS, [
        (one.path, one.type, one.origin, one.seen or "-", plain(one.version), one.hint or "-") for one in found.columns
    ])  # fmt: skip
    if found.rescued:
        text.table(RESCUED, [
            (one.path, counted(one.rows), ", ".join(f"{counted(n)} {kind}" for kind, n in one.kinds.items()),
             f"{one.column}, outgrown" if one.outgrown else one.column or "-") for one in found.rescued
        ])  # fmt: skip
    more = "" if found.whole else ", and there are more"
    text.line(f"{found.looked_at:,} rows with something in _rescued{more}")
