"""`exporter dead-letters`: list, show and replay what no type's table could hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial, wraps
from typing import TYPE_CHECKING, Any

import click

from exporter.cli.options import CODEC, LAKE, VERDICTS, Loading, with_settings
from exporter.cli.output import FORMAT, Output, TextOutput, counted, plain
from exporter.settings.model import Settings
from exporter.text import escaped

if TYPE_CHECKING:
    from exporter.operate.dead_letters.listing import Chosen, DeadLetterCount

    Choosing = Callable[[Settings], Chosen]
    """What a verb gets for the flags that choose. Raises ConfigError for offsets that cannot be read."""


@click.group("dead-letters")
def dead_letters() -> None:
    """Bad records: count them, look at them, export those that the present settings can decode. Needs no broker."""


def chosen_dead_letters(command: Callable[..., None]) -> Callable[..., None]:
    """The flags that choose dead letters; the command is called with `choose: Choosing` in their place."""

    @wraps(command)
    def choosing(
        *, types: Sequence[str], reasons: Sequence[str], day: datetime | None, offsets: str | None, **given: Any
    ) -> None:
        command(choose=lambda settings: _chosen(settings, types, reasons, day, offsets), **given)

    decorated: Callable[..., None] = choosing
    for option in (
        click.option("--offsets", help="Only these: [TOPIC:]PARTITION:FIRST[-LAST], comma-separated."),
        click.option("--day", type=click.DateTime(["%Y-%m-%d"]), help="Only of this day, by the Kafka timestamp."),
        click.option("--reason", "reasons", multiple=True, help="Only this reason's code; may be repeated."),
        click.option("--type", "types", multiple=True, help="Only of this event type; may be repeated."),
    ):
        decorated = option(decorated)
    return decorated


def _chosen(
    settings: Settings, types: Sequence[str], reasons: Sequence[str], day: datetime | None, offsets: str | None
) -> Chosen:
    from exporter.operate.chosen import parse_ranges
    from exporter.operate.dead_letters.listing import Chosen

    ranges = parse_ranges(offsets or "", settings.topics or ())
    return Chosen(tuple(types), tuple(reasons), day.date() if day else None, ranges)


def told_of(shown: int, all_rows: int, chosen: Chosen) -> str:
    """The last line; whoever misspells a reason must not take an empty answer for good news."""
    if all_rows or not chosen.of_some:
        return f"{shown:,} of {all_rows:,} rows"
    return "no dead letter is so chosen: `exporter dead-letters list` without a choice shows what there is"


@dead_letters.command("list")
@chosen_dead_letters
@FORMAT
@with_settings(LAKE)
def list_dead_letters(choose: Choosing, output: Output, load: Loading) -> None:
    """How many there are, by event type, reason and day, and where the first and the last stand."""
    from exporter.operate.dead_letters.listing import counts
    from exporter.workbench import open_lake

    settings = load()
    with open_lake(settings) as lake:
        chosen = choose(settings)
        found = counts(lake, chosen)
    output.show([vars(one) for one in found], lambda text: _tell_counts(found, chosen, text))


def _tell_counts(found: Sequence[DeadLetterCount], chosen: Chosen, text: TextOutput) -> None:
    text.table(("event type", "stage", "reason", "day", "rows", "first", "last"), [
        (plain(one.event_type), one.stage, one.code, one.day, counted(one.rows), one.first, one.last)
        for one in found
    ])  # fmt: skip
    rows = sum(one.rows for one in found)
    text.note(told_of(rows, rows, chosen))


@dead_letters.command("show")
@chosen_dead_letters
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Rows to show.")
@click.option("--bytes", "most", type=click.IntRange(min=1), default=2000, show_default=True, help="Bytes of a value.")
@FORMAT
@with_settings(LAKE)
def show_dead_letters(choose: Choosing, limit: int, most: int, output: Output, load: Loading) -> None:
    """Whole rows, one after the other; what a terminal would act upon, or is no text, stands as an escape."""
    from exporter.operate.dead_letters.listing import counts, shown_rows
    from exporter.workbench import open_lake

    settings = load()
    with open_lake(settings) as lake:
        chosen = choose(settings)
        rows = list(shown_rows(lake, chosen, limit, most))
        found = counts(lake, chosen)
    for row in rows:
        output.show(row, partial(_tell_row, row))
    output.note(told_of(len(rows), sum(one.rows for one in found), chosen))


def _tell_row(row: Mapping[str, Any], text: TextOutput) -> None:
    text.line(f"{row['topic']}-{row['partition']}:{plain(row['offset'])}  {plain(row['timestamp'])}")
    for name in ("event_type", "stage", "reason", "key", "value"):
        if row[name] is not None:
            text.line(f"  {name}: {escaped(row[name])}")
    for header in row["headers"]:
        text.line(f"  header {escaped(plain(header['key']))}: {plain(header['value'])}")


@dead_letters.command("replay")
@chosen_dead_letters
@click.option("--apply", is_flag=True, help="Do it; without it nothing is written.")
@FORMAT
@with_settings(VERDICTS | CODEC)
def replay_dead_letters(choose: Choosing, apply: bool, output: Output, load: Loading) -> None:
    """Export again, with their own coordinates, those that the settings in force can decode; the others stay."""
    from exporter.operate.dead_letters.replay import Replay
    from exporter.workbench import growth_of, open_lake, open_registry, routing_of

    settings = load()
    chosen = choose(settings)
    with open_lake(settings) as lake:
        routing = routing_of(settings, lake.session)
        evolving, columns = growth_of(settings, routing)
        rows = Replay(lake, routing, chosen, open_registry(settings), evolving, columns).run(apply)

    def tell(text: TextOutput) -> None:
        text.table(("outcome", "", "rows"), [(row.outcome, row.name, counted(row.rows)) for row in rows])
        done = "done" if apply else "nothing was written: --apply does it"
        text.note(f"{sum(row.rows for row in rows):,} rows; {done}")

    output.show({"applied": apply, "rows": [vars(row) for row in rows]}, tell)
