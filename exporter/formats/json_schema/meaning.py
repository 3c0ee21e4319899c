"""What values of a JSON Schema mean that Connect made: `semantic_types = "connect"`. Runs on Spark executors.

    title, connect.parameters ── nodes, as of Connect's JSON ── the value as plain JSON ── its reader

A value that is not what its schema says stays as it is. So do dates and moments where a table has whole numbers, and
decimals where it has their bytes: its columns came before the names meant anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from exporter.core.routing import EventTime
from exporter.core.schemas import KnownSchemas, SchemaText
from exporter.core.value_format import ValueFormat
from exporter.formats.dead_letter import DeadLetter
from exporter.formats.envelopes.connect import ConnectEntries, ConnectItems, Fields, Node, meant
from exporter.formats.envelopes.strict import parsed
from exporter.formats.format import Read, Reader
from exporter.formats.frames import HEAD, NO_ID, confluent_ids
from exporter.formats.json.parts import compact, members_of
from exporter.formats.json_schema.columns import node_of

_ROWS = ("before", "after", "data")
"""Where rows stand in envelopes."""


def fitting(node: Node | None, kind: pa.DataType | None) -> Node | None:
    """A node without what a column of this type takes as it is sent. kind: None where no column is."""
    if node is None or kind is None:
        return node
    if isinstance(node, Fields):
        types = {one.name: one.type for one in kind} if pa.types.is_struct(kind) else {}
        nodes = {name: fitting(one, types.get(name)) for name, one in node.nodes.items()}
        left = {name: one for name, one in nodes.items() if one is not None}
        return Fields(left) if left else None
    if isinstance(node, (ConnectItems, ConnectEntries)):
        inside = kind.value_type if pa.types.is_list(kind) else kind.item_type if pa.types.is_map(kind) else None
        below = fitting(node.node, inside)
        return None if below is None else type(node)(below)
    is_decimal = node(1) == 1  # all others make texts of numbers
    numbers = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    texts = pa.types.is_binary(kind) or pa.types.is_string(kind)
    return None if (texts if is_decimal else numbers) else node


def without(node: Node | None, path: Sequence[str]) -> Node | None:
    """A node without what stands at a path."""
    if not isinstance(node, Fields) or not path or path[0] not in node.nodes:
        return node
    below = without(node.nodes[path[0]], path[1:]) if len(path) > 1 else None
    left = {name: one for name, one in node.nodes.items() if name != path[0]}
    left |= {path[0]: below} if below is not None else {}
    return Fields(left) if left else None


class MeantReader:
    """See Reader. inner: reads values as plain JSON."""

    def __init__(
        self, inner: Reader, form: ValueFormat, schemas: KnownSchemas, schema: pa.Schema, time: EventTime
    ) -> None:
        """time: where it counts since 1970, it is read as the number that was sent."""
        self._inner = inner
        counted = time.path.split(".") if time.kind == "json" and time.unit != "iso" else []
        self._counted = [counted] if form.envelope == "none" else [counted, *([row, *counted] for row in _ROWS)]
        self._form = form
        self._schemas = schemas
        row = pa.struct(list(schema))
        self._kind = row if form.envelope == "none" else pa.struct([(name, row) for name in _ROWS])
        self._nodes: dict[int, Node | None] = {}

    def read(self, values: pa.BinaryArray) -> Read:
        """Implements `Reader.read`: rows and refusals of a batch of values."""
        framed = self._form.is_framed
        ids = confluent_ids(values) if framed else np.zeros(len(values), np.int64)
        if not any(self._node(one) for one in np.unique(ids).tolist()):
            return self._inner.read(values)
        head = HEAD if framed else 0
        texts: list[bytes | None] = []
        for raw, one in zip(values.to_pylist(), ids.tolist(), strict=True):
            node = self._node(one)
            texts.append(raw if raw is None or node is None else raw[:head] + _plain(raw[head:], node))
        return self._inner.read(pa.array(texts, pa.binary()))

    def _node(self, schema_id: int) -> Node | None:
        if schema_id == NO_ID:
            return None
        if schema_id not in self._nodes:
            text = self._schemas.text(schema_id) if self._form.is_framed else _only(self._form)
            node = fitting(node_of(text), self._kind) if text is not None else None
            for path in self._counted:
                node = without(node, path)
            self._nodes[schema_id] = node
        return self._nodes[schema_id]


def _only(form: ValueFormat) -> SchemaText | None:
    """The schema of the settings, if there is one alone."""
    return SchemaText("JSON", form.schemas[0][1]) if len(form.schemas) == 1 else None


def _plain(raw: bytes, node: Node) -> bytes:
    """A value as plain JSON; as it is where it is none that the reader takes."""
    if not isinstance(node, Fields):
        return raw
    try:
        value = parsed(raw)
    except DeadLetter:
        return raw
    changed: Mapping[str, Any] = {name: meant(one, value[name]) for name, one in node.nodes.items() if name in value}
    changed = {name: one for name, one in changed.items() if one is not value[name]}
    return compact({**members_of(raw), **changed}) if changed else raw
