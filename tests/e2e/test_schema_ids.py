"""What is decided of schema ids outlives settings, registries and dead letters; what cannot be decided is named."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from exporter.core.routing import DEAD_LETTERS
from exporter.errors import DependencyUnreachable, FoundProblem
from exporter.operate.letters.replay import Replay
from tests.e2e.test_registered import FIRST, SECOND, THIRD, UNKNOWN, export, framed, ids_in, pins_of, server
from tests.support.fake_registry import Failure, FakeRegistry
from tests.support.lakes import Export, crashed_after
from tests.support.services import produce

__all__ = ["export", "server"]
pytestmark = [pytest.mark.broker, pytest.mark.spark]


def replayed(e: Export, spark: Any, apply: bool) -> dict[tuple[str, str], int]:
    with e.bench(spark) as bench:
        growth = {"evolutions": bench.evolutions, "columns": bench.columns}
        rows = Replay(bench.lake, bench.routing, schemas=bench.schemas, **growth).run(apply)
    return {(row.outcome, row.name): row.rows for row in rows}


def test_letters_of_a_schema_that_came_too_late_are_exported_again_once(
    export: Export, spark: Any, server: FakeRegistry
) -> None:
    """They stay what was decided until a replay asks for their schema; it is recorded, and they are rows by it."""
    late, never = framed(UNKNOWN, FIRST, id=100), framed(UNKNOWN + 1, FIRST, id=200)
    produce(export.kafka, export.topic, {0: [framed(1, FIRST, id=1), late, never], 1: [late, framed(1, FIRST, id=2)]})
    export.run(spark)
    assert ids_in(export) == {0: [1], 1: [2]}
    assert replayed(export, spark, True) == {("still bad", "unknown_schema_id"): 3}
    server.add("orders-value", json.dumps(FIRST), number=UNKNOWN)
    export.run(spark)
    assert ids_in(export) == {0: [1], 1: [2]} and pins_of(export).read(UNKNOWN).text is None
    left = {("still bad", "unknown_schema_id"): 1}
    assert replayed(export, spark, False) == {("would be fed", "Order"): 2, **left}
    assert replayed(export, spark, True) == {("fed", "Order"): 2, **left}
    assert replayed(export, spark, True) == left
    assert ids_in(export) == {0: [1, 100], 1: [100, 2]}
    assert [row["reason"] for row in export.rows(DEAD_LETTERS)] == [f"unknown_schema_id: {UNKNOWN + 1}"]
    server.failure = Failure(503)
    export.proven(spark)


def test_letters_of_a_schema_that_came_too_late_bring_its_columns(
    export: Export, spark: Any, server: FakeRegistry
) -> None:
    """As an export does: nothing is left in `_rescued`, and an audit compares their contents too."""
    late = framed(UNKNOWN, THIRD, id=100, note="n", paid=True)
    produce(export.kafka, export.topic, {0: [framed(1, FIRST, id=1), late], 1: [late, framed(1, FIRST, id=2)]})
    export.run(spark)
    server.add("orders-value", json.dumps(THIRD), number=UNKNOWN)
    assert replayed(export, spark, True) == {("fed", "Order"): 2}
    rows = [(row["id"], row["note"], row["paid"], row["_rescued"]) for row in export.rows("Order")]
    assert rows == [(1, None, None, None), (100, "n", True, None), (100, "n", True, None), (2, None, None, None)]
    report = export.audit(spark)
    assert (report.clean, report.contents, report.contents_skipped) == (True, 4, 0), report
    produce(export.kafka, export.topic, {0: [framed(UNKNOWN, THIRD, id=101, note="m", paid=False)]})
    export.run(spark)
    report = export.audit(spark)
    assert (report.clean, report.contents_skipped) == (True, 0), report


def test_a_change_of_settings_drains_by_what_was_decided_with_no_registry_at_all(
    export: Export, spark: Any, server: FakeRegistry
) -> None:
    """The dead letters have passed records that their table lacks: it gets them by the recorded texts alone."""
    lost, known = framed(UNKNOWN, FIRST, id=100), [framed(1, FIRST, id=1), framed(2, SECOND, id=2, note="x")]
    produce(export.kafka, export.topic, {0: [*known, lost]})
    export.run(spark)
    produce(export.kafka, export.topic, {0: [framed(2, SECOND, id=3, note="y"), framed(1, FIRST, id=4)]})
    with crashed_after(DEAD_LETTERS):
        export.run(spark)
    assert ids_in(export)[0] == [1, 2]
    server.failure = Failure(503)
    produce(export.kafka, export.topic, {0: [framed(1, FIRST, id=5)]})
    export.with_(record_bytes_max=5_000_000).run(spark)
    assert ids_in(export)[0] == [1, 2, 3, 4, 5] and len(export.rows(DEAD_LETTERS)) == 1


def test_a_run_with_an_end_names_what_it_could_not_read(export: Export, spark: Any, server: FakeRegistry) -> None:
    """Everything else is exported: the partition whose schema is not decided ends before it."""
    slow = replace(export, value_format=export.value_format.replace("= 0.5", "= 3600")).with_(give_up_secs=2)
    lost = framed(UNKNOWN, FIRST, id=100)
    produce(export.kafka, export.topic, {0: [framed(1, FIRST, id=1), lost], 1: [framed(1, FIRST, id=2)]})
    with pytest.raises(FoundProblem, match=rf"-0 cannot be read on, from offset 1 on .* schema id {UNKNOWN}") as caught:
        slow.run(spark)
    assert "register" in caught.value.hint and ids_in(export) == {0: [1], 1: [2]}
    assert export.rows(DEAD_LETTERS) == []
    server.failure = Failure(500)
    with pytest.raises((DependencyUnreachable, FoundProblem), match="500"):
        slow.run(spark)
    server.failure = None
    server.add("orders-value", json.dumps(FIRST), number=UNKNOWN)
    slow.run(spark)
    assert ids_in(export) == {0: [1, 100], 1: [2]}
