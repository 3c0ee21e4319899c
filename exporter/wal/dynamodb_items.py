"""How intents and leases stand in DynamoDB: the table's shape, its items, and back. Pure.

One item per commit with files and (event type, topic partition, epoch); one lease per topic partition:

    pk  <app>/<topic>/<partition>
    sk  intent/<event type>/<epoch>/<new position>/<commit id>       event type as its table's folder, numbers padded
        lease
    live        = sk; only while an intent is started, or the newest completed one of its key: the sparse local index
                  `live` gives a start what it needs by one consistent Query, however long the history is
    expires_at  seconds since 1970, only on history: failed, or completed and not the newest

One partition's items may not exceed 10 GB (a local index asks for that): 20 million commits within two weeks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from offsets.intents import FORMAT, Intent, IntentState, WalMismatch, parse_keys, partition_key, sort_key
from offsets.leases import Lease
from offsets.ranges import TopicPartition

LIVE = "live"
"""Name of the index and of its sort key."""

TTL_ATTRIBUTE = "expires_at"

TABLE: dict[str, Any] = {
    "BillingMode": "PAY_PER_REQUEST",
    "AttributeDefinitions": [{"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk", LIVE)],
    "KeySchema": [
        {"AttributeName": "pk", "KeyType": "HASH"},
        {"AttributeName": "sk", "KeyType": "RANGE"},
    ],
    "LocalSecondaryIndexes": [
        {
            "IndexName": LIVE,
            "KeySchema": [
                {"AttributeName": "pk", "KeyType": "HASH"},
                {"AttributeName": LIVE, "KeyType": "RANGE"},
            ],
            "Projection": {"ProjectionType": "ALL"},
        }
    ],
}
"""What create_table is asked for, but the name. Beside it: TTL on TTL_ATTRIBUTE, point-in-time recovery."""

LEASE = "lease"
"""Sort key of the lease."""

Item = dict[str, Any]
"""An item as the client writes it: attribute -> {"S": text} or {"N": digits}."""

_TEXTS = ("commit_id", "owner", "table_id", "routing")
_NUMBERS = ("expected", "new", "first", "last", "rows", "checked_through", "started_ms")


def to_item(app: str, intent: Intent, live: bool = True, expires_at: int | None = None) -> Item:
    """Raises BadName for what no key can hold."""
    sk = sort_key(intent.key, intent.new, intent.commit_id)
    values: dict[str, str | int] = {"pk": partition_key(app, intent.key.tp), "sk": sk, "format": FORMAT}
    values |= {"event_type": intent.key.event_type, "epoch": intent.key.epoch, "state": intent.state.value}
    values |= {name: getattr(intent, name) for name in (*_TEXTS, *_NUMBERS)}
    values |= {"version": intent.version} if intent.version is not None else {}
    values |= {LIVE: sk} if live else {}
    values |= {TTL_ATTRIBUTE: expires_at} if expires_at is not None else {}
    return {name: typed(value) for name, value in values.items()}


def from_item(item: Mapping[str, Any]) -> Intent:
    """Raises WalMismatch for an item that this code does not write."""
    try:
        if int(item["format"]["N"]) != FORMAT:
            raise WalMismatch(f"the log holds items of format {item['format']['N']}, this version knows {FORMAT}")
        _, key, new, commit_id = parse_keys(item["pk"]["S"], item["sk"]["S"])
        values: dict[str, Any] = {name: str(item[name]["S"]) for name in _TEXTS}
        values |= {name: int(item[name]["N"]) for name in _NUMBERS}
        values |= {"version": int(item["version"]["N"])} if "version" in item else {}
        intent = Intent(key, **values, state=IntentState(item["state"]["S"]))
    except (KeyError, ValueError) as error:
        raise WalMismatch(f"the log holds an item that is not ours: {place(item)}: {error!r}") from error
    if (intent.new, intent.commit_id) != (new, commit_id):
        raise WalMismatch(f"the log holds an item that contradicts its own key: {place(item)}")
    return intent


def place(item: Mapping[str, Any]) -> str:
    return " ".join(str(item.get(name, {}).get("S")) for name in ("pk", "sk"))


def typed(value: str | int) -> dict[str, str]:
    return {"S": value} if isinstance(value, str) else {"N": str(value)}


def lease_of(tp: TopicPartition, item: Mapping[str, Any]) -> Lease:
    """Raises WalMismatch for an item that this code does not write."""
    try:
        return Lease(
            tp, str(item["owner"]["S"]), int(item["token"]["N"]), int(item["counter"]["N"]),
            str(item["routing"]["S"]), {"held": False, "released": True}[item["state"]["S"]],
        )  # fmt: skip
    except (KeyError, ValueError) as error:
        raise WalMismatch(f"the log holds no lease of {tp} that could be read: {error!r}") from error
