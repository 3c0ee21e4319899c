"""Good bodies of random schemas against fastavro, as they were written and by a reader's schema; seeded."""

from __future__ import annotations

import io
import json
import random
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest

from exporter.core.schemas import SchemaText
from exporter.formats.avro.plan import AvroPlan
from exporter.formats.avro.schema import parsed
from tests.support.avro_oracle import random_body, random_spec
from tests.support.typed_values import comparable, plain

Spec = Any
_GIVEN = (("int", 7), ("string", "x"), (["null", "long"], None), ({"type": "array", "items": "boolean"}, [True]),
          ({"type": "map", "values": "double"}, {"a": 0.5}))  # fmt: skip
_WIDER = {"int": ("long", "double"), "float": ("double",), "string": ("bytes",)}


def without_logical(spec: Spec) -> Spec:
    """What is stored: fastavro makes objects of the rest, other ones than Arrow."""
    if isinstance(spec, list):
        return [without_logical(one) for one in spec]
    if not isinstance(spec, dict):
        return spec
    found = {name: value for name, value in spec.items() if name not in ("logicalType", "precision", "scale")}
    if "fields" in found:
        found["fields"] = [{**field, "type": without_logical(field["type"])} for field in found["fields"]]
    for name in ("items", "values"):
        if name in found:
            found[name] = without_logical(found[name])
    return found["type"] if set(found) == {"type"} else found


def ambiguous(spec: Spec) -> bool:
    """Whether a union has two branches that may take the same value: fastavro takes the first, as for others it need
    not be the very same."""
    if isinstance(spec, list):
        kinds = {one for one in spec if isinstance(one, str)}
        twice = any(len(kinds & group) > 1 for group in ({"int", "long", "float", "double"}, {"string", "bytes"}))
        return twice or any(ambiguous(one) for one in spec)
    if not isinstance(spec, dict):
        return False
    below = [field["type"] for field in spec.get("fields", ())]
    return any(ambiguous(one) for one in [*below, spec.get("items", "int"), spec.get("values", "int")])


def evolved(dice: random.Random, spec: Spec) -> Spec:
    """What a reader may have made of a schema: fields in another order, fewer, more, renamed, wider, optional."""
    if isinstance(spec, str):
        return dice.choice((spec, spec, *_WIDER.get(spec, ())))
    if isinstance(spec, list):
        return dice.sample(spec, len(spec))
    kind = spec["type"]
    if kind == "enum":
        return {**spec, "symbols": dice.sample([*spec["symbols"], "Z"], len(spec["symbols"]) + 1)}
    if kind in ("array", "map"):
        name = "items" if kind == "array" else "values"
        return {**spec, name: evolved(dice, spec[name])}
    if kind != "record":
        return spec
    fields = []
    for field in spec["fields"]:
        made = {**field, "type": evolved(dice, field["type"])}
        if dice.random() < 0.15 and not isinstance(made["type"], list) and made["type"] != "null":
            made["type"] = ["null", made["type"]]
        if dice.random() < 0.15:
            made = {**made, "name": f"new_{field['name']}", "aliases": [field["name"]]}
        if dice.random() > 0.15:
            fields.append(made)
    for number in range(dice.choice((0, 0, 1, 2))):
        given, default = dice.choice(_GIVEN)
        fields.append({"name": f"more{number}", "type": given, "default": default})
    return {**spec, "fields": dice.sample(fields, len(fields))}


def of_spec(spec: Spec, value: Any) -> Any:
    """A value of ours as fastavro has it: null where there is no column, the one branch that there is, maps as such."""
    if isinstance(spec, list):
        real = [one for one in spec if one != "null"]
        if value is None or not real:
            return None
        if not isinstance(value, dict) or len(real) == 1:
            return of_spec(real[0], value)
        names = {f"member_{_name(one)}": one for one in real}
        if not names.keys() >= value.keys():
            return of_spec(real[0], value)
        (name,) = [name for name, inside in value.items() if inside is not None]
        return of_spec(names[name], value[name])
    kind = spec if isinstance(spec, str) else spec["type"]
    if kind == "array":
        return [of_spec(spec["items"], one) for one in value]
    if kind == "map":
        return {key: of_spec(spec["values"], one) for key, one in value}
    if kind == "record":
        return {one["name"]: of_spec(one["type"], (value or {}).get(one["name"])) for one in spec["fields"]}
    return None if kind == "null" else value


def _name(spec: Spec) -> str:
    return spec if isinstance(spec, str) else str(spec.get("name", spec["type"])).lower()


def difference(seed: int, resolve: bool) -> tuple[str, int]:
    """What the two read differently of the bodies of one seed, and how many both have read."""
    dice = random.Random(seed)
    writer = without_logical(random_spec(dice))
    reader = evolved(dice, writer) if resolve else writer
    if resolve and ambiguous(writer):
        return "", 0
    bodies = [random_body(dice, writer, long_lists=dice.random() < 0.2) for _ in range(40)]
    schemas = [parsed(SchemaText("AVRO", json.dumps(spec))) for spec in (writer, reader)]
    plan = AvroPlan(schemas[0], schemas[1] if resolve else None)
    found = plan.rows(plan.batch(pa.array(bodies, pa.binary())), np.arange(len(bodies)))
    codes = {reason.partition(":")[0] for reason in found.refused.values()}
    head = f"seed {seed}\nwriter {json.dumps(writer)}\nreader {json.dumps(reader)}\n"
    if not codes <= {"out_of_range", "inexact", "duplicate_key", "unresolvable_branch"}:
        return f"{head}{found.refused}", 0
    theirs = [fastavro.parse_schema(json.loads(json.dumps(spec))) for spec in (writer, reader)]
    for row, got in zip(found.rows.tolist(), plain(found.record), strict=True):
        wanted: Any = fastavro.schemaless_reader(io.BytesIO(bodies[row]), theirs[0], theirs[1] if resolve else None)
        mine = of_spec(reader, got)
        if comparable(mine) != comparable(wanted):
            return f"{head}{bodies[row].hex()}\nours:   {mine}\ntheirs: {wanted}", 0
    return "", len(found.rows)


@pytest.mark.parametrize("resolve", [False, True], ids=["as-written", "resolved"])
def test_good_bodies_are_read_as_fastavro_reads_them(resolve: bool) -> None:
    """Of many schemas: each field, by its own or by the reader's type."""
    read = 0
    for seed in range(150):
        told, count = difference(seed, resolve)
        assert not told, told
        read += count
    assert read > 2_000


@pytest.mark.long
@pytest.mark.parametrize("resolve", [False, True], ids=["as-written", "resolved"])
def test_many_more_are(resolve: bool) -> None:
    """Other seeds."""
    for seed in range(10_000, 13_000):
        told, _ = difference(seed, resolve)
        assert not told, told
