"""What a table's properties must be for us to write to it."""

from __future__ import annotations

from exporter.errors import InvariantBroken
from exporter.lake.retention import interval_hours
from offsets import Invariant
from offsets.table_log import APP_PROPERTY, EVENT_TYPE_PROPERTY, TableView

DELETED_FILE_RETENTION = "delta.deletedFileRetentionDuration"
TXN_RETENTION = "delta.setTransactionRetentionDuration"


def check_properties(event_type: str, view: TableView, app: str) -> None:
    """Raises InvariantBroken if the table is another app's or type's, or expires what exactly-once rests on."""
    holds = view.properties.get(EVENT_TYPE_PROPERTY, event_type)
    if holds != event_type:
        raise InvariantBroken(
            Invariant.NAMES,
            f"the folder of event type {event_type!r} holds the table of {holds!r}",
            "the file system takes names that differ by case only for one; "
            "put `table_root` on one that tells them apart, or declare one of the two types",
        )
    owner = view.properties.get(APP_PROPERTY)
    if owner != app:
        raise InvariantBroken(
            Invariant.ONCE,
            f"table {event_type} belongs to app {owner!r}, not to {app!r}",
            "a renamed app would export everything twice: set `app` back, choose another table_root, "
            f"or let {app} go on with these tables: `exporter repair --adopt {owner}`"
            if owner
            else "set `app` back or choose another table_root",
        )
    if TXN_RETENTION in view.properties:
        raise InvariantBroken(
            Invariant.MONOTONE,
            f"table {event_type} has {TXN_RETENTION}: positions would expire",
            f"ALTER TABLE ... UNSET TBLPROPERTIES ('{TXN_RETENTION}')",
        )
    retention = view.properties.get(DELETED_FILE_RETENTION)
    if retention is not None and not retention_is_safe(retention):
        raise InvariantBroken(
            Invariant.TEMP,
            f"table {event_type} has {DELETED_FILE_RETENTION} = {retention}: VACUUM would delete staged files",
            "set it to one day or more",
        )


def retention_is_safe(interval: str) -> bool:
    """True if a Delta interval text ('interval 1 week') is at least one day."""
    return (interval_hours(interval) or 0) >= 24
