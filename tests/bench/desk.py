"""What every part works with: a folder, a broker, and the exporter as a user would run it, watched.

with Desk(...).topic(load) as ...   a broker of its own per part, so that no part pays for another's topics
run(...)                            a process until it ends: its log lines and what it used
running(...)                        the same while it runs, to be stopped
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from exporter.demo import shop as events
from exporter.drill.settings_file import settings_text
from exporter.local.broker import Broker, create_topic
from exporter.local.children import EXPORTER, FOLLOW_PARENT, ChildProcess
from tests.bench.load import Load, Tally, fill
from tests.bench.usage import Usage

ROOT = Path(__file__).parents[2]
CORES = 2
"""Of Spark, for ours and all that it is compared with."""
HEAP = "1g"
GROUP = "bench"
SECS_MAX = 900.0
"""A process that runs longer hangs."""
POLL_SECS = 0.1


@dataclass(frozen=True)
class Filled:
    """A topic and what is in it."""

    bootstrap: str
    name: str
    load: Load
    tally: Tally


@dataclass(frozen=True)
class Run:
    """A process that has ended or still runs. started: seconds since 1970. lines: its log, times made numbers."""

    started: float
    lines: Sequence[Mapping[str, Any]]
    usage: Usage
    ended: float = 0.0

    def at(self, event: str, last: bool = False) -> float:
        """When something was logged first, or last; seconds since 1970. Raises LookupError if never."""
        times = [line["at"] for line in self.lines if line["event"] == event]
        if not times:
            raise LookupError(f"{event} was never logged")
        return float(times[-1 if last else 0])

    def of(self, event: str) -> list[Mapping[str, Any]]:
        """All lines of an event."""
        return [line for line in self.lines if line["event"] == event]

    @property
    def window(self) -> tuple[float, float]:
        """From the moment the positions are known to the last commit: all but the start-up."""
        return self.at("positions_recovered"), self.at("commit_landed", last=True)

    @property
    def secs(self) -> float:
        since, until = self.window
        return until - since

    @property
    def rows(self) -> int:
        """Rows committed, dead letters included."""
        return sum(line["rows"] for line in self.of("commit_landed"))


@dataclass
class Desk:
    """scale: of record numbers and, below 1, of durations."""

    folder: Path
    scale: float = 1.0
    _broker: Broker | None = field(default=None, repr=False)

    def count(self, records: int, least: int = 1) -> int:
        return max(least, int(records * self.scale))

    def secs(self, secs: float, least: float = 4.0) -> float:
        return max(least, secs * min(1.0, self.scale))

    def say(self, words: str) -> None:
        print(f"{time.strftime('%H:%M:%S')} {words}", file=sys.stderr, flush=True)

    @contextmanager
    def broker(self) -> Iterator[Broker]:
        """A fresh one."""
        place = self.folder / f"broker-{uuid.uuid4().hex[:8]}"
        try:
            with Broker(place, heap_mb=512) as broker:
                self._broker = broker
                yield broker
        finally:
            self._broker = None
            shutil.rmtree(place, ignore_errors=True)

    def topic(self, load: Load, count: int) -> Filled:
        """A new topic of the running broker, filled. count: 0 = empty."""
        if self._broker is None:
            raise RuntimeError("no broker runs")
        name, bootstrap = f"bench-{uuid.uuid4().hex[:8]}", self._broker.bootstrap
        create_topic(bootstrap, name, load.partitions, {"max.message.bytes": str(8 << 20)})
        started = time.monotonic()
        tally = fill(bootstrap, name, load, count)
        if count:
            secs, each = time.monotonic() - started, tally.value_bytes / count
            self.say(f"wrote {count:,} records of {each:.0f} bytes in {secs:.0f} s")
        return Filled(bootstrap, name, load, tally)

    def add(self, topic: Filled, count: int) -> None:
        """More records at the end of a topic; its tally stays that of the beginning."""
        fill(topic.bootstrap, topic.name, topic.load, count)

    def lake(self) -> Path:
        """A new, empty folder for tables."""
        return self.folder / f"lake-{uuid.uuid4().hex[:8]}"

    def config(self, topic: Filled, lake: Path | str, **settings: object) -> Path:
        """A settings file: defaults everywhere but for what has none, and what is given."""
        path = self.folder / f"{uuid.uuid4().hex[:8]}.toml"
        path.write_text(settings_toml(topic, lake, settings))
        return path

    def export(self, config: Path, weighed: bool = False) -> Run:
        """The exporter until it has caught up. weighed: as of Usage. Raises RuntimeError if it fails."""
        return self.run([EXPORTER, "run", "--until-caught-up", "--config", str(config)], weighed=weighed)

    def module(self, name: str, arguments: Sequence[str], extra: Mapping[str, str] | None = None) -> Run:
        """`main()` of a module, in a process of its own, until it ends."""
        return self.run([f"{FOLLOW_PARENT}from {name} import main; main()", *arguments], extra)

    def run(self, command: Sequence[str], extra: Mapping[str, str] | None = None, weighed: bool = False) -> Run:
        """A Python program and its arguments, until it ends. extra: environment. Raises RuntimeError."""
        with self.running(command, extra, weighed) as task:
            done = task.wait()
        self.say(f"ran {done.ended - done.started:.0f} s, {done.usage.total():.0f} core-seconds")
        return done

    @contextmanager
    def running(
        self, command: Sequence[str], extra: Mapping[str, str] | None = None, weighed: bool = False
    ) -> Iterator[Task]:
        """The same while it runs; killed on the way out if it still does."""
        with closing(Task(command, extra or {}, self.folder / f"{uuid.uuid4().hex[:8]}.log", weighed)) as task:
            yield task

    @contextmanager
    def exporting(self, config: Path) -> Iterator[Task]:
        """The exporter as a service, which knows its positions."""
        with self.running([EXPORTER, "run", "--config", str(config)]) as task:
            task.until("positions", lambda run: bool(run.of("positions_recovered")))
            yield task


class Task(ChildProcess):
    """One watched process. Its log: what it writes to stderr, and to stdout as lines of JSON with an `event`."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], log: Path, weighed: bool = False
    ) -> None:
        path = os.pathsep.join(filter(None, [str(ROOT), environment.get("PYTHONPATH", "")]))
        super().__init__(command, {**environment, "PYTHONPATH": path}, log)
        self._lines: list[dict[str, Any]] = []
        self.usage = Usage(self.pid, weighed)
        self.usage.start()

    def so_far(self) -> Run:
        """What it has logged by now."""
        self._lines += [{**said.fields, "at": said.at} for said in self.events()[len(self._lines) :]]
        return Run(self.started_at, tuple(self._lines), self.usage, self.ended_at or 0.0)

    def until(self, what: str, happened: Callable[[Run], bool], secs_max: float = 180.0) -> Run:
        """Wait for something in its log. Raises RuntimeError if the process ends before, or on time-out."""
        deadline = time.monotonic() + secs_max
        while not happened(run := self.so_far()):
            if self.ended() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{what} has not come:\n{self.tail()}")
            time.sleep(POLL_SECS)
        return run

    def wait(self, secs_max: float = SECS_MAX) -> Run:
        """Until it ends. Raises RuntimeError if it fails or does not end."""
        code = self.join(secs_max)
        self.usage.stop()
        if code is None:
            raise RuntimeError(f"no end after {secs_max:.0f} s:\n{self.tail()}")
        if code:
            raise RuntimeError(f"ended with {code}:\n{self.tail()}")
        return self.so_far()

    def stop(self) -> Run:
        """SIGTERM, and wait."""
        os.kill(self.pid, signal.SIGTERM)
        return self.wait(120)

    def close(self) -> None:
        """See ChildProcess."""
        self.usage.stop()
        super().close()


def settings_toml(topic: Filled, lake: Path | str, settings: Mapping[str, object]) -> str:
    """The exporter's settings for a topic. settings: scalars that are not the defaults."""
    chosen: dict[str, object] = {
        "brokers": [topic.bootstrap],
        "topics": [topic.name],
        "group": GROUP,
        "table_root": str(lake),
        "spark_master": f"local[{CORES}]",
        "driver_memory": HEAP,
        "record_bytes_max": 10_000_000 if topic.load.size == "huge" else events.RECORD_BYTES_MAX,
        **settings,
    }
    types = {f"types.{name}": {"columns": ddl} for name, ddl in topic.load.declared().items()}
    kinds = {"type_from": {"kind": "json", "name": "type"}, "event_time": {"kind": "json", "path": "ts"}}
    return settings_text(chosen, {**kinds, **types})


def checked(run: Run, topic: Filled) -> Run:
    """The run, if it committed each record of its topic. Raises RuntimeError."""
    if run.rows != topic.tally.records:
        raise RuntimeError(f"{run.rows:,} rows were committed of {topic.tally.records:,} records")
    return run
