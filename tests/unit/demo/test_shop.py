"""The made-up events: repeatable, countable, and each bad in exactly the way it says."""

from __future__ import annotations

import base64
import json
import re
from collections import Counter
from datetime import datetime, timedelta, timezone

import pytest

from exporter.demo import shop as events
from exporter.demo.shop import BAD_KINDS, ShopEvent
from exporter.demo.shop_types import BASE_DAY, EVENT_TYPES

COUNT = 20_000


def made(bad_every: int = 50, **options: bool) -> list[ShopEvent]:
    """Events of two partitions."""
    return [event for partition in (0, 1) for event in events.events(3, COUNT, partition, 2, bad_every, **options)]


def only(kind: str) -> list[ShopEvent]:
    """The events that are bad in one way."""
    return [event for event in made() if event.bad == kind]


def test_the_same_seed_makes_the_same_events_and_another_seed_others() -> None:
    """A failing test can be run again, and a benchmark compares equal input."""
    assert list(events.events(3, 1000)) == list(events.events(3, 1000))
    assert list(events.events(3, 1000)) != list(events.events(4, 1000))


def test_each_sequence_number_is_made_once_over_all_partitions() -> None:
    """`seq` tells lost from doubled records in any table."""
    numbers = [json.loads(event.value or b"")["seq"] for event in made(bad_every=0)]
    assert sorted(numbers) == list(range(COUNT))


@pytest.mark.parametrize("partitions", [1, 2, 3, 7])
def test_the_number_of_bad_records_is_known_beforehand(partitions: int) -> None:
    """One in 50 records, the kinds in turn, in any number of partitions."""
    tally = events.tally(3, 5_000, partitions, bad_every=50)
    assert tally.bad == dict.fromkeys(BAD_KINDS, 10)
    assert tally.dead_letters == 90
    assert tally.records == 5_000 == tally.rows.total() + tally.dead_letters


def test_every_type_occurs_and_the_last_one_is_rare() -> None:
    """Ten types; the most frequent one comes over a hundred times as often as the rarest."""
    rows = events.tally(3, COUNT).rows
    assert set(rows) == set(events.schemas()) and len(rows) == 10
    assert sum(kind.share for kind in EVENT_TYPES) == 1000
    assert 0 < rows["warehouse_climate"] * 100 < rows["page_view"]


def test_values_are_360_bytes_on_average() -> None:
    """The size that all figures of the benchmark are given for."""
    good = [event for event in made(bad_every=0) if event.value]
    assert sum(len(event.value or b"") for event in good) / len(good) == pytest.approx(350, abs=25)


def test_event_times_are_out_of_order_and_at_most_five_days_late_or_a_day_ahead() -> None:
    """Most days are the base day; none breaks the rule that bounds an event time by the Kafka timestamp."""
    days: Counter[str] = Counter()
    for event in made(bad_every=0):
        happened = datetime.fromisoformat(json.loads(event.value or b"")["ts"].replace("Z", "+00:00"))
        written = datetime.fromtimestamp(event.timestamp_ms / 1000, timezone.utc)
        assert timedelta(hours=-24) < written - happened <= timedelta(days=events.DAYS_LATE_MAX)
        assert written.date() == BASE_DAY
        days[str(happened.date())] += 1
    assert len(days) == 7
    assert days[str(BASE_DAY)] > 0.9 * COUNT


def test_a_user_stays_in_one_partition() -> None:
    """As with a producer that partitions by key."""
    keys = [{event.key for event in events.events(3, COUNT, partition, 2)} for partition in (0, 1)]
    assert not keys[0] & keys[1]


def columns(ddl: str) -> set[str]:
    """Top-level column names of a DDL: what is left when everything in brackets is taken out."""
    while re.search(r"<[^<>]*>|\([^()]*\)", ddl):
        ddl = re.sub(r"<[^<>]*>|\([^()]*\)", "", ddl)
    return {column.split()[0] for column in ddl.split(",")}


def test_the_fields_of_good_events_are_the_columns_of_their_schema() -> None:
    """No field is unknown and every column occurs; `type` alone is no column, it is the route."""
    seen: dict[str, set[str]] = {}
    for event in made(bad_every=0):
        seen.setdefault(event.event_type, set()).update(json.loads(event.value or b""))
    assert {name: fields - {"type"} for name, fields in seen.items()} == {
        name: columns(ddl) for name, ddl in events.schemas().items()
    }


def test_each_bad_kind_is_bad_in_its_way() -> None:
    """Each kind is one fault and no other."""
    fields = {kind: [json.loads(event.value or b"") for event in only(kind)] for kind in BAD_KINDS[3:7]}
    assert all(event.value is None for event in only("tombstone"))
    assert all(one["user_id"] == {"name": "nobody"} for one in fields["type_mismatch"])
    assert all(one["ts"].startswith("2925-") for one in fields["absurd_event_time"])
    assert all("ts" not in one for one in fields["missing_event_time"])
    assert all("type" not in one for one in fields["missing_type"])
    assert {json.loads(event.value or b"")["type"] for event in only("unknown_type")} == {"newsletter_opened"}
    assert all(len(event.value or b"") > events.RECORD_BYTES_MAX for event in only("over_long"))
    assert all("experiment" in json.loads(event.value or b"") for event in only("unknown_fields"))
    for event in only("broken_json"):
        with pytest.raises(json.JSONDecodeError):
            json.loads((event.value or b"").decode())
    for event in only("invalid_utf8"):
        with pytest.raises(UnicodeDecodeError):
            (event.value or b"").decode()


def test_binary_columns_hold_base64() -> None:
    """Payments are signed; the signature decodes to 72 bytes."""
    payments = [json.loads(event.value or b"") for event in made(0) if event.event_type == "payment"]
    assert {len(base64.b64decode(one["signature"], validate=True)) for one in payments} == {72}
