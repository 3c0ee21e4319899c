"""Sources of jobs without an export: tables as the export makes them, filled row by row."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

import deltalake

from exporter.lake.change import Change
from exporter.lake.lake import Lake
from exporter.lake.later import Later
from exporter.lake.schema import table_schema
from offsets.names import DERIVED_FOLDER, AppId
from offsets.partitions import Spec
from offsets.ranges import TopicPartition
from tests.support.staging import staged

TOPIC = "t.v1"
Row = tuple[int, int, int, Mapping[str, Any]]
"""Partition, offset, seconds since 1970, columns."""


def no_session() -> Later:
    """Of a job that only looks: it must not ask for one."""

    def start() -> Any:
        raise AssertionError("a session was asked for")

    return Later(start)


class Source:
    """One exported table of some columns. ddl: as in the settings."""

    def __init__(self, lake: Lake, event_type: str, ddl: str) -> None:
        from pyspark.sql.types import StructType

        self.lake = lake
        self.event_type = event_type
        schema = table_schema(StructType.fromDDL(ddl).json(), Spec("none"))
        self._type = StructType.fromJson(json.loads(schema))
        said = {"commit_id": uuid.uuid4().hex, "app": lake.app}
        lake.table(event_type).commit(Change((), {}, said, create=schema, spec=Spec("none")), lambda view: None)

    def add(self, rows: Sequence[Row], replay: int = 0) -> None:
        """Commit rows, those of a partition in one file. replay: the number of one that brings them; 0: it is none."""
        positions: dict[str, int] = {}
        spans: dict[TopicPartition, list[int]] = {}
        made = []
        for partition, offset, secs, columns in rows:
            tp = TopicPartition(TOPIC, partition)
            spans.setdefault(tp, []).append(offset)
            app_id = str(AppId(self.lake.app, tp, replay, "replay" if replay else None))
            positions[app_id] = max(offset, positions.get(app_id, -1))
            at = datetime.fromtimestamp(secs, timezone.utc)
            kafka = {"topic": TOPIC, "partition": partition, "epoch": 0, "offset": offset, "timestamp": at}
            made.append({"_kafka": kafka, **columns})
        table = self.lake.table(self.event_type)
        metadata: dict[str, Any] = {"commit_id": uuid.uuid4().hex, "app": self.lake.app}
        if replay:
            told = {str(tp): {"replay": replay, "first": min(of), "last": max(of)} for tp, of in spans.items()}
            metadata["replayed"] = told
        change = Change(tuple(positions), positions, metadata, staged(table, made, replay))
        table.commit(change, lambda view: None)

    def advance(self, partition: int, offset: int) -> None:
        """A commit without a row: the position alone goes on."""
        app_id = str(AppId(self.lake.app, TopicPartition(TOPIC, partition), 0, None))
        said = {"commit_id": uuid.uuid4().hex, "app": self.lake.app}
        self.lake.table(self.event_type).commit(Change((app_id,), {app_id: offset}, said), lambda view: None)

    def add_of_others(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Rows that somebody else put there. rows: columns; `_kafka` among them, or null."""
        made = [tuple(row.get(name) for name in self._type.names) for row in rows]
        frame = self.lake.session.createDataFrame(made, self._type).coalesce(1)
        frame.write.format("delta").mode("append").save(self.lake.table(self.event_type).uri)

    def pack(self) -> None:
        """OPTIMIZE, and VACUUM of all that is not live any more."""
        session, name = self.lake.session.newSession(), self.lake.table(self.event_type).sql_name
        session.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
        session.sql(f"OPTIMIZE {name}").collect()
        session.sql(f"VACUUM {name} RETAIN 0 HOURS").collect()


def derived(lake: Lake, job: str) -> list[dict[str, Any]]:
    """All rows of a job's table, through deltalake."""
    uri = lake.store.below(DERIVED_FOLDER).below(job).uri().removeprefix("file://")
    found: list[dict[str, Any]] = deltalake.DeltaTable(uri).to_pyarrow_table().to_pylist()
    return found
