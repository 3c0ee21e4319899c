"""`exporter check`: would a task start here?"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from exporter.cli.options import EXPORTED, Loading, with_settings
from exporter.cli.output import FORMAT, Output, Text
from exporter.errors import ConfigError, ExporterError, FoundProblem

if TYPE_CHECKING:
    from exporter.finding import Finding


@click.command()
@click.option("--create-wal", is_flag=True, help="Make the write-ahead log's table first; else nothing is made.")
@click.option("--deep", is_flag=True, help="Also compare every record and row, and the log: are the rows there?")
@FORMAT
@with_settings(EXPORTED)
def check(create_wal: bool, deep: bool, output: Output, load: Loading) -> None:
    """Would a task start here? Settings, Java, jars, brokers, topics, log, port, tables; leaves nothing behind."""
    from exporter.derive.check import check_derive
    from exporter.operate.check.check import check as findings

    bad = 0
    kind: type[ExporterError] = FoundProblem
    for finding in findings(load(), create_wal, deep, check_derive):
        bad += finding.level == "error"
        kind = ConfigError if finding.in_settings else kind
        output.show(vars(finding), partial(_tell, finding))
    if bad:
        raise kind(f"{bad} of the checks found an error")


def _tell(finding: Finding, text: Text) -> None:
    text.line(f"{finding.level:5}  {finding.what}: {finding.says}")
    if finding.hint:
        text.line(f"       hint: {finding.hint}")
