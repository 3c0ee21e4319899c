"""What rows that came in an envelope say of their change, `_cdc` and `_cdc_before`, against the envelope. Pure.

Of what a column held before only whole numbers, texts and booleans are sure, where both images have one that the column
takes as it was sent.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from exporter.core.record_columns import BEFORE, CDC
from exporter.proof.contents.compare import Difference
from exporter.proof.contents.documents import NotJson, read, shown
from exporter.proof.contents.shapes import ScalarOf
from exporter.proof.contents.typed import Instant
from exporter.proof.rules.values import INTEGERS, Unsure

NOT_SENT = b"__debezium_unavailable_value"
"""What Debezium puts in the stead of a value that its source did not send."""
_NOT_SENT = (NOT_SENT.decode(), base64.b64encode(NOT_SENT).decode(), NOT_SENT.hex())


@dataclass(frozen=True)
class ToldChange:
    """What was done to a row, as its envelope says it; Unsure where that cannot be told.

    op: I, U, D or R. ts: microseconds since 1970, or None. former: the row before an update, as a document; None where
    there is none.
    """

    op: str
    ts: Any
    source: str | None
    pos: Any
    former: Any = None


def differences(
    change: ToldChange | None, key: bytes | None, sent: Any, row: Mapping[str, Any], columns: Mapping[str, Any]
) -> Iterator[Difference]:
    """Where a row's own two columns differ from it.

    key: of the record. sent: the row's document. row: those of the two that its table has. columns: by name those of
    which an update says what they held, as shapes.py has them; None where they are not as the row's document has them.
    """
    if CDC in row:
        wanted = {} if change is None else {**vars(change), "key": None if key is None else _text(key)}
        held = row[CDC] or {}
        for name in ("op", "ts", "source", "key", "pos"):
            said, found = wanted.get(name), held.get(name)
            if said is not Unsure and said != found:
                sides = [Instant(one) if name == "ts" and one is not None else one for one in (said, found)]
                yield Difference(f"$.{CDC}.{name}", *map(shown, sides))
    if BEFORE in row:
        yield from _before(change.former if change is not None else None, sent, row[BEFORE], columns)


def _before(was: Any, sent: Any, text: str | None, columns: Mapping[str, Any]) -> Iterator[Difference]:
    try:
        told = {} if text is None else read(text)
    except NotJson as error:
        yield Difference(f"$.{BEFORE}", "JSON", str(error))
        return
    if was is Unsure:
        return
    if type(was) is not dict or not columns:
        if told:
            yield Difference(f"$.{BEFORE}", "no other value before", shown(told))
        return
    sure = [name for name, one in columns.items() if all(_is_sure(one, image.get(name)) for image in (was, sent))]
    if not told and len(sure) < len(columns):  # an image that cannot be read says nothing
        return
    for name in sure:
        if told.get(name, sent[name]) != was[name]:
            yield Difference(f"$.{BEFORE}.{name}", shown(was[name]), shown(told.get(name)))


def _is_sure(column: Any, value: Any) -> bool:
    """Whether such a column surely has this value as it was sent."""
    if not isinstance(column, ScalarOf) or column.evolved:
        return False
    if type(value) is int and column.kind in INTEGERS:
        most = 1 << (INTEGERS[column.kind] - 1)
        return -most <= value < most
    if type(value) is str and column.kind == "string":
        return not any(one in value for one in _NOT_SENT)
    return type(value) is bool and column.kind == "boolean"


def _text(key: bytes) -> str:
    try:
        return key.decode()
    except UnicodeDecodeError:
        return base64.b64encode(key).decode()
