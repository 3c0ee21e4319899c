"""A menu and two orders of several records each, and what they come to: the example of the bundles."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from kafka import KafkaProducer
from kafka.errors import KafkaError

from exporter.errors import DependencyUnreachable

TOPIC = "kitchen_events"
MIRROR, BILLS = "last_login", "bills"
SETTINGS = f"""
[types.menu]
columns = "ts TIMESTAMP, item STRING, price DECIMAL(10,2)"

[types.order]
columns = "ts TIMESTAMP, order_id BIGINT, item STRING, quantity INT, done BOOLEAN"

# the newest login of each user
[derive.{MIRROR}]
kind = "mirror"
source = "login"
keys = ["user_id"]
order = ["ts"]

# an order is several records; when one of them says that it is done, its bill is written
[derive.{BILLS}]
kind = "bundles"
inputs.orders = {{ source = "order", transaction = "CAST(order_id AS STRING)", done = "done" }}
lookups.menu = {{ source = "menu" }}

[derive.{BILLS}.outputs]
bill = '''
SELECT _transaction, sum(quantity) AS quantity, sum(quantity * price) AS price
FROM orders JOIN menu ON orders.item = menu.item GROUP BY _transaction'''
"""
MENU = ({"type": "menu", "item": "burger", "price": "5.99"}, {"type": "menu", "item": "fries", "price": "1.99"})
FIRST = (
    {"type": "order", "order_id": 100, "item": "burger", "quantity": 1, "done": False},
    {"type": "order", "order_id": 200, "item": "fries", "quantity": 2, "done": True},
)
SECOND = ({"type": "order", "order_id": 100, "done": True},)
EXPECTED = ("{1, 200, 2, 3.98}", "{2, 100, 1, 5.99}")
"""The bills, as shown(): the second order is done first."""
SEND_SECS_MAX = 30.0


def shown(bill: dict[str, Any]) -> str:
    """A row: its number, the order, pieces, price."""
    return f"{{{bill['_seq']}, {bill['_transaction']}, {bill['quantity']}, {bill['price']}}}"


def send(bootstrap: str, events: Sequence[dict[str, Any]]) -> None:
    """Write some of the events to the topic. Raises DependencyUnreachable."""
    try:
        producer = KafkaProducer(bootstrap_servers=bootstrap, max_block_ms=int(SEND_SECS_MAX * 1000))
        try:
            for event in events:
                value = json.dumps({"ts": "2025-03-10T12:00:00Z", **event}).encode()
                producer.send(TOPIC, value).get(SEND_SECS_MAX)
        finally:
            producer.close(timeout=5)
    except KafkaError as error:
        hint = "check that the broker runs"
        raise DependencyUnreachable(f"the orders could not be written to {TOPIC}: {error!r}", hint) from error
