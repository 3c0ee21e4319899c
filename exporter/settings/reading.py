"""The settings of what is read, how much of it at once, and when it is committed: a part of the one model."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from exporter.settings.table import Part
from exporter.settings.values import (
    Beginning,
    Brokers,
    BytesFrom0,
    Count,
    CountFrom0,
    Group,
    Partitions,
    Root,
    Seconds,
    SecondsFrom0,
    TopicNames,
)


class ReadingSettings(Part):
    """See Settings (model.py), of which it is a part."""

    brokers: Brokers = Field(examples=[("localhost:9092",)])
    """Kafka brokers to start from, as host:port."""
    topics: TopicNames = Field(default=(), examples=[("events",)])
    """The topics to export, all into one set of tables; these or topics_pattern."""
    topics_pattern: str = Field(default="", examples=[r"events\..*"])
    """Regular expression: every topic whose whole name matches is exported, also one that comes later."""
    group: Group = Field(examples=["exporter"])
    """Consumer group in which the tasks share the topics' partitions, and whose offsets lag tools read."""
    assignment: Literal["group", "static"] = "group"
    """How a task comes to its partitions: by the consumer group, or by the setting partitions. Static tasks must not
    overlap: without a wal_table only the compare-and-set of the commits keeps two of them apart."""
    partitions: Partitions = Field(default="", examples=["0/4"])
    """With assignment = static: this task's partitions of every topic, as a list such as 0,2,5 or as index/count such
    as 1/4, all p with p % 4 = 1 (a scheduler's allocation index and count)."""
    app: str = Field(default="", examples=["exporter"])
    """Name of this export in stored positions and file names, of [A-Za-z0-9_-]; never change it once there are tables.
    Without it the group."""
    table_root: Root = Field(examples=["file:///var/lib/exporter/tables"])
    """Folder that holds one Delta table per event type: an absolute path or file:///path, or in a store:
    s3://bucket/path, gs://bucket/path, abfss://container@account.dfs.core.windows.net/path, hdfs://host:port/path."""
    isolation: Literal["read_committed", "read_uncommitted"] = "read_committed"
    """Whether records of open and aborted Kafka transactions are left out."""
    first_position: Beginning = "earliest"
    """Where a topic that is new to the tables begins: earliest, latest, or the first record at or after an ISO-8601
    time with a zone; later starts go on from the tables."""
    generation: CountFrom0 = 0
    """Raise it to return to a routing configuration that was in force before, or to an earlier version after a later
    one has switched the configuration; no other change needs it."""

    roll_records_max: Count = 1_000_000
    """Records that one type and partition stages before they are committed."""
    roll_bytes_max: Count = 128 << 20
    """Bytes of files that one type and partition stages before they are committed."""
    roll_age_max_secs: Seconds = 60
    """Seconds that the oldest staged record of a type and partition waits for its commit."""
    heartbeat_secs: Seconds = 60
    """Seconds after which a type without new records moves its position by a commit without files."""
    poll_secs: Seconds = 1
    """Seconds between two looks at the partitions' ends, or roll_age_max_secs / 8 if that is less."""

    round_records_max: Count = 1_000_000
    """Records that one round reads over all partitions."""
    round_bytes_max: Count = 512 << 20
    """Bytes of records that one round reads over all partitions, estimated from the rounds before."""
    round_secs_max: Seconds = 600
    """Seconds after which a running round is given up."""
    record_bytes_max: Count = 10_000_000
    """Bytes of a record's value beyond which it is a dead letter."""
    memory_max_bytes: Count = Field(default=512 << 20, ge=16 << 20)
    """Bytes that the tasks of a round, all together, hold in memory of files that are not finished; the largest are
    encoded, then finished, before there are more. Each task also has its current batch of records. The commits, all
    together, hold as much at most of small files that they join. Of files (one per type, topic partition and day, or
    what else cuts its table) the tasks fill 10,000 at once for each 512 MiB."""
    carried_bytes_max: BytesFrom0 = 64 << 20
    """Bytes of rows that wait in the driver to be written at their commit, of files that are small when their round
    ends; 0: each file is written then."""
    staged_bytes_max: Count = 2 << 30
    """Bytes of staged files, of all types, from which on no new round starts and the largest are committed at once."""
    sync: bool = True
    """Whether a commit waits until its files, its log entry and their folders are on disk, so that a power cut takes
    nothing that was committed."""
    stop_budget_secs: SecondsFrom0 = 20
    """Seconds that a stop may take to commit what is staged."""
    session_timeout_secs: Seconds = 45
    """Seconds without a heartbeat after which the group gives the partitions away."""
