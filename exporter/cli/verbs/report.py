"""`exporter report`: one page of all that the tables tell."""

from __future__ import annotations

import click

from exporter.cli.options import LAKE, Loading, with_settings
from exporter.cli.output import TextOutput


@click.command()
@click.option(
    "--output", "path", default="report.html", show_default=True, help="Where the page is written; - for stdout."
)
@with_settings(LAKE | {"isolation"})
def report(path: str, load: Loading) -> None:
    """One HTML page: lag, commits, files and dead letters, from the tables; the lag needs a broker that answers."""
    from exporter.operate.report.facts import facts, write
    from exporter.operate.report.page import report_page
    from exporter.workbench import open_lake

    settings = load()
    with open_lake(settings) as lake:
        page = report_page(facts(lake, settings))
    if path == "-":
        TextOutput().line(page)
    else:
        write(page, path)
        TextOutput().line(path)
