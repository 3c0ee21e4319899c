"""What a table keeps no more (AGED, protocol 4.14): one bound, in a transaction of its own. Pure.

    <app>/aged = microseconds since 1970: rows whose time is before it may be gone; no other row is, by age

The time of a row is its event time, that of a dead letter its Kafka timestamp. A bound never goes back.
"""

from __future__ import annotations

from collections.abc import Mapping


def aged_app_id(app: str) -> str:
    """The appId of a table's bound; no AppId of a partition has two parts."""
    return f"{app}/aged"


def aged_before(transactions: Mapping[str, int], app: str) -> int | None:
    """The bound in microseconds since 1970; None where nothing has aged."""
    return transactions.get(aged_app_id(app))
