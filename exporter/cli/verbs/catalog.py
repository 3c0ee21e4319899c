"""`exporter catalog`: the tables, as a catalog is told of them."""

from __future__ import annotations

from functools import partial

import click

from exporter.catalog.statements import DIALECTS
from exporter.cli.options import LAKE, Loading, with_settings
from exporter.cli.output import FORMAT, Output, TextOutput
from exporter.errors import FoundProblem
from exporter.text import escaped


@click.command()
@click.option(
    "--dialect", type=click.Choice([*DIALECTS]), default="spark", show_default=True,
    help="In whose words; spark: also for Hive and for a Unity Catalog's external tables.",
)  # fmt: skip
@click.option("--types", default="", metavar="A,B", help="Only the tables of these event types.")
@click.option("--apply", is_flag=True, help="Register them in the catalog that the settings name, now.")
@FORMAT
@with_settings(LAKE | {"catalog", "catalog_database", "catalog_uri", "catalog_token_file"})
def catalog(dialect: str, types: str, apply: bool, output: Output, load: Loading) -> None:
    """The statements that register the tables in a catalog, for one that tasks do not reach. Needs no broker."""
    from exporter.operate.catalog import left_out, register_all, statements

    settings, only = load(), [name.strip() for name in types.split(",") if name.strip()]
    if not apply:
        for one in statements(settings, dialect, only):
            told = {"event_type": one.event_type, "name": one.name, "statement": one.text}
            output.show(told, partial(_tell, one.text))
        for sentence in left_out(settings):
            output.note(sentence)
        return
    from exporter.workbench import open_lake

    failed = 0
    with open_lake(settings) as lake:
        for event_type, became in register_all(settings, lake, only):
            is_there = not isinstance(became, str) and became.outcome != "elsewhere"
            says = became if isinstance(became, str) else f"{became.outcome} {became.name}, {became.location}"
            failed += not is_there
            became_of = {"event_type": event_type, "registered": is_there, "says": says}
            output.show(became_of, partial(_tell, escaped(f"{event_type}: {says}")))
    if failed:
        raise FoundProblem(f"{failed} of the tables are not registered", "the lines above say why")


def _tell(line: str, text: TextOutput) -> None:
    text.line(line)
