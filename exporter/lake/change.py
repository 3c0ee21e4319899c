"""All that one commit says."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from exporter.clock import wall_ms
from exporter.core.writers import StagedFile
from offsets import partitions
from offsets.names import FORMAT_VERSION
from offsets.partitions import DAY, Spec
from offsets.table_log import APP_PROPERTY, EVENT_TYPE_PROPERTY, FORMAT_PROPERTY

TABLE_PROPERTIES = {"delta.checkpointInterval": "100"}
"""Delta makes a checkpoint inside of a commit, which waits for it: by default of each tenth one."""


@dataclass(frozen=True)
class Change:
    """All that one commit says.

    expected: appIds whose versions the commit depends on; registered as read. positions: appId -> new version.
    adds: Delta `add` actions. properties: table properties to set (a metadata change). create: Spark schema JSON
    of a table to be created by this very commit, spec: how that one is cut. evolve: Spark schema JSON that an existing
    table gets.
    removes: paths of live files, as the log writes them, that this commit takes out of the table (a rewind).
    rows: a DataFrame that Spark writes for this commit, whose files it names beside those of `adds`.
    rewrites: tags of the files that come, whose rows are those of the files that go: no change of data.
    reads_all: whether a file that somebody else adds meanwhile refuses the commit.
    table_id: of a table to be created; a new one if empty.
    """

    expected: tuple[str, ...]
    positions: Mapping[str, int]
    user_metadata: Mapping[str, Any]
    adds: tuple[Mapping[str, Any], ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    create: str | None = None
    evolve: str | None = None
    removes: tuple[str, ...] = ()
    table_id: str = ""
    spec: Spec = DAY
    rows: Any = None
    rewrites: Mapping[str, str] | None = None
    reads_all: bool = False


def said_beside(action: str, **more: Any) -> dict[str, Any]:
    """userMetadata of a commit that is none of the app's tasks: it has looked at nothing that came before it (4.5)."""
    return {"commit_id": uuid.uuid4().hex, "action": action, **more}


def new_metadata(change: Change, app: str, event_type: str, properties: Mapping[str, str]) -> dict[str, Any]:
    """Delta's `metaData` action of a table that is made. properties: those that users want."""
    return {
        "id": change.table_id or str(uuid.uuid4()),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": change.create,
        "partitionColumns": [*change.spec.column_names],
        "configuration": {
            **TABLE_PROPERTIES,
            **properties,
            APP_PROPERTY: app,
            FORMAT_PROPERTY: str(FORMAT_VERSION),
            EVENT_TYPE_PROPERTY: event_type,
            **change.spec.properties,
            **change.properties,
        },
        "createdTime": wall_ms(),
    }


def add_action(file: StagedFile, tags: Mapping[str, str]) -> dict[str, Any]:
    """Delta's `add` action of a staged file. Source: the Delta protocol, 'Add File and Remove File'."""
    return {
        "path": quote(file.path, safe="/="),
        "partitionValues": partitions.parse(file.folder).values,
        "size": file.size_bytes,
        "modificationTime": wall_ms(),
        "dataChange": True,
        "stats": file.stats,
        "tags": dict(tags),
    }
