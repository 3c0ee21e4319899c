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
@click.option(
    "--content-share",
    type=click.FloatRange(0, 1),
    metavar="SHARE",
    help="Of the records, 0 to 1, compare the whole contents.  [default: all of up to 100,000, else so many]",
)
@FORMAT
@with_settings(VERDICTS)
def audit(
    day: datetime | None, from_offsets: str | None, content_share: float | None, output: Output, load: Loading
) -> None:
    """Prove from the topics and the tables alone that each offset is where it must be exactly once."""
    from exporter.kafka.options import spark_kafka_options
    from exporter.operate.audit.audit import audit as run_audit
    from exporter.operate.chosen import parse_offsets
    from exporter.workbench import open_workbench

    settings = load()
    starts = parse_offsets(from_offsets, settings.selection) if from_offsets else None
    only = day.date() if day else None
    with open_workbench(settings, kafka=True) as bench:
        options = spark_kafka_options(settings)
        report = run_audit(bench.lake, bench.topics, bench.routing, options, only, starts, content_share)
    output.show(report.as_dict(), lambda text: text.line(report.as_text()))
    if not report.clean:
        raise FoundProblem("the audit found offsets that are not where they must be exactly once")
