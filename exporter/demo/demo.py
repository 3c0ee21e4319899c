"""`exporter demo`: everything once, for real, on this machine, in about a minute and a half.

    jars -> broker, DynamoDB -> topic -> events ┐
                                  exporter run ─┴─ kill -9 -> exporter run -> exporter audit -> table, queries

The exporter and the audit are processes of their own, started as a user starts them, with a settings file that
a user can take over. The first exporter is armed to stop itself between a Delta commit and its own knowledge
of it (faults.py); there it is killed. Whatever this module starts is in a session of its own, is ended by its process
id on every way out, and ends by itself if this process is killed. Nothing outside the demo's folder is
written, but for the cache of jars.

    <folder>/exporter.toml   the settings            <folder>/lake/    one Delta table per event type
    <folder>/*.log           what each process said  <folder>/kafka/   the broker's log; its data until it stops
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console

from exporter import faults
from exporter.demo import kitchen, shop
from exporter.demo.child import EXPORT_SECS_MAX, GONE_SECS_MAX, DemoChild, nap
from exporter.demo.derived import derive
from exporter.demo.produce import produce
from exporter.demo.result import differences, read_report, read_tally, show, unknown_commits
from exporter.demo.settings import TOPIC, WAL_TABLE, settings_toml
from exporter.demo.shop_types import EVENT_TYPES
from exporter.demo.stage import Stage
from exporter.demo.story import Story
from exporter.errors import ConfigError, DependencyUnreachable, ExporterError, FoundProblem
from exporter.local import dynamodb as dynamodb_local
from exporter.local.broker import Broker, create_topic
from exporter.local.children import EXPORTER, FOLLOW_PARENT, ended_by_signals, made_empty
from exporter.local.registry import LocalRegistry
from exporter.local.server import CREDENTIALS
from exporter.operate.audit.report import AuditReport
from exporter.spark import jars
from exporter.wal.dynamodb_calls import connect
from exporter.wal.dynamodb_table import create_table
from offsets.intents import WalMismatch, WalUnreachable

PARTITIONS = 4
SEED = 1
KILL_AT_COMMIT_OF = EVENT_TYPES[0].name
"""The table after whose first Delta commit the first exporter is killed: the one with most events, so that this commit
has rows, which the write-ahead log knows of; by then about half of the tables have a commit."""

_PRODUCER = FOLLOW_PARENT + "from exporter.demo.demo import produce_main; produce_main()"


def demo(
    records: int, keep: bool, folder: Path | None, infer: bool = False, avro: bool = False, derives: bool = False
) -> None:
    """Run the demo with `records` events; keep: leave the broker running until Ctrl-C.

    infer: what the events look like is not declared but found out, by `exporter infer`; then none of them is bad. avro:
    they are Avro, and a schema registry on this machine says what they look like. derives: tables are made of tables
    afterwards.

    Raises FoundProblem if the audit is not clean or a child fails, else what the broker and the jars raise.
    """
    place = _make_folder(folder)
    story = Story(Console(stderr=True, highlight=False))
    story.say(f"{records:,} events in {PARTITIONS} partitions, exported, killed once, audited; all in {place}")
    began = time.monotonic()
    with ended_by_signals(), ExitStack() as running:
        _prepare(story)
        broker, endpoint = _start_services(story, place, running)
        registry = _start_registry(story, running) if avro else ""
        stage = Stage(place, broker.bootstrap, endpoint, records, story, running, registry, derives)
        if derives:
            create_topic(broker.bootstrap, kitchen.TOPIC)
        produced = _export_until_killed(stage, _inferred(stage) if infer else None)
        _export_the_rest(stage)
        report = _audit(stage)
        problems = differences(report, produced)
        show(report, produced, place, problems)
        if problems:
            raise FoundProblem("; ".join(problems), f"the topic is kept in {place / 'kafka'}, the logs in {place}")
        if derives:
            derive(stage)
        story.say(f"done in {time.monotonic() - began:.0f} s")
        if keep:
            _wait_for_ctrl_c(story, stage)
    shutil.rmtree(place / "kafka" / "data", ignore_errors=True)


def _make_folder(folder: Path | None) -> Path:
    """An empty folder, absolute. Raises ConfigError if the given one holds something."""
    if folder is None:
        return Path(tempfile.mkdtemp(prefix="exporter-demo-")).absolute()
    place = folder.absolute()
    if not made_empty(place):
        raise ConfigError(f"the folder {place} is not empty", "choose another --folder, or none for a new one")
    return place


def _prepare(story: Story) -> None:
    """All jars, fetched or found. Not the archive of classes: making it takes longer than it saves in three starts."""
    sets = ("spark", "broker", *((dynamodb_local.SET,) if dynamodb_local.runs_here() else ()))
    absent = sum(len(jars.missing(one)) for one in sets)
    known = sum(len(jars.listed(one)) for one in sets)
    with story.step("Jars", f"fetching {absent} of {known}, once" if absent else "") as step:
        jars.find_java()
        jars.fetch(*sets)
        step.result = f"{known - absent} found, {absent} fetched; they are kept in {jars.cache_folder('').parent}"


def _start_services(story: Story, place: Path, running: ExitStack) -> tuple[Broker, str]:
    """The broker with its topic, and DynamoDB with the log's table; they start side by side."""
    with story.step("Kafka broker and DynamoDB", "starting") as step, ThreadPoolExecutor(1) as beside:
        broker = Broker(place / "kafka")
        running.callback(broker.stop)
        starting = beside.submit(_start_dynamodb, running)
        broker.start()
        create_topic(broker.bootstrap, TOPIC, PARTITIONS)
        endpoint = starting.result()
        step.result = f"on {broker.bootstrap}, topic {TOPIC} with {PARTITIONS} partitions; "
        step.result += f"the write-ahead log on {endpoint}" if endpoint else "DynamoDB Local does not run here: no log"
    return broker, endpoint


def _start_registry(story: Story, running: ExitStack) -> str:
    """Its address, once it answers."""
    with story.step("Schema registry", "fetching it once, and starting") as step:
        registry = LocalRegistry()
        running.callback(registry.close)
        registry.start()
        step.result = f"on {registry.url}; it learns the schemas of {len(EVENT_TYPES)} event types"
    return registry.url


def _start_dynamodb(running: ExitStack) -> str:
    """Its address, once the log's table is there; empty where DynamoDB Local cannot run."""
    if not dynamodb_local.runs_here():
        return ""
    dynamodb = dynamodb_local.DynamoDbLocal()
    running.callback(dynamodb.close)
    dynamodb.start()
    os.environ.update(CREDENTIALS)
    try:
        create_table(connect(dynamodb.endpoint), WAL_TABLE)
    except (WalUnreachable, WalMismatch) as error:
        raise DependencyUnreachable(f"DynamoDB Local: {error.message}", "start the demo again") from error
    return dynamodb.endpoint


def _inferred(stage: Stage) -> shop.ShopTally:
    """Produce, then let a sample say what the events look like: the settings file is the one that `infer` writes."""
    known = stage.folder / "known.toml"
    text = settings_toml(stage.bootstrap, stage.lake, stage.records, stage.endpoint, described=False)
    known.write_text(text, "utf-8")
    with stage.story.step("Events, and what they look like", "producing") as step:
        producer = stage.start("produce", _PRODUCER, (stage.bootstrap, str(stage.records), "good"), {})
        producer.wait(time.monotonic() + EXPORT_SECS_MAX)
        arguments = ["infer", "--config", str(known), "--write", str(stage.config), "--format", "json"]
        infer = stage.start("infer", EXPORTER, arguments, {})
        infer.wait(time.monotonic() + EXPORT_SECS_MAX)
        found = json.loads(infer.output())
        where = found["type_from"]["name"]
        step.result = f"{found['records']:,} looked at: {len(found['types'])} event types by `{where}`"
    return read_tally(producer.output())


def _export_until_killed(stage: Stage, produced: shop.ShopTally | None) -> shop.ShopTally:
    """Export until the exporter has stopped itself where it is to be killed; what is not produced yet is, meanwhile."""
    if produced is None:
        said = stage.bootstrap, stage.lake, stage.records, stage.endpoint
        text = settings_toml(*said, registry=stage.registry, derives=stage.derives)
        stage.config.write_text(text, "utf-8")
    fault = f"{faults.Fault.AFTER_DELTA_COMMIT.value}@{KILL_AT_COMMIT_OF}:stop"
    arguments = (stage.bootstrap, str(stage.records), *([stage.registry] if stage.registry else []))
    doing = "the exporter starts" if produced else "producing; the exporter starts"
    with stage.story.step("A first export" if produced else "Events, and a first export", doing) as step:
        exporter = stage.exporter("run-1", "run", fault=fault)
        producer = None if produced else stage.start("produce", _PRODUCER, arguments, {})
        deadline = time.monotonic() + EXPORT_SECS_MAX
        while exporter.state() == "running":
            step.progress(exporter.progress(stage.records))
            if producer and producer.state() == "ended":
                producer.require_success()
            nap(deadline, "the first exporter did not get to its fault point")
        if exporter.state() == "ended":
            raise exporter.failed("ended before it could be killed")
        if producer:
            producer.wait(deadline)
        produced = produced or read_tally(producer.output() if producer else "")
        step.result = (
            f"{produced.records:,} events of {len(produced.rows)} types ({produced.value_bytes / 1e6:.0f} MB, "
            f"{produced.bad.total()} bad in {len(produced.bad)} ways); {exporter.committed:,} rows committed so far"
        )
    _kill(stage, exporter)
    return produced


def _kill(stage: Stage, exporter: DemoChild) -> None:
    """kill -9, and wait until the JVM that it leaves behind is gone by itself."""
    with stage.story.step(f"kill -9 {exporter.pid}", "and its JVM ends by itself") as step:
        orphans = exporter.end()
        if orphans:
            raise FoundProblem(
                f"{len(orphans)} processes of the killed exporter still ran after {GONE_SECS_MAX:.0f} s; killed too",
                "please report this",
            )
        last = unknown_commits(stage.lake, exporter.acknowledged)
        if not last:
            raise FoundProblem("no Delta commit is beyond what the killed exporter knew", f"read {exporter.log}")
        one, more = last[0], f" (and {len(last) - 1} more)" if len(last) > 1 else ""
        commit = f"table {one.table}, version {one.version}, {one.rows:,} rows{more}"
        step.result = f"killed between the Delta commit of {commit} and its knowing of it"


def _export_the_rest(stage: Stage) -> None:
    """The same command again. It knows only what the tables tell."""
    with stage.story.step("The exporter again", "starting") as step:
        exporter = stage.exporter("run-2", "run", "--until-caught-up")
        deadline, told = time.monotonic() + EXPORT_SECS_MAX, False
        while exporter.state() != "ended":
            step.progress(exporter.progress(stage.records))
            if exporter.floors and not told:
                told = True
                step.note(f"Positions read back from the tables; reading goes on at {_offsets(exporter.floors)}.")
                step.note("What single tables have beyond that is skipped.")
                for verdict in exporter.finished:
                    step.note(f"The write-ahead log said started; {verdict}.")
            nap(deadline, "the export was not done")
        exporter.require_success()
        step.result = f"{exporter.committed:,} more rows in {exporter.commits} commits; caught up with the topic"


def _audit(stage: Stage) -> AuditReport:
    """What `exporter audit` finds, in a process that shares nothing with the exporter."""
    with stage.story.step("Audit", "comparing every record of the topic with the rows of all tables") as step:
        child = stage.exporter("audit", "audit", "--format", "json")
        deadline = time.monotonic() + EXPORT_SECS_MAX
        while child.state() != "ended":
            step.progress("")
            nap(deadline, "the audit was not done")
        if child.ended() not in (0, 1) or not child.output():
            child.require_success()
        report = read_report(child.output())
        (stage.folder / "audit.txt").write_text(report.as_text() + "\n", "utf-8")
        step.result = "clean" if report.clean else f"{report.findings} findings"
    return report


def _wait_for_ctrl_c(story: Story, stage: Stage) -> None:
    """--keep: the broker runs on. Ctrl-C is the expected end."""
    story.say(f"the broker runs on at {stage.bootstrap} until Ctrl-C; try for example")
    for verb in ("offsets", "audit"):
        known = " ".join(f"{name}={text}" for name, text in CREDENTIALS.items()) if stage.endpoint else ""
        story.say(f"  {known} exporter {verb} --config {stage.config}".replace("   ", "  "))
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        story.say("stopping the broker")


def _offsets(floors: Mapping[str, int]) -> str:
    """Topic partition -> offset, without the topic: 0:1,200, 1:950."""
    return ", ".join(f"{partition.rpartition('-')[2]}:{offset:,}" for partition, offset in sorted(floors.items()))


def produce_main() -> None:
    """The producing child: `bootstrap records`, and `good` if none is to be bad, or the URL of a registry.

    What it made is JSON on stdout.
    """
    bootstrap, records = sys.argv[1], int(sys.argv[2])
    bad_every = 0 if "good" in sys.argv[3:] else min(shop.BAD_EVERY, records // 20)
    try:
        registry = next((one for one in sys.argv[3:] if one != "good"), "")
        made = produce(bootstrap, TOPIC, records, SEED, partitions=PARTITIONS, bad_every=bad_every, registry=registry)
    except ExporterError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    print(json.dumps(vars(made)))
