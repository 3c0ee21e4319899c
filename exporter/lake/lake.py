"""The folder of all tables, and what is called in the JVM."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from exporter.errors import ConfigError, TableUnreadable
from exporter.lake.table import DeltaTable
from exporter.stores.file import SYNC
from offsets.names import BadName, event_type_of


def require_same_names(session: Any, path: Path) -> None:
    """Raises ConfigError if Java would write a path otherwise than this process."""
    if str(path).isascii():
        return
    encoding = session._jvm.java.lang.System.getProperty("sun.jnu.encoding")
    try:
        same = str(path).encode(encoding) == os.fsencode(path)
    except (LookupError, UnicodeEncodeError):
        same = False
    if not same:
        raise ConfigError(
            f"Java writes file names as {encoding} here, and this process as {sys.getfilesystemencoding()}: {path} "
            "would be two folders",
            "set LC_ALL to a UTF-8 locale that this machine has (`locale -a`), or write table_root in ASCII",
        )


class Lake:
    """The folder of all tables. As a context manager it stops its session.

    What readings and commits call in the JVM is looked up once: the gateway asks the JVM for each part of a class's
    name, and the JVM searches all jars for it.
    """

    def __init__(self, session: Any, root: Path, app: str, sync: bool = True) -> None:
        """sync: whether what the session commits is on disk before its commit is done.

        Raises ConfigError if Java and this process would not mean the same folder.
        """
        require_same_names(session, root)
        self.root = root
        self.app = app
        self.session = session
        self.sync = sync
        self.tasks_sync = sync and not session.sparkContext.master.startswith("local")
        session.sparkContext._jsc.hadoopConfiguration().setBoolean(SYNC, sync)
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
        self._opened: set[Path] = set()

    def __enter__(self) -> Lake:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.session.stop()

    def activate(self) -> None:
        """Make the session this thread's own: Delta asks for it wherever it needs a Spark job of its own."""
        self._set_active_session(self.jsession)

    def log(self, folder: Path) -> Any:
        """Delta's own object for the log of the table in a folder."""
        self._opened.add(folder)
        self.activate()
        return self._log_for_table(self.jsession, str(folder))

    def has_opened(self, folder: Path) -> bool:
        """Whether anybody here has begun to open the log in a folder.

        As long as nobody has, the time of a snapshot tells what it has seen. Not so later: one that is left by a commit
        of this process bears a later time than the commit, though others may have committed in between.
        """
        return folder in self._opened

    def table(self, event_type: str) -> DeltaTable:
        return DeltaTable(self, event_type)

    def event_types(self) -> tuple[str, ...]:
        """The event types of all folders that hold a Delta log; folders with other names are passed over."""
        return tuple(sorted(stored_event_types(self.root)))

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


def stored_event_types(root: Path) -> Iterable[str]:
    """The event types that have a table under `root`. Raises TableUnreadable."""
    try:
        folders = [entry.name for entry in root.iterdir() if (entry / "_delta_log").is_dir()] if root.exists() else []
    except OSError as error:
        raise TableUnreadable(f"the tables under {root} cannot be listed: {error}") from error
    for folder in folders:
        try:
            yield event_type_of(folder)
        except BadName:
            continue
