"""[derive.<name>]: tables and topics that are made of the exported tables. The kinds, each in a file of its own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any, get_args

from pydantic import AfterValidator, Field

from exporter.settings.derive_bundles import BundlesTable
from exporter.settings.derive_mirror import MirrorTable
from exporter.settings.derive_sql import SqlTable
from exporter.settings.derive_to_kafka import ToKafkaTable
from exporter.settings.table import Table

DERIVE = "derive"
"""The setting."""
DERIVE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}\Z")
"""Of a job: its table's folder is called so, and it is a part of stored positions."""

KINDS: dict[str, type[Table]] = {
    "mirror": MirrorTable,
    "bundles": BundlesTable,
    "sql": SqlTable,
    "to_kafka": ToKafkaTable,
}


def names_at(kind: str, path: Sequence[str]) -> list[str]:
    """What a table can have that stands at a path in one of a kind: names of settings, and of tables between them."""
    table = KINDS[kind]
    for name in path:
        if name in table.model_fields:
            table = _table_in(table.model_fields[name].annotation) or table
    return [*table.model_fields]


def _table_in(annotation: Any) -> type[Table] | None:
    """The first table in a setting's type, such as one of tables by name."""
    if inner := get_args(annotation):
        return next(filter(None, map(_table_in, inner)), None)
    return annotation if isinstance(annotation, type) and issubclass(annotation, Table) else None


DeriveTable = MirrorTable | BundlesTable | SqlTable | ToKafkaTable


def _named(jobs: dict[str, DeriveTable]) -> dict[str, DeriveTable]:
    for name in jobs:
        if not DERIVE_NAME.match(name):
            raise ValueError(f"{name!r} should be letters, digits, _ and - only, at most 100, and begin with no _")
    if len({name.lower() for name in jobs}) < len(jobs):
        raise ValueError("two names differ by case only")
    return jobs


Derive = Annotated[dict[str, Annotated[DeriveTable, Field(discriminator="kind")]], AfterValidator(_named)]
