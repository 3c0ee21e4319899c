"""What becomes of one value in an envelope, by the standard library alone: what our reading is compared with.

Slow, plain, and written from the handbook's tables, not from the code. A value gives a Row, or the code of a reason.
"""

from __future__ import annotations

import base64
import json
import re
import uuid
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

from exporter.core.value_format import ValueFormat

Columns = dict[str, str]
"""Name -> bigint, string, date, timestamp, decimal(10,2)."""
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
PLACEHOLDERS = ("__debezium_unavailable_value", "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==")


class Bad(Exception):
    """The code of a reason."""


class Number(str):
    """A number with a fraction or an exponent, as sent."""

    __slots__ = ()


@dataclass
class Row:
    """columns: by name, those that are not null. rescued: the members that no column holds, and hidden ones."""

    columns: dict[str, Any]
    rescued: dict[str, Any]
    cdc: dict[str, Any] | None = None
    time: Any = None


@dataclass(frozen=True)
class Asked:
    """type_path, time_path: of an envelope; event_type: that a value was routed by."""

    form: ValueFormat
    columns: Columns
    event_type: str | None = None
    time_path: str | None = None
    names: tuple[str, ...] = field(default=())


def strict(raw: bytes, bare: bool = False) -> Any:
    """JSON in which no key occurs twice."""
    twins: list[str] = []

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({name for name, _ in pairs}) < len(pairs):
            twins.append("twin")
        return dict(pairs)

    def constant(word: str) -> Any:
        if bare:
            return word
        raise ValueError("no JSON")

    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise Bad("not_utf8") from None
    try:
        value = json.loads(
            text, object_pairs_hook=members, parse_constant=constant, parse_float=Number, parse_int=_whole
        )
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        raise Bad("not_json") from None
    if twins:
        raise Bad("duplicate_key")
    if not isinstance(value, dict):
        raise Bad("not_object")
    return value


def _whole(token: str) -> Any:
    return Number(token) if token == "-0" else int(token)


def expected(asked: Asked, raw: bytes | None) -> Row | str:
    """One value."""
    try:
        return _row(asked, raw)
    except Bad as bad:
        return str(bad)


def _row(asked: Asked, raw: bytes | None) -> Row:
    if raw is None:
        raise Bad("tombstone")
    doc, schema = strict(raw), None
    if asked.form.kind == "connect_json":
        doc, schema = _payload(doc, asked.form.semantic_types == "connect")
    if asked.form.envelope == "none":
        return _columns(asked, _meant(schema, doc, asked.form.semantic_types == "connect"))
    image, cdc, member = (_dms if asked.form.envelope == "dms" else _debezium)(asked, doc)
    if asked.event_type is not None and cdc["source"] != asked.event_type:
        raise Bad("type_mismatch")
    time = _time(asked.time_path, doc) if asked.time_path else None
    if schema is not None:
        inner = next((one for one in schema.get("fields", []) if one["field"] == member), None)
        image = _meant(inner, image, asked.form.semantic_types == "connect")
    row = _columns(asked, image)
    row.cdc, row.time = cdc, time
    return row


def _payload(doc: dict[str, Any], debezium: bool) -> tuple[dict[str, Any], Any]:
    if doc.keys() != {"schema", "payload"}:
        raise Bad("no_envelope")
    schema = doc["schema"]
    if schema is not None:
        if not isinstance(schema, dict):
            raise Bad("bad_schema")
        _check_schema(schema, debezium)
    if doc["payload"] is None:
        raise Bad("tombstone")
    if not isinstance(doc["payload"], dict):
        raise Bad("not_object")
    return doc["payload"], schema


def _check_schema(schema: dict[str, Any], debezium: bool) -> None:
    known = ["int8", "int16", "int32", "int64", "float", "double", "float32", "float64", "boolean", "string", "bytes"]
    name, kind = schema.get("name"), schema.get("type")
    if name == "org.apache.kafka.connect.data.Decimal":
        scale = (schema.get("parameters") or {}).get("scale")
        if type(scale) is not str or not re.fullmatch(r"-?[0-9]{1,3}", scale):
            raise Bad("bad_schema")
    elif type(name) is str and (name in CONNECT_TIMES or (debezium and name in DEBEZIUM_NAMES)):
        return
    elif kind == "struct":
        fields = schema.get("fields")
        if not isinstance(fields, list):
            raise Bad("bad_schema")
        for one in fields:
            if not isinstance(one, dict) or type(one.get("field")) is not str:
                raise Bad("bad_schema")
            _check_schema(one, debezium)
    elif kind in ("array", "map"):
        inner = schema.get("items" if kind == "array" else "values")
        if not isinstance(inner, dict):
            raise Bad("bad_schema")
        _check_schema(inner, debezium)
    elif kind not in known:
        raise Bad("bad_schema")


CONNECT_TIMES = {"org.apache.kafka.connect.data.Date": "day", "org.apache.kafka.connect.data.Timestamp": "ms"}
DEBEZIUM_NAMES = {
    "io.debezium.time.Date": "day",
    "io.debezium.time.Timestamp": "ms",
    "io.debezium.time.MicroTimestamp": "us",
    "io.debezium.time.NanoTimestamp": "ns",
    "io.debezium.data.VariableScaleDecimal": "",
}
UNITS = {"ms": 3, "us": 6, "ns": 9}


def _meant(schema: Any, value: Any, debezium: bool) -> Any:
    """A value as plain JSON, by its schema."""
    if not isinstance(schema, dict) or value is None:
        return value
    name, kind = schema.get("name"), schema.get("type")
    name = name if type(name) is str else ""
    unit = CONNECT_TIMES.get(name) or (DEBEZIUM_NAMES.get(name) if debezium else None)
    if unit and type(value) is int:
        return _instant(value, unit)
    if name == "org.apache.kafka.connect.data.Decimal":
        return _unscaled(value, int(schema["parameters"]["scale"]))
    if debezium and name == "io.debezium.data.VariableScaleDecimal" and isinstance(value, dict):
        return _unscaled(value["value"], value["scale"])
    if kind == "struct" and isinstance(value, dict):
        inner = {one["field"]: one for one in schema["fields"]}
        return {key: _meant(inner.get(key), item, debezium) for key, item in value.items()}
    if kind == "array" and isinstance(value, list):
        return [_meant(schema["items"], item, debezium) for item in value]
    if kind == "map" and isinstance(value, dict):
        return {key: _meant(schema["values"], item, debezium) for key, item in value.items()}
    return value


def _instant(value: int, unit: str) -> Any:
    try:
        if unit == "day":
            return (date(1970, 1, 1) + timedelta(days=value)).isoformat()
        secs, rest = divmod(value, 10 ** UNITS[unit])
        moment = (EPOCH + timedelta(seconds=secs)).replace(tzinfo=None).isoformat()
        return f"{moment}.{rest:0{UNITS[unit]}d}Z"
    except OverflowError:
        return value


def _unscaled(value: Any, scale: int) -> Any:
    if type(value) is not str or value in PLACEHOLDERS:
        return value
    try:
        raw = base64.b64decode(value, validate=True)
    except ValueError:
        return value
    if not raw:
        return value
    return Number(format(Decimal(int.from_bytes(raw, "big", signed=True)).scaleb(-scale), "f"))


def _text(holder: dict[str, Any], name: str) -> str | None:
    found = holder.get(name)
    if found is not None and type(found) is not str:
        raise Bad("bad_envelope")
    return found


def _debezium(asked: Asked, doc: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any], str]:
    op, mongo = doc.get("op"), asked.form.envelope == "debezium_mongo"
    if type(op) is not str:
        raise Bad("no_envelope")
    source = doc.get("source") if doc.get("source") is not None else {}
    if not isinstance(source, dict):
        raise Bad("bad_envelope")
    if mongo:
        parts = [_text(source, "db"), _text(source, "collection")]
    else:
        schema, db, table = _text(source, "schema"), _text(source, "db"), _text(source, "table")
        parts = [schema or db, table]
    if op in ("t", "m"):
        raise Bad({"t": "cdc_truncate", "m": "cdc_message"}[op])
    if op not in ("c", "r", "u", "d"):
        raise Bad("unknown_op")
    member = "before" if op == "d" else "after"
    image = doc.get(member)
    if mongo:
        image = _document(image, op)
    elif not isinstance(image, dict):
        raise Bad("no_image")
    name = ".".join(part for part in parts if part) if all(parts) else None
    ts = _moments((source, "ts_us", 1), (source, "ts_ms", 1000), (doc, "ts_us", 1), (doc, "ts_ms", 1000))
    cdc = {"op": {"c": "I", "r": "R", "u": "U", "d": "D"}[op], "ts": ts, "source": name, "key": None}
    return image, {**cdc, "pos": _position(source, mongo)}, member


def _moments(*places: tuple[dict[str, Any], str, int]) -> int | None:
    for holder, name, unit in places:
        if holder.get(name) is not None:
            if type(holder[name]) is not int or not -62135596800 * 10**6 <= holder[name] * unit < 253402300800 * 10**6:
                raise Bad("bad_envelope")
            return int(holder[name] * unit)
    return None


def _position(source: dict[str, Any], mongo: bool) -> str | None:
    groups = [["file", "pos", "row"], ["lsn"], ["commit_lsn", "change_lsn", "event_serial_no"], ["commit_scn", "scn"]]
    if mongo:
        groups = [["ord", "ts_ms"]]
    for names in groups:
        if source.get(names[0]) is None:
            continue
        names = sorted(names, reverse=True) if mongo else names
        found = [source[name] for name in names if source.get(name) is not None]
        if not all(type(one) in (int, str) for one in found):
            raise Bad("bad_envelope")
        gtid = None if mongo else _text(source, "gtid")
        return ":".join(map(str, found)) + (f"@{gtid}" if gtid else "")
    return None


def _document(image: Any, op: str) -> dict[str, Any]:
    if image is None:
        if op == "d":
            return {}
        raise Bad("partial_update" if op == "u" else "no_image")
    if type(image) is not str:
        raise Bad("bad_envelope")
    value = _extended(strict(image.encode(), bare=True), top=True)
    assert isinstance(value, dict)
    return value


def _extended(value: Any, top: bool = False) -> Any:
    """Extended JSON as plain JSON."""
    if isinstance(value, list):
        return [_extended(item) for item in value]
    if not isinstance(value, dict):
        return value
    if not top:
        found = _form(value)
        if found is not value:
            return found
    return {key: _extended(item) for key, item in value.items()}


def _form(value: dict[str, Any]) -> Any:
    if len(value) == 2 and value.keys() == {"$binary", "$type"}:
        return _binary(value, value["$binary"], value["$type"]) if next(iter(value)) == "$binary" else value
    if len(value) != 1:
        return value
    ((name, inner),) = value.items()
    if name in ("$oid", "$symbol", "$uuid", "$numberDecimal") and type(inner) is str:
        return inner
    if name in ("$numberInt", "$numberLong") and type(inner) is str and re.fullmatch(r"-?[0-9]{1,19}", inner):
        bits = 31 if name == "$numberInt" else 63
        return int(inner) if -(2**bits) <= int(inner) < 2**bits else value
    if name == "$numberDouble" and type(inner) is str:
        if re.fullmatch(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?", inner):
            return Number(inner)
        return inner if inner in ("NaN", "Infinity", "-Infinity") else value
    if name == "$date":
        return _date(value, inner)
    if name == "$binary" and isinstance(inner, dict) and inner.keys() == {"base64", "subType"}:
        return _binary(value, inner["base64"], inner["subType"])
    if name == "$timestamp" and isinstance(inner, dict) and inner.keys() == {"t", "i"}:
        return inner if {type(one) for one in inner.values()} == {int} else value
    return None if name == "$undefined" and inner is True else value


def _date(value: dict[str, Any], inner: Any) -> Any:
    if type(inner) is str:
        return inner
    if isinstance(inner, dict) and list(inner) == ["$numberLong"]:
        text = inner["$numberLong"]
        inner = int(text) if type(text) is str and re.fullmatch(r"-?[0-9]{1,19}", text) else None
    if type(inner) is not int:
        return value
    found = _instant(inner, "ms")
    return found if type(found) is str else value


def _binary(value: dict[str, Any], text: Any, kind: Any) -> Any:
    if type(text) is not str or type(kind) is not str:
        return value
    try:
        raw = base64.b64decode(text, validate=True)
    except ValueError:
        return value
    return str(uuid.UUID(bytes=raw)) if kind in ("4", "04") and len(raw) == 16 else text


def _dms(_asked: Asked, doc: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any], str]:
    metadata = doc.get("metadata")
    if not isinstance(metadata, dict):
        raise Bad("no_envelope")
    kind, op = _text(metadata, "record-type"), _text(metadata, "operation")
    parts = [_text(metadata, "schema-name"), _text(metadata, "table-name")]
    if kind == "control":
        raise Bad("cdc_control")
    if kind != "data":
        raise Bad("no_envelope")
    ops = {"load": "R", "insert": "I", "update": "U", "delete": "D"}
    if op not in ops:
        raise Bad("unknown_op")
    image = doc.get("data")
    if image is None and op == "delete":
        image = doc.get("before-image")
    if not isinstance(image, dict):
        raise Bad("no_image")
    found = [metadata.get(name) for name in ("stream-position", "transaction-id", "transaction-record-id")]
    if not all(type(one) in (int, str) or one is None for one in found):
        raise Bad("bad_envelope")
    told = [name for name in ("commit-timestamp", "timestamp") if metadata.get(name) is not None]
    times = [_text(metadata, name) for name in told[:1]]
    ts = _micros(times[0]) if times else None
    if times and ts is None:
        raise Bad("bad_envelope")
    name = ".".join(part for part in parts if part) if all(parts) else None
    pos = ":".join(str(one) for one in found if one is not None) or None
    return image, {"op": ops[op], "ts": ts, "source": name, "key": None, "pos": pos}, "data"


def _micros(text: str | None) -> int | None:
    if text is None or not re.fullmatch(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[-+]\d\d:\d\d)?", text):
        return None
    if text[11:13] == "24":
        return None
    text = re.sub(r"(\.\d{6})\d+", r"\1", text).replace("Z", "+00:00")
    moment = datetime.fromisoformat(re.sub(r"\.(\d+)", lambda found: "." + found[1].ljust(6, "0"), text))
    return ((moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)) - EPOCH) // timedelta(microseconds=1)


def _time(path: str, doc: dict[str, Any]) -> int | None:
    found: Any = doc
    for name in path.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    if found is not None and type(found) is not int:
        raise Bad("type_mismatch")
    return found


def _columns(asked: Asked, image: dict[str, Any]) -> Row:
    """The columns of a row, null ones left out, and all other members."""
    form, columns, rest = asked.form, asked.columns, dict(image)
    row = Row({}, rest)
    schemaless = form.envelope == "debezium" and form.kind != "connect_json"
    if schemaless and any(kind == "timestamp" and type(image.get(name)) is int for name, kind in columns.items()):
        raise Bad("unknown_unit")
    for name, kind in columns.items():
        value = image.get(name)
        if form.envelope == "debezium" and value is not None and is_hidden(value):
            continue
        rest.pop(name, None)
        if schemaless and form.semantic_types == "connect" and kind == "date" and type(value) is int:
            value = _instant(value, "day")
        if value is not None:
            row.columns[name] = _scalar(kind, value)
    return row


NO_UUID = "b68a35a7-17ad-35b3-af2a-ae46edb4545a"
"""What UUID.nameUUIDFromBytes gives of the placeholder."""


def is_hidden(value: Any, flags: bool = True) -> bool:
    """Whether it says that a value was not sent. flags: 28 times true may."""
    said = PLACEHOLDERS[0].encode()
    texts, twice = (*PLACEHOLDERS, said.hex()), {PLACEHOLDERS[0]: PLACEHOLDERS[0]}
    if type(value) is str:
        return value in texts or value == json.dumps(twice, separators=(",", ":"))
    if type(value) is dict:
        return value == twice or _is_nowhere(value)
    if type(value) is not list or len(value) not in (1, len(said)):
        return False
    if len(value) == 1:
        return type(value[0]) is str and value[0] in (*texts, NO_UUID)
    bare = [one["value"] if type(one) is dict and one.keys() == {"scale", "value"} and one["scale"] == 0 else one
            for one in value]  # fmt: skip
    if all(type(one) is bool for one in bare):
        return flags and all(bare)
    if all(type(one) is str for one in bare):
        return [_bytes(one) for one in bare] == [said[at : at + 1] for at in range(len(said))]
    if not all(type(one) in (int, float, Number) for one in bare):
        return False
    numbers, wanted = [Decimal(str(one)) for one in bare], [Decimal(byte) for byte in said]
    return any([one.scaleb(scale) for one in numbers] == wanted for scale in range(-12, 39))


def _bytes(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return None


NOWHERE = ("0101000020E6100000000000FC83D797C1000000FC83D797C1", "0101000020E61000000C21E7FDFF7F66401842CEFBFF7F5640")


def _is_nowhere(value: dict[str, Any]) -> bool:
    """A point that stands for a geometry."""
    if value.keys() - {"x", "y", "wkb", "srid"}:
        return False
    wkb = value.get("wkb")
    if type(wkb) is str and (_bytes(wkb) or b"").hex().upper() in NOWHERE:
        return True
    both = [value.get("x"), value.get("y")]
    return all(type(one) in (int, float, Number) and Decimal(str(one)) == -99999999 for one in both)


def _scalar(kind: str, value: Any) -> Any:
    """What a column holds of a value."""
    value = 0 if kind == "bigint" and type(value) is Number and value == "-0" else value
    if kind == "bigint" and type(value) is int:
        if not -(2**63) <= value < 2**63:
            raise Bad("out_of_range")
        return value
    if kind == "string" and type(value) is str:
        return value
    if kind == "date" and type(value) is str and re.fullmatch(r"\d{4}-\d\d-\d\d", value):
        return date.fromisoformat(value)
    if kind == "timestamp" and type(value) is str and (micros := _micros(value)) is not None:
        return EPOCH + timedelta(microseconds=micros)
    if kind.startswith("decimal") and (type(value) in (int, Number) or (type(value) is str and _is_number(value))):
        found = Decimal(str(value))
        if found != found.quantize(Decimal("0.01")) or abs(found) >= 10**8:
            raise Bad("out_of_range")
        return found.quantize(Decimal("0.01"))
    raise Bad("type_mismatch")


def _is_number(text: str) -> bool:
    return re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", text) is not None
