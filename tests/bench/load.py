"""What the topics of the benchmark are filled with, by confluent-kafka. Repeatable: no clock but in `Pace`.

medium   10 types: exporter/demo/shop.py as it is, 360 bytes; 50 types: the same under five names each; 1: page views
small    100 bytes, flat
large    4 KB: a list of structs with lists in them, and a map
huge     1 MB: one long text
"""

from __future__ import annotations

import json
import multiprocessing
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from random import Random
from typing import Any, Literal, NamedTuple

from exporter.demo import shop as events
from exporter.demo.shop_types import BASE_DAY, EVENT_TYPES
from tests.bench.shop_values import Form, encoder

BAD_EVERY = 5_000
"""One record in so many is bad."""
_BODIES = 256
_MILLIS_PER_DAY = 86_400_000
_BASE_MILLIS = 1_741_564_800_000  # BASE_DAY
_WORDS = ["amber", "basil", "cedar", "delta", "ember", "fjord", "grove", "hazel", "indigo", "juniper", "kelp", "lotus"]

Size = Literal["small", "medium", "large", "huge"]


class Record(NamedTuple):
    """What is written. table: the event type whose table it must come to, "" for the dead letters."""

    table: str
    key: bytes
    value: bytes | None
    timestamp_ms: int


@dataclass(frozen=True)
class Load:
    """A topic's content. days: 0 = mostly one day, up to five before it; else the event days are spread over so many.

    bad_every: 0 = no bad records, as it must be where the 10 types are not JSON. registry: URL of a schema registry.
    """

    types: int = 10
    size: Size = "medium"
    partitions: int = 2
    days: int = 0
    bad_every: int = BAD_EVERY
    form: Form = "json"
    registry: str = ""

    def declared(self) -> dict[str, str]:
        """Event type -> columns as Spark DDL."""
        if self.size == "medium" and self.types > 1:
            shop = list(events.schemas().items())
            copies = max(1, self.types // len(shop))
            return {_copied(name, at if copies > 1 else None): ddl for name, ddl in shop for at in range(copies)}
        return {kind.name: f"seq BIGINT, ts TIMESTAMP, {kind.columns}" for kind in kinds(self.size, self.types)}

    def records(self, count: int, partition: int) -> Iterator[Record]:
        """Those of one partition, out of `count` in all."""
        if self.size == "medium" and self.types > 1:
            return self._shop(count, partition)
        return self._made(count, partition)

    def _shop(self, count: int, partition: int) -> Iterator[Record]:
        copies = self.types // len(EVENT_TYPES)
        days = [str(BASE_DAY - timedelta(day)).encode() for day in range(self.days)]
        names = {(name, at): _copied(name, at) for name in events.schemas() for at in range(copies)}
        made = events.events(1, count, partition, self.partitions, self.bad_every)
        encoded = encoder(self.form, self.registry)
        for number, event in enumerate(made):
            name, value = event.event_type, event.value
            if copies > 1 and value is not None:
                name = names[event.event_type, number % copies]
                value = value.replace(b'"%b"' % event.event_type.encode(), b'"%b"' % name.encode(), 1)
            if days and value is not None and not event.bad:
                at = value.index(b'"ts":"') + 6
                value = value[:at] + days[number * 7919 % self.days] + value[at + 10 :]
            if value is not None and not event.bad:
                value = encoded(name, value)
            yield Record("" if event.bad not in ("", "unknown_fields") else name, event.key, value, event.timestamp_ms)

    def _made(self, count: int, partition: int) -> Iterator[Record]:
        mine, bits, copies = kinds(self.size, self.types), Random(f"{partition}").getrandbits, self.partitions
        lateness = [0] * 995 + [*range(1, 6)]
        days = [str(BASE_DAY - timedelta(day)).encode() for day in range(6)]
        for seq in range(partition, count, copies):
            drawn = bits(48)
            kind = mine[(drawn >> 16) % len(mine)]
            millis = seq * _MILLIS_PER_DAY // count
            secs = millis // 1000
            value: bytes | None = b'{"type":"%b","seq":%d,"ts":"%bT%02d:%02d:%02d.%03dZ",%b}' % (
                kind.name.encode(), seq, days[lateness[(drawn & 0xFFFF) % 1000]], secs // 3600, secs // 60 % 60,
                secs % 60, millis % 1000, kind.bodies[drawn >> 40],
            )  # fmt: skip
            bad = bool(self.bad_every) and seq % self.bad_every == self.bad_every - 1
            if bad:
                value = (None, b'{"type":"unheard_of"}', (value or b"")[:-9])[seq // self.bad_every % 3]
            yield Record("" if bad else kind.name, b"user-%d" % (drawn & 0x3FFF), value, _BASE_MILLIS + millis)


@cache
def one_of_each(load: Load) -> tuple[Record, ...]:
    """The first record of each type. Raises RuntimeError if a type is too rare to be found."""
    found: dict[str, Record] = {}
    for record in load.records(100 * load.types * load.partitions, 0):
        found.setdefault(record.table, record)
    if len(found) < load.types:
        raise RuntimeError("not every type has a record")
    return tuple(found.values())


def _copied(name: str, number: int | None) -> str:
    return name if number is None else f"{name}_{number}"


@dataclass(frozen=True)
class Kind:
    """One event type that is made here. bodies: ready pieces of JSON, as many as one byte tells apart."""

    name: str
    columns: str
    bodies: tuple[bytes, ...]


@cache
def kinds(size: Size, types: int) -> tuple[Kind, ...]:
    """The event types of a size; all alike but for their names and content."""
    return tuple(_kind(size, number) for number in range(types))


def _kind(size: Size, number: int) -> Kind:
    random, copies = Random(number), 16 if size == "huge" else _BODIES
    if size == "medium":
        (view,) = (one for one in EVENT_TYPES if one.name == "page_view")
        columns, name = f"user_id BIGINT, session STRING, {view.columns}", "page_view"
        made = [{"user_id": random.getrandbits(14), "session": "abcdef012345", **view.body(random)} for _ in range(256)]
    elif size == "small":
        columns, name = "a BIGINT, b STRING", f"tick_{number}"
        made = [{"a": random.getrandbits(30), "b": f"{random.getrandbits(64):016x}"} for _ in range(copies)]
    elif size == "large":
        columns, name = _LARGE, f"order_{number}"
        made = [_large(random) for _ in range(copies)]
    else:
        columns, name = "a STRING", f"document_{number}"
        made = [{"a": random.randbytes(500_000).hex()} for _ in range(copies)]
    bodies = [json.dumps(body, separators=(",", ":")).encode()[1:-1] for body in made]
    return Kind(name, columns, tuple(bodies * (_BODIES // len(bodies))))


_LARGE = (
    "customer STRUCT<id: BIGINT, name: STRING, address: STRUCT<street: STRING, city: STRING>>, "
    "items ARRAY<STRUCT<sku: STRING, name: STRING, price: DOUBLE, quantity: INT, tags: ARRAY<STRING>>>, "
    "notes MAP<STRING, STRING>"
)


def _large(random: Random) -> dict[str, Any]:
    """About 4 KB of JSON."""

    def words(count: int) -> str:
        return " ".join(random.choices(_WORDS, k=count))

    items = [
        {
            "sku": f"{random.getrandbits(64):016x}",
            "name": words(5),
            "price": random.randint(99, 49_999) / 100,
            "quantity": random.randint(1, 9),
            "tags": random.sample(_WORDS, k=4),
        }
        for _ in range(26)
    ]
    address = {"street": words(3), "city": words(1)}
    customer = {"id": random.getrandbits(40), "name": words(2), "address": address}
    return {"customer": customer, "items": items, "notes": {word: words(4) for word in random.sample(_WORDS, k=5)}}


@dataclass
class Tally:
    """What was written: rows that each table must end with ("": dead letters), and bytes of values."""

    rows: Counter[str]
    value_bytes: int = 0

    @property
    def records(self) -> int:
        return self.rows.total()


def fill(bootstrap: str, topic: str, load: Load, count: int) -> Tally:
    """Write `count` records to an existing topic: two processes, each some partitions. Raises RuntimeError."""
    total = Tally(Counter())
    workers = min(2, load.partitions)
    shares = [range(first, load.partitions, workers) for first in range(workers)]
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        for made in [pool.submit(_fill, bootstrap, topic, load, count, share) for share in shares]:
            total.rows.update(made.result().rows)
            total.value_bytes += made.result().value_bytes
    return total


def _fill(bootstrap: str, topic: str, load: Load, count: int, partitions: range) -> Tally:
    sender, tally = Sender(bootstrap, topic), Tally(Counter())
    streams = {partition: load.records(count, partition) for partition in partitions}
    while streams:
        for partition, stream in list(streams.items()):
            record = next(stream, None)
            if record is None:
                del streams[partition]
                continue
            sender.send(record.key, record.value, partition, record.timestamp_ms)
            tally.rows[record.table] += 1
            tally.value_bytes += len(record.value or b"")
    sender.flush()
    return tally


class Sender:
    """confluent-kafka's producer, idempotent, in order; nothing that is not acknowledged passes for written."""

    def __init__(self, bootstrap: str, topic: str, linger_ms: int = 100) -> None:
        from confluent_kafka import Producer

        failed: list[object] = []
        settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": linger_ms, "log_level": 3,
            "batch.size": 1 << 20, "message.max.bytes": 8 << 20, "queue.buffering.max.messages": 200_000,
            "queue.buffering.max.kbytes": 256 << 10, "delivery.report.only.error": True,
            "topic.metadata.propagation.max.ms": 5_000, "on_delivery": lambda error, _: failed.append(error),
        }  # fmt: skip
        # No callback holds this object: the producer's threads end as soon as nobody has it any more.
        self._producer, self._topic, self._failed = Producer(settings), topic, failed

    def send(self, key: bytes, value: bytes | None, partition: int, timestamp_ms: int = 0) -> None:
        """timestamp_ms: 0 = now. Waits while the queue is full."""
        while True:
            try:
                self._producer.produce(self._topic, value, key, partition, timestamp=timestamp_ms)
                return
            except BufferError:
                self._producer.poll(0.1)

    def flush(self) -> None:
        """Wait until all are written. Raises RuntimeError if one is not."""
        if self._producer.flush(120) or self._failed:
            raise RuntimeError(f"not all records were written to {self._topic}: {self._failed[:1]}")


def pace(sender: Sender, records: Iterator[tuple[int, Record]], per_sec: float, secs: float) -> int:
    """Send (partition, record) at a steady rate with the present time as timestamp; how many were sent."""
    started, sent = time.monotonic(), 0
    while (passed := time.monotonic() - started) < secs:
        for _ in range(int(passed * per_sec) - sent):
            partition, record = next(records)
            sender.send(record.key, record.value, partition)
            sent += 1
        time.sleep(0.005)
    return sent
