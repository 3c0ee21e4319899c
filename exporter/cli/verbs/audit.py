"""`exporter audit`: prove that each offset is where it must be."""

from __future__ import annotations

from datetime import datetime, timezone

import click

from exporter.cli.options import VERDICTS, Loading, with_settings
from exporter.cli.output import FORMAT, Output
from exporter.errors import FoundProblem


@click.command()
@click.option("--day", type=click.DateTime(["%Y-%m-%d"]), help="Only rows of this event day.")
@click.option("--since", "--from-offsets", help="Only what came since: 24h, a time, or [TOPIC:]PARTITION:OFFSET,...")
@click.option("--content-share", hidden=True, expose_value=False, help="As before: all contents are compared now.")
@FORMAT
@with_settings(VERDICTS)
def audit(day: datetime | None, since: str | None, output: Output, load: Loading) -> None:
    """Prove from the topics and the tables alone that each offset is where it must be exactly once."""
    from exporter.cli.progress import AuditDisplay
    from exporter.operate.audit.audit import audit as run_audit
    from exporter.operate.chosen import parse_since
    from exporter.workbench import open_workbench

    settings = load()
    first = parse_since(since, settings.selection, datetime.now(timezone.utc)) if since else None
    only = day.date() if day else None
    with open_workbench(settings) as bench, AuditDisplay() as display:
        starts = first.offsets(bench.topics) if first else None
        report = run_audit(bench.lake, bench.topics, bench.routing, only, starts, display.update)
    output.show(report.as_dict(), lambda text: text.line(report.as_text()))
    if not report.clean:
        raise FoundProblem("the audit found offsets that are not where they must be exactly once")
