"""The shop's events as Avro: what fastavro reads is what the JSON says, and bad ones are bad."""

from __future__ import annotations

import io
import json
from collections import Counter
from decimal import Decimal
from typing import Any

import fastavro
import pytest

from exporter.demo import shop
from exporter.demo.shop_avro import AvroEvents, schemas
from exporter.demo.shop_types import EVENT_TYPES

COUNT, BAD_EVERY = 4_000, 20
IDS = {name: (number, number + 100) for number, name in enumerate(schemas(), 1)}


def read(value: bytes) -> tuple[str, int, dict[str, Any]]:
    """Event type, version and fields. Raises what fastavro raises, ValueError for bytes behind it."""
    number = int.from_bytes(value[1:5], "big")
    (name,) = (one for one, ids in IDS.items() if number in ids)
    stream = io.BytesIO(value[5:])
    written = fastavro.parse_schema(json.loads(json.dumps(schemas(number > 100)[name])))
    found = fastavro.schemaless_reader(stream, written, None)
    if stream.tell() < len(value) - 5:
        raise ValueError("bytes behind the value")
    return name, int(number > 100), found


def plain(value: Any) -> Any:
    """As JSON has it: decimals as numbers, times and days as texts; null left out."""
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items() if one is not None}
    if isinstance(value, list):
        return [plain(one) for one in value]
    return float(value) if isinstance(value, (Decimal, int)) and not isinstance(value, bool) else value


def test_good_events_are_the_same_in_avro() -> None:
    """All fields that Avro has as JSON has them."""
    events = AvroEvents(IDS)
    for event in shop.events(1, COUNT, bad_every=0):
        name, version, found = read(events.of(event).value or b"")
        assert (name, version) == (event.event_type, 0)
        sent = json.loads(event.value or b"")
        odd = {"ts", "delivery", "ship_by", "authorised_at", "signature", "dump", "amount"}
        mine = {one: plain(value) for one, value in found.items() if one not in odd and value is not None}
        assert mine == {one: plain(sent[one]) for one in mine}
        assert {*found} >= {*sent} - {"type"}


def test_bad_events_are_bad_in_ways_that_avro_has() -> None:
    """Cut, too long, of another century, or none; those of the later writer are good."""
    events, ways = AvroEvents(IDS), Counter[str]()
    for event in shop.events(1, COUNT, bad_every=BAD_EVERY):
        made = events.of(event)
        ways[made.bad] += 1
        if made.bad == "truncated":
            with pytest.raises((EOFError, IndexError, ValueError)):
                read(made.value or b"")
        elif made.bad == "unknown_fields":
            assert read(made.value or b"")[1:][0] == 1
        elif made.bad == "absurd_event_time":
            assert read(made.value or b"")[2]["ts"].year == 2925
        elif made.bad == "over_long":
            assert len(made.value or b"") > shop.RECORD_BYTES_MAX
    assert {*ways} == {"", "tombstone", "truncated", "unknown_fields", "absurd_event_time", "over_long"}
    assert ways["truncated"] == 6 * COUNT // BAD_EVERY // 10


def test_each_type_has_a_schema_of_all_its_columns() -> None:
    """The later one has a field more, which may be left out."""
    assert {*schemas()} == {one.name for one in EVENT_TYPES}
    for name, later in schemas(later=True).items():
        assert later["fields"][:-1] == schemas()[name]["fields"]
        assert later["fields"][-1]["default"] is None
