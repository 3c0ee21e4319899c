"""Records that name their schemas, while the registry is well, silent, wiped and filled anew.

What is decided of an id outlives settings, registries and dead letters; what cannot be decided is named.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import Any
from uuid import UUID

import fastavro
import pytest

from exporter.core.routing import DEAD_LETTERS
from exporter.errors import DependencyUnreachable, FoundProblem, InvariantBroken
from exporter.operate.dead_letters.replay import Replay
from exporter.registry.pins import Pins
from exporter.stores.file import FileStore
from offsets.ranges import TopicPartition
from tests.support.fake_registry import Failure, FakeRegistry
from tests.support.lakes import NOON, Export, Exports, crashed_after, millis, wait_until
from tests.support.services import Record

pytestmark = [pytest.mark.broker, pytest.mark.spark]

FIRST = {"type": "record", "name": "Order", "namespace": "shop", "fields": [{"name": "id", "type": "long"}]}
NOTE = {"name": "note", "type": ["null", "string"], "default": None}
SECOND = {**FIRST, "fields": [*FIRST["fields"], NOTE]}
THIRD = {**FIRST, "fields": [*FIRST["fields"], NOTE, {"name": "paid", "type": "boolean", "default": False}]}
UNKNOWN = 77


@pytest.fixture
def server() -> Iterator[FakeRegistry]:
    """With two versions of one schema, under the ids 1 and 2."""
    with FakeRegistry() as found:
        for schema in (FIRST, SECOND):
            found.add("orders-value", json.dumps(schema))
        yield found


@pytest.fixture
def export(exports: Exports, server: FakeRegistry) -> Export:
    """Two partitions of Avro in Confluent's frame; no column is declared."""
    formats = ['kind = "avro"', "[schema_registry]", f'urls = ["{server.url}"]', "timeout_secs = 2"]
    return exports(
        2, types={}, new_type="table", event_time='kind = "record"', type_from='kind = "schema"\nname = "short"',
        value_format="\n".join([*formats, "unknown_after_secs = 0.5"]),
    )  # fmt: skip


def framed(schema_id: int, schema: Any, **fields: Any) -> Record:
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(schema), fields)
    return Record(b"Order", b"\0" + schema_id.to_bytes(4, "big") + body.getvalue(), timestamp_ms=millis(NOON))


def ids_in(e: Export) -> dict[int, list[int]]:
    """Partition -> the field `id` of its rows, in order."""
    found: dict[int, list[int]] = {0: [], 1: []}
    for row in e.rows("Order") if "Order" in e.tables() else ():
        found[row["_kafka"]["partition"]].append(row["id"])
    return found


def pins_of(e: Export) -> Pins:
    return Pins(FileStore(str(e.root / "lake")), "default")


def test_schemas_are_recorded_and_ids_that_nobody_knows_are_dead_letters(
    export: Export, spark: Any, server: FakeRegistry
) -> None:
    """Every record is a row or a dead letter; the next task needs no registry; registered late is read from then on."""
    lost = framed(UNKNOWN, FIRST, id=100)
    records = {
        0: [framed(1, FIRST, id=1), framed(2, SECOND, id=2, note="x"), framed(1, FIRST, id=3)],
        1: [framed(1, FIRST, id=4), lost, framed(2, SECOND, id=5, note=None), lost, framed(1, FIRST, id=6)],
    }
    export.send(records)
    export.run(spark)
    assert ids_in(export) == {0: [1, 2, 3], 1: [4, 5, 6]}
    assert [row["note"] for row in export.rows("Order")] == [None, "x", None, None, None, None]
    dead_letters = export.rows(DEAD_LETTERS)
    assert [(row["_kafka"]["partition"], row["_kafka"]["offset"]) for row in dead_letters] == [(1, 1), (1, 3)]
    assert {row["reason"] for row in dead_letters} == {f"unknown_schema_id: {UNKNOWN}"}
    pins = pins_of(export)
    assert pins.ids() == [1, 2, UNKNOWN] and pins.read(UNKNOWN).unknown == {TopicPartition(export.topic, 1): 4}
    assert export.tables() == ["Order", DEAD_LETTERS]

    server.failure = Failure(503)
    export.send({0: [framed(2, SECOND, id=7, note="y")]})
    export.run(spark)
    assert ids_in(export)[0] == [1, 2, 3, 7]

    server.failure = None
    server.add("orders-value", json.dumps(FIRST), number=UNKNOWN)
    export.send({1: [lost]})
    export.run(spark)
    assert ids_in(export)[1] == [4, 5, 6, 100] and len(export.rows(DEAD_LETTERS)) == 2
    assert pins.read(UNKNOWN).count == 2
    server.failure = Failure(503)
    report = export.audit(spark)
    assert report.clean and report.checked == 10, report


def test_a_silent_registry_holds_up_what_needs_it_and_nothing_else(
    export: Export, spark: Any, server: FakeRegistry
) -> None:
    """It is told what waits for which id; nothing is lost, and nothing a dead letter. Filled anew, it ends the task."""
    export.send({0: [framed(1, FIRST, id=1)], 1: [framed(2, SECOND, id=2, note="")]})
    with export.going(spark) as task:
        wait_until(lambda: ids_in(export) == {0: [1], 1: [2]}, 60, "both partitions are exported")
        server.failure = Failure(502, b"Bad Gateway")
        behind = [framed(1, FIRST, id=3), framed(3, THIRD, id=4, note=None, paid=True), framed(1, FIRST, id=5)]
        export.send({0: [framed(2, SECOND, id=6, note="")], 1: behind})
        wait_until(lambda: ids_in(export) == {0: [1, 6], 1: [2, 3]}, 60, "all that can be read is exported")
        tp = TopicPartition(export.topic, 1)
        said = wait_until(lambda: task.service._watch.snapshot.stuck.get(tp), 30, "it is told what waits")
        assert "schema id 3" in said and "502" in said
        assert pins_of(export).ids() == [1, 2]
        server.add("orders-value", json.dumps(THIRD))
        server.failure = None
        wait_until(lambda: ids_in(export) == {0: [1, 6], 1: [2, 3, 4, 5]}, 60, "the rest follows")
        assert export.rows(DEAD_LETTERS) == [] and export.rows("Order")[-2]["paid"] is True
        server.wipe()
        for schema in (THIRD, SECOND, FIRST, {**FIRST, "name": "Other"}):
            server.add("orders-value", json.dumps(schema))
        export.send({0: [framed(4, {**FIRST, "name": "Other"}, id=8)]})
        error = task.ended()
    assert isinstance(error, InvariantBroken) and error.exit_code == 70
    assert "another schema under id" in error.message and "[schema_registry] name" in error.hint
    assert ids_in(export) == {0: [1, 6], 1: [2, 3, 4, 5]} and 4 not in pins_of(export).ids()


def test_what_connect_and_confluent_s_newest_clients_write_is_exported(
    exports: Exports, spark: Any, server: FakeRegistry
) -> None:
    """Protobuf that imports what no reference names, by GUIDs in headers and by ids in front: one table, with DATE and
    DECIMAL; the GUID is recorded. A header that is damaged is a dead letter, and the audit finds the same."""
    text = """
        syntax = "proto3"; package shop;
        import "confluent/meta.proto"; import "confluent/type/decimal.proto"; import "google/type/date.proto";
        message Order {
          int64 id = 1; google.type.Date due = 2;
          confluent.type.Decimal price = 3 [(confluent.field_meta) = {
            params: [ { key: "precision", value: "8" }, { key: "scale", value: "2" } ] }];
        }"""
    number = server.add("orders-value", text, "PROTOBUF")
    named = [("__value_schema_id", b"\1" + UUID(server.guid(number)).bytes + b"\0")]
    formats = ['kind = "protobuf"', "[schema_registry]", f'urls = ["{server.url}"]']
    e = exports(
        types={}, new_type="table", event_time='kind = "record"',
        type_from='kind = "schema"\nname = "short"', value_format="\n".join(formats),
    )  # fmt: skip

    def record(order: int, headers: Any, frame: bytes = b"") -> Record:
        day, price = b"\x08\xe8\x0f\x10\x02\x18\x1d", b"\x0a\x02\x01" + bytes([order]) + b"\x10\x08\x18\x02"
        body = bytes([8, order, 0x12, len(day)]) + day + bytes([0x1A, len(price)]) + price
        return Record(b"k", frame + body, headers, millis(NOON))

    framed_id = b"\0" + number.to_bytes(4, "big") + b"\0"
    damaged = record(3, [("__value_schema_id", b"\1short")])
    e.send({0: [record(1, named), record(2, (), framed_id), damaged, record(4, named)]})
    e.run(spark)
    rows = [(row["id"], row["due"], row["price"]) for row in e.rows("Order")]
    assert rows == [(n, date(2024, 2, 29), Decimal(256 + n).scaleb(-2)) for n in (1, 2, 4)]
    (dead_letter,) = e.rows(DEAD_LETTERS)
    assert dead_letter["_kafka"]["offset"] == 2
    assert dead_letter["reason"].startswith("not_framed: the header __value_schema_id")
    assert pins_of(e).ids()[0] == number and len(pins_of(e).ids()) == 2
    report = e.audit(spark)
    assert report.clean and report.checked == 4, report


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
    export.send({0: [framed(1, FIRST, id=1), late, never], 1: [late, framed(1, FIRST, id=2)]})
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
    export.send({0: [framed(1, FIRST, id=1), late], 1: [late, framed(1, FIRST, id=2)]})
    export.run(spark)
    server.add("orders-value", json.dumps(THIRD), number=UNKNOWN)
    assert replayed(export, spark, True) == {("fed", "Order"): 2}
    rows = [(row["id"], row["note"], row["paid"], row["_rescued"]) for row in export.rows("Order")]
    assert rows == [(1, None, None, None), (100, "n", True, None), (100, "n", True, None), (2, None, None, None)]
    report = export.audit(spark)
    assert (report.clean, report.contents, report.contents_skipped) == (True, 4, 0), report
    export.send({0: [framed(UNKNOWN, THIRD, id=101, note="m", paid=False)]})
    export.run(spark)
    report = export.audit(spark)
    assert (report.clean, report.contents_skipped) == (True, 0), report


def test_a_change_of_settings_drains_by_what_was_decided_with_no_registry_at_all(
    export: Export, spark: Any, server: FakeRegistry
) -> None:
    """The dead letters have passed records that their table lacks: it gets them by the recorded texts alone."""
    lost, known = framed(UNKNOWN, FIRST, id=100), [framed(1, FIRST, id=1), framed(2, SECOND, id=2, note="x")]
    export.send({0: [*known, lost]})
    export.run(spark)
    export.send({0: [framed(2, SECOND, id=3, note="y"), framed(1, FIRST, id=4)]})
    with crashed_after(DEAD_LETTERS):
        export.run(spark)
    assert ids_in(export)[0] == [1, 2]
    server.failure = Failure(503)
    export.send({0: [framed(1, FIRST, id=5)]})
    export.with_(record_bytes_max=5_000_000).run(spark)
    assert ids_in(export)[0] == [1, 2, 3, 4, 5] and len(export.rows(DEAD_LETTERS)) == 1


def test_a_run_with_an_end_names_what_it_could_not_read(export: Export, spark: Any, server: FakeRegistry) -> None:
    """Everything else is exported: the partition whose schema is not decided ends before it."""
    slow = replace(export, value_format=export.value_format.replace("= 0.5", "= 3600")).with_(give_up_secs=2)
    lost = framed(UNKNOWN, FIRST, id=100)
    export.send({0: [framed(1, FIRST, id=1), lost], 1: [framed(1, FIRST, id=2)]})
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
