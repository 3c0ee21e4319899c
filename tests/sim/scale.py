"""`python -m tests.sim.scale`: what an export of many partitions, types and tasks asks of its services, in an hour.

    --tasks 10 --partitions 500 --types 50 --minutes 20 [--coordinated] [--wal]

A world without faults, and a record for every table and partition now and then. Requests are those of simulated time;
seconds of a core are real ones, of this machine, for the loop's iterations alone.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import Any, TypeVar, cast
from unittest.mock import patch

from exporter.core.routing import Routing
from exporter.lake import log_files
from exporter.settings.model import Settings
from exporter.stores.store import Store
from exporter.task.service import Service
from offsets.ranges import TopicPartition
from offsets.table_log import LoggedCommit, LogState, TableView
from tests.sim.delta import SimTable
from tests.sim.expected import Configuration
from tests.sim.features import APP, CONTROL_TOPIC, DAYS, ROUTED, TOPIC, Features, lines_of, loaded
from tests.sim.network import CONTROL, Weather
from tests.sim.oracle import Oracle
from tests.sim.producing import of
from tests.sim.runs import in_one_order
from tests.sim.slots import Slot
from tests.sim.world import World

T = TypeVar("T")
S = TypeVar("S", TableView, LogState)

KEPT = 3
"""So many checksums of a table stay; none that is older is read again, with nobody killed."""
FETCH_SECS = 0.05
"""A fetch of the control topic brings what has come in so long: each message by itself would wake all tasks."""
START_SECS = 600.0
"""A start takes less."""
SETTLE_SECS = 60.0
"""Then the last partitions have found their tasks."""
STATES = 4_000
"""So many versions are kept as they were read."""


class ScaleWorld(World):
    """Nothing goes wrong here. every_secs: how often each partition gets a record of each type."""

    def __init__(self, types: int, features: Features, every_secs: float) -> None:
        super().__init__(1, features)
        self.types = tuple(f"type{number}" for number in range(types))
        self.oracle = Oracle(self.disk.bodies, "lake", APP, Configuration(self.types))
        self.broker.produced = lambda tp, one: self.oracle.topics.produced(of(tp), one.offset, one.kind, one.at_ms)
        self.network.weather = {name: Weather(slow=0.0) for name in self.network.weather}
        self.network.weather[CONTROL] = Weather(slow=0.0, batch_secs=FETCH_SECS)
        self.every_secs = every_secs
        self.iterations = 0
        self.core_secs = 0.0
        self.ready_at: dict[str, float] = {}
        self.files = self.checksum_bytes = 0

    def _written(self, path: str, body: bytes) -> None:
        """What a commit has looked at is kept no longer: with many partitions it would be gigabytes."""
        super()._written(path, body)
        folder, log, name = path.partition("/_delta_log/")
        self.files += not log and path.endswith(".parquet")
        if not name.endswith(".crc"):
            return
        self.checksum_bytes = max(self.checksum_bytes, len(body))
        old = int(name.removesuffix(".crc")) - KEPT
        self.disk.bodies.pop(f"{folder}/_delta_log/{old:020d}.crc", None)

    @property
    def said_bytes(self) -> int:
        """In the control topic."""
        return sum(map(len, self.broker.said[CONTROL_TOPIC]))

    def _begin_tasks(self) -> None:
        """One task makes the tables; the others come with `join`."""
        self._begin_task(0)

    def join(self) -> None:
        """The other tasks start, all at once: as where an export is started anew, its tables know all partitions."""
        for number in range(1, self.features.tasks):
            self._begin_task(number)

    def _begin_task(self, number: int) -> None:
        self.slots.append(Slot(f"task{number}"))
        self._start(self.slots[-1])

    def _kill(self) -> None:
        """Nobody is killed."""

    def _produce(self) -> None:
        """A record of each type for one partition after the other."""
        self.kernel.after(0.1, self._begin_filling)

    def _begin_filling(self) -> None:
        tps = self.broker.partitions([TOPIC])
        for number, tp in enumerate(tps):
            self.kernel.after(self.every_secs * number / len(tps), self._fill, tp)

    def goes_on(self, secs: float, ready: float = float("inf")) -> float:
        """For so long, or until so many tasks know all their positions: how long it was. Raises what breaks."""
        began = self.kernel.now
        self.kernel.run(began + secs, lambda: len(self.ready_at) >= ready or self.broken is not None)
        if self.broken is not None:
            raise self.broken
        return self.kernel.now - began

    def _fill(self, tp: TopicPartition) -> None:
        if self.quiet:
            return
        for name in self.types:
            self.broker.produce(tp, name, DAYS[0], int(self.kernel.now * 1000) + 1)
        self.kernel.after(self.every_secs, self._fill, tp)

    def _logged(self, event: Any, **fields: object) -> None:
        super()._logged(event, **fields)
        if event.value == "positions_recovered" and self.kernel.current is not None:
            self.ready_at.setdefault(self.kernel.current.process.name, self.kernel.now)


class Shared:
    """What one task has read of a version is the others', too: a process each, they would have it a hundred times.

    Requests are made all the same. Not counted is a core's time for reading a checksum that somebody else has read.
    """

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, int], Any] = {}
        self._texts: dict[str, str] = {}
        self._numbers: dict[int, int] = {}
        self._read_view, self._read_state = log_files.view_at, SimTable._state_at
        self._read_logged = SimTable.logged

    def view_at(self, table: Store, version: int) -> TableView | None:
        """As log_files.view_at()."""
        asked = _checksum(version), log_files.entry(version)
        return self._known("view", table, version, asked, lambda: self._once(self._read_view(table, version)))

    def state_at(self, table: SimTable, version: int) -> LogState:
        """As SimTable._state_at()."""
        asked = (_checksum(version),)
        state = self._known("state", table.store, version, asked, lambda: self._once(self._read_state(table, version)))
        assert state is not None
        return state

    def logged(self, table: SimTable, version: int) -> LoggedCommit:
        """As DeltaTable.logged()."""
        asked = (log_files.entry(version),)
        commit = self._known("commit", table.store, version, asked, lambda: self._read_logged(table, version))
        assert commit is not None
        return commit

    def _known(self, what: str, table: Store, version: int, asked: tuple[str, ...], read: Callable[[], T]) -> T:
        """What is known of a version, with the requests for it; else what is read."""
        key = what, table.uri(), version
        if (known := self._found.get(key)) is not None:
            with suppress(FileNotFoundError):  # of who has not written it yet
                for path in asked:
                    table.read(path)
            return cast(T, known)
        if (found := read()) is not None:
            self._found[key] = found
        if len(self._found) > STATES:
            del self._found[next(iter(self._found))]
        return found

    def _once(self, found: S | None) -> S | None:
        """With texts and numbers that others have as well."""
        if found is None:
            return None
        texts, numbers = self._texts, self._numbers
        known = {texts.setdefault(one, one): numbers.setdefault(at, at) for one, at in found.transactions.items()}
        return replace(found, transactions=known)


def _checksum(version: int) -> str:
    return log_files.entry(version).replace(".json", ".crc")


@cache
def settings_of(features: Features, share: str = "", types: int = 0) -> tuple[Settings, Routing]:
    """As world.settings_of, of so many types and at the defaults of commits."""
    lines = lines_of(features)
    lines += [f"commit_interval_secs = {features.roll_secs}"] if features.coordinated else []
    lines += ROUTED
    for number in range(types):
        lines += [f"[types.type{number}]", 'columns = "id BIGINT"']
    return loaded(lines)


def measured(types: int, features: Features, minutes: float, every_secs: float) -> dict[str, Any]:
    """What such an export asks for in an hour, after its start. Raises Broken."""
    world = ScaleWorld(types, features, every_secs)
    ticks = Service._tick

    def timed(service: Service) -> bool:
        began, switches = time.process_time(), world.kernel.steps
        done = ticks(service)
        if world.kernel.steps == switches:  # what has waited has run others meanwhile
            world.iterations += 1
            world.core_secs += time.process_time() - began
        return done

    began, shared = time.perf_counter(), Shared()
    with (
        patch.object(log_files, "view_at", shared.view_at),
        patch.object(SimTable, "_state_at", lambda table, version: shared.state_at(table, version)),
        patch.object(SimTable, "logged", lambda table, version: shared.logged(table, version)),
        patch("tests.sim.world.settings_of", lambda told, share="", changes=0: settings_of(told, share, types)),
        patch.object(Service, "_tick", timed),
        world.entered(),
    ):
        world.begin()
        made = world.goes_on(START_SECS, ready=1)
        world.join()
        started = world.goes_on(START_SECS, ready=features.tasks)
        world.goes_on(SETTLE_SECS)
        before, commits, files = dict(world.network.calls), world.oracle.commits, world.files
        said_bytes, world.iterations, world.core_secs = world.said_bytes, 0, 0.0
        hours = world.goes_on(minutes * 60) / 3600
    calls = {name: round((count - before.get(name, 0)) / hours) for name, count in world.network.calls.items()}
    return {
        "tasks": features.tasks,
        "partitions": features.partitions,
        "types": types,
        "coordinated": features.coordinated,
        "wal": features.wal,
        "a record per table and partition, s": every_secs,
        "one task has made all tables after, s": round(made, 1),
        "the others know all positions after, s": round(started, 1),
        "commits/h": round((world.oracle.commits - commits) / hours),
        "commits/h and table": round((world.oracle.commits - commits) / hours / (types + 1), 1),
        "data files/h": round((world.files - files) / hours),
        "control topic, MB/h": round((world.said_bytes - said_bytes) / hours / 1e6),
        "largest checksum, bytes": world.checksum_bytes,
        "requests/h": calls,
        "an iteration of a loop, ms": round(1000 * world.core_secs / max(1, world.iterations), 2),
        "memory of the whole group, MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "took, s": round(time.perf_counter() - began),
    }


def main() -> int:
    """Print the figures as JSON."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim.scale", description=__doc__)
    parser.add_argument("--tasks", type=int, default=10)
    parser.add_argument("--partitions", type=int, default=100)
    parser.add_argument("--types", type=int, default=50)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--every-secs", type=float, default=60.0)
    parser.add_argument("--roll-secs", type=float, default=60.0)
    parser.add_argument("--heartbeat-secs", type=float, default=60.0)
    parser.add_argument("--coordinated", action="store_true")
    parser.add_argument("--wal", action="store_true")
    asked = parser.parse_args()
    features = Features(
        tasks=asked.tasks, partitions=asked.partitions, coordinated=asked.coordinated,
        wal="required" if asked.wal else "off", roll_secs=asked.roll_secs, heartbeat_secs=asked.heartbeat_secs,
    )  # fmt: skip
    print(json.dumps(measured(asked.types, features, asked.minutes, asked.every_secs), indent=2))
    return 0


if __name__ == "__main__":
    in_one_order("tests.sim.scale")
    sys.exit(main())
