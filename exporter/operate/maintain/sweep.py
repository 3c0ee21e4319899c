"""`exporter sweep`: data files of ours that no commit can name any more (TEMP; protocol, section 6).

Per table: list the folders, then take a snapshot, then ask offsets/sweeping.py. With them go the manifests of large
offers that cannot land any more (protocol 4.11). Tables of other apps, files with
names that are not ours and files that may still be committed are never touched. Needs no broker.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from exporter.errors import TableUnreadable
from exporter.lake.lake import Lake
from exporter.lake.table import DeltaTable
from exporter.log import get_logger
from exporter.log_events import Event
from exporter.protocol.offering import offered_paths
from exporter.stores.many import each
from exporter.stores.store import Store
from offsets.names import OFFERS_FOLDER
from offsets.partitions import Spec
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
        listed = {**listed_files(table.store, lake.spec_of(name, table.view())), **_manifests(table.store)}
        found = _dead(table, listed)
        if found is None:
            continue
        deleted = sum(table.store.delete(path) for path in found) if apply else 0
        if deleted:
            log.info(Event.FILES_SWEPT, table=name, files=deleted)
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
    return sorted([*candidates.values(), *_spent(table, listed, view.transactions)])


def _spent(table: DeltaTable, listed: dict[str, int], transactions: Mapping[str, int]) -> list[str]:
    """The manifests of offers that cannot land any more, or have: a file of theirs could not be added again."""
    manifests = [path for path in listed if path.startswith(f"{OFFERS_FOLDER}/")]
    read = each(lambda path: offered_paths(table.store, path), manifests)
    return [
        path
        for path, paths in zip(manifests, read, strict=True)
        if paths is not None and (not paths or may_be_dead(paths, table.app, transactions))
    ]


def _manifests(table: Store) -> dict[str, int]:
    """As listed_files(), of what large offers hold."""
    try:
        return {file.path: file.bytes for file in table.files(OFFERS_FOLDER)}
    except OSError as error:
        raise TableUnreadable(f"the files under {table.uri()} cannot be listed: {error}") from error


def listed_files(table: Store, spec: Spec) -> dict[str, int]:
    """Path relative to the table's folder -> bytes, of every file of its partitions. Raises TableUnreadable.

    A folder that is not there is no table without files: VACUUM would be told to have deleted them all.
    """
    try:
        folders = [""]
        for column in spec.column_names:
            folders = [
                f"{folder}/{name}".lstrip("/")
                for folder in folders
                for name in table.names(folder)
                if name.startswith(f"{column}=")
            ]
        if not folders and not table.has_folder(""):
            raise FileNotFoundError("there is no such folder")
        return {file.path: file.bytes for folder in folders for file in table.files(folder)}
    except OSError as error:
        raise TableUnreadable(f"the files under {table.uri()} cannot be listed: {error}") from error
