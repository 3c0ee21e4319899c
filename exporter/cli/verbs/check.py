"""`exporter check`: would a task start here?"""

from __future__ import annotations

from functools import partial
from typing import IO, TYPE_CHECKING

import click

from exporter.cli.options import EXPORTED, Loading, with_settings
from exporter.cli.output import FORMAT, Output, TextOutput
from exporter.errors import ConfigError, ExporterError, FoundProblem
from exporter.settings.model import Settings
from exporter.text import escaped

if TYPE_CHECKING:
    from exporter.finding import Finding
    from exporter.operate.check.samples import Sampled


@click.command()
@click.option("--create-wal", is_flag=True, help="Make the write-ahead log's table first.")
@click.option("--create-control", is_flag=True, help="Make the control topic first; else nothing is made.")
@click.option("--deep", is_flag=True, help="Also compare every record and row, and the log: are the rows there?")
@click.option("--sample", type=click.File("rb"), help="Only tell where each line of this file, a value, would go.")
@click.option("--sample-records", type=click.File("rb"), help="The same of lines such as "
              '{"topic": "events", "key": "k", "headers": {"h": "x"}, "value": {"id": 1}}.')  # fmt: skip
@FORMAT
@with_settings(EXPORTED)
def check(
    create_wal: bool, create_control: bool, deep: bool, sample: IO[bytes] | None, sample_records: IO[bytes] | None,
    output: Output, load: Loading,
) -> None:  # fmt: skip
    """Would a task start here? Settings, Java, jars, brokers, topics, log, port, tables; leaves nothing behind."""
    if file := sample or sample_records:
        if create_wal or create_control or deep or (sample and sample_records):
            raise click.UsageError("a file of samples is looked at alone")
        _tell_samples(output, load(), file, records=sample is None)
        return
    from exporter.derive.check import check_derive
    from exporter.operate.check.check import check as findings

    bad = 0
    kind: type[ExporterError] = FoundProblem
    for finding in findings(load(), create_wal, deep, check_derive, create_control):
        bad += finding.level == "error"
        kind = ConfigError if finding.in_settings else kind
        output.show(vars(finding), partial(_tell, finding))
    if bad:
        raise kind(f"{bad} of the checks found an error")


def _tell_samples(output: Output, settings: Settings, file: IO[bytes], records: bool) -> None:
    from exporter.operate.check.samples import samples

    for one in samples(settings, file, records):
        output.show(one.as_dict(), partial(_tell_sample, one))


def _tell_sample(one: Sampled, text: TextOutput) -> None:
    renamed = f", renamed {one.event_type}" if one.said != one.event_type else ""
    text.line(f"line {one.line}: " + escaped(f"event type {one.said}{renamed}" if one.said else "no event type"))
    for fate in one.fates:
        text.line("  " + escaped(fate.told))


def _tell(finding: Finding, text: TextOutput) -> None:
    text.line(f"{finding.level:5}  {finding.what}: {finding.says}")
    if finding.hint:
        text.line(f"       hint: {finding.hint}")
