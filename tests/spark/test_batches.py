"""Arrow batches of rounds: guessed by the size of the records so far, with a limit where the guess is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from exporter.spark import batches
from exporter.spark.batches import BATCH_BYTES, BATCH_RECORDS, MEASURED, MEASURED_AFTERWARDS, Batches
from tests.support.lakes import Export, mixed, wait_until, wrong_places
from tests.support.services import fresh_name, produce

pytestmark = pytest.mark.spark


def sizes(spark: Any, rows: int, size: int) -> list[int]:
    """Rows of each batch of one task that gets `rows` values of `size` bytes."""

    def count(parts: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for part in parts:
            yield pa.RecordBatch.from_pylist([{"rows": part.num_rows}])

    values = spark.range(0, rows, 1, 1).selectExpr(f"cast(repeat('x', {size}) AS BINARY) AS value")
    return [row.rows for row in values.mapInArrow(count, "rows BIGINT").collect()]


def options(spark: Any) -> dict[str, str]:
    return {name: spark.conf.get(name) for name in MEASURED}


def test_a_guess_is_in_rows(spark: Any) -> None:
    """As many as fit, never more than without it; the session measures again afterwards."""
    one = Batches(spark)
    with one.sized(record_bytes=BATCH_BYTES / 300, carried_bytes=0):
        assert sizes(spark, 1_000, 10) == [300, 300, 300, 100]
    with one.sized(record_bytes=1, carried_bytes=0):
        assert sizes(spark, BATCH_RECORDS + 1, 10) == [BATCH_RECORDS, 1]
    with one.sized(record_bytes=2 * BATCH_BYTES, carried_bytes=0):
        assert sizes(spark, 3, 10) == [1, 1, 1]
    assert options(spark) == MEASURED
    assert sizes(spark, 100, BATCH_BYTES // 50) == [50, 50]


def test_a_wrong_guess_fails_before_the_batch_is_in_memory_and_is_measured_afterwards(spark: Any) -> None:
    """A gigabyte that was taken for a megabyte; after so many rounds it is guessed again, then later and later."""
    one = Batches(spark)
    with pytest.raises(Exception, match="OutOfMemoryException") as failed, one.sized(record_bytes=20, carried_bytes=0):
        sizes(spark, 50_000, 20_000)
    assert one.outgrown(failed.value)
    assert options(spark) == MEASURED
    for wrong in (1, 2):
        for _ in range(MEASURED_AFTERWARDS * wrong):
            with one.sized(record_bytes=1e9, carried_bytes=0):
                assert options(spark) == MEASURED
        with one.sized(record_bytes=1e9, carried_bytes=0):
            assert spark.conf.get(batches.RECORDS_OPTION) == "1"
        assert one.outgrown(failed.value)
    assert sizes(spark, 2_000, 20_000) == [1_678, 322]


def test_another_failure_is_no_wrong_guess(spark: Any) -> None:
    """The next round is guessed again, and what is not known is measured."""
    one = Batches(spark)
    assert not one.outgrown(RuntimeError("the broker is gone"))
    with one.sized(record_bytes=1e9, carried_bytes=0):
        assert spark.conf.get(batches.RECORDS_OPTION) == "1"
    with one.sized(record_bytes=0, carried_bytes=0):
        assert options(spark) == MEASURED


@pytest.mark.broker
def test_a_round_that_meets_the_limit_runs_again_measured(
    kafka: str, topic: Callable[..., str], tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each record once; the round does not count as failed, so that nothing is bisected nor condemned."""
    e = Export(kafka, topic(2), tmp_path, fresh_name("app"), scalars={"carried_bytes_max": 4_000})
    produce(kafka, e.topic, {0: mixed(50), 1: mixed(50, first=1000)})
    with e.going(spark) as task:
        wait_until(lambda: task.service.totals.records == 100, 60, "the first rounds, which tell the size of records")
        monkeypatch.setattr(batches, "GUESSED_BYTES_MAX", 0)
        produce(kafka, e.topic, {0: mixed(500, first=50), 1: mixed(500, first=1050)})
        wait_until(lambda: task.service.totals.records == 1_100, 60, "the others")
        assert task.service._rounds._reader._batches._wrong == 1
        assert task.service.totals.rounds_failed == 0
        wait_until(lambda: {e.position("click", at)[1] for at in (0, 1)} == {549}, 60, "their commits")
    assert wrong_places(e) == {}
