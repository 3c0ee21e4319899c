"""What is called in the JVM that Spark runs, looked up once, and values on their way there and back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any


class Gateway:
    """Of one session.

    What readings and commits call in the JVM is looked up once: py4j's gateway asks the JVM for each part of a class's
    name, and the JVM searches all jars for it. none, some: Scala's Option. new_list(): an empty Java list.
    action_from_json(text): a Delta action.
    """

    def __init__(self, session: Any) -> None:
        """session: of Spark, with Delta's extension."""
        self.session = session
        self._jsession = session._jsparkSession
        jvm = session._jvm
        sql, option = jvm.org.apache.spark.sql, jvm.scala.Option
        self.none = option.empty()
        self.some = option.apply
        self.new_list = jvm.java.util.ArrayList
        converters = jvm.scala.jdk.javaapi.CollectionConverters
        self._as_scala, self._as_java = converters.asScala, converters.asJava
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
        self._functions = sql.functions
        self._opened: set[str] = set()

    def activate(self) -> None:
        """Make the session this thread's own: Delta asks for it wherever it needs a Spark job of its own."""
        self._set_active_session(self._jsession)

    def log(self, uri: str) -> Any:
        """Delta's own object for the log of a table."""
        self._opened.add(uri)
        self.activate()
        return self._log_for_table(self._jsession, uri)

    def has_opened(self, uri: str) -> bool:
        """Whether anybody here has begun to open the log of a table.

        As long as nobody has, the time of a snapshot tells what it has seen. Not so later: one that is left by a commit
        of this process bears a later time than the commit, though others may have committed in between.
        """
        return uri in self._opened

    def operation(self, app: str, user_metadata: str) -> Any:
        """What a commit says of itself: that it appended as a stream does, and what only we read."""
        return self._streaming_update(self._append, app, 0, self.some(user_metadata))

    def texts(self, texts: Iterable[str]) -> Any:
        """A Java list, in one call over the gateway however long it is; so are transactions() and adds()."""
        return self._mapper.readValue(json.dumps([*texts]), self._texts)

    def among(self, column: str, texts: Iterable[str]) -> Any:
        """A Java Column: whether a column is one of these."""
        return self._functions.col(column).isInCollection(self.texts(texts))

    def transactions(self, actions: Iterable[Mapping[str, Any]]) -> Any:
        """A Java list of `txn` actions."""
        return self._mapper.readValue(json.dumps([*actions]), self._transactions)

    def adds(self, actions: Iterable[Mapping[str, Any]]) -> Any:
        """A Java list of `add` actions."""
        return self._mapper.readValue(json.dumps([*actions]), self._adds)

    def along_a_curve(self, rows: Any, files: int, columns: Iterable[str]) -> Any:
        """A DataFrame whose rows are in so many files, and in each, by a curve through all of the columns (Z-order)."""
        from pyspark.sql import DataFrame

        skipping = self.session._jvm.org.apache.spark.sql.delta.skipping  # seldom needed: no start waits for it
        clustering = getattr(getattr(skipping, "MultiDimClustering$"), "MODULE$")
        made = clustering.cluster(rows._jdf, files, self.to_seq(self.texts(columns)), "zorder")
        return DataFrame(made, rows.sparkSession)

    def to_seq(self, java_list: Any) -> Any:
        """A Java list as Scala's sequence."""
        return self._as_scala(java_list).toSeq()

    def to_list(self, scala_sequence: Any) -> Any:
        """Scala's sequence as a Java list."""
        return self._as_java(scala_sequence)

    def to_json(self, scala_value: Any) -> str:
        """A Scala collection as JSON text, in one call over the gateway."""
        return str(self._mapper.writeValueAsString(scala_value))
