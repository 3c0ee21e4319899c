"""Names that Connect and Debezium give to what a number or a text means: `semantic_types = "connect"`. Pure.

    connect.name of a type, or `name` of a field in Connect's JSON ── the logical type that it is of

Without a zone is taken as UTC, as their databases' connectors do. Names that change nothing about a column are not
here: times of a day and years stay numbers, intervals and enums text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

CONNECT_DECIMAL = "org.apache.kafka.connect.data.Decimal"
ZONED = "zoned-timestamp"
"""Text in ISO-8601 with a zone: an instant."""

SEMANTIC: Mapping[str, str] = {
    "io.debezium.time.Date": "date",
    "io.debezium.time.Timestamp": "timestamp-millis",
    "io.debezium.time.MicroTimestamp": "timestamp-micros",
    "io.debezium.time.NanoTimestamp": "timestamp-nanos",
    "io.debezium.time.ZonedTimestamp": ZONED,
    "org.apache.kafka.connect.data.Date": "date",
    "org.apache.kafka.connect.data.Timestamp": "timestamp-millis",
    "org.apache.kafka.connect.data.Time": "time-millis",
    CONNECT_DECIMAL: "decimal",
}
"""Connect's name -> the logical type, in Avro's words."""

STORED: Mapping[str, str] = {
    "date": "int",
    "time-millis": "int",
    "timestamp-millis": "long",
    "timestamp-micros": "long",
    "timestamp-nanos": "long",
    ZONED: "string",
    "decimal": "bytes",
}
"""Logical type -> what its values are stored as: the name counts on nothing else."""


def semantic(name: Any, kind: str) -> str:
    """The logical type of a name on a type of Avro's; empty if it means none there."""
    logical = SEMANTIC.get(name, "") if isinstance(name, str) else ""
    return logical if STORED.get(logical) == kind else ""


def connect_scale(props: Mapping[str, Any]) -> int | None:
    """The scale that Connect's Decimal has in `connect.parameters` or `scale`; None if there is none."""
    parameters = props.get("connect.parameters")
    given = props.get("scale", parameters.get("scale") if isinstance(parameters, Mapping) else None)
    try:
        scale = int(given) if given is not None else None
    except (TypeError, ValueError):
        return None
    return scale if scale is not None and 0 <= scale <= 38 else None
