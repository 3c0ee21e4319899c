"""How large a table's live files are, of many: a store that is asked for each by itself takes a request for each."""

from __future__ import annotations

from urllib.parse import unquote

from exporter.stores.store import Store


def is_elsewhere(path: str) -> bool:
    """Whether a live file, as its table's log calls it, stands outside of the table's folder, as a clone's do."""
    plain = unquote(path)
    return ":/" in path or plain.startswith("/") or ".." in plain.split("/")


class LiveSizes:
    """Lists each folder once, when a file in it is asked for; what a listing does not tell is asked for by its name."""

    def __init__(self, table: Store) -> None:
        """table: the store of its folder."""
        self._table = table
        self._folders: dict[str, dict[str, int]] = {}

    def of(self, path: str) -> int | None:
        """As live_size(). path: as the table's log has it. Raises OSError."""
        if is_elsewhere(path):
            return self._table.live_size(path)
        plain = unquote(path)
        folder = plain.rpartition("/")[0]
        if folder not in self._folders:
            self._folders[folder] = {file.path: file.bytes for file in self._table.files(folder)}
        size = self._folders[folder].get(plain)
        return self._table.live_size(path) if size is None else size
