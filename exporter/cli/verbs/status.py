"""`exporter status`: how far the export is."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from exporter.cli.options import LOG, VERDICTS, Loading, with_settings
from exporter.cli.output import FORMAT, Output, TextOutput
from exporter.errors import DependencyUnreachable
from exporter.text import escaped

if TYPE_CHECKING:
    from exporter.operate.status import Status


@click.command()
@click.option("--watch", is_flag=True, help="Show it again every two seconds, until Ctrl-C.")
@click.option("--wait-caught-up", is_flag=True, help="Wait until all that is in the topics now is committed.")
@click.option("--timeout", type=click.FloatRange(min=0), default=300, show_default=True, help="Seconds to wait so.")
@click.option("--url", default="", help="Health server of a task, such as http://host:9108.  [default: from http_port]")
@click.option("--tables", is_flag=True, help="Do not ask a task, look at the tables.")
@FORMAT
@click.option("-v", "--verbose", is_flag=True, help="Each position of each table, in the protocol's words.")
@with_settings(VERDICTS | LOG | {"http_port", "http_host"})
def status(
    watch: bool,
    wait_caught_up: bool,
    timeout: float,
    url: str,
    tables: bool,
    output: Output,
    verbose: bool,
    load: Loading,
) -> None:
    """How far the export is, and what needs a hand: by a task's health server if one answers, else by the tables."""
    from exporter.operate import status as how_far

    settings = load()
    try:
        with how_far.source(settings, url, tables) as ask:
            if wait_caught_up:
                how_far.wait_caught_up(ask, timeout)
            _show(ask(), output, watch, verbose)
            while watch:
                time.sleep(how_far.WATCH_SECS)
                try:
                    _show(ask(), output, watch, verbose)
                except DependencyUnreachable as silent:  # a task that starts again is worth waiting for
                    output.note(f"{silent.message}; asked again every {how_far.WATCH_SECS:.0f} s")
    except KeyboardInterrupt:
        if not watch:
            raise


def _show(found: Status, output: Output, watch: bool, verbose: bool) -> None:
    output.show(found, lambda text: _tell(found, text, watch, verbose))


def _tell(found: Status, text: TextOutput, watch: bool, verbose: bool) -> None:
    """One look; while watching, a terminal shows one screen of it."""
    from exporter.operate.status import page_of

    screen = text.screen() if watch else None
    page = page_of(found, verbose, screen)
    if screen is not None:
        screen.clear()
    for line in page.head:
        text.line(escaped(line))
    text.table(page.columns, page.rows, page.numbers)
    if page.left_out:
        text.line(f"and {page.left_out:,} more, none with a greater lag")
