"""What a row is wrapped in: Debezium's and DMS' envelopes, opened once more for the audit. Pure.

    debezium   c, r, u: `after`; d: `before`; everything else is no row
    dms        `data` of a record of the type data; of a delete without it `before-image`
    of MongoDB each is the text of a document, and a delete without it has no fields

What a source has not sent stays the placeholder that it sent instead: the row's column is null, and `_rescued` has it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from exporter.core.value_format import Envelope
from exporter.proof.contents.changes import ToldChange
from exporter.proof.contents.times import micros
from exporter.proof.readers.mongo_documents import document
from exporter.proof.readers.reader import NoGoodRecord, SentValue, Undecided
from exporter.proof.rules.values import Unsure

MEMBERS = {
    "debezium": frozenset({"source", "op", "ts_ms", "ts_us", "ts_ns", "transaction"}),
    "debezium_mongo": frozenset({"source", "op", "ts_ms", "ts_us", "ts_ns", "transaction"}),
    "dms": frozenset({"metadata"}),
}
"""What stands beside rows: an event time whose path begins so is the envelope's."""
_IMAGES = {"c": "after", "r": "after", "u": "after", "d": "before"}
_OPS = {"c": "I", "r": "R", "u": "U", "d": "D"}
_DMS_OPS = {"insert": "I", "load": "R", "update": "U", "delete": "D"}
_PLACES = (("file", "pos", "row"), ("lsn",), ("commit_lsn", "change_lsn", "event_serial_no"), ("commit_scn", "scn"))


def unwrapped(sent: SentValue, envelope: Envelope) -> SentValue:
    """The row in an envelope, and what was done to it. Raises NoGoodRecord where there is none, and Undecided."""
    if envelope == "none":
        return sent
    return _dms(sent) if envelope == "dms" else _debezium(sent, envelope == "debezium_mongo")


def _debezium(sent: SentValue, is_mongo: bool) -> SentValue:
    found, op, source = sent.document, sent.document.get("op"), sent.document.get("source")
    if type(op) is not str or op not in _IMAGES:
        raise NoGoodRecord("an envelope without a row")
    image, names = found.get(_IMAGES[op]), source if type(source) is dict else {}
    row = {} if is_mongo and op == "d" and image is None else _image(image, is_mongo)
    above = names.get("db") if is_mongo else names.get("schema") or names.get("db")
    name = _dotted([above, names.get("collection" if is_mongo else "table")])
    change = ToldChange(_OPS[op], _moment(names, found), name or None, _place(names, is_mongo))
    if op == "u" and found.get("before") is not None:
        change = replace(change, former=_former(found["before"], is_mongo))
    return replace(sent, document=row, source=name, enveloped=found, change=change)


def _image(value: Any, is_text: bool) -> dict[str, Any]:
    """A row. is_text: as the text of a document. Raises NoGoodRecord, and Undecided."""
    if is_text and type(value) is str:
        return document(value)
    if is_text or type(value) is not dict:
        raise NoGoodRecord("an envelope without a row")
    return value


def _former(value: Any, is_text: bool = False) -> Any:
    """What a row was; None of what cannot be read."""
    try:
        return _image(value, is_text)
    except NoGoodRecord:
        return None
    except Undecided:
        return Unsure


def _moment(source: dict[str, Any], found: dict[str, Any]) -> Any:
    """When a source made a change, or else when it was captured, in microseconds since 1970."""
    times = [(one.get(name), unit) for one in (source, found) for name, unit in (("ts_us", 1), ("ts_ms", 1_000))]
    time, unit = next(((time, unit) for time, unit in times if time is not None), (None, 1))
    return time * unit if type(time) is int else None if time is None else Unsure


def _place(source: dict[str, Any], is_mongo: bool) -> Any:
    """Where a change stood in the log of its source."""
    if is_mongo:
        return None if source.get("ord") is None else _joined(source, ("ts_ms", "ord"))
    members = next((some for some in _PLACES if source.get(some[0]) is not None), ())
    place, gtid = _joined(source, members) or None, source.get("gtid")
    if place in (None, Unsure) or not gtid:
        return place
    return f"{place}@{gtid}" if type(gtid) is str else Unsure


def _joined(source: dict[str, Any], members: tuple[str, ...]) -> Any:
    """What is there of some members, by colons."""
    found = [source[name] for name in members if source.get(name) is not None]
    return ":".join(map(str, found)) if all(type(one) in (int, str) for one in found) else Unsure


def _dms(sent: SentValue) -> SentValue:
    found = sent.document
    told, row = found.get("metadata"), found.get("data")
    op, before = told.get("operation") if type(told) is dict else None, found.get("before-image")
    if type(told) is not dict or told.get("record-type") != "data" or type(op) is not str or op not in _DMS_OPS:
        raise NoGoodRecord("an envelope without a row")
    row = _image(before if row is None and op == "delete" else row, is_text=False)
    name = _dotted([told.get("schema-name"), told.get("table-name")])
    time = next((told[name] for name in ("commit-timestamp", "timestamp") if told.get(name) is not None), None)
    ts = None if time is None else micros(time) if type(time) is str else None
    place = _joined(told, ("stream-position", "transaction-id", "transaction-record-id")) or None
    former = None if op != "update" or before is None else _former(before)
    change = ToldChange(_DMS_OPS[op], Unsure if ts is None and time is not None else ts, name or None, place, former)
    return replace(sent, document=row, source=name, enveloped=found, change=change)


def _dotted(parts: list[Any]) -> str:
    return ".".join(parts) if all(type(one) is str and one for one in parts) else ""
