"""What the audit takes a record's event time for is what the exporter kept, wherever it can tell."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from exporter.core.routing import EventTime, Routing, TypeFrom
from exporter.formats.decoder import Decoder
from exporter.operate.audit.opinion import JudgedRecord, Opinion
from exporter.operate.audit.records import AuditedRecord
from exporter.proof.readers.reading import Readings
from offsets.ranges import TopicPartition

KAFKA_US = 1_769_860_800_123_456
ISO = ["2026-01-31T12:00:00Z", "2026-01-31T13:30:00.1234567+01:30", "2026-01-31 12:00:00.999999999", "2026-01-31",
       "2026-01-31T12:00:00,5Z", "2026-01-31T07:00-05:00", "1999-12-31T23:59:59.9999999Z", "2026-01-31T12"]  # fmt: skip
NUMBERS = {
    "s": [1_769_860_800, 946_684_800, 0, -1, 10**15],
    "ms": [1_769_860_800_123, 946_684_800_001, -1, 10**18],
    "us": [1_769_860_800_123_456, 946_684_800_000_001, -1, 2**62],
    "ns": [1_769_860_800_123_456_789, 946_684_800_000_000_999, 946_684_800_000_001_000, -1, -1_001, 2**62],
}


@pytest.mark.parametrize("unit", ["iso", *NUMBERS, "record"])
def test_the_audit_and_the_decoder_read_the_same_event_time(unit: Any) -> None:
    """To the microsecond, in every unit, also before 1970 and with digits that are cut; in doubt the audit has none."""
    source = EventTime("record") if unit == "record" else EventTime("json", "t", unit)
    sent = [json.dumps({"type": "a", "t": at}).encode() for at in (NUMBERS.get(unit) or ISO)]
    kafka = pa.array([KAFKA_US] * len(sent), pa.timestamp("us", "UTC"))
    routing = Routing(TypeFrom("json", "type"), source, (), "ignore", event_time_min_us=-(10**15))
    decoded = Decoder("a", pa.schema([("id", pa.int64())]), routing).decode(pa.array(sent, pa.binary()), kafka)
    kept = dict(zip(decoded.good.to_pylist(), decoded.table.column(-1).cast(pa.int64()).to_pylist(), strict=True))
    judge, tp = Opinion(routing, {}, Readings({})), TopicPartition("t", 0)
    told = {
        row: judge.time(JudgedRecord(AuditedRecord(tp, row, KAFKA_US, None, raw, len(raw), [])))
        for row, raw in enumerate(sent)
    }
    sure = {row: at for row, at in told.items() if row in kept and at is not None}
    assert len(sure) >= 2
    assert sure == {row: kept[row] for row in sure}
