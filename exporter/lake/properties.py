"""What a table's properties must be for us to write to it, and what they must say of the topics."""

from __future__ import annotations

from collections.abc import Mapping

from exporter.errors import InvariantBroken
from exporter.lake.retention import interval_hours
from offsets import Invariant
from offsets.ranges import TopicIdentity, TopicPartition
from offsets.table_log import APP_PROPERTY, CLUSTER_PROPERTY, EVENT_TYPE_PROPERTY, TOPIC_PROPERTY, TableView

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


def check_identity(
    recorded: Mapping[str, str], identities: Mapping[str, TopicIdentity], positions: Mapping[TopicPartition, int]
) -> None:
    """Raises InvariantBroken for another cluster or topic. recorded: table properties. positions: of the tables."""
    for topic, identity in sorted(identities.items()):
        for prop, now, what in (
            (CLUSTER_PROPERTY, identity.cluster_id, "cluster"),
            (f"{TOPIC_PROPERTY}{topic}", identity.topic_id, "topic"),
        ):
            was = recorded.get(prop)
            if was is None or was == now:
                continue
            far = ", ".join(f"{tp} through offset {at}" for tp, at in sorted(positions.items()) if tp.topic == topic)
            cause = "the topic was deleted and created again"
            if what == "cluster":
                cause = "`brokers` leads to another cluster: correct it, or if the topic has moved there for good"
            raise InvariantBroken(
                Invariant.MONOTONE,
                f"the {what} id of {topic} was {was} and is {now}: offsets of the two have nothing in common; "
                f"the tables hold {far or 'nothing'} of the former",
                f"{cause}: `exporter repair --rebase` shows what it would do, `--apply` does it: the new one is "
                "exported from `first_position` on, what the tables hold stays",
            )
