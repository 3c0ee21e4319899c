"""Made-up events of a web shop: what the demo exports, and what the tests and the benchmark count.

Ten event types with different schemas and very different frequencies share one topic. Their days are out of
order, and some records are bad, each in a known way and number. Everything follows from (seed, count,
partitions): the same call puts the same bytes at the same offsets of a fresh topic, so a test knows what must
be in each table. Must never read a clock: all times lie around BASE_DAY.

    partition p holds the records with seq = p, p + partitions, p + 2 * partitions, ... in this order
    record seq is bad if seq % bad_every == bad_every - 1, and BAD_KINDS take turns
"""

from __future__ import annotations

import base64
import importlib.util
import json
import multiprocessing
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone
from functools import cache
from random import Random
from typing import Any, NamedTuple

from kafka import KafkaProducer
from kafka.errors import KafkaError

from exporter.errors import DependencyUnreachable

BASE_DAY = date(2025, 3, 10)
"""The day of all Kafka timestamps, UTC, and of most event times. In the past for every broker's clock."""

DAYS_LATE_MAX = 5
"""How many days before its Kafka timestamp an event may have happened. Some come up to an hour ahead of it."""

RECORD_BYTES_MAX = 65_536
"""What `record_bytes_max` must be set to for the over_long records to be refused; they are twice as long."""

BAD_EVERY = 500
"""One record in so many is bad, unless told otherwise. 0: none."""

BAD_KINDS = (
    "unknown_type",
    "tombstone",
    "broken_json",
    "type_mismatch",
    "absurd_event_time",
    "missing_event_time",
    "missing_type",
    "invalid_utf8",
    "over_long",
    "unknown_fields",
)
"""In the order in which they take turns. All end as dead letters but unknown_fields: that one is exported, with what
the schema does not know in `_rescued` (while the setting `unknown_fields` is rescue)."""

TYPE_HEADER = "event-type"
"""Name of the record header that repeats the event type where headers are asked for."""

PRODUCE_SECS_MAX = 120.0
"""Deadline for what is still on its way when all records have been handed to the client."""

_FLUSH_EVERY = 50_000
"""Records between two waits for kafka-python, which holds any number of unsent ones."""

_BODIES = 256
_USERS = 16_384
_MILLIS_PER_DAY = 86_400_000
_MILLIS_PER_HOUR = 3_600_000
_BASE_MILLIS = int(datetime(BASE_DAY.year, BASE_DAY.month, BASE_DAY.day, tzinfo=timezone.utc).timestamp()) * 1000


class Event(NamedTuple):
    """One record. bad: one of BAD_KINDS, or "". timestamp_ms: its Kafka timestamp, ms since 1970."""

    event_type: str
    bad: str
    key: bytes
    value: bytes | None
    headers: list[tuple[str, bytes]]
    timestamp_ms: int


@dataclass
class Tally:
    """What was made: rows each table must end with, bad records by kind, records and bytes in all."""

    rows: Counter[str] = field(default_factory=Counter)
    bad: Counter[str] = field(default_factory=Counter)
    records: int = 0
    value_bytes: int = 0

    @property
    def dead_letters(self) -> int:
        """How many rows the table of dead letters must end with."""
        return self.bad.total() - self.bad["unknown_fields"]

    def add(self, event: Event) -> None:
        """Count one more record."""
        self.records += 1
        self.value_bytes += len(event.value or b"")
        if event.bad:
            self.bad[event.bad] += 1
        if event.bad in ("", "unknown_fields"):
            self.rows[event.event_type] += 1

    def merge(self, other: Tally) -> None:
        """Count what another tally counted."""
        self.rows.update(other.rows)
        self.bad.update(other.bad)
        self.records += other.records
        self.value_bytes += other.value_bytes


@dataclass(frozen=True)
class EventType:
    """One declared type. share: how many of 1000 events. body: makes the fields that other types do not have."""

    name: str
    share: int
    columns: str
    body: Callable[[Random], dict[str, Any]] = field(repr=False)

    @property
    def ddl(self) -> str:
        """All columns as Spark DDL, those that every type has first."""
        return f"seq BIGINT, ts TIMESTAMP, user_id BIGINT, session STRING, {self.columns}"


def schemas() -> dict[str, str]:
    """Declared event type -> Spark DDL."""
    return {event_type.name: event_type.ddl for event_type in EVENT_TYPES}


def events(
    seed: int, count: int, partition: int = 0, partitions: int = 1, bad_every: int = BAD_EVERY, headers: bool = False
) -> Iterator[Event]:
    """The records of one partition in offset order, out of `count` in all partitions; about 5 us each."""
    random = Random(f"{seed}/{partition}/{partitions}")
    bodies, lateness, clock = _bodies(seed), _lateness(seed), _clock()
    names = [event_type.name for event_type in EVENT_TYPES for _ in range(event_type.share)]
    days = {day: f"{BASE_DAY + timedelta(day)}".encode() for day in range(-DAYS_LATE_MAX - 1, 2)}
    type_headers = {name: [(TYPE_HEADER, name.encode())] if headers else [] for name in names}
    bits, users_each = random.getrandbits, max(1, _USERS // partitions)
    for seq in range(partition, count, partitions):
        drawn = bits(64)
        name = names[(drawn & 0xFFFF) % 1000]
        user = (drawn >> 16 & 0xFFFF) % users_each * partitions + partition  # a user stays in one partition
        now = seq * _MILLIS_PER_DAY // count
        day, of_day = divmod(now - lateness[drawn >> 32 & 0x3FF] - (drawn >> 42 & 0x3FF), _MILLIS_PER_DAY)
        value = b'{"type":"%b","seq":%d,"ts":"%b%b.%03dZ","user_id":%d,"session":"%012x",%b}' % (
            name.encode(),
            seq,
            days[day],
            clock[of_day // 1000],
            of_day % 1000,
            user,
            (drawn >> 16 & 0xFFFF_FFFF) * 0x9E37,
            bodies[name][drawn >> 56],
        )
        event = Event(name, "", b"user-%d" % user, value, type_headers[name], _BASE_MILLIS + now)
        if bad_every and seq % bad_every == bad_every - 1:
            event = _spoilt(event, BAD_KINDS[seq // bad_every % len(BAD_KINDS)])
        yield event


def tally(seed: int, count: int, partitions: int = 1, bad_every: int = BAD_EVERY) -> Tally:
    """What produce() with the same arguments makes, without making it."""
    total = Tally()
    for partition in range(partitions):
        for event in events(seed, count, partition, partitions, bad_every):
            total.add(event)
    return total


def produce(
    bootstrap: str,
    topic: str,
    count: int,
    seed: int = 1,
    *,
    partitions: int = 1,
    bad_every: int = BAD_EVERY,
    headers: bool = False,
    processes: int | None = None,
    librdkafka: bool | None = None,
) -> Tally:
    """Write `count` events to an existing topic of `partitions` partitions and say what was written.

    librdkafka: whether to use confluent-kafka instead of kafka-python; None: where it is installed.
    processes: None is one for confluent-kafka, which is fast enough, and two for kafka-python. They are
    spawned, so a script that calls this needs the usual `if __name__ == "__main__"`.
    Each partition is written by one process, in order, idempotently.
    Raises DependencyUnreachable if a record was not acknowledged.
    """
    fast = importlib.util.find_spec("confluent_kafka") is not None if librdkafka is None else librdkafka
    workers = min(partitions, processes or (1 if fast else 2))
    shares = [tuple(range(first, partitions, workers)) for first in range(workers)]
    jobs = [_Job(bootstrap, topic, count, seed, partitions, bad_every, headers, fast, share) for share in shares]
    if len(jobs) == 1:
        return _produce_some(jobs[0])
    total = Tally()
    with ProcessPoolExecutor(len(jobs), mp_context=multiprocessing.get_context("spawn")) as pool:
        for made in pool.map(_produce_some, jobs):
            total.merge(made)
    return total


@dataclass(frozen=True)
class _Job:
    """The part of produce() that one process does: all records of the partitions `mine`."""

    bootstrap: str
    topic: str
    count: int
    seed: int
    partitions: int
    bad_every: int
    headers: bool
    librdkafka: bool
    mine: tuple[int, ...]

    def records(self) -> Iterator[tuple[int, Event]]:
        """(partition, record), partitions in turn, so that all of them grow together."""
        streams = {
            partition: events(self.seed, self.count, partition, self.partitions, self.bad_every, self.headers)
            for partition in self.mine
        }
        while streams:
            for partition, stream in list(streams.items()):
                event = next(stream, None)
                if event is None:
                    del streams[partition]
                else:
                    yield partition, event


def _produce_some(job: _Job) -> Tally:
    """Write one process's part."""
    return _produce_with_librdkafka(job) if job.librdkafka else _produce_with_kafka_python(job)


def _produce_with_kafka_python(job: _Job) -> Tally:
    made, failed = Tally(), list[object]()
    settings = {"linger_ms": 100, "batch_size": 1 << 20, "max_request_size": 8 << 20, "max_block_ms": 15_000}
    try:
        producer = KafkaProducer(bootstrap_servers=job.bootstrap, **settings)
        try:
            send, topic = producer.send, job.topic
            for partition, event in job.records():
                sent = send(topic, event.value, event.key, event.headers, partition, event.timestamp_ms)
                sent.add_errback(failed.append)
                made.add(event)
                if made.records % _FLUSH_EVERY == 0:
                    producer.flush(PRODUCE_SECS_MAX)
            producer.flush(PRODUCE_SECS_MAX)
        finally:
            producer.close(timeout=5)
    except KafkaError as error:
        raise _not_written(job, error) from error
    if failed:
        raise _not_written(job, failed[0])
    return made


def _produce_with_librdkafka(job: _Job) -> Tally:
    from confluent_kafka import KafkaException, Producer

    made, failed = Tally(), list[object]()
    settings: dict[str, Any] = {"bootstrap.servers": job.bootstrap, "enable.idempotence": True, "linger.ms": 100}
    settings |= {"batch.size": 1 << 20, "message.max.bytes": 8 << 20, "queue.buffering.max.messages": 200_000}
    settings |= {"message.timeout.ms": int(PRODUCE_SECS_MAX * 1000), "delivery.report.only.error": True, "log_level": 3}
    settings["topic.metadata.propagation.max.ms"] = 5_000
    producer = Producer(settings | {"on_delivery": lambda error, _: failed.append(error)})
    try:
        for partition, event in job.records():
            _hand_over(producer, job.topic, partition, event)
            made.add(event)
    except KafkaException as error:
        raise _not_written(job, error) from error
    if producer.flush(PRODUCE_SECS_MAX) or failed:
        raise _not_written(job, failed[0] if failed else f"no answer within {PRODUCE_SECS_MAX:.0f} s")
    return made


def _hand_over(producer: Any, topic: str, partition: int, event: Event) -> None:
    """Give one record to librdkafka, waiting while its queue is full; message.timeout.ms bounds the wait."""
    while True:
        try:
            producer.produce(
                topic, event.value, event.key, partition, timestamp=event.timestamp_ms, headers=event.headers
            )
            return
        except BufferError:
            producer.poll(0.1)


def _not_written(job: _Job, why: object) -> DependencyUnreachable:
    return DependencyUnreachable(
        f"not all events could be written to {job.topic} at {job.bootstrap}: {why!r}",
        "check that the broker runs and that the topic exists with that many partitions",
    )


def _spoilt(event: Event, kind: str) -> Event:
    """The same record, bad in one way."""
    fields = json.loads(event.value or b"{}")
    headers = event.headers
    if kind == "tombstone":
        return event._replace(bad=kind, value=None, headers=[])
    if kind == "broken_json":
        return event._replace(bad=kind, value=(event.value or b"")[:-40])
    if kind == "invalid_utf8":
        spoilt = (event.value or b"").replace(b'"session":"', b'"session":"\xff\xfe', 1)
        return event._replace(bad=kind, value=spoilt)
    if kind == "missing_type":
        del fields["type"]
        headers = []
    elif kind == "unknown_type":
        fields["type"] = "newsletter_opened"
        headers = [(name, b"newsletter_opened") for name, _ in headers]
    else:
        _SPOIL[kind](fields)
    return event._replace(bad=kind, value=_json(fields), headers=headers)


_SPOIL: dict[str, Callable[[dict[str, Any]], object]] = {
    "type_mismatch": lambda fields: fields.update(user_id={"name": "nobody"}),
    "absurd_event_time": lambda fields: fields.update(ts=f"2925{fields['ts'][4:]}"),
    "missing_event_time": lambda fields: fields.pop("ts"),
    "over_long": lambda fields: fields.update(padding="x" * (2 * RECORD_BYTES_MAX)),
    "unknown_fields": lambda fields: fields.update(experiment={"name": "green_button", "arm": 2}, beta=True),
}


def _json(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()


@cache
def _bodies(seed: int) -> dict[str, list[bytes]]:
    """Event type -> ready pieces of JSON, without the braces: making each event anew would cost ten times more."""
    random = Random(seed)
    return {
        event_type.name: [_json(event_type.body(random))[1:-1] for _ in range(_BODIES)] for event_type in EVENT_TYPES
    }


@cache
def _clock() -> list[bytes]:
    """The text of each second of a day, as it stands in an ISO time."""
    return [b"T%02d:%02d:%02d" % (second // 3600, second // 60 % 60, second % 60) for second in range(86_400)]


@cache
def _lateness(seed: int) -> list[int]:
    """1024 delays in ms from event time to Kafka timestamp: mostly seconds, some hours, few days, few ahead."""
    random = Random(seed)
    hour, latest = _MILLIS_PER_HOUR, DAYS_LATE_MAX * _MILLIS_PER_DAY - 1024
    spans = [(850, 0, 30_000), (100, 60_000, 2 * hour), (40, 2 * hour, 24 * hour), (24, 24 * hour, latest)]
    return [random.randint(low, high) for many, low, high in spans for _ in range(many)] + [-hour] * 10


_WORDS = ["amber", "basil", "cedar", "delta", "ember", "fjord", "grove", "hazel", "indigo", "juniper", "kelp", "lotus"]
_WORDS += ["maple", "nectar", "olive", "pebble", "quartz", "river", "saffron", "timber", "umber", "velvet", "willow"]
_WORDS += ["yarrow", "zinnia", "Zürich", "Ærø", "señor", "東京"]


def _words(random: Random, count: int) -> str:
    return " ".join(random.choices(_WORDS, k=count))


def _price(random: Random) -> float:
    """With at most two digits after the point."""
    return random.randint(99, 49_999) / 100


def _base64(random: Random, length: int) -> str:
    return base64.b64encode(random.randbytes(length)).decode()


def _day(random: Random) -> str:
    return str(BASE_DAY + timedelta(random.randint(1, 20)))


def _page_view(random: Random) -> dict[str, Any]:
    return {
        "url": f"https://shop.example/{'/'.join(random.choices(_WORDS, k=3))}?ref={random.getrandbits(40):010x}",
        "referrer": random.choice([None, f"https://search.example/?q={_words(random, 2)}"]),
        "agent": f"Mozilla/5.0 (X11; Linux x86_64) Chrome/{random.randint(90, 133)}.0.{random.randint(1000, 9999)}.0",
        "device": {
            "os": random.choice(["android", "ios", "linux", "windows"]),
            "screen": {"width": random.choice([390, 1280, 1920]), "height": random.choice([844, 720, 1080])},
        },
        "load_ms": round(random.expovariate(1 / 300), 3),
        "logged_in": random.random() < 0.6,
    }


def _click(random: Random) -> dict[str, Any]:
    return {
        "element": f"#{'-'.join(random.choices(_WORDS, k=3))}",
        "position": {"x": random.randint(0, 1920), "y": random.randint(0, 9000)},
        "path": [f"div.{word}" for word in random.choices(_WORDS, k=random.randint(4, 9))],
        "label": _words(random, 6),
        "trusted": random.random() < 0.98,
        "held_ms": random.randint(20, 900),
        "trace": f"{random.getrandbits(128):032x}",
    }


def _search(random: Random) -> dict[str, Any]:
    filters = random.sample(["colour", "size", "brand", "price", "rating", "material"], k=random.randint(0, 3))
    return {
        "query": _words(random, random.randint(1, 4)),
        "filters": {name: _words(random, 1) for name in filters},
        "results": random.randint(0, 5000),
        "shown": [random.randint(10**6, 10**7) for _ in range(random.randint(5, 16))],
        "took_ms": round(random.expovariate(1 / 40), 3),
        "suggested": random.choice([None, _words(random, 2)]),
    }


def _login(random: Random) -> dict[str, Any]:
    return {
        "success": random.random() < 0.93,
        "method": random.choice(["password", "passkey", "oauth"]),
        "ip": f"192.0.2.{random.randint(1, 254)}",
        "risk": round(random.random(), 6),
        "roles": random.sample(["customer", "seller", "support", "admin"], k=random.randint(1, 2)),
        "device": {"os": random.choice(["android", "ios", "linux"]), "fingerprint": f"{random.getrandbits(160):040x}"},
    }


def _add_to_cart(random: Random) -> dict[str, Any]:
    return {
        "cart_id": f"{random.getrandbits(128):032x}",
        "item": {
            "sku": f"SKU-{random.randint(10**6, 10**7)}",
            "name": _words(random, 5),
            "price": _price(random),
            "options": {"colour": _words(random, 1), "size": random.choice("SML")},
        },
        "quantity": random.randint(1, 5),
        "from_wishlist": random.random() < 0.2,
    }


def _checkout(random: Random) -> dict[str, Any]:
    items: list[dict[str, Any]] = [
        {"sku": f"SKU-{random.randint(10**6, 10**7)}", "quantity": random.randint(1, 4), "price": _price(random)}
        for _ in range(random.randint(2, 6))
    ]
    total = sum(round(item["price"] * 100) * item["quantity"] for item in items) / 100
    coupon = {} if random.random() < 0.7 else {"coupon": _words(random, 1)}
    return {
        "order_id": random.randint(10**9, 10**10),
        "items": items,
        "total": total,
        **coupon,
        "ship_by": _day(random),
    }


def _payment(random: Random) -> dict[str, Any]:
    return {
        "order_id": random.randint(10**9, 10**10),
        "amount": f"{_price(random):.4f}",
        "currency": random.choice(["CHF", "DKK", "EUR", "JPY"]),
        "method": random.choice(["card", "invoice", "transfer"]),
        "captured": random.random() < 0.95,
        "authorised_at": f"{BASE_DAY}T{random.randint(0, 23):02d}:30:00.{random.randrange(10**6):06d}Z",
        "signature": _base64(random, 72),
    }


def _shipment(random: Random) -> dict[str, Any]:
    return {
        "order_id": random.randint(10**9, 10**10),
        "carrier": random.choice(["post", "courier", "bike"]),
        "parcels": [
            {"code": f"{random.getrandbits(64):016x}", "kg": round(random.uniform(0.1, 30), 3)}
            for _ in range(random.randint(1, 3))
        ],
        "delivery": _day(random),
        "address": {"street": _words(random, 2), "city": _words(random, 1), "zip": f"{random.randint(1000, 9999)}"},
        "insured": random.random() < 0.1,
    }


def _error_report(random: Random) -> dict[str, Any]:
    return {
        "service": random.choice(["cart", "search", "login"]),
        "message": _words(random, 8),
        "stack": [f"at {word}.{random.choice(_WORDS)}:{random.randint(1, 999)}" for word in random.sample(_WORDS, 5)],
        "context": {word: _words(random, 1) for word in random.sample(_WORDS, 3)},
        "dump": _base64(random, 60),
        "fatal": random.random() < 0.05,
    }


def _climate(random: Random) -> dict[str, Any]:
    return {
        "hall": random.randint(1, 9),
        "readings": {f"sensor-{number}": round(random.gauss(19, 3), 2) for number in range(random.randint(6, 14))},
        "door_open": random.random() < 0.1,
    }


EVENT_TYPES = (
    EventType(
        "page_view",
        355,
        "url STRING, referrer STRING, agent STRING, load_ms DOUBLE, logged_in BOOLEAN, "
        "device STRUCT<os: STRING, screen: STRUCT<width: INT, height: INT>>",
        _page_view,
    ),
    EventType(
        "click",
        260,
        "element STRING, position STRUCT<x: INT, y: INT>, path ARRAY<STRING>, label STRING, trusted BOOLEAN, "
        "held_ms BIGINT, trace STRING",
        _click,
    ),
    EventType(
        "search",
        120,
        "query STRING, filters MAP<STRING, STRING>, results INT, shown ARRAY<BIGINT>, took_ms DOUBLE, suggested STRING",
        _search,
    ),
    EventType(
        "login",
        90,
        "success BOOLEAN, method STRING, ip STRING, risk DOUBLE, roles ARRAY<STRING>, "
        "device STRUCT<os: STRING, fingerprint: STRING>",
        _login,
    ),
    EventType(
        "add_to_cart",
        70,
        "cart_id STRING, item STRUCT<sku: STRING, name: STRING, price: DECIMAL(12,2), options: MAP<STRING, STRING>>, "
        "quantity INT, from_wishlist BOOLEAN",
        _add_to_cart,
    ),
    EventType(
        "checkout",
        40,
        "order_id BIGINT, items ARRAY<STRUCT<sku: STRING, quantity: INT, price: DECIMAL(12,2)>>, total DECIMAL(14,2), "
        "coupon STRING, ship_by DATE",
        _checkout,
    ),
    EventType(
        "payment",
        35,
        "order_id BIGINT, amount DECIMAL(18,4), currency STRING, method STRING, captured BOOLEAN, "
        "authorised_at TIMESTAMP, signature BINARY",
        _payment,
    ),
    EventType(
        "shipment",
        18,
        "order_id BIGINT, carrier STRING, parcels ARRAY<STRUCT<code: STRING, kg: DOUBLE>>, delivery DATE, "
        "address STRUCT<street: STRING, city: STRING, zip: STRING>, insured BOOLEAN",
        _shipment,
    ),
    EventType(
        "error_report",
        11,
        "service STRING, message STRING, stack ARRAY<STRING>, context MAP<STRING, STRING>, dump BINARY, fatal BOOLEAN",
        _error_report,
    ),
    EventType("warehouse_climate", 1, "hall SMALLINT, readings MAP<STRING, DOUBLE>, door_open BOOLEAN", _climate),
)
"""All declared types, most frequent first. The shares add up to 1000; the last type is meant to be rare."""
