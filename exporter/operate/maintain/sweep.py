"""`exporter sweep`: data files of ours that no commit can name any more (TEMP; protocol, section 6).

Per table: list the folders, then take a snapshot, then ask offsets/sweeping.py. Tables of other apps, files with
names that are not ours and files that may still be committed are never touched. Needs no broker.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from exporter.errors import TableUnreadable
from exporter.lake.lake import Lake
from exporter.lake.table import DeltaTable
from exporter.log import get_logger
from offsets.sweeping import may_be_dead, spare
from offsets.table_log import APP_PROPERTY

log = get_logger(__name__)


@dataclass(frozen=True)
class SweptTable:
    """What may be deleted of one table, or was. paths: relative to its folder. bytes: of these files."""

    event_type: str
    paths: tuple[str, ...]
    bytes: int
    deleted: int = 0


def sweep(lake: Lake, apply: bool, only: Collection[str] | None = None) -> Iterator[SweptTable]:
    """One row per table of the app, or of `only`; with `apply` the files are deleted. Raises TableUnreadable."""
    for name in lake.event_types() if only is None else only:
        table = lake.table(name)
        listed = listed_files(table.folder)
        found = _dead(table, listed)
        if found is None:
            continue
        deleted = sum(_delete(table.folder / path) for path in found) if apply else 0
        if deleted:
            log.info("files_swept", table=name, files=deleted)
        yield SweptTable(name, tuple(found), sum(listed[path] for path in found), deleted)


def _dead(table: DeltaTable, listed: dict[str, int]) -> list[str] | None:
    """The dead ones of the listed files, by a snapshot that is taken now; None if the table is not ours."""
    state = table.state()
    if state is None or state[0].properties.get(APP_PROPERTY) != table.app:
        return None
    view, named = state
    candidates = may_be_dead(listed, table.app, view.transactions)
    if candidates:
        for chunk in named():
            spare(candidates, chunk)
    return sorted(candidates.values())


def listed_files(folder: Path) -> dict[str, int]:
    """Path relative to the table's folder -> bytes, of every file in its days' folders. Raises TableUnreadable."""
    listed: dict[str, int] = {}
    try:
        for day in [entry for entry in os.scandir(folder) if entry.name.startswith("day=")]:
            if day.is_dir(follow_symlinks=False):
                listed |= _listed_day(day)
    except OSError as error:
        raise TableUnreadable(f"the files under {folder} cannot be listed: {error}") from error
    return listed


def _listed_day(day: os.DirEntry[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    try:
        entries = list(os.scandir(day.path))
    except FileNotFoundError:  # VACUUM removes empty folders
        return found
    for entry in entries:
        try:
            if entry.is_file(follow_symlinks=False):
                found[f"{day.name}/{entry.name}"] = entry.stat(follow_symlinks=False).st_size
        except FileNotFoundError:
            continue
    return found


def _delete(path: Path) -> bool:
    """False if somebody else has deleted it already."""
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    return True
