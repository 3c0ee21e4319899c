"""`exporter report`: reads what the page tells from the tables, and the topics' ends where a broker answers.

Positions, operations and files come from one snapshot per table. Writes nothing but the page.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from functools import partial

from exporter.core.routing import DEAD_LETTERS
from exporter.core.standing import TableStanding
from exporter.core.valid_through import as_ms
from exporter.display.concerns import Concern
from exporter.display.status import CHECK
from exporter.errors import ConfigError, ExporterError, LogCleaned
from exporter.kafka.options import kafka_python_options
from exporter.kafka.topics import TopicReader, partitions_of
from exporter.lake.lake import Lake
from exporter.lake.sizes import live_sizes
from exporter.lake.table import DeltaTable
from exporter.lake.views import views_of
from exporter.operate.dead_letters.listing import Chosen, DeadLetterCount, counts
from exporter.operate.maintain.due import due_partitions
from exporter.operate.report.model import DayFiles, Facts, FailedCommit, Happened
from exporter.operate.report.page import VERSIONS_MAX
from exporter.settings.model import Settings
from exporter.workbench import open_wal
from offsets.intents import WalMismatch, WalUnreachable
from offsets.partitions import Partition
from offsets.ranges import TopicPartition
from offsets.rewind import live_positions
from offsets.table_log import LoggedCommit, TableView, own_metadata, parse_commit

COMMITS_LATE = 5
"""So many times what a commit waits for at most: then none is coming."""


def facts(lake: Lake, settings: Settings) -> Facts:
    """All that the page tells. Raises ConfigError if there is no table, TableUnreadable."""
    tables = dict(views_of(lake))
    if not tables:
        raise ConfigError(f"there is no table of app {lake.app} under {lake.root}", "correct `app` or `table_root`")
    now = datetime.now(timezone.utc)
    notes: list[Concern] = []
    ends = _ends(settings, notes)
    happened = [one for name, view in tables.items() for one in _happened(lake.table(name), view)]
    tps = {tp for view in tables.values() for tp in live_positions(view.transactions, lake.app)}
    failed = _failed(settings, sorted(tps), notes)
    dead_letters: list[DeadLetterCount] = counts(lake, Chosen()) if DEAD_LETTERS in tables else []
    sizes = {name: live_sizes(lake.table(name), view) for name, view in tables.items()}
    return Facts(
        lake.app,
        lake.root,
        now,
        list(_places(lake.app, tables, ends)),
        happened,
        [day for name, found in sizes.items() for day in _days(name, found)],
        dead_letters,
        notes,
        failed,
        [due for found in sizes.values() for due in _due(found, now, settings)],
        COMMITS_LATE * max(settings.roll_age_max_secs, settings.heartbeat_secs),
    )


def _ends(settings: Settings, notes: list[Concern]) -> dict[TopicPartition, int]:
    """The offsets after the last records, as far as a broker tells."""
    try:
        topics = TopicReader(kafka_python_options(settings), settings.selection, settings.isolation)
        try:
            return topics.high_watermarks(partitions_of(topics.identities()))
        finally:
            topics.close()
    except ExporterError as error:
        notes.append(Concern(f"no lag is shown: {error.message}", CHECK))
        return {}


def _places(app: str, views: Mapping[str, TableView], ends: Mapping[TopicPartition, int]) -> Iterator[TableStanding]:
    for name, view in views.items():
        positions = live_positions(view.transactions, app)
        for tp in sorted({*ends, *positions}):
            yield TableStanding(name, tp, positions.get(tp), ends.get(tp))


def _happened(table: DeltaTable, view: TableView) -> Iterator[Happened]:
    """The newest commits of a table, as far as its log still tells."""
    for version in range(view.version, max(-1, view.version - VERSIONS_MAX), -1):
        try:
            logged, oldest_ms = table.read_entry(version, partial(_read, version))
        except LogCleaned:
            return
        metadata = own_metadata(logged.user_metadata)
        said = metadata.get("partitions") or metadata.get("replayed") or {}
        rows = sum(int(one.get("rows") or 0) for one in said.values() if isinstance(one, dict))
        yield Happened(logged.at_ms, table.event_type, _outcome(logged), rows, oldest_ms if rows else None)


def _read(version: int, lines: Iterable[str]) -> tuple[LoggedCommit, int | None]:
    """A commit, and the Kafka time of the oldest record in the files that it adds, ms since 1970, if they tell."""
    kept = [*lines]
    adds = (action["add"] for line in kept if '"add"' in line and "add" in (action := json.loads(line)))
    least = (json.loads(add.get("stats") or "{}").get("minValues", {}).get("_kafka", {}) for add in adds)
    times = [as_ms(one["timestamp"]) for one in least if "timestamp" in one]
    return parse_commit(version, kept), min(times, default=None)


def _outcome(logged: LoggedCommit) -> str:
    metadata = own_metadata(logged.user_metadata)
    if not metadata:
        return logged.operation.lower()
    action = str(metadata.get("action", "")).replace("_", " ")
    return action or ("with rows" if logged.added else "empty marker")


def _failed(settings: Settings, tps: Sequence[TopicPartition], notes: list[Concern]) -> list[FailedCommit] | None:
    """Commits that never landed, as the write-ahead log remembers them; None if there is none, or it does not tell."""
    wal = open_wal(settings)
    if wal is None:
        return None
    found: list[FailedCommit] = []
    for tp in tps:
        try:
            intents, whole = wal.failed(tp)
        except (WalUnreachable, WalMismatch) as error:
            notes.append(Concern(f"commits that failed are not shown: {error}", CHECK))
            return None
        if not whole:
            what = f"{tp}: the write-ahead log holds more commits than were looked through for failed ones"
            notes.append(Concern(what, bad=False))
        found += [
            FailedCommit(one.started_ms, one.key.event_type, tp, (one.first, one.last), one.rows, one.owner)
            for one in intents
        ]
    return found


def _days(name: str, sizes: Mapping[Partition, Sequence[int]]) -> Iterator[DayFiles]:
    """Live files per event day; those of a longer time stand at its first day."""
    by_day: dict[str, list[int]] = defaultdict(list)
    for partition, some in sizes.items():
        by_day["-" if partition.begin is None else partition.begin.date().isoformat()] += some
    for day, some in by_day.items():
        yield DayFiles(name, day, len(some), sum(some))


def _due(sizes: Mapping[Partition, Sequence[int]], now: datetime, settings: Settings) -> Iterator[tuple[int, int]]:
    """Files that maintenance would join now, and their bytes, by partition."""
    late_secs, bytes_max = settings.event_time_late_max_secs, settings.maintain_file_bytes_max
    yield from ((due.files, due.bytes) for due in due_partitions(sizes, now, late_secs, bytes_max))


def write(text: str, path: str) -> None:
    """The page as a file, there at once or not at all. Raises ConfigError."""
    try:
        with open(f"{path}.part", "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(f"{path}.part", path)
    except OSError as error:
        raise ConfigError(f"the report cannot be written: {error}", "name another file with --output") from error
