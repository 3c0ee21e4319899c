"""All tables of one root, and what is called in the JVM."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any

from exporter.errors import TableUnreadable
from exporter.lake.table import DeltaTable
from exporter.stores.store import Store
from exporter.stores.stores import open_store
from offsets.names import LOG_FOLDER, BadName, event_type_of


class Lake:
    """All tables of one root, in the store that it is of. As a context manager it stops its session.

    What readings and commits call in the JVM is looked up once: the gateway asks the JVM for each part of a class's
    name, and the JVM searches all jars for it.
    """

    def __init__(self, session: Any, root: str | os.PathLike[str], app: str, sync: bool = True) -> None:
        """root: as open_store() takes it. sync: whether what the session commits is on disk before its commit is done.

        Raises ConfigError if Java and this process would not mean the same folder.
        """
        self.store: Store = open_store(os.fspath(root))
        self.store.require_same_names(lambda: session._jvm.java.lang.System.getProperty("sun.jnu.encoding"))
        self.app = app
        self.session = session
        self.sync = sync
        self.tasks_sync = sync and not session.sparkContext.master.startswith("local")
        if setting := self.store.java.sync_setting:
            session.sparkContext._jsc.hadoopConfiguration().setBoolean(setting, sync)
        self.jsession = session._jsparkSession
        jvm = session._jvm
        sql, option = jvm.org.apache.spark.sql, jvm.scala.Option
        self.none = option.empty()
        self.some = option.apply
        self.new_list = jvm.java.util.ArrayList
        self._as_scala = jvm.scala.jdk.javaapi.CollectionConverters.asScala
        self.action_from_json = sql.delta.actions.Action.fromJson
        self._streaming_update = sql.delta.DeltaOperations.StreamingUpdate
        self._append = sql.streaming.OutputMode.Append()
        self._set_active_session = sql.classic.SparkSession.setActiveSession
        self._log_for_table = sql.delta.DeltaLog.forTable
        self._mapper = sql.delta.util.JsonUtils.mapper()
        of_name, list_of = jvm.java.lang.Class.forName, self._mapper.getTypeFactory().constructCollectionType
        a_list, actions = of_name("java.util.ArrayList"), "org.apache.spark.sql.delta.actions."
        self._texts = list_of(a_list, of_name("java.lang.String"))
        self._transactions = list_of(a_list, of_name(actions + "SetTransaction"))
        self._adds = list_of(a_list, of_name(actions + "AddFile"))
        self._opened: set[str] = set()

    @property
    def root(self) -> str:
        """As open_store() takes it, and as messages call it."""
        return self.store.uri()

    def __enter__(self) -> Lake:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.session.stop()

    def activate(self) -> None:
        """Make the session this thread's own: Delta asks for it wherever it needs a Spark job of its own."""
        self._set_active_session(self.jsession)

    def log(self, uri: str) -> Any:
        """Delta's own object for the log of a table."""
        self._opened.add(uri)
        self.activate()
        return self._log_for_table(self.jsession, uri)

    def has_opened(self, uri: str) -> bool:
        """Whether anybody here has begun to open the log of a table.

        As long as nobody has, the time of a snapshot tells what it has seen. Not so later: one that is left by a commit
        of this process bears a later time than the commit, though others may have committed in between.
        """
        return uri in self._opened

    def table(self, event_type: str) -> DeltaTable:
        return DeltaTable(self, event_type)

    def event_types(self) -> tuple[str, ...]:
        """The event types of all folders that hold a Delta log; folders with other names are passed over."""
        return tuple(sorted(stored_event_types(self.store)))

    def operation(self, user_metadata: str) -> Any:
        """What a commit says of itself: that it appended as a stream does, and what only we read."""
        return self._streaming_update(self._append, self.app, 0, self.some(user_metadata))

    def texts(self, texts: Iterable[str]) -> Any:
        """A Java list, in one call over the gateway however long it is; so are the next two."""
        return self._mapper.readValue(json.dumps([*texts]), self._texts)

    def transactions(self, actions: Iterable[Mapping[str, Any]]) -> Any:
        """A Java list of `txn` actions."""
        return self._mapper.readValue(json.dumps([*actions]), self._transactions)

    def adds(self, actions: Iterable[Mapping[str, Any]]) -> Any:
        """A Java list of `add` actions."""
        return self._mapper.readValue(json.dumps([*actions]), self._adds)

    def to_seq(self, java_list: Any) -> Any:
        """A Java list as Scala's sequence."""
        return self._as_scala(java_list).toSeq()

    def to_json(self, scala_value: Any) -> str:
        """A Scala collection as JSON text, in one call over the gateway."""
        return str(self._mapper.writeValueAsString(scala_value))


def stored_event_types(store: Store) -> Iterable[str]:
    """The event types that have a table in a store. Raises TableUnreadable."""
    try:
        folders = [name for name in store.names() if store.has_folder(f"{name}/{LOG_FOLDER}")]
    except OSError as error:
        raise TableUnreadable(f"the tables under {store.uri()} cannot be listed: {error}") from error
    for folder in folders:
        try:
            yield event_type_of(folder)
        except BadName:
            continue
