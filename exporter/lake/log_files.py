"""What a table's log says of one version, from its files alone: a millisecond, where a fresh JVM takes tens of them.

    list _delta_log from the newest checkpoint on -> the newest version, with all commits since
    a version       -> the newest checksum up to it that tells the transactions -> the commits since
    its live files  -> the newest checkpoint up to it (checkpoints.py) -> the commits since

None wherever the files do not tell all of it: then Delta itself is asked, which also says what is wrong with them.
What the storage does not do now is an OSError: Delta would only wait for the same answer once more.
Source: the Delta protocol, 'Delta Log Entries', 'Version Checksum File' and 'Action Reconciliation'.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

from exporter.stores import checkpoints
from exporter.stores.many import each
from exporter.stores.store import Store
from offsets.erased import ERASING_PROPERTY
from offsets.names import LOG_FOLDER
from offsets.table_log import LogState, TableView, fingerprint_of, live_adds, replay, transaction_id

REPLAYED_MAX = 50
"""Commits after a checksum that are read one by one."""
LISTED_MAX = 200
"""Commits after a checkpoint that are read for the live files; of more of them Spark's tasks read a part each."""
ELSEWHERE = "delta.coordinatedCommits."
"""Properties of a table whose newest commits may stand where only their coordinator knows."""
FRAMING = ("delta.constraints.", "delta.columnMapping.", ERASING_PROPERTY)
"""So begin the properties that staged files must fit."""
VERSION_DIGITS = 20


def newest_view(table: Store) -> TableView | None:
    """A table as it is now; None if its files do not tell. table: the store of its folder, here and below.

    Raises OSError.
    """
    version = newest_version(table)
    return None if version is None else view_at(table, version)


def newest_version(table: Store) -> int | None:
    """None if there is no commit, or if one is missing after the newest checkpoint.

    A store that lists in order is not asked for what stands before the checkpoint that the log itself calls its newest:
    a long history would be many requests. That is a hint only, so a log that does not have it is listed as a whole.
    Raises OSError, but for a file that stands where a folder has to be.
    """
    try:
        if (hinted := _hinted(table)) is not None:
            newest, checkpoint = _newest(table.names(LOG_FOLDER, after=f"{hinted:0{VERSION_DIGITS}d}."))
            if checkpoint is not None:
                return newest
        return _newest(table.names(LOG_FOLDER))[0]
    except NotADirectoryError:
        return None


def versions(table: Store) -> list[int]:
    """The version of each file of a log that is of one: a number for each file. Raises OSError."""
    digits = (name[:VERSION_DIGITS] for name in table.names(LOG_FOLDER))
    return [int(one) for one in digits if len(one) == VERSION_DIGITS and one.isdigit()]


def is_there(table: Store) -> bool:
    """Whether anything stands where the log of a table would be, be it a file. Raises OSError."""
    try:
        return bool(table.names(LOG_FOLDER))
    except NotADirectoryError:
        return True


def _hinted(table: Store) -> int | None:
    """The version of the checkpoint that was the newest when it was made, if the log says so."""
    try:
        found = json.loads(table.read(f"{LOG_FOLDER}/_last_checkpoint"))
    except (FileNotFoundError, ValueError):
        return None
    version = found.get("version") if isinstance(found, dict) else None
    return version if type(version) is int and 0 <= version < 10**VERSION_DIGITS else None


def _newest(names: Sequence[str]) -> tuple[int | None, int | None]:
    """The newest version that names of a log tell, and that of its newest checkpoint; None where they tell none.

    All digits are as long, so their order is that of the numbers: a long log is gone through without one.
    """
    commits = [name[:VERSION_DIGITS] for name in names if name[VERSION_DIGITS:] == ".json"]
    commits = [*filter(str.isdigit, commits)]
    checkpoints = (name[:VERSION_DIGITS] for name in names if name.startswith(".checkpoint.", VERSION_DIGITS))
    last = max(filter(str.isdigit, checkpoints), default="")
    newest, checkpoint = int(max(commits, default="-1")), int(last or "-1")
    since = sum(version > last for version in commits)
    whole = newest >= max(0, checkpoint) and since == newest - checkpoint
    return newest if whole else None, checkpoint if checkpoint >= 0 else None


def view_at(table: Store, version: int) -> TableView | None:
    """The table as it was at a version that is or was its newest one; None if its files do not tell.

    Raises OSError.
    """
    oldest = max(-1, version - REPLAYED_MAX)
    try:
        for base in range(version, oldest - 1, -1):
            checksum = _checksum(table, base) if base >= 0 else None
            if checksum is not None or base < 0:
                since = range(base + 1, version + 1)
                state = replay(checksum, (_lines(table, one) for one in since))
                return None if state is None or _is_elsewhere(state) else as_view(version, state)
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None
    return None


def former_view(table: Store, version: int) -> TableView | None:
    """The table as it was at any version of which its log still has all; None if its files do not tell, or not all.

    Raises OSError.
    """
    names = {*table.names(LOG_FOLDER)}
    base, _ = checkpoints.newest(names, version)
    whole = all(f"{one:0{VERSION_DIGITS}d}.json" in names for one in range(base + 1, version + 1))
    return view_at(table, version) if whole else None


def adds_at(table: Store, version: int) -> list[dict[str, Any]] | None:
    """The `add` actions of the live files at a version; None if the files do not tell. Raises OSError."""
    try:
        base, names = checkpoints.newest(table.names(LOG_FOLDER), version)
        if version - base > LISTED_MAX:
            return None
        before = [*checkpoints.adds(table, names)]
        return live_adds(each(lambda one: _lines(table, one), range(base + 1, version + 1)), before)
    except (checkpoints.Untold, FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def as_view(version: int, state: LogState) -> TableView:
    """The view of a state that is all of a table's at a version."""
    metadata, protocol = state.metadata, state.protocol
    frame = _frame(metadata, protocol)
    return TableView(
        version=version,
        table_id=metadata["id"],
        fingerprint=fingerprint_of(frame, metadata["schemaString"]),
        transactions=state.transactions,
        properties=dict(metadata.get("configuration") or {}),
        partition_columns=tuple(metadata.get("partitionColumns") or ()),
        schema_json=metadata["schemaString"],
        writer_version=protocol.get("minWriterVersion", 0),
        writer_features=tuple(sorted(protocol.get("writerFeatures") or ())),
        frame=frame,
    )


def entry(version: int) -> str:
    """The path of one commit's file in a table's folder."""
    return f"{LOG_FOLDER}/{version:0{VERSION_DIGITS}d}.json"


@contextmanager
def entry_lines(table: Store, version: int) -> Iterator[TextIO]:
    """The lines of one commit's file, read as they are asked for. Raises OSError, UnicodeDecodeError."""
    with io.TextIOWrapper(table.reader(entry(version)), "utf-8") as lines:
        yield lines


def _lines(table: Store, version: int) -> list[str]:
    """Those of one commit's file. A text in them may hold what Python takes for the end of a line."""
    return table.read(entry(version)).decode("utf-8").split("\n")


def _checksum(table: Store, version: int) -> Mapping[str, Any] | None:
    """A version's checksum; None if it is not there, was cut short by a kill, or tells no transactions.

    One that tells that there are none is taken for one whose writer does not keep them. One that does not name the
    transaction that made the version is of a former version of that number (a power cut, a copy that was put back).
    """
    try:
        found = json.loads(table.read(entry(version).replace(".json", ".crc")).decode("utf-8"))
        with entry_lines(table, version) as lines:
            made_by = transaction_id(lines)
    except (FileNotFoundError, ValueError):
        return None
    own = isinstance(found, dict) and found.get("setTransactions") and found.get("txnId") == made_by is not None
    return found if own else None


def _is_elsewhere(state: LogState) -> bool:
    features = state.protocol.get("writerFeatures") or ()
    configuration = state.metadata.get("configuration") or {}
    return any(feature.startswith("catalog") for feature in features) or any(
        name.startswith(ELSEWHERE) for name in configuration
    )


def _frame(metadata: Mapping[str, Any], protocol: Mapping[str, Any]) -> str:
    """16 hex digits over what staged files must fit but the columns: id, partitioning, constraints, erasures, protocol.
    """
    configuration = metadata.get("configuration") or {}
    relevant = {k: v for k, v in configuration.items() if k.startswith(FRAMING)}
    needs = {name: sorted(one) if isinstance(one, list) else one for name, one in protocol.items() if one}
    parts = [metadata["id"], metadata.get("partitionColumns") or [], relevant, needs]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]
