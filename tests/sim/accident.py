"""A person restores a table to an earlier version, the tasks stop, and the person repairs it (protocol 4.5, 7)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from exporter.clock import wall_ms
from exporter.errors import CannotRepair, ExporterError
from exporter.kafka.topics import FirstPosition
from exporter.operate.repair.reading import NothingToRepair
from exporter.operate.repair.repair import repair
from exporter.settings.meaning import table_options
from exporter.workbench import Workbench, open_journal
from tests.sim.broker import SimTopics
from tests.sim.delta import SimLake, Unsimulated
from tests.sim.expected import Broken
from tests.sim.features import APP, settings_of
from tests.sim.kernel import Process

if TYPE_CHECKING:
    from tests.sim.world import World

GRACE_SECS = 60.0
"""So long after a repair a task may still stop for what was there before."""


class Accident:
    """One world's. hurt: a table was taken back, and that is not put right yet."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.hurt = False
        self._right_at = float("-inf")

    def begin(self) -> None:
        """It happens once."""
        self._world.kernel.after(60.0 + 120.0 * self._world.kernel.rng.random(), self._restore)

    def excuses(self, code: int) -> bool:
        """Whether a task may stop now."""
        return code == 70 and (self.hurt or self._world.kernel.now - self._right_at < GRACE_SECS)

    def _restore(self) -> None:
        """As Delta's RESTORE: the files and the metadata of then; what transactions say stays."""
        world, rng = self._world, self._world.kernel.rng
        tables = [name for name, table in sorted(world.oracle.tables.items()) if table.version > 3]
        if not tables:
            return
        name = rng.choice(tables)
        newest = world.oracle.tables[name].version
        to = max(1, newest - rng.choice((1, 2, 5, 20)))
        then, now = self._state(name, to), self._state(name, newest)
        actions: list[dict[str, Any]] = [
            {
                "commitInfo": {
                    "timestamp": wall_ms(),
                    "operation": "RESTORE",
                    "operationParameters": {"version": to, "timestamp": None},
                }
            }
        ]
        if then[1] != now[1]:
            actions.append({"metaData": then[1]})
        actions += [{"add": add} for path, add in then[0].items() if path not in now[0]]
        removed = {"dataChange": True, "deletionTimestamp": wall_ms()}
        actions += [{"remove": {"path": path, **removed}} for path in now[0] if path not in then[0]]
        world.say(f"a person restores {name} from version {newest} to {to}")
        world.seen.faults["RESTORE"] += 1
        self.hurt = True
        body = "\n".join(map(json.dumps, actions)).encode()
        world.disk.put(f"lake/{name}/_delta_log/{newest + 1:020d}.json", body, once=True)
        world.kernel.after(20.0 + 40.0 * rng.random(), self._repairs)

    def _state(self, name: str, version: int) -> tuple[dict[str, Any], Any]:
        """Live files by their path, and the metadata, at a version."""
        live: dict[str, Any] = {}
        metadata = None
        for one in range(version + 1):
            for line in self._world.disk.get(f"lake/{name}/_delta_log/{one:020d}.json").decode().splitlines():
                action = json.loads(line)
                metadata = action.get("metaData", metadata)
                if "add" in action:
                    live[action["add"]["path"]] = action["add"]
                if "remove" in action:
                    live.pop(action["remove"]["path"], None)
        return live, metadata

    def _repairs(self) -> None:
        process = Process(self._world.kernel, "repair")
        self._world.kernel.started(process, "main", self._repair)
        self._look(process)

    def _look(self, process: Process) -> None:
        """Whoever sees that the repair was killed starts it again."""
        if not process.alive:
            self._repairs()
        elif self.hurt:
            self._world.kernel.after(10.0, self._look, process)

    def _repair(self) -> None:
        """`exporter repair --rewind --apply`, begun anew until it says that all is well."""
        world = self._world
        settings, configuration = settings_of(world.features)
        lake = SimLake(settings.store, APP, table_options(settings))
        bench = Workbench(lake, SimTopics(world.broker, settings.selection, {}), configuration)  # type: ignore[arg-type]
        while True:
            journal = open_journal(settings, configuration, world.open_log(settings))
            try:
                rows = repair(bench, "rewind", "", FirstPosition("earliest"), True, journal)
                world.say(f"repaired: {[(row.table, str(row.tp), row.says) for row in rows]}")
            except NothingToRepair:
                break
            except CannotRepair as refused:
                world.wrong(Broken(f"REPAIR: {refused}"))
                return
            except Unsimulated as needed:  # rows of a file that others in it are to outlive
                world.wrong(needed)
                return
            except ExporterError as error:
                world.say(f"the repair ends: {type(error).__name__}: {error}")
                world.kernel.sleep(5.0)
        world.say("all is well again")
        self.hurt, self._right_at = False, world.kernel.now
