"""What becomes of a claim one of whose files could not be written. No JVM."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from exporter.commit import Report, Settled, Unwritten
from exporter.offers import Offers
from exporter.writers import Claim, StagedFile, Writer, WriterKey
from offsets.ranges import OffsetRange, TopicPartition

KEY = WriterKey("order", TopicPartition("t", 0))
ROWS = StagedFile("day=2026-01-31/x.parquet", OffsetRange(0, 9), 10, 4, body=b"rows")


@pytest.mark.parametrize("out", [True, False])
def test_a_file_that_cannot_be_written_waits_for_the_storage_or_parks_its_type(out: bool) -> None:
    """With the whole storage out the rows are kept and offered again a second later; else they are read again later."""
    offered: list[Claim] = []

    def commit(name: str, claims: list[Claim]) -> Report:
        offered.extend(claims)
        return Report(name, None, 0.0, tuple(Settled(claim, Unwritten("no space")) for claim in claims))

    watch = SimpleNamespace(totals=mock.Mock(), committed=lambda _: None, storage_is_out=lambda _: out)
    keeper = SimpleNamespace(take_owed=lambda: None, holds=lambda _: False)
    committer = SimpleNamespace(commit=commit, checked_through=lambda _: 3)
    writers = {KEY: Writer(KEY, 0, 1, -1, 9, 0.0, staged=(ROWS,))}
    with ThreadPoolExecutor(1) as pool:
        given: Any = (None, committer, None, keeper, watch, pool, lambda future: future)
        offers = Offers(*given)
        offers.offer(writers, {"order": [KEY]}, 100.0)
        pool.submit(int).result(10)
        assert offers.take(writers, 100.0, False) == set()
        writer = writers[KEY]
        if not out:
            assert (writer.claim, writer.staged, writer.frontier) == (None, (), -1)
            assert writer.parked is not None and writer.parked.reason == "no space"
            return
        assert writer.parked is None and writer.claim is not None and writer.claim.files == writer.staged == (ROWS,)
        offers.offer(writers, {}, 100.5)
        assert not offers.running
        offers.offer(writers, {}, 101.5)
    assert offered == [writer.claim, writer.claim]
