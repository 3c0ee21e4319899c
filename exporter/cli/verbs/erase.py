"""`exporter erase`: all records of a person leave the tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, TextIO

import click

from exporter.cli.options import CODEC, LAKE, Loading, with_settings
from exporter.cli.output import FORMAT, Output, TextOutput, counted
from exporter.cli.verbs.derive import DERIVED, tell_ran
from exporter.cli.verbs.maintain import tell_steps
from exporter.errors import ConfigError, FoundProblem

if TYPE_CHECKING:
    from exporter.operate.erase.run import ErasureStatus, FoundSubject
    from exporter.operate.maintain.step import MaintenanceStep


@click.command()
@click.option(
    "--subject-column", "columns", multiple=True, metavar="PATH",
    help="Where it stands: a column, or a field of one, dotted; may be repeated.",
)  # fmt: skip
@click.option(
    "--values", type=click.File(encoding="utf-8"), help="File of what is looked for there, one a line."
)
@click.option("--apply", is_flag=True, help="Do it; without it nothing is written.")
@click.option("--status", is_flag=True, help="Only what is left of earlier erasures, in files, logs and topics.")
@click.option("--rebuild", is_flag=True, help="Then make the derived tables anew, of what the tables have by then.")
@FORMAT
@with_settings(LAKE | DERIVED | CODEC)
def erase(
    columns: Sequence[str],
    values: TextIO | None,
    apply: bool,
    status: bool,
    rebuild: bool,
    output: Output,
    load: Loading,
) -> None:
    """Take all records of a person out of the tables, while tasks go on; nothing brings them back, a rewind neither."""
    from exporter.core.subject import DataSubject
    from exporter.derive.jobs import made_from
    from exporter.derive.verbs import How, run_jobs
    from exporter.operate.erase.run import erase as run_erase
    from exporter.operate.erase.run import status as run_status

    if status:
        if columns or values or apply or rebuild:
            raise click.UsageError("--status stands alone")
        left = run_status(load())
        output.show({**asdict(left), "is_over": left.is_over}, lambda text: _tell_left(left, text))
        return
    if not columns or values is None:
        raise click.UsageError("--subject-column and --values say who is to be erased; or --status")
    subject = DataSubject(tuple(tuple(one.split(".")) for one in columns), frozenset(_texts(values)))

    def told(step: MaintenanceStep) -> None:
        output.data(step.as_dict())

    if rebuild and not apply:
        raise click.UsageError("--rebuild needs --apply")
    settings = load()
    found = run_erase(settings, subject, apply, told)
    jobs = made_from(settings.derive, {*found.rows, *(step.table for step in found.steps if step.rows)})
    tables = [name for name in jobs if settings.derive[name].kind != "to_kafka"]
    output.show(
        {"rows": {**found.rows}, "records": found.records, "unseen": found.unseen, "topics": {**found.topics},
         "jobs": jobs, "erasure": found.erasure},
        lambda text: _tell(found, jobs, text),
    )  # fmt: skip
    tell_steps(found.steps, output)
    if rebuild and tables:
        run_jobs(settings, tables, How(rebuilds=True), lambda ran: output.show(vars(ran), partial(tell_ran, ran)))
    if apply and (passed := sorted({step.table for step in found.steps if step.outcome == "skipped"})):
        raise FoundProblem(
            f"the records are noted, and rows of them are left where another commit was at work: {', '.join(passed)}",
            "start it again, or `exporter maintain --apply`",
        )
    if not apply and found.records:
        output.note(f"nothing was written: --apply erases {found.records:,} records")


def _texts(values: TextIO) -> list[str]:
    try:
        found = [line for line in values.read().splitlines() if line]
    except UnicodeDecodeError as error:
        raise ConfigError(f"{values.name} cannot be read: {error}", "a file of UTF-8, one value a line") from error
    if not found:
        raise ConfigError(f"{values.name} names nobody", "write one value a line")
    return found


def _tell(found: FoundSubject, jobs: Sequence[str], text: TextOutput) -> None:
    text.table(("table", "rows"), [(name, counted(rows)) for name, rows in found.rows.items()])
    if found.unseen:
        text.note(f"{found.unseen:,} dead letters are no text: of these only long texts in them were looked for")
    for topic, records in found.topics.items():
        text.note(f"topic {topic}: Kafka keeps {records:,} records for as long as its retention says")
    if jobs:
        text.note(f"made of these tables: {', '.join(jobs)}; --rebuild makes those anew that are tables")


def _tell_left(left: ErasureStatus, text: TextOutput) -> None:
    if not left.erasures:
        text.line("nothing was ever erased")
        return
    rows = [(one.table, counted(one.rows), counted(one.files), counted(one.log_files)) for one in left.tables]
    text.table(("table", "rows", "files", "log files"), rows)
    if left.is_over:
        text.line(f"of {left.erasures} erasures nothing is left in any file or log of the tables")
    if any(one.rows for one in left.tables):
        text.note("rows go by `exporter maintain --apply`")
    for keeps in sorted({one.keeps for one in left.tables if one.files}):
        text.note(f"files go by VACUUM, {keeps.removeprefix('interval ')} after they were taken out, or --vacuum-hours")
    for keeps in sorted({one.log_keeps for one in left.tables if one.log_files}):
        text.note(f"log files go {keeps.removeprefix('interval ')} after they were written, behind a checkpoint")
    for topic, records in left.topics.items():
        text.note(f"topic {topic}: Kafka still has {counted(records)} of the records")
    if left.silent:
        text.note(f"Kafka was not asked: {left.silent}")
