"""The tables' logs by their files: no query, no JVM, nothing that the export waits for."""

from __future__ import annotations

from collections.abc import Collection

from exporter.announce.seams import Trouble
from exporter.lake import log_files
from exporter.stores.many import each
from exporter.stores.store import Store
from exporter.text import first_line
from offsets.names import LOG_FOLDER, BadName, event_type_of, table_folder


class TableLogs:
    """Of all tables under a root. sync: whether what is announced has to be on disk first."""

    def __init__(self, store: Store, sync: bool) -> None:
        self._store = store
        self._sync = sync and store.syncs
        self._known: set[str] = set()

    def tables(self) -> Collection[str]:
        try:
            found = {name: event_type for name in self._store.names() if (event_type := _event_type(name))}
            new = [name for name in found if name not in self._known]
            are_tables = each(lambda name: self._store.has_folder(f"{name}/{LOG_FOLDER}"), new)
        except OSError as error:
            raise Trouble(f"the tables under {self._store.uri()} cannot be listed: {first_line(error)}") from error
        there = self._known & found.keys()
        self._known = there | {name for name, is_table in zip(new, are_tables, strict=True) if is_table}
        return sorted(found[name] for name in self._known)

    def newest(self, table: str) -> int | None:
        try:
            return log_files.newest_version(self._of(table))
        except (OSError, ValueError) as error:
            raise Trouble(f"the log of table {table} cannot be read: {first_line(error)}") from error

    def oldest(self, table: str, after: int) -> int:
        try:
            names = self._of(table).names(LOG_FOLDER)
        except (OSError, ValueError) as error:
            raise Trouble(f"the log of table {table} cannot be read: {first_line(error)}") from error
        versions = [int(name.removesuffix(".json")) for name in names if name.removesuffix(".json").isdigit()]
        there = [version for version in versions if version > after]
        if not there:
            raise Trouble(f"the log of table {table} has no entry after version {after}")
        return min(there)

    def lines(self, table: str, version: int) -> list[str] | None:
        store = self._of(table)
        try:
            with log_files.entry_lines(store, version) as lines:
                found = [*lines]
            if self._sync:  # a power cut takes a name that its writer was killed before it synced
                store.sync(LOG_FOLDER)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise Trouble(f"table {table}: version {version} cannot be read: {first_line(error)}") from error
        return found

    def _of(self, table: str) -> Store:
        return self._store.below(table_folder(table))


def _event_type(folder: str) -> str:
    """Empty for a folder that is no event type's."""
    try:
        return event_type_of(folder)
    except BadName:
        return ""
