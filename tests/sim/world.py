"""One world: brokers, store, log, and a group of real tasks that are killed, put to sleep, cut off and started again.

World puts it together, lets time pass, and says what is wrong.
"""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from exporter import clock, threads
from exporter.errors import ExporterError
from exporter.faults import Fault, point
from exporter.settings.meaning import table_options
from exporter.settings.model import Settings
from exporter.stores.stores import STORES
from exporter.task import build
from exporter.task.announced import announcing
from exporter.wal.memory import Memory, MemoryLog
from exporter.workbench import Workbench, growth_of
from offsets.intents import WalUnreachable
from tests.sim import poison as sim_poison
from tests.sim import rounds as sim_rounds
from tests.sim.accident import Accident
from tests.sim.audience import Audience, SimPointers, SimSink
from tests.sim.broker import Broker, Coordinator, SimMembership, SimTopics, SimWire
from tests.sim.delta import PARSED, SimLake
from tests.sim.expected import Broken
from tests.sim.features import APP, CONTROL_TOPIC, Features, settings_of
from tests.sim.janitor import Janitor
from tests.sim.kernel import Fiber, Kernel, Process, SimThreads
from tests.sim.ledger import Ledger
from tests.sim.mischief import Mischief
from tests.sim.network import LOG, Network
from tests.sim.oracle import Oracle
from tests.sim.producing import Producing
from tests.sim.registry import PINS, SchemaRegistry
from tests.sim.rounds import SimReader
from tests.sim.slots import Seen, Slot
from tests.sim.store import SCHEME, Disk, SimStore, There

FINE = (0, 69)
"""Exit codes of a task that may be started again; 75, too, where somebody switches or repairs: else no other task is
ever in the way three times."""
CALM_SECS = 90.0
"""For so long before the end of all faults no task is started anew: what one has forgotten then stays forgotten."""


class World:
    """One seed's. line: told of all that happens, for a timeline."""

    def __init__(self, seed: int, features: Features | None = None, line: Callable[[str], None] | None = None) -> None:
        self.kernel = Kernel(seed)
        self.features = features or Features.drawn(seed)
        self.seen = Seen()
        self.network = Network(self.kernel, met=self.seen.faults)
        self.disk = Disk()
        self.broker = Broker(self.kernel, self.network)
        self.memory: Memory | None = None
        self.oracle = Oracle(self.disk.bodies, "lake", APP, self.features.told())
        self.ledger = Ledger(self)
        self.broker.group_offsets = self.ledger.group
        self.registry = SchemaRegistry(self)
        self.slots: list[Slot] = []
        self.broken: Exception | None = None
        self.audience = Audience()
        self.oracle.has_rows = self.audience.committed
        self.janitor = Janitor(self)
        self.accident = Accident(self)
        self.calm = self.quiet = False
        self.changes = 0
        self._line = line
        self._mischief = Mischief(self)
        self._producing = Producing(
            self.kernel, self.broker, self.features, self.oracle.topics, self.say, lambda: self.quiet
        )
        self.kernel.died = self._died
        for weather in self.network.weather.values():
            weather.refused, weather.lost_reply, weather.late, weather.slow = (
                self.features.refused, self.features.lost_reply, self.features.late, self.features.slow,
            )  # fmt: skip

    def say(self, what: str) -> None:
        """A line of the timeline."""
        if self._line is not None:
            process = self.kernel.current.process.name if self.kernel.current else "world"
            self._line(f"{self.kernel.now:10.3f} {process:8} {what}")

    # The seams

    @contextmanager
    def entered(self) -> Iterator[None]:
        """While this lasts the product runs in this world; one world at a time."""
        There.disk, There.network = self.disk, self.network
        self.disk.written = self._written
        rng = self.kernel.rng
        state = random.getstate()
        random.seed(rng.random())
        before = clock.tell_time_by(self.kernel.clock), threads.run_threads_by(SimThreads(self.kernel))
        with ExitStack() as patches:
            for what, by in self._replaced().items():
                patches.enter_context(patch(what, by))
            patches.enter_context(patch.dict(STORES, {SCHEME.removesuffix("://"): SimStore.at}))
            self._knows()
            try:
                yield
            finally:
                for slot in self.slots:
                    if slot.process is not None:
                        self.kernel.kill(slot.process)
                clock.tell_time_by(before[0])
                threads.run_threads_by(before[1])
                random.setstate(state)

    def _knows(self) -> None:
        """The oracle is told which configuration stands behind the fingerprint of the newest settings."""
        topics, (_, configuration) = self.oracle.topics, settings_of(self.features, changes=self.changes)
        if self.changes:
            topics.wanted = self.features.told(self.changes)
        topics.configurations[configuration.fingerprint()] = topics.wanted

    def _replaced(self) -> dict[str, Any]:
        """What the wiring takes from outside, by its name there."""
        kernel, rng = self.kernel, self.kernel.rng
        self.memory = Memory()
        topics = lambda client, topics, isolation: SimTopics(self.broker, topics, client)  # noqa: E731
        return {
            "offsets.names.AppId.parse": PARSED,
            "uuid.uuid4": lambda: uuid.UUID(int=rng.getrandbits(128), version=4),
            "os.getpid": lambda: 1,
            "socket.gethostname": lambda: "sim",
            "exporter.task.build.RoundReader": lambda session, client, room: SimReader(kernel, self.broker, room),
            "exporter.task.build.Membership": self._membership,
            "exporter.task.build.spark": SimpleNamespace(alive=lambda session: True),
            "exporter.task.build.open_wal": self.open_log,
            "exporter.kafka.static.opened": lambda kind, **options: _Consumer(),
            "exporter.task.coordinating.ControlTopic": lambda options, topic: SimWire(
                self.broker, topic, kernel.here().process
            ),
            "exporter.task.coordinating.TopicReader": topics,
            "exporter.workbench.TopicReader": topics,
            "exporter.protocol.ready.merge": sim_rounds.merged,
            "exporter.coordinate.coordinated.HEAR_SECS": 0.5,
            "exporter.protocol.gap_rows.GrowingFile": sim_poison.SimGrowing,
            "exporter.protocol.poison.GrowingFile": sim_poison.SimGrowing,
            "exporter.protocol.poison.held_offsets": sim_poison.held_offsets,
            "exporter.announce.webhook.Webhook": lambda url: SimSink(self.network, self.audience, self.wrong),
            "exporter.announce.kept.GroupPointers": lambda client, group, topics: SimPointers(
                self.network, self.audience, self.wrong
            ),
            "exporter.lake.log_files.LISTED_MAX": 1 << 20,
            "exporter.faults.on_hit": self._mischief.passes,
            "exporter.log.Log.info": self._logged,
            "exporter.log.Log.warning": self._logged,
            "exporter.log.Log.error": self._logged,
        }

    def _membership(
        self, options: Any, group: str, topics: Any, session_ms: int, refresh_secs: float, wake: Any, roll_secs: float
    ) -> SimMembership:
        coordinator = self.broker.groups.get(group)
        if coordinator is None:
            coordinator = self.broker.groups[group] = Coordinator(
                self.kernel, self.broker, topics.topics, session_ms / 1000
            )
        return SimMembership(coordinator, self.kernel.here().process, wake, min(roll_secs, 30.0))

    def open_log(self, settings: Settings, deadline_secs: float = 10.0) -> MemoryLog | None:
        """A process's end of the write-ahead log, if there is one."""
        if self.features.wal == "off":
            return None

        def around(name: str, go_on: Callable[[], Any]) -> Any:
            call = self.network.read if name in ("read", "failed", "lease") else self.network.write
            return call(LOG, go_on, lambda what: WalUnreachable(f"the write-ahead log: {what}"))

        return MemoryLog(APP, self.memory, around)

    # What the world is told

    def _written(self, path: str, body: bytes) -> None:
        """A file is new: a commit, if it is an entry of a table's log."""
        if path.startswith(PINS):
            self.registry.written(path, body)
        folder, log, name = path.removeprefix("lake/").partition("/_delta_log/")
        if not log or not name.endswith(".json"):
            return
        self.say(f"{path.removeprefix('lake/')} is made")
        version, actions = int(name.removesuffix(".json")), [json.loads(line) for line in body.splitlines()]
        try:
            self.oracle.committed(folder, version, actions)
        except Broken as broken:
            self.wrong(broken)
        self.ledger.committed(folder, version, actions)

    def wrong(self, what: Exception) -> None:
        """Something is; the world ends with the first of it."""
        self.say(f"WRONG: {what}")
        self.broken = self.broken or what

    def _died(self, fiber: Fiber, error: Exception) -> None:
        self.wrong(Broken(f"THREADS: {fiber.process}/{fiber.name} has died: {type(error).__name__}: {error}"))
        self.broken.__cause__ = error  # type: ignore[union-attr]

    def _logged(self, event: Any, **fields: object) -> None:
        self.seen.events[event.value] += 1
        if self._line is not None:
            self.say(f"{event.value} " + " ".join(f"{name}={value}" for name, value in fields.items()))

    # The group

    def _start(self, slot: Slot) -> None:
        """Start a task of the group, as a scheduler does."""
        slot.starts, slot.service = slot.starts + 1, None
        process = slot.process = Process(self.kernel, f"{slot.name}.{slot.starts}")
        self.kernel.started(process, "main", lambda: self._task(slot, process))

    def _task(self, slot: Slot, process: Process) -> None:
        """A task's life, as task/build._exported has it."""
        changes = slot.changes
        settings, configuration = settings_of(self.features, slot.share, changes)
        self.kernel.sleep(1.0 + self.kernel.rng.random())
        code, why = 0, ""
        try:
            lake = SimLake(settings.store, APP, table_options(settings))
            topics = SimTopics(self.broker, settings.selection, {})
            evolutions, columns = growth_of(settings, configuration)
            schemas = self.registry.opened(settings) if self.features.registry else None
            bench = Workbench(lake, topics, configuration, evolutions, schemas, columns)  # type: ignore[arg-type]
            bench.load_schemas()
            watch = build.open_watch(settings)
            slot.service = build.build_service(settings, bench, watch=watch)
            point(Fault.AFTER_JOIN)
            with announcing(settings, lake.store, watch):
                slot.service.run()
        except ExporterError as error:
            code, why = error.exit_code, f"{type(error).__name__}: {error.message}"
        self.say(f"exits with {code} {why}")
        self.seen.exits[f"{code} {why.partition(':')[0]}".strip()] += 1
        if not self._is_allowed(changes, code, why):
            self.wrong(Broken(f"EXIT: {process} exits with {code}: {why}"))
        self.kernel.kill(process)
        secs = 0.5 + 4 * self.kernel.rng.random()
        self.kernel.after(secs if code != 70 else 5 * secs, self._again, slot, process)

    def _is_replaced(self, changes: int, code: int, why: str) -> bool:
        """Whether a task was told so rightly: of settings that count no more for some partition."""
        newer = [self.features.told(one) for one in range(changes + 1, self.changes + 1)]
        counts = any(records.configuration in newer for records in self.oracle.topics.of.values())
        return code == 70 and "has been replaced by" in why and counts

    def _is_allowed(self, changes: int, code: int, why: str) -> bool:
        """Whether a task may end so in this world."""
        is_poison = bool(self.features.poison) and code == 70 and "in a row" in why
        others = code == 75 and bool(self.features.change or self.features.restored)
        excused = others or is_poison or self.accident.excuses(code)
        return code in FINE or excused or self._is_replaced(changes, code, why)

    def _change(self) -> None:
        """The settings are changed: one task after the other is started anew with them, old ones beside new ones."""
        self.changes += 1
        self.say(f"the settings are {'changed: ' + self.features.change if self.changes == 1 else 'those of before'}")
        self._knows()
        for number, slot in enumerate(self.kernel.rng.sample(self.slots, len(self.slots))):
            self.kernel.after(number * self.kernel.rng.choice((0.0, 5.0, 30.0)), self._renew, slot, self.changes)
        if self.features.reverted and self.changes == 1:
            self.kernel.after(self.kernel.rng.choice((1.0, 20.0, 90.0)), self._change)

    def _renew(self, slot: Slot, changes: int) -> None:
        if slot.changes > changes:  # it has newer settings by now
            return
        slot.changes = changes
        if slot.process is None or not slot.process.alive:
            return
        if slot.service is None:  # it has just begun, with the settings of before
            self.kernel.after(1.0, self._renew, slot, changes)
            return
        self.say(f"{slot.process} gets SIGTERM, to be started with the new settings")
        slot.service.stop()

    def _again(self, slot: Slot, process: Process) -> None:
        """The scheduler sees that a task is gone."""
        if slot.process is process and not process.alive:
            self._start(slot)

    def _look(self) -> None:
        """The scheduler's look at its tasks: those that were killed are started again."""
        for slot in self.slots:
            if slot.process is not None and not slot.process.alive and self.kernel.rng.random() < 0.3:
                self._start(slot)
        self.ledger.look()
        self.kernel.after(0.5, self._look)

    def _produce(self) -> None:
        """From now on there are records."""
        self._producing.begin()

    def _kill(self) -> None:
        """From now on things happen to tasks."""
        self.kernel.after(5.0, self._mischief.happens)

    # The run

    def begin(self) -> None:
        """Topics, tasks, and what is to happen to them."""
        features = self.features
        for topic in features.topics:
            self.broker.make(topic, features.partitions)
        self.broker.make(CONTROL_TOPIC, 1)
        self._begin_tasks()
        self._produce()
        self._kill()
        self.kernel.after(0.5, self._look)
        if features.restored:
            self.accident.begin()
        if features.swept:
            self.janitor.begin()
        if features.registry:
            self.registry.begin()
        if features.change:
            self.kernel.after(40.0 + 120.0 * self.kernel.rng.random(), self._change)

    def _begin_tasks(self) -> None:
        """All at once."""
        features = self.features
        for number in range(features.tasks):
            share = f"{number}/{features.tasks}" if features.leases else ""
            self.slots.append(Slot(f"task{number}", share))
            self._start(self.slots[-1])
        if features.leases:  # a second task with the first one's share
            self.slots.append(Slot("spare", self.slots[0].share))
            self._start(self.slots[-1])

    def missing(self) -> list[str]:
        """What is still to be done."""
        hurt = ["a table was taken back"] if self.accident.hurt else []
        told = self.audience.missing() if self.features.announced else ()
        return [*hurt, *self.oracle.missing(), *told, *self.ledger.missing()]

    def _is_clean(self) -> None:
        """What is announced, and what a sweep leaves behind. Raises Broken."""
        if self.features.announced and (untold := self.audience.missing()):
            raise Broken(f"TOLD: {untold[:5]}")
        if not self.features.swept:
            return
        for slot in self.slots:  # nobody stages anything any more
            if slot.process is not None:
                self.kernel.kill(slot.process)
        self.slots.clear()
        process = self.janitor.sweeps()
        self.kernel.run(self.kernel.now + 300.0, lambda: not process.fibers)
        if self.broken is not None:
            raise self.broken
        if orphans := self.janitor.orphans():
            raise Broken(f"SWEEP: {len(orphans)} files are left that nobody can commit: {orphans[:3]}")

    def run(self, settle_secs: float = 600.0) -> None:
        """Faults for as long as the features say, then none, until everything is exported. Raises Broken."""
        secs = self.features.secs
        with self.entered():
            self.begin()
            stops = lambda: self.broken is not None  # noqa: E731
            self.kernel.run(secs - min(CALM_SECS, secs / 2), stops)
            self.calm = True
            self._mischief.ends()
            self.kernel.run(secs, stops)
            self.quiet = True
            self._mischief.ends()
            for weather in self.network.weather.values():
                weather.refused = weather.lost_reply = weather.late = weather.slow = 0.0
            self.say("no more faults")
            deadline = self.kernel.now + settle_secs
            while self.broken is None and self.kernel.now < deadline and self.missing():
                self.kernel.run(self.kernel.now + 5.0, stops)
            if self.broken is not None:
                raise self.broken
            if self.accident.hurt:
                raise Broken("PROGRESS: no repair comes to an end")
            self.oracle.finished()
            features = self.features
            if features.evolves and not (features.change or features.registry):  # who drains makes no columns
                self.oracle.have_columns()
            self.ledger.finished()
            self._is_clean()


class _Consumer:
    """What a fixed assignment commits offsets with."""

    def commit(self, offsets: Any, timeout_ms: int = 0) -> None:
        """For lag tools, which nobody reads here."""

    def close(self, timeout_ms: int = 0) -> None:
        """Holds nothing."""

