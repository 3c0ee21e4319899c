"""`exporter erase`: all records of a person leave the tables."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, TextIO

import click

from exporter.cli.options import CODEC, LAKE, MAINTAINED, Loading, with_settings
from exporter.cli.output import FORMAT, Output, TextOutput, counted
from exporter.cli.verbs.derive import DERIVED, tell_ran
from exporter.cli.verbs.maintain import tell_steps
from exporter.errors import ConfigError

if TYPE_CHECKING:
    from exporter.operate.erase.run import FoundSubject
    from exporter.operate.maintain.step import MaintenanceStep


@click.command()
@click.option(
    "--subject-column", "columns", multiple=True, required=True, metavar="PATH",
    help="Where it stands: a column, or a field of one, dotted; may be repeated.",
)  # fmt: skip
@click.option(
    "--values", type=click.File(encoding="utf-8"), required=True, help="File of what is looked for there, one a line."
)
@click.option("--apply", is_flag=True, help="Do it; without it nothing is written.")
@click.option("--rebuild", is_flag=True, help="Then make the derived tables anew, of what the tables have by then.")
@FORMAT
@with_settings(LAKE | MAINTAINED | DERIVED | CODEC)
def erase(
    columns: Sequence[str], values: TextIO, apply: bool, rebuild: bool, output: Output, load: Loading
) -> None:
    """Take all records of a person out of the tables, while tasks go on; nothing brings them back, a rewind neither."""
    from exporter.core.subject import DataSubject
    from exporter.derive.jobs import made_from
    from exporter.derive.verbs import How, run_jobs
    from exporter.operate.erase.run import erase as run_erase

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
