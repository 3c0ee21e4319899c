"""The sweep, run now and then beside the tasks; and whether it deletes what nobody can commit, and nothing else (TEMP).

What it takes from a commit that is still to come, that commit finds missing: the oracle looks for each file (TEMP).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from exporter.errors import ExporterError
from exporter.operate.maintain.sweep import sweep
from exporter.settings.meaning import table_options
from tests.sim.delta import SimLake
from tests.sim.expected import Broken, Partition
from tests.sim.features import APP, settings_of
from tests.sim.kernel import Process

if TYPE_CHECKING:
    from tests.sim.world import World

KEPT = (".gap.", ".condemned.")
"""In names of files that are left to VACUUM: no offset in them tells when they are dead."""


class Janitor:
    """One world's."""

    def __init__(self, world: World) -> None:
        self._world = world
        world.disk.taken = self._taken

    def begin(self) -> None:
        """From now on."""
        self._world.kernel.after(20.0, self._again)

    def _again(self) -> None:
        if not self._world.quiet:
            self.sweeps()
            self._world.kernel.after(self._world.kernel.rng.expovariate(1 / 40.0), self._again)

    def sweeps(self) -> Process:
        """In a process of its own."""
        process = Process(self._world.kernel, "sweep")
        self._world.kernel.started(process, "main", self._sweep)
        return process

    def _sweep(self) -> None:
        settings, _ = settings_of(self._world.features)
        try:
            for table in sweep(SimLake(settings.store, APP, table_options(settings)), apply=True):
                self._world.say(f"the sweep deletes {table.deleted} files of {table.event_type}")
                self._world.seen.faults["files swept"] += table.deleted
        except (ExporterError, OSError) as error:
            self._world.say(f"the sweep ends: {error}")

    def _taken(self, path: str) -> None:
        folder, _, name = path.removeprefix("lake/").partition("/")
        if name in self._world.oracle.tables[folder].live:
            self._world.wrong(Broken(f"SWEEP: {path} is deleted, and live"))

    def orphans(self) -> list[str]:
        """Data files that no table has, and that are not left to VACUUM.

        Of a partition without a position all may still be committed: who has met the type has yet to anchor it.
        """
        tables = self._world.oracle.tables
        found = []
        for path in self._world.disk.bodies:
            folder, _, name = path.removeprefix("lake/").partition("/")
            if name.startswith("day=") and not any(kept in name for kept in KEPT):
                table = tables[folder]
                is_anchored = table.position(_partition(name)) is not None
                if is_anchored and name not in table.live and name not in table.removed:
                    found.append(path)
        return found


def _partition(name: str) -> Partition:
    """The topic partition in a data file's name: app.topic.partition.epoch.offset.attempt.parquet, of a topic with dots
    or without."""
    head, number, *_ = name.rpartition("/")[2].rsplit(".", 5)
    return head.partition(".")[2], int(number)
