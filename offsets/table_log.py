"""Views 1 and 2 of a Delta table: its positions, and the names and operations of its log.

A TableView is one snapshot, whole: versions read apart from names give false alarms at
every rebalance (protocol 5.1). How it is read is the caller's; what it says is decided here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from offsets.names import BadName, DataFile
from offsets.positions import Position, Transactions, live_position
from offsets.ranges import TopicIdentity, TopicPartition

APP_PROPERTY = "exporter.app"
FORMAT_PROPERTY = "exporter.format"
EVENT_TYPE_PROPERTY = "exporter.event_type"
CLUSTER_PROPERTY = "exporter.cluster_id"
TOPIC_PROPERTY = "exporter.topic_id."
ROUTING_PROPERTY = "exporter.routing."
CONFIG_PROPERTY = "exporter.config."
TABLE_PROPERTY = "exporter.table."
OFFERS = "offers"
"""In a merged commit's userMetadata: the ids of the offers that it holds. Each partition says which is its own."""
THROUGH = "valid_through"
"""In the userMetadata of a commit: by which time the table has all rows (protocol 4.12); of a partition: `time`."""
THROUGH_PROPERTY = "exporter.valid_through"

EMPTY = "an empty log entry (a power cut?)"
"""Stands for the operation of a version without one action: no writer makes it, files that were not synced leave it."""
REWINDING = frozenset({"RESTORE", "CREATE OR REPLACE TABLE", "REPLACE TABLE", "CREATE OR REPLACE TABLE AS SELECT",
                       "REPLACE TABLE AS SELECT", "CLONE", "TRUNCATE", EMPTY})  # fmt: skip
"""Operations after which a table's rows may lie behind its positions (MONOTONE)."""


def identity_properties(identities: Mapping[str, TopicIdentity]) -> dict[str, str]:
    """Table properties that say which cluster and topics the offsets belong to (protocol 5.4)."""
    properties = {}
    for topic, identity in identities.items():
        properties[CLUSTER_PROPERTY] = identity.cluster_id
        properties[f"{TOPIC_PROPERTY}{topic}"] = identity.topic_id
    return properties


def fingerprint_of(frame: str, schema_json: str) -> str:
    """16 hex digits over all that staged files must fit. schema_json: as the table's log has it."""
    return hashlib.sha256(f"{frame}:{schema_json}".encode()).hexdigest()[:16]


@dataclass(frozen=True)
class TableView:
    """One snapshot of a table.

    version: Delta version; transactions: txn appId -> version; fingerprint: of all that a
    commit must fit (schema, constraints, partitioning, column mapping, writer features, id). frame: of all of these but
    the schema.
    writer_version, writer_features: of the Delta protocol.
    """

    version: int
    table_id: str
    fingerprint: str
    transactions: Mapping[str, int]
    properties: Mapping[str, str] = field(default_factory=dict)
    partition_columns: tuple[str, ...] = ()
    schema_json: str = ""
    writer_version: int = 0
    writer_features: tuple[str, ...] = ()
    frame: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "transactions", Transactions(self.transactions))

    def fingerprint_with(self, schema_json: str) -> str:
        """The fingerprint that the table would have with other columns."""
        return fingerprint_of(self.frame, schema_json)

    def position(self, app: str, tp: TopicPartition) -> Position | None:
        return live_position(self.transactions, app, tp)

    def listed_tables(self) -> dict[str, str]:
        """Folder -> table id of every table of the app (dead letters only; empty elsewhere)."""
        listed = self.properties.items()
        return {prop.removeprefix(TABLE_PROPERTY): one for prop, one in listed if prop.startswith(TABLE_PROPERTY)}

    def routing_history(self, tp: TopicPartition) -> dict[int, str]:
        """Epoch -> routing fingerprint of `tp` (dead letters only; empty elsewhere)."""
        return _history(self.properties.get(f"{ROUTING_PROPERTY}{tp}", "{}"))

    def routing_histories(self) -> dict[str, dict[int, str]]:
        """Partition, as text -> its routing history; of all partitions that have one."""
        told = {prop: text for prop, text in self.properties.items() if prop.startswith(ROUTING_PROPERTY)}
        histories = {prop.removeprefix(ROUTING_PROPERTY): _history(text) for prop, text in told.items()}
        return {tp: history for tp, history in histories.items() if history}


def _history(text: str) -> dict[int, str]:
    return {int(epoch): fingerprint for epoch, fingerprint in json.loads(text).items()}


@dataclass(frozen=True)
class LoggedCommit:
    """What one version of a table's log says: its operation, its metadata, the data files that it added and removed.

    restored_to: the version, or the time as it was written, that a RESTORE went back to. at_ms: when, by the writer's
    clock, milliseconds since 1970; 0 if it does not tell.
    """

    version: int
    operation: str
    user_metadata: str
    added: tuple[str, ...]
    removed: tuple[str, ...]
    overwrites: bool
    restored_to: int | str | None = None
    at_ms: int = 0

    @property
    def commit_id(self) -> str | None:
        """The commit id in our userMetadata; None if the commit is not ours."""
        return own_metadata(self.user_metadata).get("commit_id")

    @property
    def commit_ids(self) -> tuple[str, ...]:
        """Every id under which this commit is found: its own, and those of the offers in it (protocol 4.11)."""
        said = own_metadata(self.user_metadata)
        return (said["commit_id"], *said.get(OFFERS, ())) if said else ()

    @property
    def rewinds(self) -> bool:
        """True if the operation may have taken rows away behind the positions."""
        return self.operation in REWINDING or self.overwrites


def own_metadata(text: str) -> dict[str, Any]:
    """The userMetadata of one of our commits; empty for anything else."""
    try:
        value = json.loads(text) if text else {}
    except json.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) and "commit_id" in value else {}


POSITION = '{"txn":'
"""How a line begins that names an appId and its version; no commit is asked for it. Whole, it ends with two braces."""


def parse_commit(version: int, lines: Iterable[str]) -> LoggedCommit:
    """One commit file of `_delta_log` (a JSON object a line). Source: the Delta protocol, 'Actions'."""
    operation, user_metadata, overwrites, at_ms = EMPTY, "", False, 0
    restored_to: int | str | None = None
    added: list[str] = []
    again: list[str] = []
    removed: list[str] = []
    rewritten = False
    for line in lines:
        if not line.strip():
            continue
        operation = "" if operation == EMPTY else operation
        if line.startswith(POSITION) and line.rstrip().endswith("}}"):  # with thousands of partitions most lines
            continue
        action = json.loads(line)
        if "commitInfo" in action:
            info = action["commitInfo"]
            operation, at_ms = info.get("operation", ""), int(info.get("timestamp") or 0)
            user_metadata = info.get("userMetadata") or ""
            parameters = info.get("operationParameters") or {}
            overwrites = _overwrites(operation, parameters)
            if operation == "RESTORE":
                restored_to = _restored_to(parameters)
        elif "add" in action:
            (added if action["add"].get("dataChange", True) else again).append(action["add"]["path"])
        elif "remove" in action:
            removed.append(action["remove"]["path"])
            rewritten |= not action["remove"].get("dataChange", True)
    added += again if rewritten else []  # else they were there: it is their statistics that are new
    return LoggedCommit(
        version, operation, user_metadata, tuple(added), tuple(removed), overwrites, restored_to, at_ms
    )


@dataclass(frozen=True)
class LogState:
    """What a table's log says at one version, but for its files. metadata, protocol: the actions' bodies."""

    metadata: Mapping[str, Any]
    protocol: Mapping[str, Any]
    transactions: Mapping[str, int]


def replay(checksum: Mapping[str, Any] | None, versions: Iterable[Iterable[str]]) -> LogState | None:
    """The state after these versions, each as the lines of its commit file; None if they do not tell all of it.

    checksum: of the version before the first of them; None: they begin with the table. Source: the Delta protocol,
    'Version Checksum File' and 'Action Reconciliation'.
    """
    metadata, protocol = (checksum or {}).get("metadata"), (checksum or {}).get("protocol")
    listed = (checksum or {}).get("setTransactions", None if checksum is not None else [])
    if listed is None:
        return None
    transactions = {one["appId"]: int(one["version"]) for one in listed}
    for lines in versions:
        for line in lines:
            action = json.loads(line) if line.strip() else {}
            metadata, protocol = action.get("metaData", metadata), action.get("protocol", protocol)
            if "txn" in action:
                transactions[action["txn"]["appId"]] = int(action["txn"]["version"])
    return None if metadata is None or protocol is None else LogState(metadata, protocol, transactions)


def transaction_id(lines: Iterable[str]) -> str | None:
    """What a version's commit file calls the transaction that made it. Source: the Delta protocol, 'Commit Provenance'.

    None if it does not tell.
    """
    actions = (json.loads(line) for line in lines if line.strip())
    info: Mapping[str, Any] = next((action["commitInfo"] for action in actions if "commitInfo" in action), {})
    return info.get("txnId")


def live_adds(versions: Iterable[Iterable[str]], before: Iterable[dict[str, Any]] = ()) -> list[dict[str, Any]]:
    """The `add` actions that are live after these versions, each as the lines of its commit file.

    before: those that were live before the first of them. A file is known by its path and its deletion vector. Source:
    the Delta protocol, 'Action Reconciliation'.
    """
    live = {_file_key(added): added for added in before}
    for lines in versions:
        actions = [json.loads(line) for line in lines if line.strip()]
        for removed in (action["remove"] for action in actions if "remove" in action):
            live.pop(_file_key(removed), None)
        for added in (action["add"] for action in actions if "add" in action):
            live[_file_key(added)] = added
    return list(live.values())


def _file_key(action: Mapping[str, Any]) -> tuple[str, str]:
    vector = action.get("deletionVector") or {}
    return action["path"], "/".join(str(vector.get(part)) for part in ("storageType", "pathOrInlineDv", "offset"))


def _overwrites(operation: str, parameters: Mapping[str, Any]) -> bool:
    """A write in mode overwrite, of whatever part of the table; a stream in output mode complete."""
    mode, output_mode = str(parameters.get("mode", "")).lower(), str(parameters.get("outputMode", "")).lower()
    return (operation == "WRITE" and "overwrite" in mode) or (
        operation == "STREAMING UPDATE" and output_mode == "complete"
    )


def _restored_to(parameters: Mapping[str, Any]) -> int | str | None:
    """Spark writes `version` and `timestamp`, one of them null; delta-rs may write a number as text."""
    version, timestamp = parameters.get("version"), parameters.get("timestamp")
    if version is not None and str(version).isdigit():
        return int(version)
    return None if timestamp is None else str(timestamp)


def same_files_before(live: Collection[str], now: Collection[str], commits: Iterable[LoggedCommit]) -> int | None:
    """The newest earlier version with exactly the files `now`: what a RESTORE to a time went back to.

    live: the files before the RESTORE; commits: the versions before it, newest first. None if no version had them.
    The newest of several is right: between them only positions moved.
    """
    wanted, files = set(now), set(live)
    for commit in commits:
        if files == wanted:
            return commit.version
        files = (files - set(commit.added)) | set(commit.removed)
    return None


Named = Mapping[TopicPartition, Mapping[int, int]]
"""Topic partition -> epoch -> greatest offset that data files are named by."""


def last_named_offsets(paths: Iterable[str], app: str) -> Named:
    """The greatest last offset in the names of data files of `app`, replays left out. paths: as a log has them."""
    last: dict[TopicPartition, dict[int, int]] = {}
    for path in paths:
        try:
            name = DataFile.parse(unquote(path))
        except BadName:
            continue
        if name.app == app and name.replay is None:
            epochs = last.setdefault(name.tp, {})
            epochs[name.epoch] = max(name.last_offset, epochs.get(name.epoch, -1))
    return last
