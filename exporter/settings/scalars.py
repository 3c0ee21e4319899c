"""The settings outside the tables, in the order of the reference and of the example: a part of the one model.

Each is a flag and an environment variable, too. What it is for stands below it (said.py).
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from exporter.core.columns import JsonText
from exporter.core.seen import KEYS_KEPT
from exporter.settings.values import (
    CRON_DEFAULT,
    AbsolutePath,
    Archive,
    Beginning,
    Brokers,
    BytesFrom0,
    Count,
    CountFrom0,
    Cron,
    Database,
    Days,
    DriverHost,
    Endpoint,
    Group,
    Host,
    Instant,
    LeaseSeconds,
    Master,
    Memory,
    OptionalCron,
    OwnTopic,
    PartitionBy,
    Partitions,
    Port,
    Root,
    Seconds,
    SecondsFrom0,
    TextTable,
    TopicNames,
    WalMode,
    WalTable,
    Webhook,
)

S3 = frozenset(("s3_endpoint", "s3_region"))
"""Settings that say how an S3 is reached."""


class ScalarSettings(BaseModel):
    """Those of Settings (model.py) that are no tables of ours."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, validate_default=True)

    # -- what is read, how much of it at once, and when it is committed

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
    one has switched the configuration; no other change needs it. Never lower it again: settings with a lower one than
    is in force do not start."""

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

    # -- commits in rounds, how far they reach in time, and who is told

    control_topic: OwnTopic = Field(default="", examples=["exporter-control"])
    """Topic over which tasks tell each other of rounds and offers, of this app alone. Then one of them, the leader,
    commits in rounds what all have staged, with one version per table; without it, or where there is no leader, each
    task commits its own. `exporter check --create-control` makes it; nothing in it is needed for long."""
    commit_interval_secs: Seconds = 10
    """Seconds between the beginnings of two rounds, with a control_topic. What is staged for twice as long is offered
    without a round; roll_age_max_secs has no effect then. A task that has not heard for three times as long what became
    of its offer looks into the table's log, and commits by itself what is not there."""

    valid_through: Literal["off", "strict", "idle_aware"] = "off"
    """Whether commits say through which time a table is complete if records come in order: not, only where all
    partitions took part, or also where those that did not had nothing new."""
    valid_through_time: Literal["record", "event"] = "record"
    """Which time valid_through goes by: the records' Kafka timestamps or event times."""
    valid_through_property_secs: SecondsFrom0 = 0
    """Seconds between two updates of the table property exporter.valid_through, with a control_topic; 0 = with each
    commit. An update makes an OPTIMIZE fail that runs meanwhile."""

    events_topic: OwnTopic = Field(default="", examples=["exporter-events"])
    """Topic that gets a message of each version with rows of each table, in order, at least once."""
    events_webhook: Webhook = Field(default=None, examples=["https://hooks.example.com/exporter"])
    """Address to which the same messages are posted as JSON; what is behind its host is shown nowhere."""

    # -- where things are: the store, the catalog and Spark

    s3_endpoint: Endpoint = Field(default="", examples=["http://localhost:9000"])
    """Address of an S3 that is not AWS's own; the bucket stands in the path then. With http:// nothing is encrypted on
    the way. Credentials are those of the standard chain: environment, ~/.aws, web identity or the machine's role."""
    s3_region: str = Field(default="", examples=["eu-central-1"])
    """Region of the bucket; without it what the environment or ~/.aws says."""

    parquet_compression: Literal["", "zstd", "snappy", "gzip", "lz4", "none"] = Field(default="", examples=["snappy"])
    """Codec of data files, and of what maintenance makes of them; without it zstd, but snappy for files of a few KiB
    and for what maintenance makes."""
    catalog: Literal["", "hive", "glue", "unity"] = Field(default="", examples=["hive"])
    """Catalog in which the tables are registered beside the export: a Hive metastore (by Spark), AWS Glue or a Unity
    Catalog. It is never waited for; what it misses is put right later."""
    catalog_database: Database = Field(default="", examples=["lake"])
    """Database of the catalog that gets the tables, called as their event types in lower case, with _ for all but
    letters and digits. Of a Unity Catalog it is catalog.schema."""
    catalog_uri: str = Field(default="", examples=["thrift://metastore:9083"])
    """Address of the Hive metastore, of the Unity Catalog, or of a Glue that is not AWS's own; without it what
    hive-site.xml or AWS says."""
    catalog_token_file: AbsolutePath = Field(default="", examples=["/var/run/secrets/unity/token"])
    """File with the bearer token of a Unity Catalog; it is read at each call, so that the token may change."""

    spark_master: Master = "local[*]"
    """Where Spark runs: local[*], local[<cores>], spark://host:port, k8s://https://host:port or yarn."""
    driver_memory: Memory = "1g"
    """Heap of the JVM, as Java writes it: a number with k, m, g or t."""
    driver_host: DriverHost = Field(default="", examples=["exporter-driver"])
    """Address under which the workers of a cluster reach this process; without it the host's name."""
    driver_port: Port = Field(default=0, examples=[7078])
    """TCP port on which the driver waits for executors; its block manager has the next one. 0 = any."""
    worker_python: str = Field(default="", examples=["./env/bin/python"])
    """Python of the workers of a cluster, as they find it: a path that each has, or one in worker_archive. Without it
    this process's own."""
    worker_archive: Archive = Field(default="", examples=["env.tar.gz#env"])
    """Archive of a Python environment that holds the exporter; Spark unpacks it at each worker: path#folder."""

    spark: TextTable = Field(default_factory=dict, examples=[{"spark.executor.memory": "2g"}])
    """Options of Spark that are passed on as they are; those that the export rests on are refused."""
    table_properties: TextTable = Field(
        default_factory=dict, examples=[{"delta.logRetentionDuration": "interval 30 days"}]
    )
    """Table properties of Delta that a table gets when it is made; one that is there keeps its own."""

    # -- what becomes of a record and of its table's columns

    event_time_min: Instant = datetime(2000, 1, 1, tzinfo=timezone.utc)
    """ISO-8601 time with a zone; a record with an earlier event time is a dead letter."""
    event_time_ahead_max_secs: CountFrom0 = 86_400
    """Seconds that an event time may lie after the record's own Kafka timestamp, else it is a dead letter."""
    unknown_fields: Literal["rescue", "ignore", "dead_letter"] = "rescue"
    """What becomes of fields without a column: kept in _rescued, left out, or the record is a dead letter."""
    rescue_empty: bool = False
    """Whether _rescued holds what is empty throughout, too: null, {}, [], objects and arrays of nothing else. By
    default it is null where there is no more than that."""
    evolve: Literal["off", "add"] = "off"
    """What becomes of fields that no column holds: they stay in _rescued, or the table gets columns for them. A record
    is good or bad by what is declared alone: what does not fit such a column stays in _rescued."""
    keys_max: Count = Field(default=100, le=KEYS_KEPT)
    """Different keys of one object that become columns; an object with more becomes MAP<STRING, JSON>. A table gets ten
    times as many columns, nested ones too, but at least 1,000 and at most 2,000."""
    json_text: JsonText = "as_sent"
    """How a column of the type JSON holds a value: its text as it was sent, byte for byte, or as in _rescued: compact,
    numbers as sent, no more escapes than needed."""
    force_optional: bool = False
    """Whether declared columns and fields may be absent or null although their DDL says NOT NULL; else the record is a
    dead letter."""
    new_type: Literal["dead_letter", "table"] = "dead_letter"
    """What becomes of records of an event type without a [types] table: they are dead letters, or the type gets a table
    with the whole record in _rescued."""
    unrouted: str = "dead_letter"
    """What becomes of records of an event type that no table takes: they are dead letters (dead_letter), they are
    counted and stand nowhere (count), or the table of this declared type takes them."""
    new_types_max: Count = 200
    """Tables that event types without a [types] table may get; the type that would be one too many stops the task."""
    partition_by: PartitionBy = "day"
    """How a new table's files are cut by event time; a table that is there keeps how it was made."""
    key_column: str = Field(default="", examples=["_key"])
    """Column of each table with the record's key, BINARY, by this name; without it there is none."""
    headers_column: str = Field(default="", examples=["_headers"])
    """Column with the record's headers by this name, ARRAY<STRUCT<key: STRING, value: BINARY>>; without it there is
    none."""
    timestamp_type_column: str = Field(default="", examples=["_timestamp_type"])
    """Column by this name that tells whether the record's timestamp is its CreateTime or its LogAppendTime; without it
    there is none."""
    type_widening: bool = False
    """Whether a table's column gets the wider type that new settings declare (INT to BIGINT, FLOAT to DOUBLE, ...) by
    Delta's type widening, which delta-rs 1.6 and DuckDB over it do not read; else refused."""
    on_gap: Literal["stop", "record"] = "stop"
    """What happens when Kafka has deleted records that were not exported yet: stop with exit code 70, or record the
    lost offsets in the dead letters and go on after them."""

    # -- the write-ahead log, what a task tells, and work beside the export

    wal_table: WalTable = Field(default="", examples=["exporter-wal"])
    """DynamoDB table of the write-ahead log and of the leases; without it there is neither. `exporter check
    --create-wal` makes it."""
    wal_mode: WalMode = Field(default=None, examples=["required"])
    """What happens while the log cannot be reached: commits wait for it, or go on without it; or there is no log.
    Without it required if there is a wal_table."""
    wal_endpoint: str = Field(default="", examples=["http://localhost:8000"])
    """Address of a DynamoDB that is not AWS's own. Region and credentials are boto3's, from the environment, ~/.aws or
    the machine's role."""
    lease_secs: LeaseSeconds = 30
    """Seconds without a renewal after which another task may take a partition; with assignment = static and a
    wal_table."""

    http_port: Port = Field(default=0, examples=[9108])
    """TCP port of the health server: a page, /healthz, /readyz, /metrics, /status; 0 = there is none."""
    http_host: Host = "127.0.0.1"
    """Address that the health server listens on. It has no login: 0.0.0.0 shows topics, tables and positions to whoever
    reaches the port."""
    give_up_secs: Seconds = 1800
    """Seconds that a running task waits for brokers, storage or a required write-ahead log to answer again before it
    ends with exit code 69. A run with an end gives a partition up that was stuck for so long, exports the rest and ends
    with 1."""
    event_time_late_max_secs: SecondsFrom0 = 3600
    """Seconds that a record is expected to come after its event time at most. Only the completeness mark and the
    maintenance of partitions that have ended go by it: a record that is later still is exported like any other."""
    maintain_cron: Cron = CRON_DEFAULT
    """When `exporter maintain --schedule` works: minute, hour, day of month, month and day of week as cron writes them,
    the latter by name (mon-fri), in UTC."""
    maintain_file_bytes_max: Count = 512 << 20
    """Bytes of a file up to which maintenance packs the files of a partition that has ended."""
    maintain_backfill: bool = False
    """Whether maintenance fills columns that came later, in partitions that have ended, with what `_rescued` has of
    them (`exporter backfill`)."""
    retention_days: Days = 0
    """Days that tables keep their rows for, by the UTC day of the event time; 0 = for ever. `exporter maintain --apply`
    deletes whole partitions that are older, and says so in the table."""
    dead_letters_retention_days: Days = 0
    """Days that dead letters are kept for, by the day of the record's Kafka timestamp; 0 = for ever."""

    derive_inline: bool = False
    """Whether `exporter run` also runs the jobs of [derive], beside the export; else `exporter derive run` does, as a
    task of its own."""
    derive_cron: OptionalCron = Field(default="", examples=["*/5 * * * *"])
    """When `exporter derive run --schedule` works, as cron writes it, in UTC; without it whenever a source has
    something new."""
