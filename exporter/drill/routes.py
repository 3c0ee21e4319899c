"""Records of three tables, which filter them and compute columns, for the drill `routed`.

    order.eu    everything, large if its amount is 100 at least, thirds if its id is divisible by three
    order.us    everything, large
    payment.v2  everything, thirds, as what it is renamed to: payment
    click       everything
    noise       no table: counted

In thirds an expression fails on every tenth record: a dead letter of that table, whatever the others make of it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from exporter.core.routing import DEAD_LETTERS
from exporter.drill.producer import NOON, DrillRecord, record_of

TYPES = {
    "everything": "id BIGINT, note STRING",
    "large": "id BIGINT, amount DECIMAL(12,2), note STRING",
    "thirds": "id BIGINT, note STRING",
}
SECTIONS: Mapping[str, Mapping[str, Any]] = {
    "[type_from.rename]": {"match": "(.*)[.]v[0-9]+", "to": "$1"},
    "types.everything": {"match": "order[.].*|click|payment"},
    "types.large": {"match": "order[.].*", "where": "amount >= 100"},
    "types.large.set": {"note": "sha256(note)", "cents": "CAST(amount * 100 AS BIGINT)"},
    "types.thirds": {"match": "order[.]eu|payment", "where": "id % 3 = 0", "drop": ["note"]},
    "types.thirds.set": {"number": "CAST(note AS BIGINT)", "place": "_kafka.offset"},
}
KINDS = ("order.eu", "order.us", "payment.v2", "order.eu", "click", "order.us", "noise")
TAKEN_BY = {
    "order.eu": ("everything", "large", "thirds"),
    "order.us": ("everything", "large"),
    "payment.v2": ("everything", "thirds"),
    "click": ("everything",),
    "noise": (),
}
BAD_EVERY = 23


def record(number: int) -> DrillRecord:
    """The n-th one; its key says in which tables it has to be, and which have to count it."""
    kind = KINDS[number % len(KINDS)]
    cents, is_text = number % 200, number % 10 == 9
    value: dict[str, Any] = {"type": kind, "at": (NOON - timedelta(days=number * 7 % 5)).isoformat(), "id": number,
                             "amount": f"{cents}.25", "note": "none" if is_text else str(number)}  # fmt: skip
    tables = TAKEN_BY[kind]
    if number % BAD_EVERY == BAD_EVERY - 1:
        value["id"] = "many"
        due = [DEAD_LETTERS] * len(tables)
    else:
        fates = {
            "everything": "everything",
            "large": "large" if cents >= 100 else "-large",
            "thirds": "-thirds" if number % 3 else DEAD_LETTERS if is_text else "thirds",
        }
        due = [fates[name] for name in tables]
    key = "+".join(due or [f"-{DEAD_LETTERS}"])
    return record_of(key, json.dumps(value).encode())
