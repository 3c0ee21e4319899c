"""The stores there are, by the scheme of a root: `table_root` in, Store out."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from exporter.errors import ConfigError
from exporter.stores.azure import AzureStore
from exporter.stores.file import FileStore
from exporter.stores.gcs import GcsStore
from exporter.stores.hdfs import HdfsStore
from exporter.stores.s3 import S3Store
from exporter.stores.store import Store

STORES: dict[str, Callable[[str, Mapping[str, str]], Store]] = {
    "": FileStore.at,
    "file": FileStore.at,
    "s3": S3Store.at,
    "s3a": S3Store.at,
    "abfs": AzureStore.at,
    "abfss": AzureStore.at,
    "gs": GcsStore.at,
    "hdfs": HdfsStore.at,
}
"""Scheme of a root -> the store at that root with its options; empty: a root without scheme."""


def open_store(root: str, options: Mapping[str, str] | None = None) -> Store:
    """The store at a root, by its scheme; asks nothing of it. root: table_root, or what a store's uri() says.

    options: what that store has to be told beside (Store.options). Raises ConfigError for a scheme without a store and
    for a store that could lose commits, ValueError for a text that is no root of its store.
    """
    scheme, separator, _ = root.partition("://")
    at = STORES.get(scheme if separator else "")
    if at is None:
        schemes = ", ".join(f"{name}://" for name in STORES if name)
        raise ConfigError(f"{scheme}:// is not a store that tables can be in", f"there are {schemes}")
    store = at(root, options or {})
    if getattr(store, "commits_are_exclusive", False) is not True:  # whatever was promised to type checkers
        raise ConfigError(
            f"{root}: two tasks that make the same log entry there could both be told that they did, and one commit "
            "would be lost",
            "use file:///path on storage that all tasks share",
        )
    return store
