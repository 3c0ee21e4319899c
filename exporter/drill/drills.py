"""The verb: services up, run after run, each into the book, services down; one more run may follow another day.

    <folder>/drill-<seed>.json          the book: every run, and their summary; what --resume reads
    <folder>/drill-<seed>.html          the same for people
    <folder>/<scenario>-<run>/          settings, logs and lake of a run; stays only if it is not clean
"""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import click

from exporter import __version__
from exporter.drill.helper import Helper
from exporter.drill.lakes import lakes_of
from exporter.drill.record import Book, RunRecord, read_book, summary
from exporter.drill.report import as_html
from exporter.drill.run import Run, Size
from exporter.drill.scenarios import SCENARIOS, Scenario
from exporter.drill.schedule import KILLS, random_of
from exporter.drill.services import Services, given_services, own_services
from exporter.errors import ConfigError, ExporterError, FoundProblem
from exporter.local.children import ended_by_signals, made_empty
from exporter.operate.prepare import prepare
from exporter.settings.model import Settings
from exporter.spark import class_data, jars


@dataclass(frozen=True)
class Options:
    """scenario: names with commas, or `all`. runs: of each. records: backlog of each. keep: folders of clean runs too.

    minutes: after which no run begins, and how long a soak lasts; 0: no limit. given: settings whose brokers and
    DynamoDB are used; None: services of its own. store: where the lakes stand, `file` or `s3`.
    """

    scenario: str = "all"
    runs: int = 1
    seed: int = 1
    records: int = 2000
    folder: Path | None = None
    resume: bool = False
    minutes: float = 0.0
    kills: int = KILLS
    given: Settings | None = None
    keep: bool = False
    store: str = "file"


def drill(options: Options) -> Book:
    """Do the runs that are not done. Raises FoundProblem at the end if one was not clean, ConfigError before."""
    chosen = _chosen(options.scenario)
    folder = _folder(options)
    book = _book(options, folder)
    done = book.done()
    waiting = [(one, run) for run in range(1, options.runs + 1) for one in chosen if (one.name, run) not in done]
    with ended_by_signals(), ExitStack() as running:
        if waiting:
            lakes = lakes_of(options.store, options.given)
            running.callback(lakes.close)
            jars.fetch("spark", "broker", "dynamodb", *lakes.jar_sets)
            if class_data.ready() is None:
                _say("making an archive of Spark's classes, once")
                prepare()
            services = own_services() if options.given is None else given_services(options.given)
            running.callback(services.close)
            services.lakes = lakes
            helper = Helper(folder / "helper.log", lakes.store("", folder))
            running.callback(helper.close)
        began = time.monotonic()
        for number, (scenario, run) in enumerate(waiting, 1):
            if scenario.needs and scenario.needs not in services.own:
                _say(f"{scenario.name}: left out, it needs a {scenario.needs} of its own")
                continue
            if options.minutes and time.monotonic() - began > options.minutes * 60:
                _say(f"{options.minutes:.0f} minutes are over; --resume goes on")
                break
            record = _play(scenario, run, options, services, helper, folder)
            book.add(record)
            _keep(book, folder)
            _say(f"{number}/{len(waiting)} {line(record)}")
    _keep(book, folder)
    return book


def _play(
    scenario: Scenario, number: int, options: Options, services: Services, helper: Helper, folder: Path
) -> RunRecord:
    """One run, with everything that it made removed again. What went wrong is in the record; Ctrl-C is raised."""
    record = RunRecord(scenario.name, number, options.seed)
    place = folder / f"{scenario.name}-{number}"
    shutil.rmtree(place, ignore_errors=True)
    rng = random_of(options.seed, scenario.name, number)
    size = Size(options.records, scenario.partitions, options.kills, options.minutes)
    run = Run(services, helper, place, record, rng, size)
    record.failure = "not done"
    try:
        run.open(scenario.config)
        scenario.play(run)
        run.sum_up()
        record.failure = ""
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the run's failure, and the next one goes on
        record.failure = str(error) if isinstance(error, ExporterError) else f"{type(error).__name__}: {error}"
        run.sum_up()
    finally:
        try:
            run.close(keep=not record.ok or options.keep)
        except ExporterError as error:
            if record.ok:
                raise
            record.failure = f"{record.failure}; and then: {error.message}"  # what went wrong first is the reason
        if record.ok and not options.keep:
            shutil.rmtree(place, ignore_errors=True)
    return record


def line(record: RunRecord) -> str:
    """One run in one line."""
    times = ", ".join(f"{one.recovered_secs:.1f}" for one in record.strikes if one.recovered_secs is not None)
    told = (
        f"{record.scenario} {record.run}: {'clean' if record.ok else 'NOT CLEAN'} in {record.secs:.0f} s; "
        f"{record.records:,} records, {len(record.strikes)} strikes, recovered after {times or '-'} s; "
        f"{record.reread:,} read again, {record.orphans} orphans, {record.refused} refused"
    )
    return told if record.ok else f"{told}\n    {record.reason}"


def as_text(book: Book) -> str:
    """The summary, a line per thing."""
    told = summary(book.runs)
    secs, parts = told["recovery_secs"], told["recovery_parts_median_secs"]
    lines = [f"{told['clean']} of {told['runs']} runs clean, {told['minutes']} min; {told['lives']} lives of tasks"]
    lines += [f"{told['kills']} kill -9, {told['strikes']} strikes in all, {told['recovered']} recovered from"]
    if secs:
        lines += ["kill -9 to the first new commit, s: " + ", ".join(f"{name} {value}" for name, value in secs.items())]
    if parts:
        lines += ["of it, medians, s: " + ", ".join(f"{name} {value}" for name, value in parts.items())]
    lines += [
        f"{told['records']:,} records, {told['reread']:,} read again; {told['commits']:,} commits, {told['refused']} "
        f"refused; {told['orphans']} orphans left; {told['checks']} naive checks, {told['audits']} audits"
    ]
    return "\n".join([*lines, *told["failed"]])


def require_clean(book: Book) -> None:
    """Raises FoundProblem if a run of the book was not clean."""
    bad = [f"{record.scenario} {record.run}" for record in book.runs if not record.ok]
    if bad:
        raise FoundProblem(f"not clean: {', '.join(bad)}", "each has its settings, logs and lake in the drill's folder")


def _chosen(name: str) -> Sequence[Scenario]:
    if name == "all":
        return [one for one in SCENARIOS.values() if not one.alone]
    names = name.split(",")
    for one in names:
        if one not in SCENARIOS:
            raise ConfigError(f"there is no scenario {one!r}", f"all, or some of {','.join(SCENARIOS)}")
    return [SCENARIOS[one] for one in names]


def _folder(options: Options) -> Path:
    if options.folder is None:
        if options.resume:
            raise ConfigError("--resume needs the --folder of the drill that it resumes")
        return Path(tempfile.mkdtemp(prefix="exporter-drill-")).absolute()
    folder = options.folder.absolute()
    if not made_empty(folder) and not options.resume:
        raise ConfigError(f"the folder {folder} is not empty", "choose another --folder, or --resume")
    return folder


def _book(options: Options, folder: Path) -> Book:
    """The book so far. Raises ConfigError if it cannot be read, or is of another kind of store."""
    path = folder / f"drill-{options.seed}.json"
    if not options.resume or not path.exists():
        return Book(options.seed, environment(options.store))
    another = "start one anew in another --folder"
    try:
        book = read_book(path.read_text("utf-8"))
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path} is no drill's book: {error}", another) from error
    if (store := book.environment.get("store", "file")) != options.store:
        raise ConfigError(f"{path} is of a drill with --store {store}", another)
    return book


def environment(store: str) -> dict[str, str]:
    """Machine and versions, and where the tables are."""
    java = jars.find_java().resolve().parent.parent / "release"
    lines = java.read_text("utf-8").splitlines() if java.exists() else []
    told = dict(one.split("=", 1) for one in lines if "=" in one)
    return {
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "python": platform.python_version(),
        "java": told.get("JAVA_VERSION", "?").strip('"'),
        "exporter": __version__,
        "store": store,
        **{name: version(name) for name in ("pyspark", "kafka-python", "pyarrow", "boto3")},
    }


def _keep(book: Book, folder: Path) -> None:
    _write(folder / f"drill-{book.seed}.json", book.to_json())
    _write(folder / f"drill-{book.seed}.html", as_html(book))


def _write(path: Path, text: str) -> None:
    """Whole or not at all."""
    fresh = path.with_suffix(".new")
    fresh.write_text(text, "utf-8")
    fresh.replace(path)


def _say(text: str) -> None:
    click.echo(text, err=True)
