"""Orders and their prices, which come in records of their own, and what they come to: the example of the bundles."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from kafka import KafkaProducer
from kafka.errors import KafkaError

from exporter.errors import DependencyUnreachable

TOPIC = "kitchen_events"
MIRROR, SALES = "last_login", "sales"
SETTINGS = f"""
[types.order]
columns = "ts TIMESTAMP, txn BIGINT, done BOOLEAN, customer STRING, product STRING, qty INT"

[types.menu]
columns = "ts TIMESTAMP, txn BIGINT, done BOOLEAN, product STRING, price DECIMAL(8,2)"

# the newest login of each user
[derive.{MIRROR}]
kind = "mirror"
source = "login"
keys = ["user_id"]
order = ["ts"]

# what was ordered, once its price has come, which is the last record of its transaction
[derive.{SALES}]
kind = "bundles"
inputs.orders = {{ source = "order", transaction = "txn", done = "done" }}
inputs.menu = {{ source = "menu", transaction = "txn", done = "done" }}

[derive.{SALES}.outputs]
sales = '''
SELECT _transaction, map('jane', 1, 'bob', 2)[customer] AS customerID,
  map('taco', 200, 'burrito', 100)[product] AS menuID, qty, qty * price AS total
FROM orders JOIN menu USING (_transaction, product)'''
"""
Event = dict[str, Any]
ORDERS: tuple[Event, ...] = (
    {"type": "order", "txn": 10000, "done": False, "customer": "jane", "product": "taco", "qty": 2},
    {"type": "order", "txn": 10001, "done": False, "customer": "bob", "product": "burrito", "qty": 1},
)
MENU: tuple[Event, ...] = (
    {"type": "menu", "txn": 10000, "done": True, "product": "taco", "price": "1.99"},
    {"type": "menu", "txn": 10001, "done": True, "product": "burrito", "price": "5.99"},
)
EXPECTED = ("{1, 200, 2, 3.98}", "{2, 100, 1, 5.99}")
"""The rows of sales, as shown()."""
SEND_SECS_MAX = 30.0


def shown(sale: Event) -> str:
    """A row: customer, dish, pieces, price."""
    return f"{{{sale['customerID']}, {sale['menuID']}, {sale['qty']}, {sale['total']}}}"


def send(bootstrap: str, events: Sequence[Event]) -> None:
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
