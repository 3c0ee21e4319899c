"""What a table is called in a catalog. Pure.

Lower case, for Hive and Glue have no other; each character that is no letter, digit or `_` of ASCII is a `_`. So two
event types may want one name. Whoever is registered first has it, the other one is told (catalog.register).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

_OTHER = re.compile("[^a-z0-9_]")


def catalog_name(event_type: str) -> str:
    """The name that a catalog takes: Order.Placed -> order_placed."""
    return _OTHER.sub("_", event_type.lower())


def clashes(event_types: Iterable[str]) -> dict[str, list[str]]:
    """Name -> the event types that want it, where there are several."""
    wanting: dict[str, list[str]] = defaultdict(list)
    for event_type in sorted(event_types):
        wanting[catalog_name(event_type)].append(event_type)
    return {name: types for name, types in wanting.items() if len(types) > 1}
