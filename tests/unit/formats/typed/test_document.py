"""A record's document is its columns and `_rescued`, put together (protocol 1.6)."""

from __future__ import annotations

import base64
import math
from datetime import date, datetime, timezone
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from exporter.formats.typed.asked import TypedAsked
from exporter.formats.typed.fit import Fit
from tests.support import fit_oracle as oracle
from tests.unit.formats.typed.test_fit_fuzz import NAME, PLAIN, a_record, a_record_type, read, wanted_fields

types = pa.types
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def document(value: Any, kind: pa.DataType) -> Any:
    """A record's value without the nulls of structs, maps as dicts."""
    if value is None:
        return None
    if types.is_struct(kind):
        return {one.name: document(value[one.name], one.type) for one in kind if value[one.name] is not None}
    if types.is_list(kind):
        return [document(one, kind.value_type) for one in value]
    return {key: document(one, kind.item_type) for key, one in value} if types.is_map(kind) else value


def sent(found: Any, kind: pa.DataType) -> Any:
    """JSON as values of the writer's type."""
    if found is None:
        return None
    if types.is_struct(kind):
        return {name: sent(one, kind.field(name).type) for name, one in found.items()}
    if types.is_list(kind):
        return [sent(one, kind.value_type) for one in found]
    if types.is_map(kind):
        return {key: sent(one, kind.item_type) for key, one in found.items()}
    if types.is_binary(kind):
        return base64.b64decode(found)
    if types.is_floating(kind):
        return oracle.rounded(float(found), kind)
    if types.is_decimal(kind):
        return Decimal(found)
    if types.is_date(kind) and isinstance(found, str):
        return (date.fromisoformat(found) - EPOCH.date()).days
    if types.is_timestamp(kind) and isinstance(found, str):
        assert found.endswith("Z") == (kind.tz is not None)
        gone = datetime.fromisoformat(found.rstrip("Z")).replace(tzinfo=timezone.utc) - EPOCH
        return (gone.days * 86_400 + gone.seconds) * 1_000_000 + gone.microseconds
    return found


def merged(column: Any, field: pa.Field, rest: Any, kind: pa.DataType) -> Any:
    """What a column and what is left of its value stand for. kind: of the writer."""
    if oracle.marked(field, "json") and column is not None:
        return sent(oracle.parsed(column), kind)
    if column is None:
        return sent(rest, kind)
    if types.is_struct(kind):
        return _fields(column, field.type, rest or {}, kind)
    if types.is_list(kind):
        item = field.type.value_field
        return [merged(one, item, rest and rest[at], kind.value_type) for at, one in enumerate(column)]
    if types.is_map(kind):
        there = {key: merged(one, field.type.item_field, (rest or {}).get(key), kind.item_type) for key, one in column}
        return {**there, **{key: sent(one, kind.item_type) for key, one in (rest or {}).items() if key not in there}}
    assert rest is None
    return column


def _fields(column: dict[str, Any], fields: Any, rest: dict[str, Any], kind: pa.DataType) -> dict[str, Any]:
    wanted, made = {one.name: one for one in fields}, {}
    for one in kind:
        left = rest.get(one.name)
        held = column.get(one.name)
        whole = one.name not in wanted or held is None
        value = sent(left, one.type) if whole else merged(held, wanted[one.name], left, one.type)
        made |= {} if value is None else {one.name: value}
    return made


def same(one: Any, other: Any) -> bool:
    """Equal, numbers by their value; BINARY may stand for text."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    if isinstance(one, str) and isinstance(other, bytes):
        return one.encode() == other
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32))
def test_columns_and_what_is_rescued_are_the_record_again(seed: int) -> None:
    """Nothing is lost, doubled or changed, whatever the columns are."""
    draw = Random(seed)
    kind = a_record_type(draw)
    schema = pa.schema(wanted_fields(draw, kind, 3) if draw.random() < 0.95 else [])
    records = [a_record(draw, kind) for _ in range(draw.randrange(1, 9))]
    found = read(Fit(kind, TypedAsked.by(NAME, schema, PLAIN)), kind, records)
    columns = [oracle.plain(column) for column in found.columns]
    for at, row in enumerate(found.rows.to_pylist()):
        held = {name: column[at] for name, column in zip(schema.names, columns, strict=True)}
        rest = oracle.parsed(found.rescued[at].as_py() or "{}")
        made = _fields(held, schema, rest, kind)
        assert same(document(records[row // 2], kind), made), (records[row // 2], held, rest)
