"""Times as RFC 3339 allows them: small letters, a comma, a leap second; and times that are infinite."""

from __future__ import annotations

import json
import random
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
import pytest

from exporter.core.routing import EventTime
from exporter.core.value_format import ValueFormat
from exporter.formats.json.times import plain_time
from exporter.proof.contents.times import micros
from tests.support.decoded_rows import columns, decode_all, routing_of, rows_of
from tests.support.naive_record import PLAIN_TIME, Unsure, _instant
from tests.unit.formats.oracle import instant

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
BOUNDS: Any = {"event_time_min_us": -(2**62), "event_time_ahead_max_secs": 10**9}
MEANS = {
    "2024-01-05t10:11:12z": "2024-01-05T10:11:12Z",
    "2024-01-05T10:11:12,5Z": "2024-01-05T10:11:12.5Z",
    "2024-01-05t10:11:12,123456+02:00": "2024-01-05T10:11:12.123456+02:00",
    "2016-12-31T23:59:60Z": "2017-01-01T00:00:00Z",
    "2016-12-31T23:59:60.25z": "2017-01-01T00:00:00.25Z",
    "1990-12-31T15:59:60-08:00": "1990-12-31T16:00:00-08:00",
    "2017-01-01T05:29:60+05:30": "2017-01-01T05:30:00+05:30",
    "2016-12-31 23:59:60": "2017-01-01 00:00:00",
}


def decode(texts: list[str], **changed: Any) -> list[Any]:
    """Per text its moment in a column and as the event time, in microseconds; or its reason."""
    asked = {"decoder_version": 3, "event_time": EventTime("json", "at"), **BOUNDS, **changed}
    config = routing_of(columns(at="timestamp"), **asked)
    out = decode_all(config, [json.dumps({"at": text}).encode() for text in texts], 2 * 10**15)
    sides = [one if isinstance(one, str) else (one["at"], one["_event_time"]) for one in rows_of(out)]
    microsecond = timedelta(microseconds=1)
    return [one if isinstance(one, str) else tuple((side - EPOCH) // microsecond for side in one) for one in sides]


@pytest.mark.parametrize("text", MEANS)
def test_what_rfc_3339_allows_is_the_time_that_it_says(text: str) -> None:
    """In a column and as the event time, alone and among others; the audit and the naive checker read it alike."""
    wanted = micros(MEANS[text])
    assert plain_time(text) == MEANS[text] and micros(text) == wanted
    others = ["2024-01-05T10:11:12Z", "x"]
    alone, among = decode([text]), decode([*others, text, *others])
    assert alone == [(wanted, wanted)] and among[2] == alone[0]
    assert among[:2] == among[3:] == [decode([one])[0] for one in others]
    if PLAIN_TIME.match(text):
        assert _instant(text) == wanted


@pytest.mark.parametrize("text", MEANS)
def test_an_event_time_in_an_envelope_is_read_alike(text: str) -> None:
    """Of what a source says beside its row."""
    source, after = {"db": "a", "table": "b", "moment": text}, {"at": "2024-01-05T10:11:12Z"}
    change = {"op": "c", "after": after, "source": source, "ts_ms": 1}
    form, time = ValueFormat(envelope="debezium"), EventTime("json", "source.moment")
    config = routing_of(columns(at="timestamp"), form, event_time=time, **BOUNDS)
    out = decode_all(config, [json.dumps(change).encode()], 2 * 10**15)
    assert out.bad == [] and out.table["_event_time"].cast(pa.int64()).to_pylist() == [micros(MEANS[text])]


@pytest.mark.parametrize("text", ["infinity", "-infinity"])
def test_an_infinite_time_is_told_as_what_it_is(text: str) -> None:
    """PostgreSQL's, as Debezium sends it: not as a text of another type."""
    (reason,) = decode([text])
    assert reason == f"out_of_range: $.at = {text} is infinite (PostgreSQL), and no column holds that"


@pytest.mark.parametrize("seed", range(4))
def test_random_texts_have_the_moment_that_a_plain_reader_gives_them(seed: int) -> None:
    """Or none: one by one, in a batch, by the audit."""
    some = random.Random(seed)

    def text() -> str:
        day = f"{some.choice([2016, 1969, 2024])}-{some.choice(['12-31', '06-30', '02-29', '01-05'])}"
        clock = ":".join(map(some.choice, (["23", "05", "18"], ["59", "29", "00"], ["60", "59", "61", "00"])))
        digits = some.choice(["", "", ".5", ",25", ",123456789", ".1234567", ","])
        return day + some.choice("TtTt ") + clock + digits + some.choice(["Z", "z", "", "+05:30", "-08:00", "+00:59"])

    texts = [text() for _ in range(150)]
    found, wanted = decode(texts), [instant(one) for one in texts]
    assert decode([texts[0]]) == found[:1] and len({type(one) for one in found}) == 2
    for one, got, moment in zip(texts, found, wanted, strict=True):
        if moment is None:
            assert isinstance(got, str) and got.startswith("type_mismatch"), (one, got)
            continue
        at = round((moment - EPOCH).total_seconds() * 1_000_000)
        assert got == (at, at) and micros(one) == at, one
        with suppress(Unsure):
            assert not PLAIN_TIME.match(one) or _instant(one) == at


def test_what_an_earlier_version_began_is_read_as_it_read_it() -> None:
    """Texts of times that version 1 did not know are dead letters in its epochs, with its reasons: a drain, or an
    export that goes on, gives each record the verdict that it had (ROUTE)."""
    texts = [*MEANS, "infinity", "2024-01-05T10:11:12.5Z", "2024-01-05T10:11:12.123456789Z", "x"]
    found = dict(zip(texts, decode(texts, decoder_version=1), strict=True))
    taken = {text for text, got in found.items() if not isinstance(got, str)}
    assert taken == {"2024-01-05T10:11:12.5Z", "2024-01-05T10:11:12.123456789Z"}
    assert {got.partition(":")[0] for got in found.values() if isinstance(got, str)} == {"type_mismatch"}
    assert [decode([text], decoder_version=1)[0] for text in texts] == list(found.values())
