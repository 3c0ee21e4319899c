"""Delta tables through the JVM that Spark runs: one snapshot in, one commit out.

What a version says is read from the files of the log where these tell it (log_files.py). Registers each appId
that a commit replaces, so that Delta itself refuses a commit whose positions have changed since
(FENCE). Creating and anchoring a table is one commit. Nothing here deletes a file (TEMP).
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import takewhile
from typing import Any, TypeVar

from exporter.clock import wall_ms
from exporter.column.spark_json import struct_of
from exporter.core.table_options import TableOptions
from exporter.errors import ExporterError, LogCleaned, StorageSilent, TableUnreadable
from exporter.faults import Fault, point
from exporter.lake import log_files, widening
from exporter.lake.change import Change, new_metadata
from exporter.lake.gateway import Gateway
from exporter.sql_text import column
from exporter.stores.many import each
from exporter.stores.store import Store
from exporter.text import first_line
from offsets.names import LOG_FOLDER
from offsets.table_log import (
    LoggedCommit,
    LogState,
    TableView,
    parse_commit,
)

Check = Callable[[TableView | None], str | None]
"""Looks at the snapshot that the commit is based on; raises to give the commit up. The Spark schema JSON that the table
gets by the commit, or None if it keeps its own, or gets that of the change."""

T = TypeVar("T")
DEFAULTS = TableOptions()
CODEC = "spark.sql.parquet.compression.codec"
SPARK_CODECS = {"lz4": "lz4_raw", "none": "uncompressed"}
"""Codecs that Spark calls otherwise than pyarrow does; its own lz4 is one that others do not read."""


def packs_by(session: Any, codec: str) -> None:
    """Let what a session writes have a codec, as the settings call it; empty for Spark's own."""
    if codec:
        session.conf.set(CODEC, SPARK_CODECS.get(codec, codec))


class DeltaTable:
    """One table of the lake. store: of its folder. uri: what Delta and Spark call it."""

    def __init__(
        self,
        gateway: Callable[[], Gateway],
        store: Store,
        app: str,
        event_type: str,
        sync: bool = True,
        options: TableOptions = DEFAULTS,
    ) -> None:
        """gateway: asked for when the files of the log do not tell something, and for commits. sync: whether what is
        read has to be on disk first."""
        self.event_type = event_type
        self.app = app
        self.store = store
        self.uri = store.uri()
        self._gateway_of = gateway
        self._sync = sync
        self._options = options

    @property
    def _gateway(self) -> Gateway:
        return self._gateway_of()

    def view(self) -> TableView | None:
        """The table as it is now, or None if there is none. Raises TableUnreadable, StorageSilent among it.

        What it says survives a power cut: its newest writer may have been killed before it synced the entry, and
        whoever reads a position builds on it, in other tables and in the write-ahead log (ORDER).
        """
        with self._reading():
            if self._sync and self.store.has_folder(LOG_FOLDER):
                self.store.sync(LOG_FOLDER)
            if (found := log_files.newest_view(self.store)) is not None:
                return found
            return self._view(self._snapshot()) if log_files.is_there(self.store) else None

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Whatever fails in here is the table's fault, or the storage's; not so a JVM that does not start."""
        try:
            yield
        except ExporterError:
            raise
        except Exception as error:  # py4j raises its own kinds; whatever it was, the table was not read
            raise _unreadable(self, self.event_type, error) from error

    @property
    def sql_name(self) -> str:
        """What Spark SQL calls it."""
        return f"delta.{column(self.uri)}"

    def commands(self) -> Any:
        """OPTIMIZE, VACUUM, DELETE and MERGE, as Delta's own Python package has them: a delta.tables.DeltaTable.

        For who tends or mends. A task never imports that package: from then on commits that are in each other's way
        raise its exceptions (delta.exceptions), not py4j's.
        """
        from delta.tables import DeltaTable as Commands

        self._gateway.activate()
        session = self._gateway.session
        packs_by(session, self._options.compression)
        return Commands.forPath(session, self.uri)

    def require(self, path: str, size_bytes: int) -> None:
        """Raises OSError if a staged file is not there, ValueError if it has another size than was said."""
        size = self.store.size(path)
        if size is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.store.uri(path))
        if size != size_bytes:
            raise ValueError(f"{path} has {size} bytes instead of {size_bytes}")

    def not_synced(self, error: BaseException) -> bool:
        """Whether a commit was given up because something of it could not be brought to disk."""
        return self.store.java.not_synced in _java_classes(error)

    def state(self) -> tuple[TableView, Callable[[], Iterator[list[str]]]] | None:
        """A fresh snapshot and the paths that it names, live files and tombstones, some at a time; None: no table.

        The paths come through Arrow by one Spark job, when they are asked for. Raises TableUnreadable.
        """
        with self._reading():
            snapshot = self._snapshot()
            view = self._view(snapshot)
        return None if view is None else (view, lambda: self._named(snapshot))

    def _named(self, snapshot: Any) -> Iterator[list[str]]:
        from pyspark.sql import DataFrame

        try:
            paths = DataFrame(snapshot.stateDF(), self._gateway.session).selectExpr(
                "coalesce(add.path, remove.path) AS path"
            )
            found = paths.where("path IS NOT NULL").toArrow()
        except Exception as error:
            raise TableUnreadable(f"table {self.event_type} cannot be read: {first_line(error)}") from error
        for batch in found.to_batches():
            yield batch.column("path").to_pylist()

    def checkpoint(self, commits_min: int, apply: bool) -> bool:
        """Whether so many commits came after the last one; with `apply` one is written then, as Delta does it.

        The log is cleaned up by the table's own rule as well. Raises TableUnreadable.
        """
        try:
            snapshot = self._snapshot()
            due = snapshot.version() - max(-1, snapshot.checkpointProvider().version()) >= commits_min
            if due and apply:
                self._log().checkpointAndCleanUpDeltaLog(snapshot, self._gateway.none)  # checkpoint() hides what fails
        except Exception as error:
            raise TableUnreadable(f"table {self.event_type}: its checkpoint failed: {first_line(error)}") from error
        return bool(due)

    def _snapshot(self) -> Any:
        """The table's newest snapshot. A log opened here for the first time was listed just then: once is enough."""
        began_ms = wall_ms()  # before it is asked whether others have opened the log
        gateway = self._gateway
        since = gateway.none if gateway.has_opened(self.uri) else gateway.some(began_ms)
        return self._log().update(False, since, gateway.none)

    def commit(self, change: Change, check: Check) -> int:
        """Commit on a fresh snapshot; the version. Raises what `check` raises, or whatever Delta raised.

        After any exception the caller finds the outcome by looking (protocol 4.4).
        """
        gateway = self._gateway
        txn = self._begun(change, check)
        txn.readTxn().appendAll(gateway.to_seq(gateway.texts(change.expected)))
        if change.reads_all:
            txn.readWholeTable()
        now_ms = wall_ms()
        actions = gateway.transactions(
            {"appId": app_id, "version": version, "lastUpdated": now_ms} for app_id, version in change.positions.items()
        )
        if change.adds:
            actions.addAll(gateway.adds(change.adds))
        if change.evolve is not None:
            actions.addAll(gateway.adds(self._restated(txn, change.evolve)))
        if change.rows is not None:
            actions.addAll(_written(gateway, txn, change, self._options.compression))
        if change.rewrites is not None:
            point(Fault.AFTER_REWRITE, self.event_type)
        for live in self._live_files(txn.snapshot(), change.removes) if change.removes else ():
            actions.add(live.removeWithTimestamp(now_ms, change.rewrites is None))
        text = json.dumps(change.user_metadata, separators=(",", ":"), sort_keys=True)
        return int(txn.commit(gateway.to_seq(actions), gateway.operation(self.app, text)))

    def _restated(self, txn: Any, evolved_json: str) -> list[dict[str, Any]]:
        """`add` actions of the live files with statistics that hold for wider columns; none where they do anyway.

        What has been read for them, the transaction knows: a file that somebody takes away meanwhile makes it fail.
        """
        before = struct_of(json.loads(txn.snapshot().metadata().json())["metaData"]["schemaString"])
        paths = [*widening.now_double(before, struct_of(evolved_json))]
        adds = json.loads(self._gateway.to_json(txn.filterFiles())) if paths else []
        return [
            {**add, "dataChange": False, "stats": widening.restated(add["stats"], paths)}
            for add in adds
            if add.get("stats")
        ]

    def rehearse(self, change: Change, check: Check) -> LogState:
        """All of commit() but the commit: raises what Delta says of names, columns and features that it refuses.

        What the table would be by it, without its transactions.
        """
        txn = self._begun(change, check)
        self._log().protocolWrite(txn.protocol())
        return _state(txn, {})

    def _begun(self, change: Change, check: Check) -> Any:
        """A transaction on a fresh snapshot with the change's metadata."""
        txn = self._log().startTransaction()
        evolve = check(self._view(txn.snapshot())) or change.evolve
        if change.create is not None:
            told = new_metadata(change, self.app, self.event_type, self._options.properties)
            txn.updateMetadataForNewTable(self._action({"metaData": told}))
        elif change.properties or evolve is not None:
            metadata = json.loads(txn.snapshot().metadata().json())["metaData"]
            metadata["configuration"] = {**metadata.get("configuration", {}), **change.properties}
            metadata["schemaString"] = evolve or metadata["schemaString"]
            txn.updateMetadata(self._action({"metaData": metadata}), False)
        return txn

    def view_at(self, version: int) -> TableView:
        """The table as it was at a version. Raises LogCleaned, TableUnreadable."""
        with self._reading():
            if (found := log_files.former_view(self.store, version)) is not None:
                return found
        snapshot = self._snapshot_at(version)
        try:
            view = self._view(snapshot)
        except OSError as error:
            raise _unreadable(self, self.event_type, error) from error
        if view is None:
            raise LogCleaned(f"table {self.event_type}: version {version} can no longer be read")
        return view

    def files_at(self, version: int) -> list[dict[str, Any]]:
        """The `add` actions of the live files at a version. Raises LogCleaned, TableUnreadable."""
        with self._reading():
            if (found := log_files.adds_at(self.store, version)) is not None:
                return found
        rows = self._snapshot_at(version).allFiles().toJSON().collectAsList()
        return [json.loads(row) for row in json.loads(self._gateway.to_json(rows))]

    def adds_at(self, version: int) -> Any:
        """A Java DataFrame of the live files at a version, one `add` action a row.

        Raises LogCleaned, TableUnreadable.
        """
        return self._snapshot_at(version).allFiles().toDF()

    def rows_of(self, version: int, paths: Collection[str]) -> Any:
        """A DataFrame of the rows of some live files at a version. paths: as the log writes them."""
        snapshot, adds = self._snapshot_at(version), self._gateway.new_list()
        for live in self._live_files(snapshot, paths):
            adds.add(live)
        return self._log().createDataFrame(snapshot, self._gateway.to_seq(adds), False, self._gateway.none)

    def _live_files(self, snapshot: Any, paths: Collection[str]) -> Any:
        """The AddFile objects of live files. Raises TableUnreadable if one of them is not live."""
        found = snapshot.allFiles().filter(self._gateway.among("path", paths)).collectAsList()
        if len(found) != len(paths):
            raise TableUnreadable(f"{len(paths) - len(found)} of {len(paths)} files are not live any more")
        return found

    def _snapshot_at(self, version: int) -> Any:
        none = self._gateway.none  # a JVM that does not start says nothing of the log
        try:
            return self._log().getSnapshotAt(version, none, none, False)
        except Exception as error:  # py4j raises its own kinds
            if trouble := first_line(error) if self.says_storage(error) else self.store.trouble():
                raise StorageSilent(f"table {self.event_type} cannot be read: {trouble}") from error  # not the log's
            raise LogCleaned(
                f"table {self.event_type}: version {version} can no longer be read: {first_line(error)}"
            ) from error

    def commits(self, after: int, through: int) -> list[LoggedCommit]:
        """What the versions after+1..through say. Raises LogCleaned if one of them is gone."""
        return [self.logged(version) for version in range(after + 1, through + 1)]

    def empty_entries(self, through: int, most: int) -> list[int]:
        """The versions, of `most` up to `through`, whose log entry has no byte, newest first; until one is gone."""
        versions = range(through, max(-1, through - most), -1)
        with self._reading():
            sizes = each(lambda version: self.store.size(log_files.entry(version)), versions)
        there = takewhile(lambda one: one[1] is not None, zip(versions, sizes, strict=True))
        return [version for version, size in there if not size]

    def logged(self, version: int) -> LoggedCommit:
        """What one version of the log says. Raises LogCleaned or TableUnreadable."""
        return self.read_entry(version, partial(parse_commit, version))

    def read_entry(self, version: int, read: Callable[[Iterable[str]], T]) -> T:
        """What is read of the lines of one version's file. Raises LogCleaned or TableUnreadable."""
        try:
            with log_files.entry_lines(self.store, version) as lines:
                return read(lines)
        except FileNotFoundError as error:
            raise LogCleaned(
                f"table {self.event_type}: version {version} is no longer in its log",
                "the log was cleaned up while no task ran: `exporter repair --rewind` compares the tables with the "
                "topic and, with `--apply`, accepts them if nothing is missing",
            ) from error
        except (OSError, ValueError) as error:
            raise _unreadable(self, f"{self.event_type}: version {version}", error) from error

    def says_storage(self, error: BaseException) -> bool:
        """Whether an error of the JVM's is about the storage, which may do a moment later what it did not do now."""
        head = self.store.java.of_storage
        return bool(head) and any(name.startswith(head) for name in _java_classes(error))

    def _log(self) -> Any:
        return self._gateway.log(self.uri)

    def _action(self, action: Mapping[str, Any]) -> Any:
        return self._gateway.action_from_json(json.dumps(action))

    def _view(self, snapshot: Any) -> TableView | None:
        """What a snapshot says: by the files of its version, for Delta takes many calls to tell."""
        version = int(snapshot.version())
        if version < 0:
            return None
        if (found := log_files.view_at(self.store, version)) is not None:
            return found
        return log_files.as_view(version, _state(snapshot, self._transactions(snapshot)))

    def _transactions(self, snapshot: Any) -> dict[str, int]:
        """appId -> version, from the checksum where it lists them, else by a state reconstruction."""
        checksum = snapshot.checksumOpt()
        listed = checksum.get().setTransactions() if checksum.isDefined() else None
        if listed is not None and listed.isDefined() and not listed.get().isEmpty():
            actions = json.loads(self._gateway.to_json(listed.get()))
            return {action["appId"]: int(action["version"]) for action in actions}
        reconstructed = json.loads(self._gateway.to_json(snapshot.transactions()))
        return {app_id: int(version) for app_id, version in reconstructed.items()}


def _written(gateway: Gateway, txn: Any, change: Change, compression: str) -> Any:
    """`add` actions of files that Spark writes now."""
    packs_by(change.rows.sparkSession, compression)
    written = txn.writeFiles(change.rows._jdf)
    if change.rewrites is None:
        return gateway.to_list(written)
    adds = json.loads(gateway.to_json(written))
    return gateway.adds({**add, "dataChange": False, "tags": change.rewrites} for add in adds)


def _state(known: Any, transactions: Mapping[str, int]) -> LogState:
    """known: a snapshot or a transaction."""
    metadata = json.loads(known.metadata().json())["metaData"]
    return LogState(metadata, json.loads(known.protocol().json())["protocol"], transactions)


def _unreadable(table: DeltaTable, what: str, error: Exception) -> TableUnreadable:
    """Whether it is the table's fault or the storage's. what: the table, or some of it."""
    return unread(f"table {what} cannot be read", error, table.says_storage(error))


def unread(what: str, error: Exception, says_storage: bool = False) -> TableUnreadable:
    """Whether it is the fault of what is read or the storage's. what: could not be done. says_storage: as of a table's
    errors."""
    of_the_path = isinstance(error, FileNotFoundError | PermissionError | NotADirectoryError | IsADirectoryError)
    silent = (isinstance(error, OSError) and not of_the_path) or says_storage
    kind = StorageSilent if silent else TableUnreadable
    return kind(f"{what}: {first_line(error)}")


def _java_classes(error: BaseException) -> Iterator[str]:
    """The names of the classes that a Java exception and its causes are of; none of another."""
    java = getattr(error, "java_exception", None)
    while java is not None:
        yield java.getClass().getName()
        java = java.getCause()
