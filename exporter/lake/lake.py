"""All tables of one root."""

from __future__ import annotations

import os
from collections.abc import Iterable
from threading import Lock
from typing import Any

from exporter.core.order import Destination
from exporter.core.specs import table_spec
from exporter.core.table_options import TableOptions
from exporter.lake.gateway import Gateway
from exporter.lake.later import Later
from exporter.lake.table import DEFAULTS, DeltaTable, unread
from exporter.stores.many import each
from exporter.stores.store import Store
from exporter.stores.stores import open_store
from offsets.names import DERIVED_FOLDER, ERASED_FOLDER, LOG_FOLDER, BadName, event_type_of, table_folder
from offsets.partitions import Spec
from offsets.table_log import TableView


class Lake:
    """All tables of one root, in the store that it is of. As a context manager it stops its session."""

    def __init__(
        self,
        session: Any,
        root: str | os.PathLike[str] | Store,
        app: str,
        sync: bool = True,
        options: TableOptions = DEFAULTS,
    ) -> None:
        """session: one that is there, or a Later: what the files of a table tell is read without one. root: the store
        of all tables, or what open_store() takes. sync: whether what the session commits is on disk before its commit
        is done.

        Raises ConfigError if Java and this process would not mean the same folder; without a session whoever needs one
        does.
        """
        self.store: Store = open_store(os.fspath(root)) if isinstance(root, str | os.PathLike) else root
        self.options = options
        self.specs = options.specs
        self.app = app
        self.sync = sync and self.store.syncs
        self.type_widening = options.type_widening
        self.record_columns = options.record_columns
        self.compression = options.compression
        self.later = session if isinstance(session, Later) else Later.of(session, lambda there: there.stop())
        self._opening = Lock()
        self._gateway: Gateway | None = None
        if self.later.started:
            _ = self.gateway

    @property
    def session(self) -> Any:
        """Spark's. Raises ConfigError."""
        return self.gateway.session

    @property
    def gateway(self) -> Gateway:
        """To the session's JVM. Raises ConfigError."""
        with self._opening:  # one for all threads: it knows which logs were opened
            if self._gateway is None:
                self._gateway = Gateway(self._ready(self.later.session))
            return self._gateway

    def _ready(self, session: Any) -> Any:
        """With what commits to this store need."""
        self.store.require_same_names(
            lambda: session._jvm.java.lang.System.getProperty("sun.jnu.encoding"),
            values=any(spec.identity for spec in self.specs.named.values()),
        )
        if setting := self.store.java.sync_setting:
            session.sparkContext._jsc.hadoopConfiguration().setBoolean(setting, self.sync)
        return session

    def destination(self) -> Destination:
        """As tasks are told of it; what they write they bring to disk where nobody else is on their machine."""
        apart = self.sync and not self.session.sparkContext.master.startswith("local")
        return Destination(self.root, self.app, self.options, self.store.options, apart)

    @property
    def root(self) -> str:
        """The root as open_store() takes it, and as messages name it."""
        return self.store.uri()

    def stop(self) -> None:
        """Ends the session, if there is one."""
        self.later.stop()

    def __enter__(self) -> Lake:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def table(self, event_type: str) -> DeltaTable:
        """The table of an event type, whether it is there or not."""
        return self._table(self.store.below(table_folder(event_type)), event_type)

    def derived(self, job: str) -> DeltaTable:
        """The table of a job, whether it is there or not: it stands apart from those of event types."""
        return self._table(self.store.below(DERIVED_FOLDER).below(job), job)

    def erased(self) -> DeltaTable:
        """The table of erased records, whether it is there or not."""
        return self._table(self.store.below(ERASED_FOLDER).below(self.app), ERASED_FOLDER)

    def _table(self, store: Store, name: str) -> DeltaTable:
        return DeltaTable(lambda: self.gateway, store, self.app, name, self.sync, self.options)

    def spec_of(self, event_type: str, view: TableView | None) -> Spec:
        """That of a table that is there, or with which it would be made."""
        return self.specs.of(event_type) if view is None else table_spec(view)

    def event_types(self) -> tuple[str, ...]:
        """The event types of all folders that hold a Delta log; folders with other names are passed over."""
        return tuple(sorted(stored_event_types(self.store)))


def stored_jobs(store: Store) -> list[str]:
    """The jobs of [derive] that have a table in a store. Raises TableUnreadable."""
    below = store.below(DERIVED_FOLDER)
    try:
        return [name for name in sorted(below.names()) if below.has_folder(f"{name}/{LOG_FOLDER}")]
    except OSError as error:
        raise unread(f"the tables under {below.uri()} cannot be listed", error) from error


def stored_event_types(store: Store) -> Iterable[str]:
    """The event types that have a table in a store. Raises TableUnreadable."""
    try:
        names = store.names()
        are_tables = each(lambda name: store.has_folder(f"{name}/{LOG_FOLDER}"), names)
        folders = [name for name, is_table in zip(names, are_tables, strict=True) if is_table]
    except OSError as error:
        raise unread(f"the tables under {store.uri()} cannot be listed", error) from error
    for folder in folders:
        try:
            yield event_type_of(folder)
        except BadName:
            continue
