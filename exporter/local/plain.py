"""What the tables hold, read plainly: Delta's log as JSON lines, files with pyarrow, the topic with kafka-python.

Shares no code with the exporter but the names of appIds; files are those of pyarrow.fs, and no store's. A record's key
says in which table it has to be, and a dictionary counts. Holds at any moment, also between the kill of one task and
the start of the next.

    order               a row of one table
    all+large           a row in each of two; dead_letters twice: two dead letters
    all+-large          a row of the one, and the other's filter leaves it out, which that one's commits have to count
    all+large|xyz       what follows is of no account, but for who asks for it (PlainTopic.noted_as)
"""

from __future__ import annotations

import json
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow.parquet as pq
from kafka import KafkaConsumer
from kafka import TopicPartition as KafkaTopicPartition
from pyarrow import fs

from exporter.errors import FoundProblem
from offsets.names import event_type_of
from offsets.positions import live_position
from offsets.ranges import TopicPartition

Place = tuple[int, int]
"""(partition, offset)."""
SHOWN_MAX = 5
READ_SECS_MAX = 120.0


@dataclass(frozen=True)
class PlainCommit:
    """One commit in a table's log. at: seconds since 1970, as its writer says. owner: of the task, or empty.

    action: of a commit of start-up (anchor, register, ...); empty for one that claims offsets. moves: topic partition
    -> (position expected, new position). operation: as Delta calls it. claimed_by: topic partition -> owner, where a
    leader has committed what others offered. offers: how many of theirs are in it; 0: the owner's own commit.
    """

    table: str
    version: int
    at: float
    owner: str
    action: str
    operation: str
    rows: int
    moves: Mapping[str, tuple[int, int]]
    claimed_by: Mapping[str, str] = field(default_factory=dict)
    offers: int = 0

    @property
    def pid(self) -> int:
        """Process id of the task that committed; 0 if there is none in it."""
        return _pid(self.owner)

    def moved_by(self, pid: int) -> frozenset[str]:
        """The topic partitions that it moves for a task."""
        return frozenset(tp for tp in self.moves if _pid(self.claimed_by.get(tp, self.owner)) == pid)


def _pid(owner: str) -> int:
    parts = owner.split(":")
    return int(parts[1]) if len(parts) == 3 and parts[1].isdigit() else 0


@dataclass
class PlainTable:
    """One table as its log tells. live: path of each live file, relative -> version that added it. named: every path
    that any commit added. filtered: topic partition -> how many records its commits say they left out.
    """

    folder: str
    version: int = -1
    live: dict[str, int] = field(default_factory=dict)
    named: set[str] = field(default_factory=set)
    transactions: dict[str, int] = field(default_factory=dict)
    filtered: Counter[str] = field(default_factory=Counter)


class PlainLake:
    """All tables below one folder; `look` reads what is new."""

    def __init__(self, root: Path | str, files: fs.FileSystem | None = None) -> None:
        """files: where root is a path; None: this machine's."""
        self._root = str(root)
        self._files = files or fs.LocalFileSystem()
        self.tables: dict[str, PlainTable] = {}
        self._rows: dict[str, list[Place]] = {}

    def forget(self, table: str) -> None:
        """It was dropped; one that is made in its place is another."""
        self.tables.pop(table, None)

    def again(self) -> None:
        """Versions are gone: read all tables anew. Their commits were told before."""
        self.tables.clear()
        self.look()

    def look(self) -> list[PlainCommit]:
        """The commits that have come since the last look, oldest first."""
        found: list[PlainCommit] = []
        for folder in self._listed(self._root):
            if folder.type == fs.FileType.Directory and not folder.base_name.startswith("_"):
                table = self.tables.setdefault(event_type_of(folder.base_name), PlainTable(folder.path))
                while (lines := self._entry(table, table.version + 1)) is not None:
                    table.version += 1
                    found.append(_apply(event_type_of(folder.base_name), table, lines))
        return sorted(found, key=lambda commit: commit.at)

    def names(self, folder: str) -> list[str]:
        """The names directly in a folder below the root; none if it is not there."""
        return [one.base_name for one in self._listed(f"{self._root}/{folder}")]

    def delete(self, table: str, path: str) -> None:
        """Delete a table's file behind everybody's back."""
        self._files.delete_file(f"{self.tables[table].folder}/{path}")

    def drop(self, table: str) -> None:
        """Delete all that there is of a table, in the same way."""
        self._files.delete_dir(self.tables[table].folder)

    def placed(self) -> dict[Place, list[str]]:
        """(partition, offset) -> every table that holds it, once per row."""
        found: dict[Place, list[str]] = defaultdict(list)
        for name, table in self.tables.items():
            for path in sorted(table.live):
                for place in self._places(f"{table.folder}/{path}"):
                    found[place].append(name)
        return found

    def orphans(self) -> int:
        """Data files that are there and that no commit names."""
        return sum(len(set(self._data_files(table)) - table.named) for table in self.tables.values())

    def _data_files(self, table: PlainTable) -> Iterator[str]:
        """By their paths from the table's folder."""
        for folder in self._listed(table.folder):
            if folder.base_name.startswith("day="):
                names = [one.base_name for one in self._listed(folder.path)]
                yield from (f"{folder.base_name}/{name}" for name in names if name.endswith(".parquet"))

    def _listed(self, folder: str) -> list[fs.FileInfo]:
        found = self._files.get_file_info(fs.FileSelector(folder, allow_not_found=True))
        return sorted(found, key=lambda one: str(one.path))

    def _entry(self, table: PlainTable, version: int) -> list[str] | None:
        """The lines of a version; None if there is none."""
        try:
            with self._files.open_input_stream(f"{table.folder}/_delta_log/{version:020d}.json") as stream:
                return bytes(stream.read()).decode().splitlines()
        except FileNotFoundError:
            return None

    def _places(self, path: str) -> list[Place]:
        """The coordinates of a file's rows; rows of a gap have none. Files never change."""
        if path not in self._rows:
            with self._files.open_input_file(path) as file:
                column = pq.ParquetFile(file).read(columns=["_kafka"]).column("_kafka")
            rows = [(row["partition"], row["offset"]) for row in column.to_pylist()]
            self._rows[path] = [place for place in rows if place[1] is not None]
        return self._rows[path]


def _apply(name: str, table: PlainTable, lines: list[str]) -> PlainCommit:
    """Let a table take in one more commit."""
    info: dict[str, Any] = {}
    for line in lines:
        action = json.loads(line)
        if "add" in action:
            table.live[unquote(action["add"]["path"])] = table.version
            table.named.add(unquote(action["add"]["path"]))
        elif "remove" in action:
            table.live.pop(unquote(action["remove"]["path"]), None)
        elif "txn" in action:
            table.transactions[action["txn"]["appId"]] = action["txn"]["version"]
        elif "commitInfo" in action:
            info = action["commitInfo"]
    try:
        metadata = json.loads(info.get("userMetadata") or "{}")
    except ValueError:  # a user's own
        metadata = {}
    claims = metadata.get("partitions", {})
    table.filtered.update({tp: claim["filtered"] for tp, claim in claims.items() if "filtered" in claim})
    return PlainCommit(
        table=name,
        version=table.version,
        at=info.get("timestamp", 0) / 1000,
        owner=metadata.get("owner", ""),
        action=metadata.get("action", ""),
        operation=info.get("operation", ""),
        rows=sum(claim.get("rows", 0) for claim in claims.values()),
        moves={tp: (claim.get("expected", -1), claim["new"]) for tp, claim in claims.items() if "new" in claim},
        claimed_by={tp: claim["owner"] for tp, claim in claims.items() if "owner" in claim},
        offers=len(metadata.get("offers", ())),
    )


class PlainTopic:
    """Every record that a consumer with read_committed sees: (partition, offset) -> the table that its key names."""

    def __init__(self, options: Mapping[str, Any], topic: str) -> None:
        """options: of kafka-python's consumer, bootstrap_servers and security."""
        self._options = options
        self._topic = topic
        self.wanted: dict[Place, str] = {}
        self._noted: dict[Place, str] = {}
        """What stands behind the `|` in a key, of those that have one."""
        self.sent_at: dict[Place, float] = {}
        """Kafka timestamp of each, seconds since 1970."""
        self._next: dict[int, int] = {}

    def read(self, again: bool = False, but: Collection[str] = ()) -> Mapping[Place, str]:
        """Read on to the ends of now. again: from the start, where records may have gone. but: notes of keys whose
        records belong nowhere. Raises FoundProblem.
        """
        if again:
            self.wanted.clear()
            self._noted.clear()
            self.sent_at.clear()
            self._next.clear()
        consumer = KafkaConsumer(**self._options, isolation_level="read_committed", enable_auto_commit=False)
        try:
            partitions = sorted(consumer.partitions_for_topic(self._topic) or ())
            tps = [KafkaTopicPartition(self._topic, partition) for partition in partitions]
            consumer.assign(tps)
            begins, ends = consumer.beginning_offsets(tps), consumer.end_offsets(tps)
            for tp in tps:
                consumer.seek(tp, max(begins[tp], self._next.get(tp.partition, 0)))
            deadline = time.monotonic() + READ_SECS_MAX
            while any(consumer.position(tp) < ends[tp] for tp in tps):
                if time.monotonic() > deadline:
                    raise FoundProblem(f"{self._topic} was not read within {READ_SECS_MAX:.0f} s", "check the broker")
                for records in consumer.poll(timeout_ms=500, max_records=5000).values():
                    for record in records:
                        key = (record.key or b"?").decode("utf-8", "replace")
                        self.wanted[record.partition, record.offset], _, note = key.partition("|")
                        if note:
                            self._noted[record.partition, record.offset] = note
                        self.sent_at[record.partition, record.offset] = record.timestamp / 1000
            self._next = {tp.partition: max(consumer.position(tp), ends[tp]) for tp in tps}
        finally:
            consumer.close()
        return {**self.wanted, **dict.fromkeys(self.noted_as(but), "")} if but else self.wanted

    def noted_as(self, notes: Collection[str]) -> set[Place]:
        """Where the records stand of whose keys these are the notes, as far as they are read."""
        return {place for place, note in self._noted.items() if note in notes}


def problems(
    wanted: Mapping[Place, str],
    lake: PlainLake,
    app: str,
    topic: str,
    through: bool,
    leave: bool = False,
    gone: Collection[Place] = (),
) -> Iterator[str]:
    """What is wrong with the tables, in words; nothing if all is well.

    A record at or below the position of a table that it belongs to is in that table once and in no other; one beyond it
    is not in it. Of those that a filter leaves out as many are counted as there are at or below the position. through:
    the export has caught up, so that no record may be beyond. leave: records may have left the topic. gone: records
    whose rows may have gone.
    """
    try:
        placed = lake.placed()
    except FileNotFoundError as error:
        yield f"a live data file is not there: {error}"
        return
    positions: dict[tuple[str, int], int] = {}
    for name, table in lake.tables.items():
        for partition in {partition for partition, _ in wanted}:
            found = live_position(table.transactions, app, TopicPartition(topic, partition))
            if found is not None:
                positions[name, partition] = found.offset
    kinds: Counter[str] = Counter()
    examples: dict[str, list[str]] = defaultdict(list)
    left_out: Counter[tuple[str, int]] = Counter()
    for place in sorted(wanted.keys() if leave else wanted.keys() | placed.keys()):
        due = [
            name
            for name in filter(None, wanted.get(place, "").split("+"))
            if through or place[1] <= positions.get((name.removeprefix("-"), place[0]), -1)
        ]
        must, holds = sorted(name for name in due if name[0] != "-"), sorted(placed.get(place, []))
        left_out.update((name[1:], place[0]) for name in due if name[0] == "-")
        if holds != must and not (place in gone and not holds):
            absent, more = Counter(must) - Counter(holds), Counter(holds) - Counter(must)
            kind = "missing" if not more else "twice" if must and not absent else "misplaced"
            kinds[kind] += 1
            if len(examples[kind]) < SHOWN_MAX:
                examples[kind].append(f"{place[0]}:{place[1]} in {holds or 'no table'}, not in {must or 'none'}")
    for kind, count in sorted(kinds.items()):
        yield f"{count} offsets {kind}: " + "; ".join(examples[kind])
    for name, partition in sorted(positions if not leave else ()):
        told, there = lake.tables[name].filtered[f"{topic}-{partition}"], left_out[name, partition]
        if told != there:
            yield f"{name} has counted {told} records of partition {partition} that are left out, not {there}"
