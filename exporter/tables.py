"""Delta tables through the JVM that Spark runs: one snapshot in, one commit out.

What a version says is read from the files of the log where these tell it (log_state.py). Registers each appId
that a commit replaces, so that Delta itself refuses a commit whose positions have changed since
(FENCE). Creating and anchoring a table is one commit. Nothing here deletes a file (TEMP).
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from exporter import kept, log_state, log_store
from exporter.columns import EVENT_TIME, clashes
from exporter.errors import ConfigError, DependencyUnreachable, ExporterError
from exporter.fillable import unfillable
from exporter.secrets import masked
from exporter.spark import require_same_names
from exporter.writers import StagedFile
from offsets.names import FORMAT_VERSION, BadName, event_type_of, table_folder
from offsets.table_log import (
    APP_PROPERTY,
    EVENT_TYPE_PROPERTY,
    FORMAT_PROPERTY,
    LoggedCommit,
    LogState,
    TableView,
    parse_commit,
)

NO_COLUMNS = '{"type":"struct","fields":[]}'
"""Spark schema JSON of an event type that is not declared: all of a record is in `_rescued`."""

TABLE_PROPERTIES = {"delta.checkpointInterval": "100"}
"""A checkpoint each 10 commits (the default) would cost 1-2 s inside the commit."""

_KAFKA_TYPE: dict[str, Any] = {
    "type": "struct",
    "fields": [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in (
            ("topic", "string"),
            ("partition", "integer"),
            ("epoch", "integer"),
            ("offset", "long"),
            ("timestamp", "timestamp"),
        )
    ],
}
_HEADERS_TYPE: dict[str, Any] = {
    "type": "array",
    "containsNull": True,
    "elementType": {
        "type": "struct",
        "fields": [
            {"name": "key", "type": "string", "nullable": True, "metadata": {}},
            {"name": "value", "type": "binary", "nullable": True, "metadata": {}},
        ],
    },
}
DEAD_LETTER_FIELDS: tuple[tuple[str, Any], ...] = (
    ("key", "binary"),
    ("value", "binary"),
    ("headers", _HEADERS_TYPE),
    ("stage", "string"),
    ("reason", "string"),
    ("event_type", "string"),
    ("first_offset", "long"),
    ("last_offset", "long"),
)


class TableUnreadable(ExporterError):
    """A table's log cannot be read; this is never taken as 'no position' (traps 4)."""

    exit_code = 70


class TableUnwritable(DependencyUnreachable):
    """Commits to a table fail, for a reason that only the system underneath knows."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "start again when the storage is well: everything goes on from the tables")


class Widened(ConfigError):
    """A column is declared as the table had it before a user widened it: its files can still be read."""


class LogCleaned(TableUnreadable):
    """Versions that have to be looked at are no longer in the table's log."""


def _field(name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": True, "metadata": {}}


def _all_nullable(kind: Any) -> Any:
    """A Spark type (parsed JSON), everything in it nullable: the decoder enforces what is required."""
    if isinstance(kind, dict):
        kind = {key: _all_nullable(value) for key, value in kind.items()}
        for flag in ("nullable", "containsNull", "valueContainsNull"):
            if flag in kind:
                kind[flag] = True
        return kind
    return [_all_nullable(item) for item in kind] if isinstance(kind, list) else kind


def table_schema(declared_json: str | None) -> str:
    """Spark schema JSON of a table: `_kafka`, `_event_time`, the declared columns, `_rescued`, `day`.

    None: of the dead letters, whose records need have no event time.
    """
    fields = [_field("_kafka", _KAFKA_TYPE)]
    if declared_json is None:
        fields += [_field(name, kind) for name, kind in DEAD_LETTER_FIELDS]
    else:
        fields.append(_field(EVENT_TIME, "timestamp"))
        fields += [_field(f["name"], _all_nullable(f["type"])) for f in json.loads(declared_json)["fields"]]
        fields.append(_field("_rescued", "string"))
    fields.append(_field("day", "date"))
    return json.dumps({"type": "struct", "fields": fields}, separators=(",", ":"))


def with_event_time(table_json: str) -> str:
    """A table's schema with `_event_time` behind `_kafka`; unchanged text if it has a column of that name."""
    table = json.loads(table_json)
    timed = _with_event_time(table)
    return table_json if timed is table else json.dumps(timed, separators=(",", ":"))


def _with_event_time(table: Any) -> Any:
    names = [field["name"] for field in table["fields"]]
    if any(name.lower() == EVENT_TIME for name in names):
        return table
    at = names.index("_kafka") + 1 if "_kafka" in names else 0
    fields = [*table["fields"][:at], _field(EVENT_TIME, "timestamp"), *table["fields"][at:]]
    return {**table, "fields": fields}


def untimed(views: Mapping[str, TableView]) -> frozenset[str]:
    """The event types whose table has another column of that name, from before it was the exporter's; it stays so."""
    return frozenset(name for name, view in views.items() if not _keeps_event_time(view.schema_json))


def _keeps_event_time(table_json: str) -> bool:
    called_so = [field for field in json.loads(table_json)["fields"] if field["name"].lower() == EVENT_TIME]
    return all((field["name"], field["type"]) == (EVENT_TIME, "timestamp") for field in called_so)


def evolved_schema(table_json: str, declared_json: str) -> str:
    """The table's schema with the declared columns that it lacks, at every level; unchanged text if it lacks none.

    Both are Spark schema JSON; declared_json as table_schema() gives it. Columns of the table that are not
    declared stay. Raises ConfigError, for all columns at once, where one has another type, for no type is ever changed
    silently, and for a new column that readers would take for one that the table has.
    """
    table = json.loads(table_json)
    merged, unfit = _merged(table, json.loads(declared_json))
    if unfit:
        raise ConfigError.of(unfit, "columns of the settings do not fit the table")
    return table_json if merged == table else json.dumps(merged, separators=(",", ":"))


def _merged(table: Any, declared: Any) -> tuple[Any, list[ConfigError]]:
    """The table's schema with what it lacks, and which columns do not fit; all as parsed JSON."""
    unfit: list[ConfigError] = []
    wanted = [field for field in declared["fields"] if field["name"] != EVENT_TIME]
    base = table if wanted == declared["fields"] else _with_event_time(table)
    merged = _merge_types(base, {**declared, "fields": wanted}, "", frozenset(), unfit)
    alike = set(clashes(merged["fields"])) - set(clashes(table["fields"])) if merged != table else set()
    for one, other in sorted(alike):
        unfit.append(ConfigError(
            f"the table has a column {one}, which readers cannot tell from {other}",
            "declare it by the name that the table has (a field that is written otherwise then goes to `_rescued`), or "
            "give the new column another one",
        ))  # fmt: skip
    return merged, unfit


def _merge_types(have: Any, want: Any, path: str, before: frozenset[str], unfit: list[ConfigError]) -> Any:
    """`have` with the fields of `want` added; both are Spark types as parsed JSON.

    before: the types that the column, or a part of it, had before it was widened. unfit: gets what does not fit.
    """
    if isinstance(have, dict) and isinstance(want, dict) and have.get("type") == want.get("type"):
        if have["type"] == "struct":
            return {**have, "fields": _merge_fields(have["fields"], want["fields"], path, unfit)}
        merged = dict(have)
        for part in ("elementType", "keyType", "valueType"):
            if part in have:
                name = part.removesuffix("Type")
                merged[part] = _merge_types(have[part], want[part], f"{path}.{name}", before, unfit)
        return merged
    if have != want:
        kind = Widened if isinstance(want, str) and want in before else ConfigError
        unfit.append(kind(
            f"column {path.lstrip('.')} is {_shown(have)} in the table and {_shown(want)} in the settings",
            "declare the type that the table has: values that it cannot hold stay in the dead letters, whole; or leave "
            "the column out: new values are then kept in `_rescued`, whatever they are",
        ))  # fmt: skip
    return have


def _merge_fields(have: list[Any], want: list[Any], path: str, unfit: list[ConfigError]) -> list[Any]:
    wanted = {field["name"]: field for field in want}
    merged = [
        {**f, "type": _merge_types(f["type"], wanted[f["name"]]["type"], f"{path}.{f['name']}", _before(f), unfit)}
        if f["name"] in wanted
        else f
        for f in have
    ]
    known = {f["name"] for f in have}
    return [*merged, *(f for f in want if f["name"] not in known)]


def _before(column: Mapping[str, Any]) -> frozenset[str]:
    """Source: the Delta protocol, 'Type Widening'."""
    return frozenset(change["fromType"] for change in column.get("metadata", {}).get("delta.typeChanges", ()))


def refuses(view: TableView, declared_json: str | None, widened: bool = True) -> str:
    """Why files that fit what is declared cannot be put into a table, with what to do; empty if they can.

    The table is as users have altered it since it was made to hold that, or without `_event_time`, which a start adds
    where it can: files have it anyway, and readers go by the table. declared_json: as table_schema() gives it;
    None for a table that is not declared. widened: whether a column that a user has widened is a reason too.
    """
    reasons: list[str] = []
    if declared_json is not None:
        table = json.loads(view.schema_json)
        merged, unfit = _merged(table, json.loads(declared_json))
        reasons += [error.message for error in unfit if widened or not isinstance(error, Widened)]
        known = _with_event_time(table)["fields"]
        lacking = [field["name"] for field in merged["fields"] if field not in known]
        if lacking and not reasons:
            columns = f"column{'s' if len(lacking) > 1 else ''} {', '.join(lacking)}"
            reasons.append(f"it lacks {columns}, which the settings declare (renamed? ALTER TABLE ... ADD COLUMNS)")
    return "; ".join(filter(None, (*reasons, unfillable(view))))


def _shown(kind: Any) -> str:
    return kind if isinstance(kind, str) else str(kind.get("type", kind))


@dataclass(frozen=True)
class Change:
    """All that one commit says.

    expected: appIds whose versions the commit depends on; registered as read. positions: appId -> new version.
    adds: Delta `add` actions. properties: table properties to set (a metadata change). create: Spark schema JSON
    of a table to be created by this very commit. evolve: Spark schema JSON that an existing table gets.
    removes: paths of live files, as the log writes them, that this commit takes out of the table (a rewind).
    table_id: of a table to be created; a new one if empty.
    """

    expected: tuple[str, ...]
    positions: Mapping[str, int]
    user_metadata: Mapping[str, Any]
    adds: tuple[Mapping[str, Any], ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    create: str | None = None
    evolve: str | None = None
    removes: tuple[str, ...] = ()
    table_id: str = ""


Check = Callable[[TableView | None], None]
"""Looks at the snapshot that the commit is based on; raises to give the commit up."""


class DeltaTable:
    """One table of the lake."""

    def __init__(self, lake: Lake, event_type: str) -> None:
        self.event_type = event_type
        self.app = lake.app
        self.folder = lake.root / table_folder(event_type)
        self._lake = lake

    def view(self) -> TableView | None:
        """The table as it is now, or None if there is none. Raises TableUnreadable.

        What it says survives a power cut: its newest writer may have been killed before it synced the entry, and
        whoever reads a position builds on it, in other tables and in the write-ahead log (ORDER).
        """
        try:
            if self._lake.sync and (log := log_state.log_folder(self.folder)).exists():
                kept.sync(log)
            return log_state.newest_view(self.folder) or self._view(self._snapshot())
        except Exception as error:  # py4j raises its own kinds; whatever it was, the table was not read
            raise TableUnreadable(f"table {self.event_type} cannot be read: {first_line(error)}") from error

    def state(self) -> tuple[TableView, Callable[[], Iterator[list[str]]]] | None:
        """A fresh snapshot and the paths that it names, live files and tombstones, some at a time; None: no table.

        The paths come through Arrow by one Spark job, when they are asked for. Raises TableUnreadable.
        """
        try:
            snapshot = self._snapshot()
            view = self._view(snapshot)
        except Exception as error:
            raise TableUnreadable(f"table {self.event_type} cannot be read: {first_line(error)}") from error
        return None if view is None else (view, lambda: self._named(snapshot))

    def _named(self, snapshot: Any) -> Iterator[list[str]]:
        from pyspark.sql import DataFrame

        try:
            paths = DataFrame(snapshot.stateDF(), self._lake.session).selectExpr(
                "coalesce(add.path, remove.path) AS path"
            )
            found = paths.where("path IS NOT NULL").toArrow()
        except Exception as error:
            raise TableUnreadable(f"table {self.event_type} cannot be read: {first_line(error)}") from error
        for batch in found.to_batches():
            yield batch.column("path").to_pylist()

    def live_sizes(self) -> dict[str, list[int]]:
        """Day -> bytes of each live file; by one Spark job. Raises TableUnreadable."""
        from pyspark.sql import DataFrame

        sizes: dict[str, list[int]] = {}
        try:
            adds = DataFrame(self._snapshot().allFiles().toDF(), self._lake.session)
            found = adds.selectExpr("partitionValues['day'] AS day", "size").toArrow()
        except Exception as error:
            raise TableUnreadable(f"table {self.event_type} cannot be read: {first_line(error)}") from error
        for row in found.to_pylist():
            sizes.setdefault(row["day"] or "", []).append(row["size"])
        return sizes

    def checkpoint(self, commits_min: int, apply: bool) -> bool:
        """Whether so many commits came after the last one; with `apply` one is written then, as Delta does it.

        The log is cleaned up by the table's own rule as well. Raises TableUnreadable.
        """
        try:
            snapshot = self._snapshot()
            due = snapshot.version() - max(-1, snapshot.checkpointProvider().version()) >= commits_min
            if due and apply:
                self._log().checkpointAndCleanUpDeltaLog(snapshot, self._lake.none)  # checkpoint() hides what fails
        except Exception as error:
            raise TableUnreadable(f"table {self.event_type}: its checkpoint failed: {first_line(error)}") from error
        return bool(due)

    def _snapshot(self) -> Any:
        """As the table is now. A log that is opened here for the first time was listed just then, once is enough."""
        lake, began_ms = self._lake, int(time.time() * 1000)  # before it is asked whether others have opened the log
        since = lake.none if lake.has_opened(self.folder) else lake.some(began_ms)
        return self._log().update(False, since, lake.none)

    def commit(self, change: Change, check: Check) -> int:
        """Commit on a fresh snapshot; the version. Raises what `check` raises, or whatever Delta raised.

        After any exception the caller finds the outcome by looking (protocol 4.4).
        """
        lake = self._lake
        txn = self._begun(change, check)
        if change.expected:
            txn.readTxn().appendAll(lake.to_seq(lake.texts(change.expected)))
        now_ms = int(time.time() * 1000)
        actions = lake.transactions(
            {"appId": app_id, "version": version, "lastUpdated": now_ms} for app_id, version in change.positions.items()
        )
        if change.adds:
            actions.addAll(lake.adds(change.adds))
        for live in _live_files(txn.snapshot(), change.removes) if change.removes else ():
            actions.add(live.remove())
        text = json.dumps(change.user_metadata, separators=(",", ":"), sort_keys=True)
        return int(txn.commit(lake.to_seq(actions), lake.operation(text)))

    def rehearse(self, change: Change, check: Check) -> None:
        """All of commit() but the commit: raises what Delta says of names, columns and features that it refuses."""
        txn = self._begun(change, check)
        self._log().protocolWrite(txn.protocol())

    def _begun(self, change: Change, check: Check) -> Any:
        """A transaction on a fresh snapshot with the change's metadata."""
        txn = self._log().startTransaction()
        check(self._view(txn.snapshot()))
        if change.create is not None:
            txn.updateMetadataForNewTable(self._action({"metaData": self._new_metadata(change)}))
        elif change.properties or change.evolve is not None:
            metadata = json.loads(txn.snapshot().metadata().json())["metaData"]
            metadata["configuration"] = {**metadata.get("configuration", {}), **change.properties}
            metadata["schemaString"] = change.evolve or metadata["schemaString"]
            txn.updateMetadata(self._action({"metaData": metadata}), False)
        return txn

    def view_at(self, version: int) -> TableView:
        """The table as it was at a version. Raises LogCleaned."""
        view = self._view(self._snapshot_at(version))
        if view is None:
            raise LogCleaned(f"table {self.event_type}: version {version} can no longer be read")
        return view

    def files_at(self, version: int) -> list[dict[str, Any]]:
        """The `add` actions of the live files at a version. Raises LogCleaned."""
        rows = self._snapshot_at(version).allFiles().toJSON().collectAsList()
        return [json.loads(row) for row in json.loads(self._lake.to_json(rows))]

    def adds_at(self, version: int) -> Any:
        """A Java DataFrame of the live files at a version, one `add` action a row. Raises LogCleaned."""
        return self._snapshot_at(version).allFiles().toDF()

    def rows_of(self, version: int, paths: Collection[str]) -> Any:
        """A DataFrame of the rows of some live files at a version. paths: as the log writes them."""
        snapshot, adds = self._snapshot_at(version), self._lake.new_list()
        for live in _live_files(snapshot, paths):
            adds.add(live)
        return self._log().createDataFrame(snapshot, self._lake.to_seq(adds), False, self._lake.none)

    def _snapshot_at(self, version: int) -> Any:
        none = self._lake.none
        try:
            return self._log().getSnapshotAt(version, none, none, False)
        except Exception as error:  # py4j raises its own kinds
            raise LogCleaned(
                f"table {self.event_type}: version {version} can no longer be read: {first_line(error)}"
            ) from error

    def commits(self, after: int, through: int) -> list[LoggedCommit]:
        """What the versions after+1..through say. Raises LogCleaned if one of them is gone."""
        return [self.logged(version) for version in range(after + 1, through + 1)]

    def empty_entries(self, through: int, most: int) -> list[int]:
        """Those of so many versions up to `through` whose log entry has no byte, the newest first."""
        found = []
        for version in range(through, max(-1, through - most), -1):
            try:
                if not log_state.entry(self.folder, version).stat().st_size:
                    found.append(version)
            except FileNotFoundError:
                break
        return found

    def logged(self, version: int) -> LoggedCommit:
        """What one version of the log says. Raises LogCleaned or TableUnreadable."""
        try:
            with log_state.entry(self.folder, version).open(encoding="utf-8") as lines:
                return parse_commit(version, lines)
        except FileNotFoundError as error:
            raise LogCleaned(
                f"table {self.event_type}: version {version} is no longer in its log",
                "the log was cleaned up while no task ran: `exporter repair --rewind` compares the tables with the "
                "topic and, with `--apply`, accepts them if nothing is missing",
            ) from error
        except (OSError, ValueError) as error:
            raise TableUnreadable(f"table {self.event_type}: version {version} cannot be read: {error}") from error

    def _log(self) -> Any:
        return self._lake.log(self.folder)

    def _action(self, action: Mapping[str, Any]) -> Any:
        return self._lake.action_from_json(json.dumps(action))

    def _new_metadata(self, change: Change) -> dict[str, Any]:
        configuration = {
            **TABLE_PROPERTIES,
            APP_PROPERTY: self._lake.app,
            FORMAT_PROPERTY: str(FORMAT_VERSION),
            EVENT_TYPE_PROPERTY: self.event_type,
            **change.properties,
        }
        return {
            "id": change.table_id or str(uuid.uuid4()),
            "format": {"provider": "parquet", "options": {}},
            "schemaString": change.create,
            "partitionColumns": ["day"],
            "configuration": configuration,
            "createdTime": int(time.time() * 1000),
        }

    def _view(self, snapshot: Any) -> TableView | None:
        """What a snapshot says: by the files of its version, for Delta takes many calls to tell."""
        version = int(snapshot.version())
        if version < 0:
            return None
        if (found := log_state.view_at(self.folder, version)) is not None:
            return found
        metadata = json.loads(snapshot.metadata().json())["metaData"]
        protocol = json.loads(snapshot.protocol().json())["protocol"]
        return log_state.as_view(version, LogState(metadata, protocol, self._transactions(snapshot)))

    def _transactions(self, snapshot: Any) -> dict[str, int]:
        """appId -> version, from the checksum where it lists them (1 ms), else by a state reconstruction."""
        checksum = snapshot.checksumOpt()
        listed = checksum.get().setTransactions() if checksum.isDefined() else None
        if listed is not None and listed.isDefined() and not listed.get().isEmpty():
            actions = json.loads(self._lake.to_json(listed.get()))
            return {action["appId"]: int(action["version"]) for action in actions}
        reconstructed = json.loads(self._lake.to_json(snapshot.transactions()))
        return {app_id: int(version) for app_id, version in reconstructed.items()}


def _live_files(snapshot: Any, paths: Collection[str]) -> Any:
    """The AddFile objects of live files. Raises TableUnreadable if one of them is not live."""
    quoted = ", ".join("'" + path.replace("\\", "\\\\").replace("'", "\\'") + "'" for path in sorted(paths))
    found = snapshot.allFiles().filter(f"path IN ({quoted})").collectAsList()
    if len(found) != len(paths):
        raise TableUnreadable(f"{len(paths) - len(found)} of {len(paths)} files are not live any more")
    return found


class Lake:
    """The folder of all tables.

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
        session.sparkContext._jsc.hadoopConfiguration().setBoolean(log_store.SYNC, sync)
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


def add_action(file: StagedFile, tags: Mapping[str, str]) -> dict[str, Any]:
    """Delta's `add` action of a staged file. Source: the Delta protocol, 'Add File and Remove File'."""
    return {
        "path": file.path,
        "partitionValues": {"day": file.day},
        "size": file.size_bytes,
        "modificationTime": int(time.time() * 1000),
        "dataChange": True,
        "stats": file.stats,
        "tags": dict(tags),
    }


def holds_just(view: TableView, schema_json: str) -> bool:
    """True if files that fit the schema fit the table: no further columns, constraints or column mapping."""
    same = json.loads(view.schema_json) == json.loads(schema_json) and view.partition_columns == ("day",)
    return same and not any(prop.startswith(("delta.constraints.", "delta.columnMapping.")) for prop in view.properties)


def not_synced(error: BaseException) -> bool:
    """Whether a commit was given up because something of it could not be brought to disk."""
    java = getattr(error, "java_exception", None)
    while java is not None:
        if java.getClass().getName() == log_store.NOT_SYNCED:
            return True
        java = java.getCause()
    return False


def first_line(error: BaseException) -> str:
    """The telling line of an error: a Java exception without its stack, of a Python traceback the last; no secret."""
    java = getattr(error, "java_exception", None)
    text = str(java.toString()) if java is not None else f"{type(error).__name__}: {error}"
    lines = [line.strip() for line in text.splitlines() if line.strip()] or [type(error).__name__]
    traceback = [index for index, line in enumerate(lines) if line.startswith("Traceback")]
    if not traceback:
        return masked(lines[0])
    tail = [line for line in lines[traceback[-1] + 1 :] if not line.startswith(("File ", "at ", "^", "~"))]
    telling = (line for line in reversed(tail) if "Error" in line or "Exception" in line)
    return masked(next(telling, tail[-1] if tail else ""))
