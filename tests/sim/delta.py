"""Delta tables over the simulated store: what Spark's library does for one commit, in few lines of Python.

    a snapshot ── the check of the change ── actions ── N.json, if there is none yet ── N.crc
                                                          └─ there is: does it conflict? no: N + 1

tests/contract holds it to what Delta does. Readers of the log are the product's own (exporter/lake/log_files.py).
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from exporter.clock import wall_ms
from exporter.core.order import Destination
from exporter.core.table_options import TableOptions
from exporter.errors import TableUnreadable
from exporter.lake import log_files
from exporter.lake.change import Change, new_metadata
from exporter.lake.lake import Lake
from exporter.lake.later import Later
from exporter.lake.table import Check, DeltaTable
from exporter.stores.store import Store
from offsets.names import LOG_FOLDER, AppId, table_folder
from offsets.table_log import LogState, TableView, replay
from tests.sim.store import SimStore, There

PARSED = lru_cache(1 << 16)(AppId.parse)
"""Names of transactions are taken apart once: the tables of a world have the same ones over and over."""
PROTOCOL = {"minReaderVersion": 1, "minWriterVersion": 2}


class Conflict(Exception):
    """Another commit of the same table came first, and the two do not go together; as Delta raises it."""


class Unsimulated(Exception):
    """What only Spark can do: a world that comes to it ends there, and says nothing."""


def _no_gateway() -> Any:
    raise TableUnreadable("the simulated table has no JVM to be asked")


class SimTable(DeltaTable):
    """One table."""

    store: SimStore

    def __init__(self, store: Store, app: str, event_type: str, options: TableOptions) -> None:
        super().__init__(_no_gateway, store, app, event_type, False, options)

    def commands(self) -> Any:
        raise Unsimulated("a command of Spark's, such as DELETE")

    def _snapshot(self) -> tuple[int, LogState | None]:
        """As Delta is asked for it where the files of the log have just changed."""
        return self._state()

    def _view(self, snapshot: tuple[int, LogState | None]) -> TableView | None:
        version, state = snapshot
        return None if state is None else log_files.as_view(version, state)

    def _state(self) -> tuple[int, LogState | None]:
        """The newest version and what it says; -1 and None where there is no table. Raises OSError."""
        version = log_files.newest_version(self.store)
        if version is None:
            return -1, None
        return version, self._state_at(version)

    def _state_at(self, version: int) -> LogState:
        entries: list[list[str]] = []
        for base in range(version, -1, -1):
            try:
                checksum = json.loads(self.store.read(log_files.entry(base).replace(".json", ".crc")))
                break
            except FileNotFoundError:
                entries.insert(0, self._lines(base))
        else:
            checksum = None
        state = replay(checksum, entries)
        if state is None:
            raise TableUnreadable(f"table {self.event_type}: version {version} does not tell its state")
        return state

    def _lines(self, version: int) -> list[str]:
        return self.store.read(log_files.entry(version)).decode().splitlines()

    def commit(self, change: Change, check: Check) -> int:
        version, state = self._state()
        metadata = self._metadata(change, version, state, check)
        txn_id, actions = str(uuid.uuid4()), self._actions(change, metadata, state)
        operation = {"outputMode": "Append", "queryId": self.app, "epochId": "0"}
        info = {
            "timestamp": wall_ms(),
            "operation": "STREAMING UPDATE",
            "operationParameters": operation,
            "txnId": txn_id,
            "userMetadata": json.dumps(change.user_metadata, separators=(",", ":"), sort_keys=True),
        }
        body = "\n".join(json.dumps(one) for one in ({"commitInfo": info}, *actions)).encode()
        before = state
        while True:
            version += 1
            after = self._after(before, change, metadata)
            try:
                self._make(version, body, txn_id, after)
            except FileExistsError:
                before = self._gone_on(version, before, change, metadata is not None)
                continue
            return version

    def _after(self, before: LogState | None, change: Change, metadata: Mapping[str, Any] | None) -> LogState:
        """The state with a change, as replay() would read it from the entry that says it."""
        made = metadata or (before.metadata if before else None)
        if made is None:
            raise TableUnreadable(f"table {self.event_type}: its first version makes no table")
        transactions = {**(before.transactions if before else {}), **change.positions}
        return LogState(made, before.protocol if before else PROTOCOL, transactions)

    def _make(self, version: int, body: bytes, txn_id: str, after: LogState) -> None:
        """The entry, and its checksum at once: who dies in between leaves one without."""
        checksum = json.dumps({"txnId": txn_id, **(_checksum(after) or {})}).encode()
        name = log_files.entry(version)

        def also() -> None:
            if There.network.kernel.rng.random() < 0.97:
                There.disk.put(self.store._path(name.replace(".json", ".crc")), checksum, once=False)

        self.store.make_entry(name, body, also)

    def _metadata(
        self, change: Change, version: int, state: LogState | None, check: Check
    ) -> Mapping[str, Any] | None:
        """The table's new metadata, if the change has some. Raises what the check raises, Conflict."""
        evolve = check(self._view((version, state))) or change.evolve
        if change.create is not None:
            if state is not None:
                raise Conflict("[DELTA_TABLE_ALREADY_EXISTS]")
            return new_metadata(change, self.app, self.event_type, self._options.properties)
        if not change.properties and evolve is None:
            return None
        if state is None:
            raise Conflict("[DELTA_TABLE_NOT_FOUND]")
        properties = {**(state.metadata.get("configuration") or {}), **change.properties}
        return {
            **state.metadata,
            "configuration": properties,
            "schemaString": evolve or state.metadata["schemaString"],
        }

    def _actions(
        self, change: Change, metadata: Mapping[str, Any] | None, state: LogState | None
    ) -> list[dict[str, Any]]:
        actions: list[dict[str, Any]] = []
        if state is None:
            actions.append({"protocol": PROTOCOL})
        if metadata is not None:
            actions.append({"metaData": metadata})
        now_ms = wall_ms()
        positions = change.positions.items()
        actions += [{"txn": {"appId": app_id, "version": at, "lastUpdated": now_ms}} for app_id, at in positions]
        actions += [{"add": dict(add)} for add in change.adds]
        removed = {"dataChange": True, "deletionTimestamp": now_ms}
        actions += [{"remove": {"path": path, **removed}} for path in change.removes]
        return actions

    def _gone_on(self, version: int, before: LogState | None, change: Change, changes_metadata: bool) -> LogState:
        """The state with the version that came first. Raises Conflict where the two do not go together."""
        lines = self._lines(version)
        removed = set(change.removes)
        for action in map(json.loads, lines):
            if "metaData" in action or "protocol" in action:
                raise Conflict("[DELTA_METADATA_CHANGED]")
            if "txn" in action and action["txn"]["appId"] in change.expected:
                raise Conflict("[DELTA_CONCURRENT_TRANSACTION]")
            if "remove" in action and action["remove"]["path"] in removed:
                raise Conflict("[DELTA_CONCURRENT_DELETE_DELETE]")
        after = replay(_checksum(before), [lines])
        if after is None:
            raise TableUnreadable(f"table {self.event_type}: version {version} does not tell its state")
        return after

    def rehearse(self, change: Change, check: Check) -> LogState:
        version, state = self._state()
        if change.create is not None:
            state = None  # Delta says only at the commit that there is a table by now
        metadata = self._metadata(change, version, state, check)
        return LogState(metadata or (state.metadata if state else {}), PROTOCOL, {})

    def state(self) -> tuple[TableView, Callable[[], Iterator[list[str]]]] | None:
        view = self.view()
        if view is None:
            return None
        names = [name for name in self.store.names(LOG_FOLDER) if name.endswith(".json")]
        paths = [
            action[kind]["path"]
            for name in names
            for action in map(json.loads, self.store.read(f"{LOG_FOLDER}/{name}").decode().splitlines())
            for kind in ("add", "remove")
            if kind in action
        ]
        return view, lambda: iter([paths])


def _checksum(state: LogState | None) -> dict[str, Any] | None:
    """What a version's checksum says; None before the first version."""
    if state is None:
        return None
    listed = [{"appId": app_id, "version": at} for app_id, at in state.transactions.items()]
    return {"metadata": state.metadata, "protocol": state.protocol, "setTransactions": listed}


class SimLake(Lake):
    """All tables of a root, without a session."""

    def __init__(self, root: Store, app: str, options: TableOptions) -> None:
        super().__init__(Later(_no_gateway), root, app, False, options)

    @property
    def session(self) -> Any:
        return None

    def table(self, event_type: str) -> SimTable:
        return SimTable(self.store.below(table_folder(event_type)), self.app, event_type, self.options)

    def destination(self) -> Destination:
        return Destination(self.root, self.app, self.options, {}, False)
