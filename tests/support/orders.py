"""What tasks are told, for tests of one of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from exporter.core.order import Destination, StagingOrder, TableTarget
from exporter.core.routing import Routing
from exporter.core.table_options import TableOptions
from exporter.core.writers import PartitionPlan
from offsets.ranges import TopicPartition


def order_of(
    root: str | Path,
    routing: Routing,
    plans: Mapping[TopicPartition, PartitionPlan],
    tables: Mapping[str, TableTarget] | None = None,
    footers: Mapping[TopicPartition, Mapping[str, str]] | None = None,
    **given: Any,
) -> StagingOrder:
    """An order of the app called app. given: more fields of it, of its destination or of the options of that."""
    options, to = _taken(TableOptions, given), _taken(Destination, given)
    destination = Destination(str(root), to.pop("app", "app"), TableOptions(**options), **to)
    return StagingOrder(destination, routing, plans, tables or {}, footers or {tp: {} for tp in plans}, **given)


def _taken(kind: type, given: dict[str, Any]) -> dict[str, Any]:
    """Out of what is given."""
    return {one.name: given.pop(one.name) for one in fields(kind) if one.name in given}
