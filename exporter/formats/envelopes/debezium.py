"""Debezium's envelopes: {before, after, source, op, ts_ms}, of relational databases and of MongoDB. On Spark executors.

    c, r, u    the row is `after`              t    cdc_truncate
    d          the row is `before`             m    cdc_message

Everything else in the envelope is for ordering and is not kept. Of MongoDB the two are JSON texts (mongo.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import Any

from exporter.formats.dead_letter import DeadLetter
from exporter.formats.envelopes.change import (
    DELETE,
    INSERT,
    SNAPSHOT,
    UPDATE,
    Image,
    RowChange,
    ToldOfChange,
    micros_at,
    object_at,
    position,
    source_in,
    text_at,
    unknown_op,
)
from exporter.formats.envelopes.mongo import plain_document
from exporter.formats.envelopes.strict import kind_of

OPS = {"c": INSERT, "r": SNAPSHOT, "u": UPDATE, "d": DELETE}
TIMES = (("source", "ts_us", 1), ("source", "ts_ms", 1_000), ("", "ts_us", 1), ("", "ts_ms", 1_000))
"""Where the time of a change may stand: the first one that is there. (member, name, microseconds of its unit)."""
IMAGES = ("after", "before")
"""Where rows stand: that of a delete in the second one."""
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
TRUNCATED = "cdc_truncate"
"""The code of a record that says that a table was emptied."""


class Debezium:
    """Of relational databases. See Envelope."""

    members: frozenset[str] = frozenset({"source", "op", "ts_ms", "ts_us", "ts_ns", "transaction"})
    holder: str = "source"
    names: tuple[str, ...] = ("schema", "db", "table")
    positions: tuple[tuple[str, tuple[str, ...]], ...] = (
        ("file", ("file", "pos", "row")),
        ("lsn", ("lsn",)),
        ("commit_lsn", ("commit_lsn", "change_lsn", "event_serial_no")),
        ("commit_scn", ("commit_scn", "scn")),
    )
    """What orders the changes of a source: MySQL, PostgreSQL, SQL Server, Oracle. (member, what is shown): the first
    one whose member is there."""

    def change(self, doc: Mapping[str, Any]) -> RowChange:
        """Implements `Envelope.change`: what a document does to a row."""
        op = doc.get("op")
        if type(op) is not str:
            raise DeadLetter(f"no_envelope: $.op is {'null or missing' if op is None else kind_of(op)}")
        source = {} if doc.get("source") is None else object_at(doc, "source", "bad_envelope")
        name = source_in(self, source)
        if op in ("t", "m"):
            raise DeadLetter(truncated(name, doc) if op == "t" else f"cdc_message: {_prefix(doc)}")
        if op not in OPS:
            raise unknown_op("$.op", op)
        member = IMAGES[op == "d"]
        image = self._image(doc, op, member)
        return RowChange(ToldOfChange(OPS[op], time_of(doc, source), name, self._position(source)), image)

    def former(self, doc: Mapping[str, Any]) -> Image | None:
        """Implements `Envelope.former`: the image of before, if there is one."""
        if doc.get("op") != "u" or doc.get("before") is None:
            return None
        return self._image(doc, "u", "before")

    def _image(self, doc: Mapping[str, Any], _op: str, member: str) -> Image:
        return Image(member, object_at(doc, member, "no_image"))

    def _position(self, source: Mapping[str, Any]) -> str | None:
        for member, names in self.positions:
            if source.get(member) is not None:
                gtid = text_at(source, "$.source", "gtid")
                return position(source, "$.source", names) + (f"@{gtid}" if gtid else "")
        return None


class DebeziumMongo(Debezium):
    """Of MongoDB. A delete that tells nothing of its document is a row without fields: the record's key names it."""

    names: tuple[str, ...] = ("db", "collection")
    positions: tuple[tuple[str, tuple[str, ...]], ...] = (("ord", ("ts_ms", "ord")),)

    def _image(self, doc: Mapping[str, Any], op: str, member: str) -> Image:
        found = doc.get(member)
        if found is None and op == "d":
            return Image(member, {}, b"{}")
        if found is None:
            code = "partial_update" if op == "u" else "no_image"
            raise DeadLetter(f"{code}: $.{member} is null or missing")
        if type(found) is not str:
            raise DeadLetter(f"bad_envelope: $.{member} is {kind_of(found)}, not a text")
        try:
            return Image(member, *plain_document(found))
        except DeadLetter as refused:
            raise refused.within(f"$.{member}") from None


def time_of(doc: Mapping[str, Any], source: Mapping[str, Any]) -> int | None:
    """When a change was made, in microseconds. Raises DeadLetter."""
    for member, name, unit_us in TIMES:
        found = micros_at(source if member else doc, f"$.{member}" if member else "$", name, unit_us)
        if found is not None:
            return found
    return None


def truncated(name: str | None, doc: Mapping[str, Any]) -> str:
    """The reason of such a record; with the time if it has one, by which mirrors tell what is older. name: its source.

    No time makes another code of it.
    """
    try:
        micros = time_of(doc, doc.get("source") or {})
    except DeadLetter:
        micros = None
    if micros is None:
        return f"{TRUNCATED}: of {name}"
    return f"{TRUNCATED}: of {name} at {(_EPOCH + timedelta(microseconds=micros)).isoformat(timespec='microseconds')}"


def _prefix(doc: Mapping[str, Any]) -> str:
    """What is told of a message: never its content."""
    message = doc.get("message")
    prefix = message.get("prefix") if type(message) is dict else None
    return f"prefix {prefix!r}"[:120] if type(prefix) is str else "without a prefix"
