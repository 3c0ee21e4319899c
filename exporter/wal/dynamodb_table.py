"""The log's table: made once, and looked at by `exporter check`. Never deletes or changes what is there."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from exporter.wal.dynamodb_calls import Calls
from exporter.wal.dynamodb_items import TABLE, TTL_ATTRIBUTE
from offsets.intents import WalUnreachable

CREATE_SECS_MAX = 120.0
"""How long a new table may take to become active; 10 to 30 s are usual, none in DynamoDB Local."""


@dataclass(frozen=True)
class WalTableState:
    """missing: there is none. faults: why it cannot be used. advice: what would be better, but works."""

    missing: bool = False
    faults: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()


def create_table(
    calls: Calls, table: str, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
) -> WalTableState:
    """Make the table, its TTL and its backups, as far as they are not there; how it is then.

    Raises WalUnreachable, also if it is not active in time. A table of this name with other keys is left alone.
    """
    try:
        calls.call("create_table", TableName=table, **TABLE)
    except WalUnreachable as error:
        if error.code != "ResourceInUseException":  # it is there already
            raise
    ends = clock() + CREATE_SECS_MAX
    while calls.call("describe_table", TableName=table)["Table"]["TableStatus"] not in ("ACTIVE", "UPDATING"):
        if clock() > ends:
            raise WalUnreachable(f"the table {table} was not active after {CREATE_SECS_MAX:.0f} s")
        sleep(0.5)  # pace of the polling, bounded by the deadline
    if _shape_faults(calls.call("describe_table", TableName=table)["Table"]):
        return look_at_table(calls, table)
    if not _expires(calls, table):
        rule = {"Enabled": True, "AttributeName": TTL_ATTRIBUTE}
        calls.call("update_time_to_live", TableName=table, TimeToLiveSpecification=rule)
    if not _is_backed_up(calls, table):
        rule = {"PointInTimeRecoveryEnabled": True}
        calls.call("update_continuous_backups", TableName=table, PointInTimeRecoverySpecification=rule)
    return look_at_table(calls, table)


def look_at_table(calls: Calls, table: str) -> WalTableState:
    """Whether the log can live there. Raises WalUnreachable."""
    try:
        found = calls.call("describe_table", TableName=table)["Table"]
    except WalUnreachable as error:
        if error.table_missing:
            return WalTableState(missing=True)
        raise
    faults, advice = _shape_faults(found), []
    if not _expires(calls, table):
        faults.append(f"its TTL is not on {TTL_ATTRIBUTE}: the log would grow for ever")
    if not _is_backed_up(calls, table):
        advice.append("it has no point-in-time recovery")
    return WalTableState(faults=tuple(faults), advice=tuple(advice))


def _shape_faults(found: Mapping[str, Any]) -> list[str]:
    """What can only be made right by another table."""
    faults = []
    if found["KeySchema"] != TABLE["KeySchema"] or not _typed_as_text(found["AttributeDefinitions"]):
        faults.append("its key is not pk and sk, both text")
    (wanted,) = TABLE["LocalSecondaryIndexes"]
    indexes = {index["IndexName"]: index for index in found.get("LocalSecondaryIndexes", [])}
    index = indexes.get(wanted["IndexName"])
    if index is None or any(index[part] != wanted[part] for part in ("KeySchema", "Projection")):
        faults.append(f"it has no local index {wanted['IndexName']} on pk and live with all attributes")
    return faults


def _typed_as_text(definitions: list[dict[str, str]]) -> bool:
    types = {one["AttributeName"]: one["AttributeType"] for one in definitions}
    return types.get("pk") == types.get("sk") == "S"


def _expires(calls: Calls, table: str) -> bool:
    found = calls.call("describe_time_to_live", TableName=table)["TimeToLiveDescription"]
    return found["TimeToLiveStatus"] in ("ENABLED", "ENABLING") and found.get("AttributeName") == TTL_ATTRIBUTE


def _is_backed_up(calls: Calls, table: str) -> bool:
    """True also where it cannot be told: DynamoDB Local knows no backups."""
    try:
        found = calls.call("describe_continuous_backups", TableName=table)["ContinuousBackupsDescription"]
    except WalUnreachable as error:
        if calls.local and error.code == "UnknownOperationException":
            return True
        raise
    status: str = found["PointInTimeRecoveryDescription"]["PointInTimeRecoveryStatus"]
    return status == "ENABLED"
