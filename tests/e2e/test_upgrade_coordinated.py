"""Lakes of coordinated tasks and of mirrors, as an earlier version left them, go on with this one.

tests/golden/coordinated_and_mirrored.tar.xz, and the records of its topics (records.jsonl):

    coordinated   two tasks over two partitions; the leader was killed between the commits of a round, so one table is
                  behind the others, and offers of both tasks are open; two mirrors, one of them with patches
    changes       changes of a database, stopped in good order, and their mirror
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pytest

from exporter.derive.jobs import jobs_of
from exporter.lake.lake import Lake
from exporter.local.broker import create_topic
from tests.support import naive
from tests.support.envelope_samples import POSTGRES, UNAVAILABLE, changed, text
from tests.support.golden import CUSTOMERS, send_again, sent_before, unpack
from tests.support.lakes import DDL, NOON, Export, event, millis, wait_until, wrong_places
from tests.support.services import Record, produce

pytestmark = [pytest.mark.broker, pytest.mark.spark]

ARCHIVE = "coordinated_and_mirrored.tar.xz"
CLUSTER_ID = "AxzPJJmcgPrbSCKYjMprQw"
IDS = {"golden.v2": "545d8677-be7a-441a-a835-b6a6ce767b46", "golden.cdc": "98b60032-3400-491e-99b5-5cda94b9af0b"}
TYPES = {
    "order": DDL["order"], "click": DDL["click"],
    "change": "id BIGINT, when BIGINT, op STRING, changed ARRAY<STRING>, a STRING, b BIGINT",
}  # fmt: skip
COORDINATED = {"control_topic": "golden.v2.control", "commit_interval_secs": 1.5}
MIRRORS = f"""{CUSTOMERS}[derive.pages]
kind = "mirror"
source = "click"
keys = ["page"]
"""
ROWS = """[derive.rows]
kind = "mirror"
source = "public.orders"
keys = ["id"]
op = "_cdc"
"""
Key = tuple[int, dict[str, Any]]


@pytest.fixture(autouse=True)
def topics(kafka: str) -> None:
    send_again(kafka, sent_before(ARCHIVE))


def change(number: int, op: str, when: int, **columns: Any) -> Record:
    value = {"type": "change", "at": NOON.isoformat(), "id": number, "op": op, "when": when, **columns}
    return Record(b"change", json.dumps(value).encode(), timestamp_ms=millis(NOON))


def derive(e: Export, spark: Any) -> None:
    """Each job has a run, and its audit finds nothing."""
    settings = e.settings()
    for job in jobs_of(settings, Lake(spark, settings.store, settings.app)):
        job.run()
        assert [line for line in job.audit() if not line.clean] == []


def mirror(e: Export, job: str) -> dict[Any, dict[str, Any]]:
    """id -> row, of those that are not deleted."""
    rows = deltalake.DeltaTable(str(e.root / "lake" / "_derived.tables" / job)).to_pyarrow_table().to_pylist()
    return {row["id"]: row for row in rows if not row["_deleted"]}


def at_end(e: Export, ends: dict[int, int]) -> Callable[[], bool]:
    """Whether all tables are through the ends of the partitions."""
    names = (*TYPES, "dead_letters")
    return lambda: all(e.position(name, tp)[1] == end - 1 for name in names for tp, end in ends.items())


def test_tables_of_coordinated_tasks_and_their_mirrors_go_on(kafka: str, tmp_path: Path, spark: Any) -> None:
    """What was offered is there once, whoever commits it; mirrors take what is new, and patch what they had."""
    e = Export(kafka, "golden.v2", tmp_path, "golden", types=TYPES, scalars=COORDINATED, more=MIRRORS)
    create_topic(kafka, "golden.v2.control", 1, None)
    unpack(e, ARCHIVE, "coordinated", IDS, CLUSTER_ID)
    ends = {partition: len(rows) for (topic, partition), rows in sent_before(ARCHIVE).items() if topic == e.topic}
    assert {e.position(name, 0)[1] for name in ("order", "change")} == {166, 161}
    with e.going(spark) as first, e.going(spark):
        wait_until(at_end(e, ends), 120, "all that came before is in the tables")
        more = [event("order", 5000), change(2, "P", 40, changed=["b"], b=9), change(1, "U", 15, a="late", b=0)]
        produce(kafka, e.topic, {0: more, 1: [event("click", 5001), change(14, "I", 5, a="older", b=4)]})
        wait_until(at_end(e, {0: ends[0] + 3, 1: ends[1] + 2}), 120, "what came since, too")
        assert first.error is None
    assert wrong_places(e) == {}
    naive.assert_each_once(e)
    e.proven(spark)
    derive(e, spark)
    found = {key: (row["a"], row["b"]) for key, row in mirror(e, "customers").items()}
    assert {key: found.get(key) for key in (1, 2, 3, 14)} == {1: ("late", 2), 2: (None, 9), 3: None, 14: ("under", 4)}


def test_changes_of_databases_and_their_mirror_go_on(kafka: str, tmp_path: Path, spark: Any) -> None:
    """The settings mean more with this version: that is a switch, for which nothing has to be drained.

    So do truncates: what is older than the one that the earlier version passed over goes from the mirror.
    """
    form = 'kind = "json"\nenvelope = "debezium"\ntombstones = "count"'
    types = {"public.orders": "id BIGINT, name STRING, doc STRING, ia ARRAY<BIGINT>, at TIMESTAMP"}
    e = Export(
        kafka, "golden.cdc", tmp_path, "golden", types=types, event_time='kind = "record"',
        type_from='kind = "source"', value_format=form, more=ROWS,
    )  # fmt: skip
    unpack(e, ARCHIVE, "changes", IDS, CLUSTER_ID)
    new = [
        changed(POSTGRES, "u", after={"id": 1, "name": "c", "doc": UNAVAILABLE, "ia": [*UNAVAILABLE.encode()]}),
        changed(POSTGRES, "u", after={"id": 4, "name": "m", "doc": "e", "ia": [5], "at": "2026-01-31T13:00:00Z"}),
        changed(POSTGRES, "c", after={"id": 2, "name": "again", "doc": "f", "ia": []}),
    ]  # fmt: skip
    produce(kafka, e.topic, {0: [Record(text({}), text(value), timestamp_ms=millis(NOON)) for value in new]})
    e.run(spark)
    e.proven(spark)
    derive(e, spark)
    found = {key: (row["name"], row["doc"], row["ia"]) for key, row in mirror(e, "rows").items()}
    assert found == {1: ("c", None, None), 2: ("again", "f", []), 4: ("m", "e", [5])}
