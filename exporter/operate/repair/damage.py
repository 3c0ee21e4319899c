"""Live files that are not on disk as a table's log has them (a power cut, a disk, an `rm`), and what helps.

No position tells of it: `exporter check --deep` and `exporter audit` do. Where the topics still have what came after
the newest version that is whole, and it was exported under the configuration in force, a RESTORE to that version makes
an accident of it that a rewind puts right. Reads only.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from exporter.errors import CannotRepair, LogCleaned
from exporter.lake.table import DeltaTable
from exporter.operate.repair.reading import RepairReading
from exporter.stores.live import LiveSizes
from offsets.ranges import TopicPartition
from offsets.rewind import live_positions

FirstOffsets = Callable[[Collection[TopicPartition]], Mapping[TopicPartition, int]]


def refuse_damage(reading: RepairReading, first_offsets: FirstOffsets) -> None:
    """Raises CannotRepair for the first table that has such a file. first_offsets: where the topics' logs begin now."""
    for name, view in reading.views.items():
        table = reading.lake.table(name)
        if not (damaged := damaged_at(table, view.version)):
            continue
        message = f"table {name}: {len(damaged)} of its live files are absent or damaged, {min(damaged)} is one"
        whole = newest_whole(table, view.version, damaged)
        if whole is None:
            raise CannotRepair(message, "put them back from a copy: no version whose log is still there is whole")
        held = live_positions(table.view_at(whole).transactions, reading.app)
        now = live_positions(view.transactions, reading.app)
        later = [tp for tp in now if tp not in held or held[tp] != now[tp]]
        firsts = first_offsets(later)
        gone = [str(tp) for tp in later if tp not in held or firsts[tp] > held[tp].offset + 1]
        other = [] if gone else [str(tp) for tp in later if reading.otherwise(name, tp, held[tp].offset) is not None]
        if gone or other:
            why = "of what came after it the topics do not have all any more"
            if other:
                why = "some of what came after it was exported under an earlier configuration"
            raise CannotRepair(
                message,
                f"put them back from a copy: version {whole} is the newest one that is whole, and {why} "
                f"({', '.join(gone or other)})",
            )
        raise CannotRepair(
            message,
            f"RESTORE TABLE {table.sql_name} TO VERSION AS OF {whole}, the newest one that is whole, then start the "
            "repair again: what came later is exported again",
        )


def damaged_at(table: DeltaTable, version: int) -> set[str]:
    """The paths of the live files at a version that are not on disk with their size. Raises LogCleaned."""
    there = LiveSizes(table.store)
    return {add["path"] for add in table.files_at(version) if there.of(add["path"]) != add["size"]}


def newest_whole(table: DeltaTable, version: int, damaged: set[str]) -> int | None:
    """The newest version before these files were added that is whole; None if the log does not reach back to one."""
    try:
        while damaged:
            added = set(table.logged(version).added)
            damaged, version = damaged - added, version - 1
            if not damaged and version >= 0:
                damaged = damaged_at(table, version)
    except LogCleaned:
        return None
    return version if version >= 0 else None
