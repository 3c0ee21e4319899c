"""`exporter report`: reads what the page tells from the tables, and the topics' ends where a broker answers.

Positions, operations and files come from one snapshot per table. Writes nothing but the page.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from exporter.core.routing import DEAD_LETTERS
from exporter.errors import ConfigError, ExporterError, LogCleaned
from exporter.kafka.options import kafka_python_options
from exporter.kafka.topics import TopicReader, partitions_of
from exporter.lake.lake import Lake
from exporter.lake.table import DeltaTable
from exporter.lake.views import views_of
from exporter.operate.letters.letters import Chosen, LetterCount, counts
from exporter.operate.report.page import VERSIONS_MAX, DayFiles, Facts, Failed, Happened, Place
from exporter.settings.model import Settings
from exporter.workbench import open_wal
from offsets.intents import WalMismatch, WalUnreachable
from offsets.ranges import TopicPartition
from offsets.rewind import live_positions
from offsets.table_log import LoggedCommit, TableView, own_metadata


def facts(lake: Lake, settings: Settings) -> Facts:
    """All that the page tells. Raises ConfigError if there is no table, TableUnreadable."""
    tables = dict(views_of(lake))
    if not tables:
        raise ConfigError(f"there is no table of app {lake.app} under {lake.root}", "correct `app` or `table_root`")
    notes: list[str] = []
    ends = _ends(settings, notes)
    happened = [one for name, view in tables.items() for one in _happened(lake.table(name), view)]
    tps = {tp for view in tables.values() for tp in live_positions(view.transactions, lake.app)}
    failed = _failed(settings, sorted(tps), notes)
    letters: list[LetterCount] = counts(lake, Chosen()) if DEAD_LETTERS in tables else []
    return Facts(
        lake.app,
        lake.root,
        datetime.now(timezone.utc),
        list(_places(lake.app, tables, ends)),
        happened,
        [day for name, view in tables.items() for day in _days(lake, name, view)],
        letters,
        notes,
        failed,
    )


def _ends(settings: Settings, notes: list[str]) -> dict[TopicPartition, int]:
    """The offsets after the last records, as far as a broker tells."""
    try:
        topics = TopicReader(kafka_python_options(settings), settings.selection, settings.isolation)
        try:
            return topics.high_watermarks(partitions_of(topics.identities()))
        finally:
            topics.close()
    except ExporterError as error:
        notes.append(f"No lag is shown: {error.message}")
        return {}


def _places(app: str, views: Mapping[str, TableView], ends: Mapping[TopicPartition, int]) -> Iterator[Place]:
    for name, view in views.items():
        positions = live_positions(view.transactions, app)
        for tp in sorted({*ends, *positions}):
            at = positions.get(tp)
            yield Place(name, tp, at.offset if at else None, at.epoch if at else None, ends.get(tp))


def _happened(table: DeltaTable, view: TableView) -> Iterator[Happened]:
    """The newest commits of a table, as far as its log still tells."""
    for version in range(view.version, max(-1, view.version - VERSIONS_MAX), -1):
        try:
            logged = table.logged(version)
        except LogCleaned:
            return
        metadata = own_metadata(logged.user_metadata)
        said = metadata.get("partitions") or metadata.get("replayed") or {}
        rows = sum(int(one.get("rows") or 0) for one in said.values() if isinstance(one, dict))
        yield Happened(logged.at_ms, table.event_type, _outcome(logged), rows)


def _outcome(logged: LoggedCommit) -> str:
    metadata = own_metadata(logged.user_metadata)
    if not metadata:
        return logged.operation.lower()
    action = str(metadata.get("action", "")).replace("_", " ")
    return action or ("with rows" if logged.added else "empty marker")


def _failed(settings: Settings, tps: Sequence[TopicPartition], notes: list[str]) -> list[Failed] | None:
    """Commits that never landed, as the write-ahead log remembers them; None if there is none, or it does not tell."""
    wal = open_wal(settings)
    if wal is None:
        return None
    found: list[Failed] = []
    for tp in tps:
        try:
            intents, whole = wal.failed(tp)
        except (WalUnreachable, WalMismatch) as error:
            notes.append(f"Commits that failed are not shown: {error}")
            return None
        if not whole:
            notes.append(f"{tp}: the write-ahead log holds more commits than were looked through for failed ones")
        found += [
            Failed(one.started_ms, one.key.event_type, tp, (one.first, one.last), one.rows, one.owner)
            for one in intents
        ]
    return found


def _days(lake: Lake, name: str, view: TableView) -> Iterator[DayFiles]:
    """Live files per event day, by one Spark job; those of a month stand at its first day."""
    table = lake.table(name)
    found = DataFrame(table.adds_at(view.version), lake.session)
    values = sf.col("partitionValues")
    day = {"day": values["day"], "month": sf.concat(values["month"], sf.lit("-01"))}
    by = next((day[column] for column in day if column in view.partition_columns), sf.lit(None).cast("string"))
    grouped = found.groupBy(by.alias("day"))
    for row in grouped.agg(sf.count("*").alias("files"), sf.sum("size").alias("bytes")).collect():
        yield DayFiles(name, row.day or "-", row.files, row.bytes)


def write(text: str, path: str) -> None:
    """The page as a file, there at once or not at all. Raises ConfigError."""
    try:
        with open(f"{path}.part", "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(f"{path}.part", path)
    except OSError as error:
        raise ConfigError(f"the report cannot be written: {error}", "name another file with --output") from error
