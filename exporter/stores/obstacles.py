"""What stands in the way of all tables: asked before a JVM is started."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from exporter.errors import ConfigError
from exporter.stores.many import each
from exporter.stores.store import Store
from offsets.names import LOG_FOLDER, table_folder


def in_the_way(store: Store, event_types: Iterable[str]) -> Iterator[ConfigError]:
    """Each file that stands where the folder of a table, or of its log, has to be. store: of all tables."""
    folders = {name: table_folder(name) for name in event_types}
    places = {path: name for name, folder in folders.items() for path in (folder, f"{folder}/{LOG_FOLDER}")}
    for (path, name), there in zip(places.items(), each(store.has_file, [*places]), strict=True):
        if there:
            yield ConfigError(f"{store.uri(path)} is a file, where table {name} has to be", "move it away")


def require_room(store: Store, event_types: Iterable[str], sync: bool = False) -> None:
    """Raises ConfigError or DependencyUnreachable if nothing can be written, or a file is where a table has to be."""
    if (error := store.unwritable("", sync)) is not None:
        raise error
    if found := [*in_the_way(store, event_types)]:
        raise ConfigError.of(found, "files are in the way")
