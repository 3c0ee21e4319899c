"""What a row is wrapped in: Debezium's and DMS' envelopes, opened once more for the audit. Pure.

    debezium   c, r, u: `after`; d: `before`; everything else is no row
    dms        `data` of a record of the type data; of a delete without it `before-image`

What a source has not sent stays the placeholder that it sent instead: the row's column is null, and `_rescued` has it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from exporter.core.value_format import Envelope
from exporter.operate.audit.readers.reader import Refused, Sent

MEMBERS = {
    "debezium": frozenset({"source", "op", "ts_ms", "ts_us", "ts_ns", "transaction"}),
    "debezium_mongo": frozenset({"source", "op", "ts_ms", "ts_us", "ts_ns", "transaction"}),
    "dms": frozenset({"metadata"}),
}
"""What stands beside rows: an event time whose path begins so is the envelope's."""
_IMAGES = {"c": "after", "r": "after", "u": "after", "d": "before"}
_DMS_OPS = {"load", "insert", "update", "delete"}


def unwrapped(sent: Sent, envelope: Envelope) -> Sent:
    """The row in an envelope. Raises Refused where there is none."""
    if envelope == "none":
        return sent
    found = sent.document
    return _dms(sent, found) if envelope == "dms" else _debezium(sent, found, envelope == "debezium_mongo")


def _debezium(sent: Sent, found: dict[str, Any], is_mongo: bool) -> Sent:
    op = found.get("op")
    row = found.get(_IMAGES[op]) if type(op) is str and op in _IMAGES else None
    source = found.get("source")
    names = source if type(source) is dict else {}
    if is_mongo:
        if type(row) is not str and not (row is None and op == "d"):
            raise Refused("an envelope without a row")
        parts = [names.get("db"), names.get("collection")]
        return replace(sent, document={}, source=_dotted(parts), enveloped=found, comparable=False)
    if type(row) is not dict:
        raise Refused("an envelope without a row")
    parts = [names.get("schema") or names.get("db"), names.get("table")]
    return replace(sent, document=row, source=_dotted(parts), enveloped=found)


def _dms(sent: Sent, found: dict[str, Any]) -> Sent:
    told, row = found.get("metadata"), found.get("data")
    if type(told) is not dict or told.get("record-type") != "data" or told.get("operation") not in _DMS_OPS:
        raise Refused("an envelope without a row")
    if row is None and told["operation"] == "delete":
        row = found.get("before-image")
    if type(row) is not dict:
        raise Refused("an envelope without a row")
    parts = [told.get("schema-name"), told.get("table-name")]
    return replace(sent, document=row, source=_dotted(parts), enveloped=found)


def _dotted(parts: list[Any]) -> str:
    return ".".join(parts) if all(type(one) is str and one for one in parts) else ""
