"""The columns of an audit's frames: their names, their types, and what each of them says.

    info      of a topic partition: what is looked at, what the dead letters cover, which configuration holds where
    cover     of a table and topic partition: where it may hold rows
    records   of a record: where it belongs, its checksums
    rows      of a row of a table: where it stands, its checksum
    verdicts  of an offset: what became of it

Tables stand in all of them as codes (codes.LETTERS and above).
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as sf

PARTITION = ["topic", "partition"]
"""The columns that name a topic partition, in every frame."""

INFO_DDL = (
    "topic string, partition int, wanted bigint, first bigint, next bigint, "
    "letters array<struct<after: bigint, through: bigint>>, "
    "letters_gaps array<struct<after: bigint, through: bigint>>, "
    "regions array<struct<after: bigint, through: bigint, routing: int, complete: boolean, visible: boolean>>"
)
"""wanted: the first offset that was asked for. [first, next): what is read. letters, letters_gaps: the offsets that the
dead letters cover, and those that they lost. regions: by the index of their configuration.

complete: each record of the region can be expected to have a row. visible: each row to have a record. Either fails
where the region's isolation is not that of this reading.
"""
COVER_DDL = (
    "code int, topic string, partition int, spans array<struct<after: bigint, through: bigint>>, position bigint, "
    "gaps array<struct<after: bigint, through: bigint>>, since int, replayed bigint"
)
"""spans: of offsets. gaps: what retention took. since: the epoch in which the topic of today began. replayed: the
greatest offset that a replay of dead letters has added."""
RECORDS = ["expected", "must", "typed_hash", "letter_hash", "event_day", "event_time", "kafka_day"]
RECORDS += ["key_hash", "headers_hash"]
"""Of a record, beside its coordinates. expected: code of the table that must hold it. must: it certainly has a row.

typed_hash, letter_hash: the checksum of its row in its type's table, or in the dead letters. event_time in
microseconds. key_hash, headers_hash: checksums of these two, null where there are none."""
ROWS_DDL = (
    "code int, topic string, partition int, epoch int, offset bigint, row_hash bigint, row_day date, row_time bigint, "
    "row_key bigint, row_headers bigint, faulty boolean, unread boolean, outside boolean, checkable boolean, "
    "replayed boolean"
)
"""row_key, row_headers: checksums of the columns that hold those of the record; null in tables and rows without them.

faulty: a dead letter without stage or reason. unread: a condemned record of which nothing could be read. outside: of
all spans. checkable: its record can be seen. replayed: a replay may have added it."""
SLOT_DDL = ", slot int"
"""Of rows, where several tables may take a record (rules/slots.py)."""
AGAIN_DDL = "array<struct<routing: int, code: int, hash: bigint, day: date, time: bigint>>"
"""Where a record belongs, and its checksum, day and time there, by each configuration since (replays.py)."""
VERDICTS = ["kind", *PARTITION, "offset", "in_topic", "code", "other", "amount", "twin"]
"""kind: once, missing, ... code: of the table that has the row, or should. other: another one that is concerned.

in_topic: 1 if there is a record. amount: of rows or offsets that the verdict counts. twin: a replay was interrupted."""


def in_spans(spans: str) -> Column:
    """True if the row's offset lies in one of the (after, through] of a column; false where it is null."""
    found = sf.exists(spans, lambda s: (sf.col("offset") > s["after"]) & (sf.col("offset") <= s["through"]))
    return sf.coalesce(found, sf.lit(False))


def nowhere() -> Column:
    """True of rows without full coordinates; those that lack the same ones are one group."""
    return sf.col("topic").isNull() | sf.col("partition").isNull() | sf.col("offset").isNull()
