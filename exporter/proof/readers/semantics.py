"""What Connect's and Debezium's names of types make of a value: the audit's own reading of them. Pure."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from exporter.proof.contents.changes import NOT_SENT
from exporter.proof.contents.times import micros
from exporter.proof.contents.typed import Day, Instant
from exporter.proof.readers.reader import NoGoodRecord, decimal_of

CONNECT = "org.apache.kafka.connect.data."
"""How Connect's own names begin, which count in its JSON in any case."""
_DAYS = {f"{CONNECT}Date", "io.debezium.time.Date"}
_INSTANTS = {
    f"{CONNECT}Timestamp": 1_000,
    "io.debezium.time.Timestamp": 1_000,
    "io.debezium.time.MicroTimestamp": 1_000_000,
    "io.debezium.time.NanoTimestamp": 1_000_000_000,
}
"""Name -> how many to a second."""
_DECIMAL = f"{CONNECT}Decimal"
VARIABLE = "io.debezium.data.VariableScaleDecimal"
ZONED = "io.debezium.time.ZonedTimestamp"


def meant(name: str, parameters: Mapping[str, Any], value: Any) -> Any:
    """A value by the name of its type; as it is, by any other name. Raises NoGoodRecord."""
    if value is None:
        return None
    if name in _DAYS and type(value) is int:
        return Day(value)
    if name in _INSTANTS and type(value) is int:
        per_second = _INSTANTS[name]
        return Instant(value * 1_000_000 // per_second, value)
    if name == ZONED and type(value) is str:
        found = micros(value)
        if found is None:
            raise NoGoodRecord("no zoned timestamp")
        return Instant(found)
    if name == VARIABLE and type(value) is dict and type(value.get("scale")) is int:
        number = value.get("value")
        return _decimal(number, value["scale"]) if isinstance(number, (str, bytes)) else value
    if name == _DECIMAL and type(value) in (str, bytes) and (scale := _scale(parameters)) is not None:
        return _decimal(value, scale)
    return value


def _scale(parameters: Any) -> int | None:
    """None of what is none: such a schema means nothing."""
    try:
        return int(parameters.get("scale", 0))
    except (AttributeError, TypeError, ValueError):
        return None


def _decimal(value: str | bytes, scale: int) -> Any:
    """The value itself where it is no number: what was not sent, and a text that is not base64."""
    try:
        unscaled = base64.b64decode(value, validate=True) if isinstance(value, str) else value
    except (binascii.Error, ValueError):
        return value
    if isinstance(value, str) and unscaled in (b"", NOT_SENT):
        return value
    return decimal_of(unscaled, scale)
