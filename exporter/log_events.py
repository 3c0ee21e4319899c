"""The names of all log events, and what each means to the reader of the lines. Tested: no other name is logged."""

from __future__ import annotations

from enum import Enum


class Event(str, Enum):
    """A name, in the past tense or as a state, and its meaning; in the order in which a task may come to them."""

    meaning: str

    def __new__(cls, name: str, meaning: str) -> Event:
        member = str.__new__(cls, name)
        member._value_ = name
        member.meaning = meaning
        return member

    PREPARED_DAMAGED = "prepared_damaged", "What `exporter prepare` made is not as it was: done without; make it again."
    SPARK_STARTED = "spark_started", "Spark is there: seconds until its JVM was up, and until Spark was."
    TASK_STARTED = "task_started", "A task begins: its app, name, version and what it listens on."
    TASK_ENDED = "task_ended", "It has ended by itself or on request: records, rows, and by stage where the time went."
    TASK_FAILED = "task_failed", "It was ended by an error: what happened, what to do (hint), the exit code."
    END_OVERDUE = "end_overdue", "Something did not answer on the way out; the process ended without waiting for it."
    PROGRESS = "progress", "Every ten seconds, if something has changed: what was read and committed, what is behind."
    STATIC_ASSIGNMENT = "static_assignment", "Partitions are fixed and not leased: only the commits keep two apart."
    PARTITION_ASSIGNED = "partition_assigned", "A partition is this task's from now on."
    PARTITION_REVOKED = "partition_revoked", "It is another's; lost: it had been taken away before this task knew."
    FOREIGN_MEMBERS = "foreign_members", "Members of the group are no exporters; what they are assigned is left out."
    POSITIONS_RECOVERED = "positions_recovered", "Where reading begins, from the tables alone."
    READING_RESTARTED = "reading_restarted", "Another task changed the tables meanwhile; they are read again."
    EVENT_TIME_ADDED = "event_time_added", "A table of an earlier version got the column _event_time."
    COLUMNS_WIDENED = "columns_widened", "Columns of a table got the wider types that are declared."
    EVENT_TIME_NOT_ADDED = "event_time_not_added", "It could not be changed; the next start tries again."
    EVENT_TIME_NOT_KEPT = "event_time_not_kept", "A table has a column _event_time of its own; it stays that."
    POSITIONS_ANCHORED = "positions_anchored", "First positions were written to a table."
    ANCHOR_ADOPTED = "anchor_adopted", "Another task had written them first; its are taken."
    ANCHORS_MISSING = "anchors_missing", "New tables could not be made yet; their records wait."
    DRAIN_STARTED = "drain_started", "Settings changed: the topic is read to one position under the old ones first."
    DRAIN_INTERRUPTED = "drain_interrupted", "A round of it failed, or a stop came; it goes on where the tables are."
    CONFIGURATION_SWITCHED = "configuration_switched", "From here on the new settings are in force."
    TRANSACTION_OPEN = "transaction_open", "A run with an end leaves what is behind a transaction to the next one."
    ROUND_READ = "round_read", "A round of records was read and staged."
    ROUND_FAILED = "round_failed", "A round failed; it is tried again, smaller."
    ROUND_OUTGROWN = "round_outgrown", "Records were suddenly larger; the round ran again with smaller batches."
    ROUND_TIMED_OUT = "round_timed_out", "A round took longer than round_secs_max and was cancelled."
    JVM_OUT_OF_MEMORY = "jvm_out_of_memory", "It was reading: the process begins anew, and reads that with care."
    ROUND_DROPPED = "round_dropped", "Whether what was read is of the same topic could not be told; read again."
    RAW_READ_FAILED = "raw_read_failed", "The first record of a round that failed could not be read raw either."
    NEIGHBOUR_UNREADABLE = "neighbour_unreadable", "Nor one beside it: the broker is to blame, or what it keeps."
    MANIFEST_DISCARDED = "manifest_discarded", "What a round staged is out of date for a type; it is read again."
    SCHEMA_MISSING = "schema_missing", "Nothing is decided of a schema id yet: its partition waits until it is."
    COLUMNS_PLANNED = "columns_planned", "New fields were seen: what has them is read again, into columns."
    COMMIT_LANDED = "commit_landed", "Rows are in a table: version, rows, files, positions."
    COMMIT_REFUSED = "commit_refused", "Another task had moved the position; it is read again. Once is normal."
    COMMIT_UNKNOWN = "commit_unknown", "A commit failed and is not in the table; the same files are offered again."
    STAGED_FILES_DROPPED = "staged_files_dropped", "Staged files cannot be committed any more; they are read again."
    TABLE_UNREADABLE = "table_unreadable", "A table could not be read after a commit failed; it is looked at again."
    TABLE_CANNOT_BE_FILLED = "table_cannot_be_filled", "A table asks for what files cannot promise; see its reason."
    TYPE_PARKED = "type_parked", "A table could not be written; the others go on, it is retried, ever more rarely."
    CONDEMNING_FAILED = "condemning_failed", "The dead letter of a record that ends its task could not be written yet."
    RECORD_CONDEMNED = "record_condemned", "A record that ends its task is a dead letter, or in held_by. Report it."
    REGISTRY_SILENT = "registry_silent", "The schema registry did not answer at the start; recorded schemas are read."
    SCHEMA_PINNED = "schema_pinned", "The schema of an id was recorded: by it records are read, for ever."
    SCHEMA_UNKNOWN = "schema_unknown", "The registry knows no such id: its records through there are dead letters."
    RETENTION_GAP = "retention_gap", "Kafka deleted records that were not exported."
    GAP_RECORDED = "gap_recorded", "The lost offsets stand in the dead letters (on_gap = record)."
    GAP_PASSED = "gap_passed", "Positions moved beyond the lost offsets."
    GROUP_POLL_FAILED = "group_poll_failed", "The group's coordinator did not answer; asked again."
    GROUP_OFFSET_NOT_COMMITTED = "group_offset_not_committed", "The offset for lag tools could not be written; no harm."
    BROKER_SILENT = "broker_silent", "New partitions could not be looked for; asked again."
    OUTAGE_SEEN = "outage_seen", "A dependency does not answer: once a minute until it does or give_up_secs are over."
    OUTAGE_ENDED = "outage_ended", "It answers again."
    WAL_UNREACHABLE = "wal_unreachable", "The write-ahead log does not answer: once a minute, with what that means."
    WAL_REACHED = "wal_reached", "It answers again."
    WAL_FINISHED = "wal_finished", "What earlier tasks had begun was marked as completed or failed in the log."
    WAL_REBUILT = "wal_rebuilt", "The log was filled from a table's history."
    WAL_NOT_VERIFIED = "wal_not_verified", "The cross-check of log and tables could not be made this time."
    WAL_CLOSED = "wal_closed", "A task has ended: how often it asked the log for what."
    ROWS_COUNTED = "rows_counted", "Rows of logged commits were counted, because a table's own log was cleaned up."
    LEASE_TAKEN = "lease_taken", "A partition is leased by this task."
    LEASE_WATCHED = "lease_watched", "Another task has the lease; it is taken when it is not renewed any more."
    LEASE_LOST = "lease_lost", "A lease was not renewed in time or taken by another."
    LEASES_NOT_RENEWED = "leases_not_renewed", "The log did not answer; leases are renewed when it does."
    FILES_SWEPT = "files_swept", "Files that no commit can name any more were deleted."
    TABLE_MAINTAINED = "table_maintained", "A step of the maintenance was done: optimize, checkpoint, sweep or vacuum."
    MAINTENANCE_SKIPPED = "maintenance_skipped", "A table or a day was skipped: another process was at work there."
    MAINTENANCE_FAILED = "maintenance_failed", "A step of a table's maintenance failed; the other tables go on."
    MAINTENANCE_SCHEDULED = "maintenance_scheduled", "The maintenance waits for its next time."
    FILE_NAME_NOT_OURS = "file_name_not_ours", "The audit met a file of another writer in a table."
    AUDIT_RESTARTED = "audit_restarted", "Retention moved the start of a log meanwhile; the audit begins again."
    DEAD_LETTERS_REPLAYED = "dead_letters_replayed", "A replay has put dead letters that are good now into a table."
    TABLE_REPAIRED = "table_repaired", "A repair has closed the old epoch of a table and opened the next."
    TABLE_REGISTERED = "table_registered", "The catalog has a table, or its new columns."
    CATALOG_NAME_TAKEN = "catalog_name_taken", "A name stands for another place there, which is left as it is."
    CATALOG_SILENT = "catalog_silent", "The catalog takes no table; tried again every minute, told once. No harm."
    CATALOG_REACHED = "catalog_reached", "It does again."
    ROWS_DELETED = "rows_deleted", "A repair took out rows beyond the new position."


def event_rows() -> list[tuple[str, str]]:
    """(name, meaning) of every event, for the handbook."""
    return [(event.value, event.meaning) for event in Event]
