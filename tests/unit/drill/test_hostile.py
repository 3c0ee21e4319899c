"""What the drills hold against an exporter: each hostile record's key names the table that the code decides."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from exporter.arrow.own_columns import HEADERS_TYPE
from exporter.core.routing import DEAD_LETTERS, EventTime, Routing, TypeFrom
from exporter.core.writers import PartitionPlan
from exporter.drill import hostile
from exporter.drill.producer import DrillRecord
from exporter.drill.run import NotAsItMust
from exporter.drill.soak import judge, live_bytes, own_bytes, quarters
from exporter.executor.stage import stage
from offsets.names import table_folder
from offsets.ranges import TopicPartition
from tests.support.orders import order_of

TP = TopicPartition("t", 0)


def struct(**fields: Any) -> dict[str, Any]:
    listed = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in fields.items()]
    return {"type": "struct", "fields": listed}


SCHEMA = struct(
    id="long", n="integer", price="decimal(12,2)", ratio="double", name="string", ok="boolean", seen="timestamp",
    planned="timestamp_ntz", due="date", raw="binary",
    tags={"type": "array", "elementType": "string", "containsNull": True},
    counts={"type": "map", "keyType": "string", "valueType": "long", "valueContainsNull": True},
    device=struct(os="string", size=struct(w="integer", h="integer")),
)  # fmt: skip
ROUTING = Routing(
    TypeFrom("json", "type"),
    EventTime("json", "at"),
    tuple((name, json.dumps(SCHEMA)) for name in hostile.TYPES),
    event_time_ahead_max_secs=86_400,
)


def placed(root: Path, records: Iterable[DrillRecord]) -> list[str]:
    """The table of each record, in order."""
    records = list(records)
    times = [record.timestamp_ms * 1000 for record in records]
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array([record.key for record in records], pa.binary()),
            pa.array([record.value for record in records], pa.binary()),
            pa.array(["t"] * len(records)),
            pa.array([0] * len(records), pa.int32()),
            pa.array(range(len(records)), pa.int64()),
            pa.array(times, pa.timestamp("us", "UTC")),
            pa.array([0] * len(records), pa.int32()),
            pa.nulls(len(records), HEADERS_TYPE),
        ],
        names=["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"],
    )
    bounds = dict.fromkeys((DEAD_LETTERS, *hostile.TYPES), -1)
    plan = PartitionPlan(TP, 0, 0, start=0, end=len(records), bounds=bounds)
    order = order_of(root, ROUTING, {TP: plan}, carried_bytes=1 << 30)
    (manifest,) = stage(order, iter([batch]))
    found = {}
    for row in manifest.to_pylist():
        if row["path"]:
            file = root / table_folder(row["event_type"]) / row["path"]
            rows = pa.ipc.open_stream(row["body"]).read_all() if row["body"] else pq.read_table(file, partitioning=None)
            found |= {one["offset"]: row["event_type"] for one in rows.column("_kafka").to_pylist()}
    return [found.get(at, "") for at in range(len(records))]


JUDGED = [kind for kind in hostile.KINDS if kind is not hostile.kafka_times]


@pytest.mark.parametrize("kind", JUDGED, ids=lambda kind: kind.__name__)
def test_the_key_of_a_hostile_record_names_its_table(kind: Any, tmp_path: Path) -> None:
    """Every variant of every kind, also alone: what the drill expects is what each record deserves by itself."""
    turns = 3 if kind in (hostile.many_numbers, hostile.large_key, hostile.alike) else 44
    records = [kind(turn) for turn in range(turns)]
    wanted = [record.key.partition(b"|")[0].decode() for record in records]
    assert placed(tmp_path / "all", records) == wanted
    alone = [placed(tmp_path / str(at), [record])[0] for at, record in enumerate(records[:14])]
    assert alone == wanted[:14]


def test_a_soak_has_every_kind_and_a_hundredth_of_them() -> None:
    """Twenty types, one record in a hundred hostile, each kind in its turn."""
    keys = Counter(hostile.mixed(number).key.partition(b"|")[0].decode() for number in range(1, 100))
    assert len(keys) == 20 and DEAD_LETTERS not in keys
    turns = [hostile.mixed(number * hostile.HOSTILE_EVERY) for number in range(len(hostile.KINDS))]
    assert turns == [kind(turn) for turn, kind in enumerate(hostile.KINDS)]


def test_growth_is_measured_between_quarters_and_not_from_the_start() -> None:
    """What a process takes while it warms up is no growth; what goes on growing is."""
    flat = [(at / 100, {"jvm": 100 << 20 if at else 1 << 20}) for at in range(101)]
    assert quarters(flat) == {"jvm": (100.0,) * 4}
    leak = [(at / 100, {"driver": (100 + at) << 20}) for at in range(101)]
    first, _, _, last = quarters(leak)["driver"]
    assert last - first == pytest.approx(72, abs=3)


def test_pools_that_fill_up_are_no_leak_and_what_goes_on_growing_is() -> None:
    """By a soak's quarters: those of a driver that rose for half an hour and then stood, and of a slow leak."""
    judge({"memory_mib": {"driver": (194.9, 218.1, 227.3, 229.1), "heap": (78.0, 78.0, 85.0, 99.0)}, "warnings": {}})
    leaks = {"driver": (100.0, 103.3, 106.7, 110.0), "heap": (80.0, 120.0, 160.0, 200.0)}
    for kind, sizes in leaks.items():
        with pytest.raises(NotAsItMust, match=f"^{kind} took"):
            judge({"memory_mib": {kind: sizes}, "warnings": {}})


def test_what_a_round_holds_is_no_growth_of_the_heap_and_what_stays_is() -> None:
    """The heap is weighed less often than the processes, now and then in the middle of a round."""
    driver = [(at / 100, {"driver": 100 << 20}) for at in range(101)]
    rounds = [(at / 40, {"heap": (80 if at % 2 else 80 + at) << 20}) for at in range(41)]
    assert quarters([*driver, *rounds]) == {"driver": (100.0,) * 4, "heap": (80.0,) * 4}
    leak = [(at / 40, {"heap": (80 + at) << 20}) for at in range(41)]
    assert quarters(leak)["heap"][3] > 1.1 * quarters(leak)["heap"][0]


HOLDS = """
import mmap, sys
path, mine = sys.argv[1], b"x" * int(sys.argv[2])
with open(path, "rb") as file:
    shared = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
shared[:]
print(flush=True)
sys.stdin.read()
"""
"""A process that has all pages of a file and so many bytes of its own in memory until its input ends."""


@contextmanager
def holding(path: Path, size: int) -> Iterator[int]:
    """Its process id."""
    command = [sys.executable, "-c", HOLDS, str(path), str(size)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdout.readline()
        yield process.pid
        process.stdin.close()


def test_what_a_process_weighs_does_not_hang_on_who_else_has_its_files_open(tmp_path: Path) -> None:
    """Members that are killed beside one that lives have its libraries in common with it: its share is no growth."""
    path = tmp_path / "library"
    path.write_bytes(b"y" * (32 << 20))
    with holding(path, 1) as lives:
        with holding(path, 1):
            beside = own_bytes(lives)
        alone = own_bytes(lives)
    assert abs(alone - beside) < 1 << 20


def test_who_has_no_heap_survives_that_it_is_weighed(tmp_path: Path) -> None:
    """A JVM that has only just begun as well: the question comes as a signal, which would end it."""
    path = tmp_path / "library"
    path.write_bytes(b"y")
    with holding(path, 1) as begins:
        assert live_bytes(begins) == 0
        assert own_bytes(begins) > 0


def test_what_a_process_allocates_is_weighed(tmp_path: Path) -> None:
    """Its own bytes, but for a page here and there."""
    path = tmp_path / "library"
    path.write_bytes(b"y")
    with holding(path, 1) as small, holding(path, 32 << 20) as large:
        assert own_bytes(large) - own_bytes(small) == pytest.approx(32 << 20, rel=0.05)
