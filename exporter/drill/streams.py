"""Scenarios of what may be in a topic: poison, aborted transactions, compaction, types that nobody declared."""

from __future__ import annotations

from collections.abc import Callable

from kafka import KafkaProducer

from exporter.drill import hostile, producer
from exporter.drill.producer import DrillRecord
from exporter.drill.run import Run

NEW_TYPES = 12
NEW_TYPES_EVERY = 400
"""Records after which another new type appears."""


def poison(run: Run) -> None:
    """Every tenth record is bad, in each known way."""
    run.load(producer.poisoned)
    task = run.start()
    run.wait_commit(task, 6)
    run.kill(task)
    run.check()
    run.finish()


def out_of_range(run: Run) -> None:
    """Every other record has a date or a time at the edges of the calendar, or beyond them."""
    _hostile(run, hostile.out_of_range)


def kafka_timestamps(run: Run) -> None:
    """Every tenth record has its Kafka timestamp in micro- or nanoseconds."""
    _hostile(run, hostile.odd_times)


def _hostile(run: Run, make: Callable[[int], DrillRecord]) -> None:
    run.types = dict(hostile.TYPES)
    run.load(make)
    task = run.start()
    run.wait_commit(task, 20)
    run.kill(task)
    run.check()
    run.finish()


def transactions_and_compaction(run: Run) -> None:
    """Half of what is written is aborted, and the log is compacted meanwhile: holes everywhere."""
    run.records_leave = True
    sender = KafkaProducer(**run.services.options, transactional_id=run.app, linger_ms=20)
    try:
        sender.init_transactions()
        number = 0
        run.load(_compactable)
        task = run.start()
        for turn in range(12):
            sender.begin_transaction()
            for _ in range(100):
                _send(run, sender, number)
                number += 1
            sender.flush()
            if turn % 2:
                sender.abort_transaction()
            else:
                sender.commit_transaction()
            run.nap(0.7)
            if turn == 6:
                run.wait_commit(task)
                run.kill(task)
                run.check()
                task = run.start()
        run.wait_commit(task)
    finally:
        sender.close()
    run.stop(task)
    run.finish()


def _compactable(number: int) -> DrillRecord:
    """The usual load, but for tombstones, under few keys, so that compaction has something to take."""
    record = producer.mixed(number)
    if record.value is None:
        record = producer.bad(0)
    return record._replace(key=record.key + f"|{number % 50}".encode())


def _send(run: Run, sender: KafkaProducer, number: int) -> None:
    record = _compactable(number)
    sender.send(run.topic, record.value, record.key, partition=number % 2, timestamp_ms=record.timestamp_ms)


def new_types(run: Run) -> None:
    """Types that nobody declared appear again and again, while tasks are killed at random moments."""
    run.scalars |= {"new_type": "table"}
    run.load(_growing)
    for _ in range(4):
        task = run.start()
        run.wait_commit(task)
        run.nap(run.rng.uniform(0, 4))
        run.kill(task)
        run.check()
    run.finish()


def _growing(number: int) -> DrillRecord:
    """The usual load with every third record of an undeclared type, a newer one after each NEW_TYPES_EVERY records."""
    if number % 3:
        return producer.mixed(number)
    newest = min(NEW_TYPES, number // NEW_TYPES_EVERY)
    return producer.good(f"new_{max(0, newest - number // 3 % 3)}", number)
