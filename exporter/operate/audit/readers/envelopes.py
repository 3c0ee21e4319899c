"""What a row is wrapped in: Debezium's and DMS' envelopes, opened once more for the audit. Pure.

    debezium   c, r, u: `after`; d: `before`; everything else is no row
    dms        `data` of a record of the type data
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from exporter.core.value_format import Envelope
from exporter.operate.audit.readers.reader import Refused, Sent, Undecided

UNAVAILABLE = "__debezium_unavailable_value"
_IMAGES = {"c": "after", "r": "after", "u": "after", "d": "before"}


def unwrapped(sent: Sent, envelope: Envelope) -> Sent:
    """The row in an envelope. Raises Refused where there is none, Undecided where it has to be put together."""
    if envelope == "none":
        return sent
    found = sent.document
    if "payload" in found and not set(found) - {"schema", "payload"}:
        found = found["payload"]
    if type(found) is not dict:
        raise Refused("an envelope without a row")
    return _dms(sent, found) if envelope == "dms" else _debezium(sent, found, envelope == "debezium_mongo")


def _debezium(sent: Sent, found: dict[str, Any], is_mongo: bool) -> Sent:
    image = _IMAGES.get(found.get("op") or "")
    row = found.get(image) if image else None
    if row is None:
        raise Refused("an envelope without a row")
    if is_mongo:
        raise Undecided("documents of MongoDB are not compared")
    if type(row) is not dict:
        raise Refused("an envelope without a row")
    source = found.get("source") or {}
    parts = [source.get("schema") or source.get("db"), source.get("table")]
    row = {name: None if value == UNAVAILABLE else value for name, value in row.items()}
    return replace(sent, document=row, source=".".join(map(str, parts)) if all(parts) else "", enveloped=found)


def _dms(sent: Sent, found: dict[str, Any]) -> Sent:
    row, told = found.get("data"), found.get("metadata")
    if type(row) is not dict or type(told) is not dict or told.get("record-type") != "data":
        raise Refused("an envelope without a row")
    parts = [told.get("schema-name"), told.get("table-name")]
    return replace(sent, document=row, source=".".join(map(str, parts)) if all(parts) else "", enveloped=found)
