"""What Kafka Connect's JSON converter writes: {schema, payload}. The schema says how values of the payload are meant.

    Decimal                      "Aw==" with scale 2        0.03
    Date                         20484                      "2026-01-31"
    Timestamp                    1769860800000              "2026-01-31T12:00:00.000Z"
    io.debezium.time.Date, ...   with semantic types only   as above, by their unit; MicroTimestamp, NanoTimestamp too

All others are as JSON has them: bytes are base64, times of day integers. A value that is not what its schema says, or
that no calendar holds, stays as it is: whether it fits is for its column to say. Runs on Spark executors.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from decimal import Context, Decimal
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import msgspec
import pyarrow as pa

from exporter.formats.dead_letter import DeadLetter
from exporter.formats.envelopes.strict import kind_of, parsed
from exporter.formats.envelopes.unavailable import is_unavailable
from exporter.formats.json.parts import compact, every_member
from exporter.formats.json.text import PARSE_ERRORS, TOO_DEEP, too_deep
from exporter.text import shorten

PARTS = {"schema", "payload"}
SCHEMAS_KEPT = 64
SCHEMA_BYTES_TOLD = 64 << 10
"""Of a schema of which the driver is told."""
SCALE_MAX = 1_000
"""Digits behind the point, and before it: beyond, a value stays as it is."""
_SCALARS = frozenset(
    ["int8", "int16", "int32", "int64", "float", "double", "float32", "float64", "boolean", "string", "bytes"]
)
_DAY_ZERO = date(1970, 1, 1).toordinal()
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_BYTES_MAX = 420
"""Of an unscaled number: that is SCALE_MAX digits."""

Meant: TypeAlias = Callable[[Any], Any]
"""What a value of a logical type is, or the value itself if it is none."""
Logical: TypeAlias = Callable[[Mapping[str, Any], str], Meant]
"""From the schema of a logical type, at a path, to what its values are. Raises DeadLetter."""
Node: TypeAlias = "Meant | Fields | ConnectItems | ConnectEntries"


@dataclass(frozen=True)
class Fields:
    """A struct: its fields that are not as JSON has them."""

    nodes: Mapping[str, Node]


@dataclass(frozen=True)
class ConnectItems:
    """An array of what is not as JSON has it."""

    node: Node


@dataclass(frozen=True)
class ConnectEntries:
    """A map from texts to what is not as JSON has it."""

    node: Node


class Payload(NamedTuple):
    """The bytes of a payload, its value, and what is not as JSON has it in there; None: nothing."""

    raw: bytes
    value: dict[str, Any]
    node: Node | None


def payload_of(raw: bytes, debezium: bool) -> Payload:
    """The payload of one value, which is an object. debezium: whether its types are honoured. Raises DeadLetter."""
    try:
        schema, payload = _parts(raw)
        node = meant_by(schema, debezium)
        if not isinstance(node, str):
            return Payload(payload, parsed(payload), node)
    except (*PARSE_ERRORS, DeadLetter):
        pass
    raise DeadLetter(_why_not(parsed(raw), debezium))


def _parts(raw: bytes) -> tuple[bytes, bytes]:
    """The two members of a value that has no others, and no member twice. Raises ValueError."""
    outer = every_member(raw)
    parts = {str(name): bytes(text) for name, text in outer.items()}
    if len(outer) != len(parts) or parts.keys() != PARTS:
        raise ValueError("other members")
    return parts["schema"], parts["payload"]


def schemas_in(values: pa.BinaryArray, most: int) -> list[str]:
    """Different schemas that values bring along, as they are sent, so many at most; none of those that are too long.

    Most values begin as another one did: then nothing is read.
    """
    found: dict[str, None] = {}
    begins: tuple[bytes, ...] = ()
    for raw in values.to_pylist():
        if len(found) >= most:
            break
        if raw is None or raw.startswith(begins):
            continue
        try:
            schema, _ = _parts(raw)
            begins = (*begins, b'{"schema":' + schema + b',"payload":')[-SCHEMAS_KEPT:]
            if schema != b"null" and len(schema) <= SCHEMA_BYTES_TOLD:
                found[schema.decode()] = None
        except (*PARSE_ERRORS, ValueError):
            continue
    return [*found]


def _why_not(doc: Mapping[str, Any], debezium: bool) -> str:
    """The reason of a value that is JSON and no payload with its schema."""
    if doc.keys() != PARTS:
        return f"no_envelope: $ has {shorten(', '.join(doc)) or 'no members'}, not schema and payload alone"
    node = meant_by(compact(doc["schema"]), debezium)
    if isinstance(node, str):
        return node
    if doc["payload"] is None:
        return "tombstone: the payload is null"
    return f"not_object: $.payload is {kind_of(doc['payload'])}"


@lru_cache(SCHEMAS_KEPT)
def meant_by(raw: bytes, debezium: bool) -> Node | str | None:
    """What is not as JSON has it in values of a schema, which is given as sent; None: nothing; a text: the reason of
    all records that have this schema."""
    if raw == b"null":
        return None
    try:
        if too_deep(raw):
            return TOO_DEEP
        return _node(parsed(raw), "$.schema", {**_NAMED, **_DEBEZIUM} if debezium else _NAMED)
    except DeadLetter as refused:
        reason = str(refused)
        return reason if reason.startswith("bad_schema: ") else f"bad_schema: $.schema: {reason}"


def meant(node: Node, value: Any) -> Any:
    """A value as plain JSON."""
    if isinstance(node, Fields):
        if type(value) is not dict:
            return value
        return {name: meant(node.nodes[name], item) if name in node.nodes else item for name, item in value.items()}
    if isinstance(node, ConnectItems):
        return [meant(node.node, item) for item in value] if type(value) is list else value
    if isinstance(node, ConnectEntries):
        return {name: meant(node.node, item) for name, item in value.items()} if type(value) is dict else value
    return node(value)


def _node(schema: Mapping[str, Any], path: str, named: Mapping[str, Logical]) -> Node | None:
    """The node of a schema, None where all is as JSON has it. Raises DeadLetter."""
    kind, name = schema.get("type"), schema.get("name")
    if type(name) is str and name in named:
        return named[name](schema, path)
    if kind == "struct":
        fields = schema.get("fields")
        if type(fields) is not list or not all(type(one) is dict and type(one.get("field")) is str for one in fields):
            raise DeadLetter(f"bad_schema: {path}.fields is no array of named fields")
        all_nodes = {one["field"]: _node(one, f"{path}.{one['field']}", named) for one in fields}
        nodes = {field: node for field, node in all_nodes.items() if node is not None}
        return Fields(nodes) if nodes else None
    if kind == "array":
        inner = _node(_inside(schema, "items", path), f"{path}[]", named)
        return None if inner is None else ConnectItems(inner)
    if kind == "map":
        inner = _node(_inside(schema, "values", path), f"{path}{{}}", named)
        return None if inner is None or _inside(schema, "keys", path).get("type") != "string" else ConnectEntries(inner)
    if type(kind) is not str or kind not in _SCALARS:
        raise DeadLetter(f"bad_schema: {path}.type is {shorten(kind) if type(kind) is str else kind_of(kind)}")
    return None


def _inside(schema: Mapping[str, Any], name: str, path: str) -> Mapping[str, Any]:
    found = schema.get(name)
    if type(found) is not dict:
        raise DeadLetter(f"bad_schema: {path}.{name} is no schema")
    return found


def day_of(value: Any) -> Any:
    """A number of days since 1970 as the text of a date; any other value as it is."""
    ordinal = value + _DAY_ZERO if type(value) is int else 0
    return date.fromordinal(ordinal).isoformat() if 1 <= ordinal <= date.max.toordinal() else value


def _moment(per_sec: int) -> Meant:
    """Integers of so many a second since 1970, UTC."""
    digits = len(str(per_sec)) - 1

    def read(value: Any) -> Any:
        if type(value) is not int:
            return value
        secs, rest = divmod(value, per_sec)
        try:
            moment = (_EPOCH + timedelta(seconds=secs)).replace(tzinfo=None)
        except OverflowError:
            return value
        return f"{moment.isoformat()}.{rest:0{digits}}Z"

    return read


def _decimal(schema: Mapping[str, Any], path: str) -> Meant:
    """What a logical decimal means, by its scale. Raises DeadLetter."""
    parameters = schema.get("parameters")
    text = parameters.get("scale") if type(parameters) is dict else None
    try:
        scale = int(text) if type(text) is str else None
    except ValueError:
        scale = None
    if scale is None or abs(scale) > SCALE_MAX:
        raise DeadLetter(f"bad_schema: {path}: a Decimal has no scale that can be used")
    return lambda value: _scaled(value, scale)


def _scaled(value: Any, scale: int) -> Any:
    """A number from its unscaled bytes in base64. Numbers that are sent as such stay."""
    if type(value) is not str or not value or is_unavailable(value):
        return value
    try:
        raw = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        return value
    if not raw or len(raw) > _BYTES_MAX:
        return value
    number = Decimal(int.from_bytes(raw, "big", signed=True)).scaleb(-scale, _WIDE)
    return msgspec.Raw(format(number, "f").encode())


_WIDE = Context(prec=2 * SCALE_MAX + 100)


def _variable_scale(value: Any) -> Any:
    """A struct of a scale and unscaled bytes."""
    if type(value) is not dict or value.keys() != {"scale", "value"} or type(value["scale"]) is not int:
        return value
    if abs(value["scale"]) > SCALE_MAX:
        return value
    number = _scaled(value["value"], value["scale"])
    return value if number is value["value"] else number


def _always(read: Meant) -> Logical:
    return lambda _schema, _path: read


_NAMED: Mapping[str, Logical] = {
    "org.apache.kafka.connect.data.Decimal": _decimal,
    "org.apache.kafka.connect.data.Date": _always(day_of),
    "org.apache.kafka.connect.data.Timestamp": _always(_moment(1_000)),
}
_DEBEZIUM: Mapping[str, Logical] = {
    "io.debezium.time.Date": _always(day_of),
    "io.debezium.time.Timestamp": _always(_moment(1_000)),
    "io.debezium.time.MicroTimestamp": _always(_moment(1_000_000)),
    "io.debezium.time.NanoTimestamp": _always(_moment(1_000_000_000)),
    "io.debezium.data.VariableScaleDecimal": _always(_variable_scale),
}

NAMED: Mapping[str, Logical] = {**_NAMED, **_DEBEZIUM}
"""All of them."""
