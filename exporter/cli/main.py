"""The verbs: parse, call, print, exit code. Data on stdout, everything else on stderr."""

from __future__ import annotations

import gc
import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from exporter import __version__, log
from exporter.cli.options import click_options
from exporter.cli.output import FORMAT, as_table, plain, print_table
from exporter.cli.telling import in_a_thread, overdue, told
from exporter.core.routing import DEAD_LETTERS
from exporter.ending import ending
from exporter.errors import ConfigError, DependencyUnreachable, ExporterError, FoundProblem, JvmEnded
from exporter.faults import Fault, point
from exporter.settings.load import load
from exporter.settings.model import CONFIG_DEFAULT, SCALARS, Settings
from exporter.settings.reference import example_toml, reference_page
from exporter.stores.writable import require_room
from exporter.task.again import begin_anew
from exporter.text import escaped

LAKE = frozenset(("brokers", "topics", "topics_pattern", "group", "app", "table_root", "spark_master", "driver_memory"))
"""Settings that say where topics and tables are: what no verb can do without."""
VERDICTS = LAKE | {"isolation", "generation", "record_bytes_max", "event_time_min", "event_time_ahead_max_secs"}
VERDICTS |= {"unknown_fields", "new_type"}
"""And those that say what becomes of a record: for whoever compares or decodes."""
LOG = frozenset(("wal_table", "wal_mode", "wal_endpoint"))
MAINTAINED = frozenset(("maintain_cron", "maintain_file_bytes_max"))
EXPORTED = frozenset(SCALARS) - MAINTAINED
"""What a task takes."""


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="exporter")
def cli() -> None:
    """Kafka topics of many event types in, one Delta table per type out, each record exactly once."""
    log.configure()


@cli.command()
@click.option("--until-caught-up", is_flag=True, help="Stop at the ends that the topic has now (for cron).")
@click_options(EXPORTED)
def run(until_caught_up: bool, config: Path | None, flags: Mapping[str, object]) -> None:
    """Export until stopped."""
    from exporter.spark import session as spark

    gc.disable()  # until the task is at work: all that comes before stays
    settings = _load(config, flags)
    require_room(settings.root, (DEAD_LETTERS, *settings.types), settings.sync)
    point(Fault.BEFORE_SPARK)
    started = spark.starting(settings.spark_master, settings.driver_memory, f"exporter {settings.app}")
    from exporter.cli.progress import ProgressDisplay  # these take as long as the JVM does
    from exporter.task.build import run as run_task

    try:
        with ProgressDisplay() as display:
            run_task(settings, started, until_caught_up, display.update)
    except JvmEnded as ended:
        begin_anew(ended.unread)
        raise


@cli.command()
def prepare() -> None:
    """Fetch the jars and make the archive that shortens each start by seconds: once, for images and new machines."""
    from exporter.operate.prepare import prepare as run_prepare
    from exporter.spark.class_data import home

    made = run_prepare()
    click.echo(f"{'made' if made else 'nothing to do'}: {home()}")


@cli.command()
@click.option("--create-wal", is_flag=True, help="Make the write-ahead log's table first; else nothing is made.")
@click.option("--deep", is_flag=True, help="Also compare every record and row, and the log: are the rows there?")
@FORMAT
@click_options(EXPORTED)
def check(create_wal: bool, deep: bool, output: str, config: Path | None, flags: Mapping[str, object]) -> None:
    """Would a task start here? Settings, Java, jars, brokers, topics, log, port, tables; leaves nothing behind."""
    from exporter.operate.check.check import check as findings

    bad = 0
    kind: type[ExporterError] = FoundProblem
    for finding in findings(_load(config, flags), create_wal, deep):
        bad += finding.level == "error"
        kind = ConfigError if finding.in_settings else kind
        if output == "json":
            click.echo(json.dumps(vars(finding)))
        else:
            click.echo(f"{finding.level:5}  {finding.what}: {finding.says}")
            if finding.hint:
                click.echo(f"       hint: {finding.hint}")
    if bad:
        raise kind(f"{bad} of the checks found an error")


@cli.command()
@FORMAT
@click_options(EXPORTED)
def plan(output: str, config: Path | None, flags: Mapping[str, object]) -> None:
    """What a start would do with each partition, and why; writes nothing. Exit code 1 if it would not run."""
    from exporter.operate.start_plan import start_plan
    from exporter.workbench import open_workbench

    settings = _load(config, flags)
    bench = open_workbench(settings)
    try:
        found = start_plan(bench, settings)
    finally:
        bench.close()
    if output == "json":
        click.echo(json.dumps(found.as_dict()))
    else:
        columns = ("partition", "verdict", "floor", "held back by", "end", "lag")
        print_table(columns, [
            (str(one.tp), one.verdict, plain(one.floor), ",".join(one.held_back_by) or "-", str(one.end),
             _count(one.lag)) for one in found.partitions
        ])  # fmt: skip
        for one in found.partitions:
            for step in one.steps:
                click.echo(f"{one.tp}: would {step}")
        for refused in found.refusals:
            click.echo(f"would exit {refused.exit_code}: {refused.reason}\n  hint: {refused.hint}")
    if found.refusals:
        raise FoundProblem("a start would not run")


@cli.command("config")
@click.option(
    "--write-example", is_flag=True, help=f"Print {CONFIG_DEFAULT} with every setting explained, and do nothing else."
)
@click.option("--write-reference", is_flag=True, help="Print the handbook's page of settings, and do nothing else.")
@FORMAT
@click_options(SCALARS)
def show_config(
    write_example: bool, write_reference: bool, output: str, config: Path | None, flags: Mapping[str, object]
) -> None:
    """Each setting's value and where it came from, secrets masked; needs neither broker nor Java."""
    from exporter.settings.view import setting_rows

    if write_example:
        click.echo(example_toml(), nl=False)
        return
    if write_reference:
        click.echo(reference_page(), nl=False)
        return
    rows = list(setting_rows(_load(config, flags)))
    if output == "json":
        click.echo(json.dumps([vars(row) for row in rows]))
        return
    print_table(("setting", "value", "from"), [(row.name, plain(row.value), row.origin) for row in rows])


@cli.command()
@FORMAT
@click_options(VERDICTS | LOG)
def offsets(output: str, config: Path | None, flags: Mapping[str, object]) -> None:
    """Position, end and lag per event type and partition: the tables, their files' names and the log side by side."""
    from exporter.operate.offsets_view import offset_rows
    from exporter.workbench import open_workbench

    settings = _load(config, flags)
    bench = open_workbench(settings)
    try:
        rows = list(offset_rows(bench, settings))
    finally:
        bench.close()
    if output == "json":
        click.echo(json.dumps([row.as_dict() for row in rows]))
        return
    columns = ("event type", "partition", "position", "end", "lag", "named", "logged", "started", "verdict", "")
    print_table(columns, [
        (r.event_type, str(r.tp), plain(r.position), str(r.end), _count(r.lag), plain(r.named), plain(r.logged),
         _count(r.started), r.verdict or "-", r.says) for r in rows
    ])  # fmt: skip


@cli.command()
@click.option("--watch", is_flag=True, help="Show it again every two seconds, until Ctrl-C.")
@click.option("--wait-caught-up", is_flag=True, help="Wait until all that is in the topics now is committed.")
@click.option("--timeout", type=click.FloatRange(min=0), default=300, show_default=True, help="Seconds to wait so.")
@click.option("--url", default="", help="Health server of a task, such as http://host:9108.  [default: from http_port]")
@click.option("--tables", is_flag=True, help="Do not ask a task, look at the tables.")
@FORMAT
@click_options(VERDICTS | LOG | {"http_port", "http_host"})
def status(
    watch: bool,
    wait_caught_up: bool,
    timeout: float,
    url: str,
    tables: bool,
    output: str,
    config: Path | None,
    flags: Mapping[str, object],
) -> None:
    """How far the export is: from a task's health server if one answers, else from the tables."""
    from exporter.operate import status as how_far

    settings = _load(config, flags)
    try:
        with how_far.source(settings, url, tables) as ask:
            if wait_caught_up:
                how_far.wait_caught_up(ask, timeout)
            _print_status(ask(), output, watch)
            while watch:
                time.sleep(how_far.WATCH_SECS)
                try:
                    _print_status(ask(), output, watch)
                except DependencyUnreachable as silent:  # a task that starts again is worth waiting for
                    _say(f"{silent.message}; asked again every {how_far.WATCH_SECS:.0f} s")
    except KeyboardInterrupt:
        if not watch:
            raise


def _print_status(found: dict[str, Any], output: str, watch: bool) -> None:
    """One look; while watching, a terminal shows one screen of it."""
    from exporter.operate import status as how_far

    if output == "json":
        click.echo(json.dumps(found))
        return
    console = Console()
    screen = watch and console.is_terminal
    head = how_far.head_lines(found)
    room = max(5, console.height - len(head) - 5) if screen else None
    shown, left_out = how_far.rows(found, room)
    columns, fitting, numbers = how_far.fitted(shown, console.width if screen else None)
    if screen and room is not None:
        lines = len(console.render_lines(as_table(columns, fitting, numbers)))
        if lines > room + 4:  # long names take several lines each
            shown, left_out = how_far.rows(found, max(1, len(shown) * room // lines))
            columns, fitting, numbers = how_far.fitted(shown, console.width)
        console.clear()
    for line in head:
        click.echo(escaped(line))
    print_table(columns, fitting, numbers)
    if left_out:
        click.echo(f"and {left_out:,} more, none further behind")


@cli.command()
@click.option("--day", type=click.DateTime(["%Y-%m-%d"]), help="Only rows of this event day.")
@click.option("--from-offsets", help="Only offsets at or after these: [TOPIC:]PARTITION:OFFSET, comma-separated.")
@FORMAT
@click_options(VERDICTS)
def audit(day: Any, from_offsets: str | None, output: str, config: Path | None, flags: Mapping[str, object]) -> None:
    """Prove from the topics and the tables alone that each offset is where it must be exactly once."""
    from exporter.kafka.options import spark_kafka_options
    from exporter.operate.audit.audit import audit as run_audit
    from exporter.operate.chosen import parse_offsets
    from exporter.workbench import open_workbench

    settings = _load(config, flags)
    starts = parse_offsets(from_offsets, settings.selection) if from_offsets else None
    bench = open_workbench(settings)
    try:
        only: date | None = day.date() if day else None
        report = run_audit(
            bench.session, bench.lake, bench.topics, bench.routing, spark_kafka_options(settings), only, starts
        )
    finally:
        bench.close()
    click.echo(json.dumps(report.as_dict()) if output == "json" else report.as_text())
    if not report.clean:
        raise FoundProblem("the audit found offsets that are not where they must be exactly once")


@cli.command()
@click.option("--apply", is_flag=True, help="Delete the files; without it they are only listed.")
@FORMAT
@click_options(LAKE)
def sweep(apply: bool, output: str, config: Path | None, flags: Mapping[str, object]) -> None:
    """Data files that killed tasks left behind and that no commit can name any more; needs no broker."""
    from exporter.operate.maintain.sweep import sweep as run_sweep
    from exporter.workbench import open_lake

    lake = open_lake(_load(config, flags))
    try:
        swept = list(run_sweep(lake, apply))
    finally:
        lake.session.stop()
    if output == "json":
        click.echo(json.dumps([vars(table) for table in swept]))
        return
    sums = [(t.event_type, len(t.paths), t.bytes, t.deleted) for t in swept]
    print_table(("event type", "files", "bytes", "deleted"), [(name, *map(_count, of)) for name, *of in sums])
    files, size, deleted = (sum(column) for column in zip((0, 0, 0), *(of for _, *of in sums), strict=True))
    told = f"{deleted:,} deleted" if apply else "nothing was deleted" + (": --apply does it" if files else "")
    _say(f"{files:,} files of {size:,} bytes in {len(sums):,} tables can go; {told}")


@cli.command()
@click.option("--types", default="", help="Only the tables of these event types, comma-separated.")
@click.option("--schedule", is_flag=True, help="Stay, and work at the times of `maintain_cron`, until stopped.")
@click.option("--apply", is_flag=True, help="Do it; without it nothing is written or deleted.")
@FORMAT
@click_options(LAKE | MAINTAINED)
def maintain(
    types: str, schedule: bool, apply: bool, output: str, config: Path | None, flags: Mapping[str, object]
) -> None:
    """OPTIMIZE closed days, checkpoint, sweep and VACUUM the tables, while tasks go on; needs no broker."""
    from exporter.operate.maintain.run import maintain as run_maintain

    if schedule and not apply:
        raise click.UsageError("--schedule needs --apply: a dry run is for once")
    only, as_json = {name for name in types.split(",") if name}, output == "json"

    def told(step: Any) -> None:
        if as_json:
            click.echo(json.dumps(step.as_dict()))

    steps = run_maintain(_load(config, flags), only, apply, schedule, told)
    if schedule:
        return
    if not as_json:
        rows = [(s.table, s.what, s.day, _count(s.files), _count(s.bytes), s.outcome, s.says) for s in steps]
        print_table(("table", "step", "day", "files", "bytes", "outcome", ""), rows)
        outcomes = Counter(step.outcome for step in steps)
        sums = ", ".join(f"{count:,} {outcome}" for outcome, count in sorted(outcomes.items()))
        _say(f"{len(steps):,} steps in {len({step.table for step in steps}):,} tables: {sums or 'nothing to do'}")
    if any(step.outcome == "due" for step in steps):
        _say("nothing was written: --apply does it")
    if failed := sum(step.outcome == "failed" for step in steps):
        raise FoundProblem(f"{failed} of the steps failed", "the lines above say why; the other tables were maintained")


@cli.command()
@click.option(
    "--output", "path", default="report.html", show_default=True, help="Where the page is written; - for stdout."
)
@click_options(LAKE | {"isolation"})
def report(path: str, config: Path | None, flags: Mapping[str, object]) -> None:
    """One HTML page: lag, commits, files and dead letters, from the tables; the lag needs a broker that answers."""
    from exporter.operate.report.facts import facts, write
    from exporter.operate.report.page import report_page
    from exporter.workbench import open_lake

    settings = _load(config, flags)
    lake = open_lake(settings)
    try:
        text = report_page(facts(lake, settings))
    finally:
        lake.session.stop()
    if path == "-":
        click.echo(text)
    else:
        write(text, path)
        click.echo(path)


@cli.group("dead-letters")
def dead_letters() -> None:
    """Bad records: count them, look at them, export those that the present settings can decode. Needs no broker."""


def chosen_letters(command: Any) -> Any:
    """The flags that choose dead letters."""
    for option in (
        click.option("--offsets", help="Only these: [TOPIC:]PARTITION:FIRST[-LAST], comma-separated."),
        click.option("--day", type=click.DateTime(["%Y-%m-%d"]), help="Only of this day, by the Kafka timestamp."),
        click.option("--reason", "reasons", multiple=True, help="Only this reason's code; may be repeated."),
        click.option("--type", "types", multiple=True, help="Only of this event type; may be repeated."),
    ):
        command = option(command)
    return command


def _chosen(settings: Settings, types: Sequence[str], reasons: Sequence[str], day: Any, offsets: str | None) -> Any:
    from exporter.operate.chosen import parse_ranges
    from exporter.operate.letters.letters import Chosen

    ranges = parse_ranges(offsets or "", settings.topics or ())
    return Chosen(tuple(types), tuple(reasons), day.date() if day else None, ranges)


def _told_of(shown: int, all_rows: int, chosen: Any) -> str:
    """The last line; whoever misspells a reason must not take an empty answer for good news."""
    if all_rows or not chosen.of_some:
        return f"{shown:,} of {all_rows:,} rows"
    return "no dead letter is so chosen: `exporter dead-letters list` without a choice shows what there is"


@dead_letters.command("list")
@chosen_letters
@FORMAT
@click_options(LAKE)
def list_letters(
    types: Sequence[str],
    reasons: Sequence[str],
    day: Any,
    offsets: str | None,
    output: str,
    config: Path | None,
    flags: Mapping[str, object],
) -> None:
    """How many there are, by event type, reason and day, and where the first and the last stand."""
    from exporter.operate.letters.letters import counts
    from exporter.workbench import open_lake

    settings = _load(config, flags)
    lake = open_lake(settings)
    try:
        chosen = _chosen(settings, types, reasons, day, offsets)
        found = counts(lake, chosen)
    finally:
        lake.session.stop()
    if output == "json":
        click.echo(json.dumps([vars(one) for one in found]))
        return
    print_table(("event type", "stage", "reason", "day", "rows", "first", "last"), [
        (plain(one.event_type), one.stage, one.code, one.day, _count(one.rows), one.first, one.last)
        for one in found
    ])  # fmt: skip
    rows = sum(one.rows for one in found)
    _say(_told_of(rows, rows, chosen))


@dead_letters.command("show")
@chosen_letters
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Rows to show.")
@click.option("--bytes", "most", type=click.IntRange(min=1), default=2000, show_default=True, help="Bytes of a value.")
@FORMAT
@click_options(LAKE)
def show_letters(
    types: Sequence[str],
    reasons: Sequence[str],
    day: Any,
    offsets: str | None,
    limit: int,
    most: int,
    output: str,
    config: Path | None,
    flags: Mapping[str, object],
) -> None:
    """Whole rows, one after the other; what a terminal would act upon, or is no text, stands as an escape."""
    from exporter.operate.letters.letters import counts, shown_rows
    from exporter.workbench import open_lake

    settings = _load(config, flags)
    lake = open_lake(settings)
    try:
        chosen = _chosen(settings, types, reasons, day, offsets)
        rows = list(shown_rows(lake, chosen, limit, most))
        found = counts(lake, chosen)
    finally:
        lake.session.stop()
    for row in rows:
        if output == "json":
            click.echo(json.dumps(row))
            continue
        click.echo(f"{row['topic']}-{row['partition']}:{plain(row['offset'])}  {plain(row['timestamp'])}")
        for name in ("event_type", "stage", "reason", "key", "value"):
            if row[name] is not None:
                click.echo(f"  {name}: {escaped(row[name])}")
        for header in row["headers"]:
            click.echo(f"  header {escaped(plain(header['key']))}: {plain(header['value'])}")
    _say(_told_of(len(rows), sum(one.rows for one in found), chosen))


@dead_letters.command("replay")
@chosen_letters
@click.option("--apply", is_flag=True, help="Do it; without it nothing is written.")
@FORMAT
@click_options(VERDICTS)
def replay_letters(
    types: Sequence[str],
    reasons: Sequence[str],
    day: Any,
    offsets: str | None,
    apply: bool,
    output: str,
    config: Path | None,
    flags: Mapping[str, object],
) -> None:
    """Export again, with their own coordinates, those that the settings in force can decode; the others stay."""
    from exporter.operate.letters.replay import Replay
    from exporter.workbench import checked_routing, open_lake, parse_schemas

    settings = _load(config, flags)
    chosen = _chosen(settings, types, reasons, day, offsets)
    lake = open_lake(settings)
    try:
        routing = checked_routing(settings, parse_schemas(lake.session, dict(settings.declared)))
        rows = Replay(lake, routing, chosen).run(apply)
    finally:
        lake.session.stop()
    if output == "json":
        click.echo(json.dumps({"applied": apply, "rows": [vars(row) for row in rows]}))
        return
    print_table(("outcome", "", "rows"), [(row.outcome, row.name, _count(row.rows)) for row in rows])
    _say(f"{sum(row.rows for row in rows):,} rows; {'done' if apply else 'nothing was written: --apply does it'}")


@cli.command()
@click.option("--rewind", "action", flag_value="rewind", help="A table was restored, overwritten, replaced or removed.")
@click.option("--rebase", "action", flag_value="rebase", help="The topic was deleted and created again.")
@click.option("--log", "action", flag_value="log", help="The write-ahead log lags behind the tables, or was lost.")
@click.option("--adopt", "former", metavar="APP", help="The tables are another app's: go on with them under ours.")
@click.option(
    "--skip",
    "skipped",
    metavar="TOPIC:PARTITION:FIRST[-LAST]",
    help="Give up records that no task gets past; comma-separated.",
)
@click.option("--apply", is_flag=True, help="Do it; without it nothing is written.")
@FORMAT
@click_options(VERDICTS | LOG | {"first_position"})
def repair(
    action: str | None,
    former: str | None,
    skipped: str | None,
    apply: bool,
    output: str,
    config: Path | None,
    flags: Mapping[str, object],
) -> None:
    """Put positions right after an accident; shows what it would do unless --apply is given."""
    from exporter.kafka.options import spark_kafka_options
    from exporter.operate.repair.reading import NothingToRepair
    from exporter.operate.repair.repair import repair as run_repair
    from exporter.operate.repair.skip import skipped_offsets
    from exporter.workbench import first_position, open_journal, open_workbench

    asked = [action, former and "adopt", skipped and "skip"]
    if len(what := [one for one in asked if one]) != 1:
        raise click.UsageError("give one of --rewind, --rebase, --log, --adopt APP and --skip OFFSETS")
    settings = _load(config, flags)
    offsets = skipped_offsets(skipped or "", settings.topics or ())
    bench = open_workbench(settings)
    try:
        options = spark_kafka_options(settings)
        journal = open_journal(settings, bench.routing)
        rows = run_repair(bench, options, what[0], former or "", first_position(settings), apply, journal, offsets)
    except NothingToRepair as nothing:
        _say(nothing.message)
        rows = []
    finally:
        bench.close()
    if output == "json":
        click.echo(json.dumps({"applied": apply, "changes": [row.as_dict() for row in rows]}))
        return
    columns = ("table", "partition", "position", "becomes", "files out", "")
    shown = [(r.table, plain(r.tp), plain(r.old), plain(r.new), _count(r.removed), r.says) for r in rows]
    if rows:
        print_table(columns, shown)
        done = "done" if apply else "nothing was written: --apply does it"
        _say(f"{len(rows):,} positions in {len({row.table for row in rows}):,} tables; {done}")


@cli.command()
@click.option("--records", type=click.IntRange(min=1000), default=200_000, show_default=True, help="Events to produce.")
@click.option("--keep", is_flag=True, help="Keep the broker running until Ctrl-C.")
@click.option("--folder", type=click.Path(path_type=Path), help="Where the lake is written (default: a new folder).")
def demo(records: int, keep: bool, folder: Path | None) -> None:
    """A real broker, mixed events, an export that is killed once, an audit, and what to query next."""
    from exporter.demo.demo import demo as run_demo

    run_demo(records, keep, folder)


@cli.command()
@click.option("--scenario", default="all", show_default=True, help="Some of those that --list names: a,b")
@click.option("--list", "names", is_flag=True, help="Name the scenarios, and do nothing else.")
@click.option("--runs", type=click.IntRange(min=1), default=1, show_default=True, help="Runs of each scenario.")
@click.option("--kills", type=click.IntRange(min=1), default=10, show_default=True, help="In a run of random-kills.")
@click.option("--seed", type=int, default=1, show_default=True, help="Same seed, same schedule.")
@click.option("--records", type=click.IntRange(min=100), default=2000, show_default=True, help="Backlog of each run.")
@click.option("--folder", type=click.Path(path_type=Path), help="Where it works (default: a new folder).")
@click.option("--resume", is_flag=True, help="Go on with the drill in --folder: clean runs are not done again.")
@click.option("--config", type=click.Path(path_type=Path), help="Settings whose brokers and DynamoDB are used.")
@click.option("--keep", is_flag=True, help="Keep settings, logs and lakes of clean runs too.")
@click.option("--minutes", type=click.FloatRange(min=0), default=0, help="Begin no run later; the length of a soak.")
@FORMAT
def drill(
    scenario: str,
    names: bool,
    runs: int,
    kills: int,
    seed: int,
    records: int,
    folder: Path | None,
    resume: bool,
    config: Path | None,
    keep: bool,
    minutes: float,
    output: str,
) -> None:
    """Kill, stop and cut off real exporters under load, let them recover, audit.

    On services of its own, or with --config on given ones: with topics, groups, tables (in --folder) and write-ahead
    logs of its own, which it removes afterwards. Nothing else is touched.
    """
    from exporter.drill import drills
    from exporter.drill.record import summary
    from exporter.drill.scenarios import SCENARIOS

    if names:
        for one in SCENARIOS.values():
            click.echo(f"{one.name:24} {one.what}")
        return
    log.silence("kafka")  # the drill's own clients are cut off too
    given = _load(config, {}) if config is not None else None
    book = drills.drill(drills.Options(scenario, runs, seed, records, folder, resume, minutes, kills, given, keep))
    click.echo(json.dumps(summary(book.runs)) if output == "json" else drills.as_text(book))
    drills.require_clean(book)


def _load(config: Path | None, flags: Mapping[str, object]) -> Settings:
    return load(config, flags, os.environ)


def _count(number: int | None) -> str:
    """How many of something: thousands are set apart, an offset's are not."""
    return "-" if number is None else f"{number:,}"


def _say(text: str) -> None:
    """To whoever reads along, not to whoever reads the data."""
    click.echo(text, err=True)


def main() -> None:
    """The console script, once signals are taken over (entry.py): what ends the verb is told, and is its exit code."""
    ending.install(sys.argv[1:])
    ending.tell, threading.excepthook = overdue, in_a_thread
    ending.exit(_exit_code(lambda: cli(standalone_mode=False)))


def _exit_code(verb: Callable[[], Any]) -> int:
    try:
        verb()
    except click.exceptions.Exit as done:
        return int(done.exit_code)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return 130
    except Exception as error:  # noqa: BLE001 - whatever it is, this is the end
        return told(error)
    return 0
