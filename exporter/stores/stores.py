"""The stores there are, by the scheme of a root: `table_root` in, Store out."""

from __future__ import annotations

from collections.abc import Callable

from exporter.errors import ConfigError
from exporter.stores.file import FileStore
from exporter.stores.store import Store

STORES: dict[str, Callable[[str], Store]] = {"": FileStore.at, "file": FileStore.at}
"""Scheme of a root -> the store at that root; empty: a root without scheme."""


def open_store(root: str) -> Store:
    """The store at a root, by its scheme; asks nothing of it. root: table_root, or what a store's uri() says.

    Raises ConfigError for a scheme without a store and for a store that could lose commits, ValueError for a text that
    is no root of its store.
    """
    scheme, separator, _ = root.partition("://")
    at = STORES.get(scheme if separator else "")
    if at is None:
        raise ConfigError(
            f"{scheme}:// is not supported yet: with several writers such stores can lose commits silently",
            "use file:///path on storage that all tasks share",
        )
    store = at(root)
    if getattr(store, "commits_are_exclusive", False) is not True:  # whatever was promised to type checkers
        raise ConfigError(
            f"{root}: two tasks that make the same log entry there could both be told that they did, and one commit "
            "would be lost",
            "use file:///path on storage that all tasks share",
        )
    return store
