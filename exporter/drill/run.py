"""One run of a scenario: a topic, a lake and a log of its own, the tasks that work on them, and what is waited for.

Everything waits in `wait`, which also looks at what the tables' logs and the tasks tell (timeline.py).
"""

from __future__ import annotations

import re
import signal
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from kafka import TopicPartition as KafkaTopicPartition
from kafka.admin import KafkaAdminClient

from exporter.core.routing import DEAD_LETTERS
from exporter.drill.helper import Helper
from exporter.drill.producer import TYPES, DrillRecord, Load, mixed
from exporter.drill.record import RunRecord, Strike
from exporter.drill.schedule import KILLS
from exporter.drill.services import Services
from exporter.drill.settings_file import SCALARS, write_settings
from exporter.drill.tasks import GONE_SECS_MAX, Task
from exporter.drill.timeline import Timeline
from exporter.errors import FoundProblem
from exporter.local.plain import PlainCommit, PlainTopic, problems
from offsets.positions import live_position
from offsets.ranges import TopicPartition

LIFE_SECS_MAX = 240.0
"""Deadline of everything that a task is waited for: an overloaded machine is no finding."""
PER_SEC = 200
SQL_TRIES = 5


class NotAsItMust(FoundProblem):
    """A run that is not clean; the message is the finding."""


@dataclass(frozen=True)
class Size:
    """How large a run is.

    records: its backlog at the start. partitions: of its topic. kills: of a run that draws them. minutes: of a run that
    lasts as long as it is told; 0: as long as it likes.
    """

    records: int
    partitions: int = 2
    kills: int = KILLS
    minutes: float = 0.0


class Run:
    """The stage of one scenario."""

    def __init__(
        self, services: Services, helper: Helper, folder: Path, record: RunRecord, rng: Random, size: Size
    ) -> None:
        """folder: empty or absent; the run's alone."""
        self.size = size
        self.services = services
        self.helper = helper
        self.folder = folder
        self.record = record
        self.rng = rng
        self.topic = f"drill-{record.seed}-{uuid.uuid4().hex[:10]}"
        self.app = self.topic
        self.scalars: dict[str, Any] = {}
        self.types: dict[str, str] = dict(TYPES)
        self.sections: dict[str, dict[str, Any]] = {}
        self.environment: dict[str, str] = {}
        self.prelude = ""
        self.records_leave = False
        self.gone, self.left_out = set[str](), set[str]()
        """What keys note of records whose rows may be gone, and of those whose rows must be."""
        self.made_topics: dict[str, str] = {}
        """Topics that tasks make, each with its group; they go with the run's own."""
        self.tasks: list[Task] = []
        self.lake = services.lakes.plain(self.app, folder)
        self.plain_topic = PlainTopic(services.options, self.topic)
        self._load: Load | None = None
        self._settings = 0
        self._timeline = Timeline(record, self.lake)
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def secs(self) -> float:
        """Since its begin."""
        return self._timeline.secs

    @property
    def commits(self) -> list[PlainCommit]:
        """Of all tables, as far as they have been looked at, oldest first."""
        return self._timeline.commits

    # What there is -----------------------------------------------------------------------------------

    def open(self, config: Mapping[str, str] | None = None) -> None:
        """Make topic and log. config: of the topic."""
        self.services.make_topic(self.topic, self.size.partitions, config)
        if self.services.log:
            self.services.make_log(self.topic)
            self.scalars |= {"wal_table": self.topic, "wal_endpoint": self.services.endpoint}

    def close(self, keep: bool) -> None:
        """End all tasks, and remove topic, group and log. Its folder stays. keep: the lake does too."""
        for task in self.tasks:
            task.close()
        if self._load is not None:
            self._load.close()
        with ExitStack() as removed:
            if self.services.log:
                removed.callback(self.services.drop_log, self.topic)
            for topic, group in {**self.made_topics, self.topic: self.app}.items():
                removed.callback(self.services.drop_topic, topic, group)
            removed.callback(self.services.lakes.drop, self.app, self.folder, keep)

    def load(self, make: Callable[[int], DrillRecord] = mixed, per_sec: int = PER_SEC, steady: bool = True) -> Load:
        """Write the backlog, and go on writing. make: the n-th record."""
        self._load = Load(self.services.options, self.topic, self.size.partitions, per_sec, make)
        self._load.burst(self.size.records)
        if steady:
            self._load.start()
        return self._load

    def settings(self, **changes: Any) -> Path:
        """A settings file, a new one each time."""
        scalars: dict[str, Any] = {
            "brokers": self.services.bootstrap,
            "topics": [self.topic],
            "group": self.app,
            "app": self.app,
            **self.services.lakes.settings(self.app, self.folder),
            **SCALARS,
            **self.scalars,
            **changes,
        }
        self._settings += 1
        path = self.folder / f"exporter-{self._settings}.toml"
        write_settings(path, scalars, self.types, self.services.client, self.sections)
        return path

    # What is done --------------------------------------------------------------------------------------

    def start(self, *flags: str, armed: str = "", verb: str = "run", **changes: Any) -> Task:
        """A task. armed: its fault. changes: of the settings."""
        number = len(self.tasks) + 1
        name, config = f"{verb}-{number}", self.settings(**changes)
        log = self.folder / f"{name}.log"
        task = Task(name, [verb, *flags, "--config", str(config)], log, armed, self.environment, self.prelude)
        self.tasks.append(task)
        self.record.lives += verb == "run"
        self._timeline.mark(task, "start", armed)
        return task

    def kill(self, task: Task, whole: bool = True) -> Strike:
        """kill -9 now. What the driver alone leaves behind has to end by itself."""
        if task.ended() is not None:
            raise NotAsItMust(f"{task.name} ended with {task.ended()} before it was killed\n{task.tail()}")
        at = task.kill(whole)
        return self.struck(task, "kill -9 of " + ("all its processes" if whole else "the driver"), at)

    def struck(self, task: Task, what: str, at: float | None = None) -> Strike:
        """Note a strike, whose recovery is waited for from now on. at: seconds since 1970; None for now."""
        return self._timeline.struck(task, what, at)

    def strike_by(self, task: Task, what: str, secs: float = LIFE_SECS_MAX) -> Strike:
        """Wait until an armed kill has ended the task."""
        self.wait(lambda: task.ended() is not None, secs, f"{what} strikes {task.name}", task)
        if task.ended() != -signal.SIGKILL:
            raise NotAsItMust(f"{task.name} ended with {task.ended()} before {what}\n{task.tail()}")
        return self.struck(task, f"kill -9 {what}", task.ended_at)

    def wait(self, true: Callable[[], Any], secs: float, what: str, *tasks: Task) -> None:
        """Look until `true`. Raises NotAsItMust past `secs`."""
        deadline = time.monotonic() + secs
        while not true():
            self.look()
            if time.monotonic() > deadline:
                raise NotAsItMust(f"not within {secs:.0f} s: {what}" + "".join(f"\n{one.tail()}" for one in tasks))
            time.sleep(self.services.lakes.look_secs)
        self.look()

    def nap(self, secs: float) -> None:
        """The scenario's own time: something is meant to happen in between."""
        deadline = time.monotonic() + secs
        self.wait(lambda: time.monotonic() >= deadline, secs + 60, "time")

    def wait_event(self, task: Task, name: str, more: int = 1, secs: float = LIFE_SECS_MAX) -> None:
        """Until the task has said it so often; it must live until then."""

        def said() -> bool:
            if task.count(name) >= more:
                return True
            if task.ended() is not None:
                raise NotAsItMust(f"{task.name} ended with {task.ended()} before {name}\n{task.tail()}")
            return False

        self.wait(said, secs, f"{task.name} says {name}", task)

    def wait_commit(self, task: Task, more: int = 1) -> None:
        """Until it has landed so many more commits."""
        landed = self._timeline.landed
        wanted = landed(task) + more

        def there() -> bool:
            if task.ended() is not None and landed(task) < wanted:
                raise NotAsItMust(f"{task.name} ended with {task.ended()} before it committed\n{task.tail()}")
            return landed(task) >= wanted

        self.wait(there, LIFE_SECS_MAX, f"{task.name} commits", task)

    def stop(self, task: Task) -> None:
        """A graceful stop, exit 0. The task has said something by now: before that Python may have no handler yet."""
        task.signal(signal.SIGTERM)
        self.ends(task, 0)

    def ends(self, task: Task, *codes: int, secs: float = LIFE_SECS_MAX) -> str:
        """Wait for its end with one of these exit codes; its last words."""
        self.wait(lambda: task.ended() is not None, secs, f"{task.name} ends", task)
        self._timeline.mark(task, "end", str(task.ended()), task.ended_at)
        if task.ended() not in codes:
            raise NotAsItMust(f"{task.name} ended with {task.ended()} instead of {codes[0]}\n{task.tail()}")
        return task.tail()

    def finish(self, **changes: Any) -> None:
        """End the load, catch up, and look at everything: the last word on a run."""
        if self._load is not None:
            self._load.stop()
        self.ends(self.start("--until-caught-up", **changes), 0)
        self.check(through=True)
        self.audit(**changes)

    def over(self, task: Task, **changes: Any) -> None:
        """The last task at work is killed, then the last word."""
        self.kill(task)
        self.finish(**changes)

    def check(self, through: bool = False) -> None:
        """The naive check, at any moment. through: all is caught up.

        The tables first: what a task commits while the topic is read may be of records that came after that.
        """
        self.look()
        wanted = self.plain_topic.read(again=self.records_leave, but=self.left_out)
        gone = self.plain_topic.noted_as(self.gone)
        found = list(problems(wanted, self.lake, self.app, self.topic, through, self.records_leave, gone))
        self.record.checks += 1
        if found:
            raise NotAsItMust("the naive check: " + "; ".join(found))
        self.record.records = len(wanted)

    def audit(self, **changes: Any) -> None:
        """`exporter audit`'s code, in a process of its own."""
        clean, says = self.audited(**changes)
        self.record.audits += 1
        if not clean:
            raise NotAsItMust(f"the audit: {says}")

    def audited(self, **changes: Any) -> tuple[bool, str]:
        """Whether `exporter audit` finds nothing, and what it says. changes: of the settings."""
        direct = self.services.lakes.settings(self.app, self.folder, direct=True)
        return self.helper.audit(self.settings(**{**changes, **direct}))

    def told(self, task: Task) -> list[str]:
        """The flags of the `exporter repair` that the task's hint names, and --apply. It ended with 70."""
        self.ends(task, 70)
        found = re.search(r"`exporter repair (--\w+)`", task.tail())
        if found is None:
            raise NotAsItMust(f"{task.name} names no repair\n{task.tail()}")
        return [found.group(1), "--apply"]

    def repair(self, task: Task) -> None:
        """Do as the operator would whom the task told what to do."""
        self.ends(self.start(*self.told(task), verb="repair"), 0)

    def sql(self, *statements: str) -> None:
        """As somebody else, beside tasks that commit: tried again when they were faster."""
        for _ in range(SQL_TRIES):
            try:
                self.helper.sql(*statements)
                return
            except FoundProblem as error:
                if "Concurrent" not in error.message:
                    raise
        self.helper.sql(*statements)

    def lose_records(self) -> int:
        """Let the topic lose some records that no table holds, as retention does; how many."""
        self.records_leave = True
        self.look()
        lost: dict[int, int] = {}
        for partition in range(self.size.partitions):
            greatest = max(self.position(name, partition) for name in self.lake.tables)
            self.wait(partial(self._goes_beyond, partition, greatest + 50), LIFE_SECS_MAX, "more records")
            lost[partition] = greatest + 40
        admin = KafkaAdminClient(**self.services.options)
        try:
            admin.delete_records({KafkaTopicPartition(self.topic, at): offset for at, offset in lost.items()})
        finally:
            admin.close()
        return sum(lost.values())

    def _goes_beyond(self, partition: int, offset: int) -> bool:
        """Whether a reader sees a record beyond this one."""
        return any(at == partition and seen > offset for at, seen in self.plain_topic.read())

    def no_survivors(self, task: Task) -> None:
        """All that a killed task started has to be gone by itself."""
        self.wait(lambda: not task.left(), GONE_SECS_MAX, f"what {task.name} started is gone: {task.left()}")

    # What is there ---------------------------------------------------------------------------------------

    def table(self, name: str) -> str:
        """The name of a table in SQL."""
        return f"delta.`{self.services.lakes.store(self.app, self.folder).uri(name)}`"

    def version(self, name: str) -> int:
        """Of a table, -1 if there is none."""
        self.look()
        return self.lake.tables[name].version if name in self.lake.tables else -1

    def newest_file(self, name: str) -> tuple[int, str]:
        """A live data file that came last, from the table's folder, and the version that brought it."""
        self.look()
        path, version = max(self.lake.tables[name].live.items(), key=lambda one: one[1])
        return version, path

    def position(self, name: str, partition: int) -> int:
        """Through which offset a table holds a partition; -1 if it has no position."""
        tp, table = TopicPartition(self.topic, partition), self.lake.tables.get(name)
        found = live_position(table.transactions, self.app, tp) if table is not None else None
        return found.offset if found is not None else -1

    def all_through(self, offset: int) -> bool:
        """Whether all tables hold all partitions through it."""
        self.look()
        names = (*self.types, DEAD_LETTERS)
        return min(self.position(name, at) for name in names for at in range(self.size.partitions)) >= offset

    def note(self, task: Task, what: str) -> None:
        """Something that was done to it, for the timeline."""
        self._timeline.mark(task, "strike", what)

    def look(self) -> None:
        """Take in what the tables and the tasks tell."""
        self._timeline.look(self.tasks)

    def sum_up(self) -> None:
        """The record's totals, at the end."""
        self.look()
        self._timeline.sum_up(self.tasks)
