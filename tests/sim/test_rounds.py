"""What the simulated rounds stage is what the executors' own code stages of the same records."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from exporter.core.columns import EVOLVED
from exporter.core.order import Destination, StagingOrder, TableTarget
from exporter.core.routing import DEAD_LETTERS
from exporter.core.schemas import KnownSchemas, SchemaText, UnknownId
from exporter.core.valid_through import ALL
from exporter.core.writers import Fragment, PartitionPlan
from exporter.executor.gathered import gathered
from exporter.executor.stage import stage
from exporter.rounds.told import round_result
from exporter.stores.stores import STORES
from exporter.workbench import growth_of
from offsets.ranges import TopicPartition
from tests.sim.broker import Broker, Record
from tests.sim.features import TOPIC, TYPES, Features, settings_of
from tests.sim.growing import value_of
from tests.sim.kernel import Kernel, Process
from tests.sim.network import Network
from tests.sim.rounds import BAD, SimReader
from tests.sim.store import SCHEME, Disk, SimStore, There
from tests.unit.executor.test_stage import RAW

TP = TopicPartition(TOPIC, 0)
DAY_MS = 86_400_000
BEGAN_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z
Staged = Mapping[str, list[tuple[str, int, int, int]]]


def combined_with(declared: str, name: str) -> str:
    """What is decoded of a type whose table has got a column of numbers."""
    schema = json.loads(declared)
    evolved = {"name": name, "type": "long", "nullable": True, "metadata": {EVOLVED: "events/0/0"}}
    return json.dumps({**schema, "fields": [*schema["fields"], evolved]})


def staged_by_workers(order: StagingOrder, records: list[Record]) -> Fragment:
    """By the code that runs in Spark's workers."""
    told: dict[str, list[Any]] = {name: [] for name in RAW.names}
    for one in records:
        bad = one.kind.startswith(BAD)
        frame = b"" if one.schema is None else b"\0" + one.schema.to_bytes(4, "big")
        told["key"].append(None)
        told["value"].append(frame + (b"{" if bad else json.dumps(value_of(one)).encode()))
        told["topic"].append(TP.topic)
        told["partition"].append(TP.partition)
        told["offset"].append(one.offset)
        told["timestamp"].append(one.at_ms * 1000)
        told["timestampType"].append(0)
        told["headers"].append(None)
    batch = pa.RecordBatch.from_arrays([pa.array(told[field.name], field.type) for field in RAW], schema=RAW)
    rows = [row for manifest in stage(order, gathered(iter([batch]), len(TYPES))) for row in manifest.to_pylist()]
    (fragment,) = round_result(order, rows).fragments
    return fragment


def staged_here(order: StagingOrder, records: list[Record]) -> Fragment:
    """By the simulator."""
    kernel = Kernel(1)
    network = Network(kernel)
    There.disk, There.network = Disk(), network
    broker = Broker(kernel, network)
    broker.make(TOPIC, 1)
    log = broker.log(TP)
    log.records = {one.offset: one for one in records}
    log.end = log.stable = records[-1].offset + 1
    found: list[Fragment] = []
    reader = SimReader(kernel, broker, order.room)
    kernel.started(Process(kernel, "one"), "main", lambda: found.extend(reader.read(order).fragments))
    kernel.run(60.0)
    return found[0]


def as_told(fragment: Fragment) -> Staged:
    """Event type -> folder, first and last offset, rows of each file."""
    return {
        name: sorted((file.folder, file.offsets.first_offset, file.offsets.last_offset, file.rows) for file in files)
        for name, files in fragment.files.items()
    }


RULES = {
    "plain": Features(),
    "filtered": Features(filtered=True),
    "fans_out": Features(fans_out=True, new_types=5),
    "both": Features(filtered=True, fans_out=True),
    "evolves": Features(fans_out=True, new_types=5, evolves=True),
    "registry": Features(registry=True),
    "all": Features(registry=True, fans_out=True, filtered=True, new_types=5),
}


def seen_by(fragment: Fragment) -> dict[str, str]:
    """Event type -> what was seen that no column holds."""
    return {name: one.to_json() for name, one in fragment.seen.items()}


@pytest.mark.parametrize("features", RULES.values(), ids=RULES)
@pytest.mark.parametrize("seed", range(12))
def test_a_round_here_is_a_round_there(seed, features, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The same files by name, span, day and number of rows, whatever each type has already; the same times and counts.
    """
    monkeypatch.setitem(STORES, SCHEME.removesuffix("://"), SimStore.at)
    rng = Random(seed)
    records, offset = [], 0
    for _ in range(rng.randrange(1, 60)):
        offset += rng.choice((1, 1, 1, 4))
        day = rng.randrange(2)
        at_ms = BEGAN_MS + day * DAY_MS + rng.randrange(DAY_MS)
        more = rng.choice(((), (("colour", 7),), (("colour", "red"),), (("size", 7),))) if features.evolves else ()
        kind, schema = rng.choice(features.kinds), rng.choice((1, 1, 1, 1, 2, 2, 3, 4)) if features.registry else None
        records.append(Record(offset, kind, at_ms, f"2026-01-0{day + 1}", more=more, schema=schema))
    settings, routing = settings_of(features)
    evolutions, _ = growth_of(settings, routing)
    wide = combined_with(routing.columns_of(TYPES[0]), "size")
    tables = {TYPES[0]: TableTarget(decoded=wide)} if features.evolves else {}
    names = (DEAD_LETTERS, *TYPES)
    bounds = {name: rng.choice((-1, 0, records[0].offset, records[-1].offset // 2)) for name in names}
    start = min(bounds.values()) + 1
    plan = PartitionPlan(TP, 1, 0, start, records[-1].offset + 1, bounds)
    erased = rng.sample([one.offset for one in records], len(records) // 5)
    text = SchemaText("JSON", "{}")
    decisions = {1: (text,), 2: (UnknownId({TP: records[len(records) // 2].offset}), text), 3: (UnknownId({TP: 9}),)}

    def order(root: str) -> StagingOrder:
        return StagingOrder(
            Destination(root, "sim"), routing, {TP: plan}, tables, {TP: {}}, times="record", new_types_max=10,
            evolutions=evolutions, schemas=KnownSchemas(decisions), erased={TP: frozenset(erased)},
        )

    there = staged_by_workers(order(str(tmp_path)), [one for one in records if one.offset >= start])
    here = staged_here(order(f"{SCHEME}lake"), records)
    assert as_told(here) == as_told(there)
    assert here.times.get(ALL) == there.times.get(ALL)
    assert here.filtered == {name: count for name, count in there.filtered.items() if count}
    assert seen_by(here) == seen_by(there)
    assert (here.plan, here.unwritten, here.missing) == (there.plan, there.unwritten, there.missing)
