"""`exporter audit`: prove that each offset is where it must be."""

from __future__ import annotations

from datetime import datetime

import click

from exporter.cli.options import VERDICTS, Loading, with_settings
from exporter.cli.output import FORMAT, Output
from exporter.errors import FoundProblem


@click.command()
@click.option("--day", type=click.DateTime(["%Y-%m-%d"]), help="Only rows of this event day.")
@click.option("--from-offsets", help="Only offsets at or after these: [TOPIC:]PARTITION:OFFSET, comma-separated.")
@click.option("--content-share", hidden=True, expose_value=False, help="As before: all contents are compared now.")
@FORMAT
@with_settings(VERDICTS)
def audit(day: datetime | None, from_offsets: str | None, output: Output, load: Loading) -> None:
    """Prove from the topics and the tables alone that each offset is where it must be exactly once."""
    from exporter.operate.audit.audit import audit as run_audit
    from exporter.operate.chosen import parse_offsets
    from exporter.workbench import open_workbench

    settings = load()
    starts = parse_offsets(from_offsets, settings.selection) if from_offsets else None
    only = day.date() if day else None
    with open_workbench(settings) as bench:
        report = run_audit(bench.lake, bench.topics, bench.routing, only, starts)
    output.show(report.as_dict(), lambda text: text.line(report.as_text()))
    if not report.clean:
        raise FoundProblem("the audit found offsets that are not where they must be exactly once")
