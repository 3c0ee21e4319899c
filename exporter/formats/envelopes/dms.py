"""The envelope of AWS DMS: {data, metadata}, and what else its replication tasks say. Runs on Spark executors.

load, insert, update, delete    the row is `data`; of a delete without it `before-image`
record-type control             cdc_control
"""

from __future__ import annotations

from collections.abc import Mapping
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
    held,
    object_at,
    position,
    source_in,
    text_at,
    unknown_op,
)
from exporter.formats.envelopes.times import micros_of
from exporter.text import shorten

OPS = {"load": SNAPSHOT, "insert": INSERT, "update": UPDATE, "delete": DELETE}
POSITION = ("stream-position", "transaction-id", "transaction-record-id")
AT = "$.metadata"


class Dms:
    """The envelope of AWS DMS: `data` beside `metadata`."""

    members: frozenset[str] = frozenset({"metadata"})
    holder: str = "metadata"
    names: tuple[str, ...] = ("schema-name", "table-name")

    def change(self, doc: Mapping[str, Any]) -> RowChange:
        """Implements `Envelope.change`: what a document does to a row."""
        metadata = object_at(doc, "metadata", "no_envelope")
        kind, op = text_at(metadata, AT, "record-type"), text_at(metadata, AT, "operation") or ""
        source = source_in(self, metadata)
        if kind == "control":
            raise DeadLetter(f"cdc_control: {shorten(op)} of {source}")
        if kind != "data":
            raise DeadLetter(f"no_envelope: {AT}.record-type is {'null or missing' if kind is None else shorten(kind)}")
        if op not in OPS:
            raise unknown_op(f"{AT}.operation", op)
        member = "before-image" if op == "delete" and doc.get("data") is None else "data"
        if doc.get(member) is None:
            raise DeadLetter("no_image: $.data is null or missing")
        image = Image(member, object_at(doc, member, "no_image"))
        pos = position(metadata, AT, POSITION) or None
        return RowChange(ToldOfChange(OPS[op], _time(metadata), source, pos), image)

    def former(self, doc: Mapping[str, Any]) -> Image | None:
        """Implements `Envelope.former`: the image of before, if there is one."""
        is_update = object_at(doc, "metadata", "no_envelope").get("operation") == "update"
        if not is_update or doc.get("before-image") is None:
            return None
        return Image("before-image", object_at(doc, "before-image", "no_image"))


def _time(metadata: Mapping[str, Any]) -> int | None:
    """When a change was committed, or else when DMS wrote it, in microseconds. Raises DeadLetter."""
    for name in ("commit-timestamp", "timestamp"):
        text = text_at(metadata, AT, name)
        if text is not None:
            found = micros_of(text)
            if found is None:
                raise DeadLetter(f"bad_envelope: {AT}.{name} = {shorten(text)!r} is no timestamp")
            return held(found[0], f"{AT}.{name}")
    return None
