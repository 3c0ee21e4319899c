"""`exporter plan`: what a start would do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from exporter.cli.options import EXPORTED, Loading, with_settings
from exporter.cli.output import FORMAT, Output, TextOutput, counted, plain
from exporter.errors import FoundProblem
from exporter.text import escaped

if TYPE_CHECKING:
    from exporter.operate.start_plan import StartPlan

COLUMNS = ("partition", "verdict", "floor", "held back by", "end", "lag")


@click.command()
@FORMAT
@click.option("-v", "--verbose", is_flag=True, help="Each partition, its verdict and steps, in the protocol's words.")
@with_settings(EXPORTED)
def plan(output: Output, verbose: bool, load: Loading) -> None:
    """What a start would do with each partition, and why, and by which rules; writes nothing.

    Exit code 1 if it would not run.
    """
    from exporter.operate.start_plan import start_plan
    from exporter.workbench import open_workbench

    settings = load()
    with open_workbench(settings) as bench:
        found = start_plan(bench, settings)
    output.show(found.as_dict(), lambda text: _tell(found, text, verbose))
    if found.refusals:
        raise FoundProblem("a start would not run")


def _tell(found: StartPlan, text: TextOutput, verbose: bool) -> None:
    from exporter.operate.plan_told import plan_lines

    for line in plan_lines(found):
        text.line(line)
    if verbose:
        _tell_partitions(found, text)
    for name, rules in found.rules.items():
        text.line(f"{name}: {escaped('; '.join(rules))}")
    for refused in found.refusals:
        text.line(f"would exit {refused.exit_code}: {refused.reason}\n  hint: {refused.hint}")


def _tell_partitions(found: StartPlan, text: TextOutput) -> None:
    text.table(COLUMNS, [
        (str(one.tp), one.verdict, plain(one.floor), ",".join(one.held_back_by) or "-", str(one.end), counted(one.lag))
        for one in found.partitions
    ])  # fmt: skip
    for one in found.partitions:
        for step in one.steps:
            text.line(f"{one.tp}: would {step}")
