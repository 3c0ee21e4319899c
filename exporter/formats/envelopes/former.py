"""What columns held before an update, from its image of before: where they held another value. On Spark executors.

    the image of before ── where it differs from the row ── read as columns ── {"id": 7} in `_cdc_before`

The values are those that the columns would have had, as JSON. An image that cannot be read says nothing, and refuses
nothing: no verdict depends on it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pyarrow as pa

from exporter.core.routing import EventTime, Routing, TypeFrom
from exporter.formats.format import Read, Reader

_written = msgspec.json.Encoder(decimal_format="number").encode


def asked_before(schema: pa.Schema, names: Sequence[str]) -> pa.Schema:
    """The columns whose former values are kept; each may be missing in an image."""
    return pa.schema([field.with_nullable(True) for field in schema if field.name in names])


def of_former(routing: Routing) -> Routing:
    """How an image of before is read: it needs no event type, and no time."""
    return replace(routing, type_from=TypeFrom("topic"), event_time=EventTime("record"), unknown_fields="rescue")


class FormerTexts:
    """Reads images of before that are JSON texts. names: of the columns whose former values are kept."""

    def __init__(self, reader: Callable[[pa.Schema], Reader], schema: pa.Schema, names: Sequence[str]) -> None:
        """reader: makes one of any schema. schema: of the rows."""
        self._schema = asked_before(schema, names)
        self.names = frozenset(self._schema.names)
        self._reader = reader(self._schema) if self.names else None

    def told(self, texts: Sequence[tuple[bytes, frozenset[str]] | None]) -> list[str | None]:
        """What `_cdc_before` has of each. texts: of the members that differ, and their names."""
        found: list[str | None] = [None] * len(texts)
        some = {at: one for at, one in enumerate(texts) if one is not None}
        if not some or self._reader is None:
            return found
        wanted = [*some]
        read = self._reader.read(pa.array([text for text, _ in some.values()], pa.binary()))
        for row, values in zip(read.rows.to_pylist(), _values(read, self._schema), strict=True):
            names = some[wanted[row]][1]
            found[wanted[row]] = _text({name: value for name, value in values.items() if name in names})
        return found


def told_of(former: Read, rows: Read, asked: pa.Schema, schema: pa.Schema) -> list[str | None]:
    """What `_cdc_before` has of each of some rows. former: columns `asked`, of the images of some of them."""
    was = dict(zip(former.rows.to_pylist(), _values(former, asked), strict=True))
    now = _values(replace(rows, columns=[rows.columns[schema.names.index(name)] for name in asked.names]), asked)
    sides = ((was.get(row, {}), values) for row, values in zip(rows.rows.to_pylist(), now, strict=True))
    return [_text({name: value for name, value in one.items() if value != two[name]}) for one, two in sides]


def _values(read: Read, schema: pa.Schema) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pa.table([*read.columns], names=schema.names).to_pylist()
    return rows


def _text(values: Mapping[str, Any]) -> str | None:
    """As `_cdc_before` has them; None if there are none."""
    return _written(values).decode() if values else None
