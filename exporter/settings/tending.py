"""The settings of the write-ahead log, of what a task tells, and of work beside the export: a part of the one model."""

from __future__ import annotations

from pydantic import Field

from exporter.settings.table import Part
from exporter.settings.values import (
    CRON_DEFAULT,
    Count,
    Cron,
    Host,
    LeaseSeconds,
    OptionalCron,
    Port,
    Seconds,
    SecondsFrom0,
    WalMode,
    WalTable,
)


class Tending(Part):
    """See Settings (model.py), of which it is a part."""

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

    derive_inline: bool = False
    """Whether `exporter run` also runs the jobs of [derive], beside the export; else `exporter derive run` does, as a
    task of its own."""
    derive_cron: OptionalCron = Field(default="", examples=["*/5 * * * *"])
    """When `exporter derive run --schedule` works, as cron writes it, in UTC; without it whenever a source has
    something new."""
