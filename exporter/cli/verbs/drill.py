"""`exporter drill`: faults in real exporters, under load."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from exporter import log
from exporter.cli.output import FORMAT, Output, TextOutput
from exporter.settings.load import load


@click.command()
@click.option("--scenario", default="all", show_default=True, help="Some of those that --list names: a,b")
@click.option("--list", "names", is_flag=True, help="Name the scenarios, and do nothing else.")
@click.option("--runs", type=click.IntRange(min=1), default=1, show_default=True, help="Runs of each scenario.")
@click.option("--kills", type=click.IntRange(min=1), default=10, show_default=True, help="In a run of random-kills.")
@click.option("--seed", type=int, default=1, show_default=True, help="Same seed, same schedule.")
@click.option("--records", type=click.IntRange(min=100), default=2000, show_default=True, help="Backlog of each run.")
@click.option("--folder", type=click.Path(path_type=Path), help="Where it works (default: a new folder).")
@click.option("--resume", is_flag=True, help="Go on with the drill in --folder: clean runs are not done again.")
@click.option("--config", type=click.Path(path_type=Path), help="Settings whose brokers and DynamoDB are used.")
@click.option(
    "--store",
    type=click.Choice(["file", "s3"]),
    default="file",
    show_default=True,
    help="Where the tables are: s3 is an S3 of its own, or that of --config.",
)
@click.option("--keep", is_flag=True, help="Keep settings, logs and lakes of clean runs too.")
@click.option("--minutes", type=click.FloatRange(min=0), default=0, help="Begin no run later; the length of a soak.")
@FORMAT
def drill(names: bool, config: Path | None, output: Output, **asked: Any) -> None:
    """Kill, stop and cut off real exporters under load, let them recover, audit.

    On services of its own, or with --config on given ones: with topics, groups, tables (in --folder, or with --store s3
    below the table_root of --config) and write-ahead logs of its own, which it removes afterwards. Nothing else is
    touched.
    """
    from exporter.drill import drills
    from exporter.drill.record import summary
    from exporter.drill.scenarios import SCENARIOS

    if names:
        for one in SCENARIOS.values():
            TextOutput().line(f"{one.name:24} {one.what}")
        return
    log.silence("kafka")  # the drill's own clients are cut off too
    given = load(config, {}, os.environ) if config is not None else None
    book = drills.drill(drills.Options(**asked, given=given))
    output.show(summary(book.runs), lambda text: text.line(drills.as_text(book)))
    drills.require_clean(book)
