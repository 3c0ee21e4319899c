"""Rounds: what the ones before taught."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

from exporter.read import RoundResult
from exporter.rounds import Rounds
from exporter.routing import EventTime, Routing, TypeFrom
from exporter.stage import StagingOrder

ORDER = StagingOrder("/lake", "app", Routing(TypeFrom("json", "type"), EventTime("record"), ()), {}, {}, {})


class Reader:
    """Reads what it is told to have read: (records, bytes), the same each time."""

    def __init__(self, records: int, size: int) -> None:
        self.counts = {"records": records, "bytes": size}
        self.orders: list[StagingOrder] = []

    def read(self, order: StagingOrder) -> RoundResult:
        self.orders.append(order)
        return RoundResult((), self.counts)


def run(rounds: Rounds, times: int) -> None:
    for _ in range(times):
        rounds.start(ORDER)
        assert rounds._future is not None
        rounds._future.result(10)
        assert rounds.take(0.0) is not None


def rounds_of(reader: Any, bytes_max: int = 1_000_000) -> Rounds:
    def waking(future: Future[Any]) -> Future[Any]:
        return future

    return Rounds(reader, 1_000_000, bytes_max, 600.0, waking)


def test_the_size_of_records_bounds_the_next_round_and_its_batches():
    """Large ones are remembered at once, small ones bit by bit."""
    reader = Reader(10, 5_000)
    rounds = rounds_of(reader)
    run(rounds, 1)
    assert rounds.budget().records == 2_000
    reader.counts = {"records": 10, "bytes": 10}
    run(rounds, 1)
    assert rounds.budget().records == 4_000
    assert [order.record_bytes for order in reader.orders] == [0.0, 500.0]
    rounds.close()


def test_nothing_but_tombstones_for_hours():
    """Their values have no bytes: the next round is as large as it may be, however many came before."""
    rounds = rounds_of(Reader(1, 0))
    rounds.expect(350.0)
    run(rounds, 1_100)
    assert rounds.budget().records == 1_000_000
    rounds.close()
