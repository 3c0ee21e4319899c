"""Which version of a table had which schema, as far as its log still tells."""

from __future__ import annotations

import json
from dataclasses import dataclass

from exporter.lake.log_files import entry_lines
from exporter.stores.store import Store

VERSIONS_MAX = 5_000
"""Versions that are looked through, newest first."""


@dataclass(frozen=True)
class SchemaHistory:
    """schemas: version -> Spark schema JSON, of each version that set one, in order. whole: back to the first one."""

    schemas: dict[int, str]
    whole: bool


def schema_history(table: Store, version: int) -> SchemaHistory:
    """Of the versions up to `version`. table: the store of the table's folder. Raises OSError, ValueError."""
    found: dict[int, str] = {}
    at = version
    while at >= 0 and version - at < VERSIONS_MAX:
        try:
            with entry_lines(table, at) as lines:
                for line in lines:
                    if line.startswith('{"metaData"'):
                        found[at] = json.loads(line)["metaData"]["schemaString"]
        except FileNotFoundError:
            break
        at -= 1
    return SchemaHistory(dict(sorted(found.items())), at < 0)
