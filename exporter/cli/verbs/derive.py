"""`exporter derive`: tables and topics that are made of the exported tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import click

from exporter.cli.options import CODEC, LAKE, Loading, with_settings
from exporter.cli.output import FORMAT, Output, TextOutput, counted, plain
from exporter.errors import FoundProblem

if TYPE_CHECKING:
    from exporter.derive.job import AuditLine, JobStatus, Planned, Ran

DERIVED = frozenset(("derive_cron", "give_up_secs", "stop_budget_secs"))
NAMES = click.argument("names", nargs=-1, metavar="[NAME]...")


@click.group()
def derive() -> None:
    """Mirrors, bundles, queries and topics that follow the exported tables, each row exactly once."""


@derive.command()
@NAMES
@click.option("--until-caught-up", is_flag=True, help="End when everything that was there at the start is taken.")
@click.option("--schedule", is_flag=True, help="Work at the times of `derive_cron`, until stopped.")
@click.option("--rebuild", is_flag=True, help="Begin the named jobs anew, from all that their sources hold, and end.")
@FORMAT
@with_settings(LAKE | DERIVED | CODEC)
def run(
    names: Sequence[str], until_caught_up: bool, schedule: bool, rebuild: bool, output: Output, load: Loading
) -> None:
    """Run the jobs, all or those that are named: whenever there is something new, until stopped."""
    from exporter.derive.verbs import How, run_jobs

    if until_caught_up + schedule + rebuild > 1:
        raise click.UsageError("--until-caught-up, --schedule and --rebuild exclude each other")
    if rebuild and not names:
        raise click.UsageError("--rebuild needs the names of the jobs")
    how = How(until_caught_up=until_caught_up, scheduled=schedule, rebuilds=rebuild)
    run_jobs(load(), names, how, lambda ran: output.show(vars(ran), lambda text: tell_ran(ran, text)))


def tell_ran(ran: Ran, text: TextOutput) -> None:
    text.line(f"{ran.job}: version {plain(ran.version)}, {counted(ran.rows)} rows{f'; {ran.says}' if ran.says else ''}")


@derive.command()
@NAMES
@FORMAT
@with_settings(LAKE)
def plan(names: Sequence[str], output: Output, load: Loading) -> None:
    """What the next run of each job would take and do; writes nothing."""
    from exporter.derive.verbs import plans

    for planned in plans(load(), names):
        output.show(vars(planned), partial(_tell_plan, planned))


def _tell_plan(planned: Planned, text: TextOutput) -> None:
    text.line(f"{planned.job} ({planned.kind}){f': {planned.says}' if planned.says else ''}")
    for where, what in planned.ranges.items():
        text.line(f"  {where}: {what}")
    for statement in planned.statements:
        text.line(f"  {statement}")


@derive.command()
@NAMES
@FORMAT
@with_settings(LAKE)
def status(names: Sequence[str], output: Output, load: Loading) -> None:
    """Where each job stands, and how much of each source it lacks."""
    from exporter.derive.verbs import statuses

    found = statuses(load(), names)
    output.show([vars(one) for one in found], lambda text: _tell_status(found, text))


def _tell_status(found: Sequence[JobStatus], text: TextOutput) -> None:
    text.table(("job", "kind", "version", "behind", ""), [
        (one.job, one.kind, plain(one.version), _listed({name: counted(left) for name, left in one.behind.items()}),
         _listed(one.facts))
        for one in found
    ])  # fmt: skip


def _listed(facts: Mapping[str, object]) -> str:
    return ", ".join(f"{name}: {fact}" for name, fact in facts.items())


@derive.command()
@NAMES
@FORMAT
@with_settings(LAKE)
def audit(names: Sequence[str], output: Output, load: Loading) -> None:
    """Prove what each job has made, by another way than it was made; exit 1 if something differs."""
    from exporter.derive.verbs import audits

    found = audits(load(), names)
    output.show([vars(one) for one in found], lambda text: _tell_audit(found, text))
    if wrong := sum(not one.clean for one in found):
        raise FoundProblem(f"{wrong} of {len(found)} things do not hold", "the lines above say which rows differ")


def _tell_audit(found: Sequence[AuditLine], text: TextOutput) -> None:
    cells = [(one.job, one.what, counted(one.rows), "ok" if one.clean else "DIFFERS", one.says) for one in found]
    text.table(("job", "", "rows", "", ""), cells)
