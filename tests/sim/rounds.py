"""Rounds without Spark: what a round's tasks would say of records, by the routing that the product has.

A file is the list of its rows' offsets, as JSON, and which columns it has where there may be more of them.
tests/sim/test_rounds.py compares what is staged here with what the executors' own code stages of the same records.
"""

from __future__ import annotations

import json
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from exporter.core.manifest import RoundResult
from exporter.core.order import StagingBudget, StagingOrder
from exporter.core.routing import DEAD_LETTERS, Routing
from exporter.core.schemas import Decision, UnknownId
from exporter.core.shapes import COUNT
from exporter.core.valid_through import ALL
from exporter.core.writers import Fragment, PartitionPlan, StagedFile
from exporter.errors import RoundFailed
from exporter.faults import Fault, point
from exporter.fetch.ranges import RangeWanted, by_coordinates
from exporter.stores.parquet import FileOrigin, NotWritten
from exporter.stores.stores import open_store
from offsets.names import DataFile, table_folder
from offsets.partitions import parse
from offsets.ranges import OffsetRange, TopicPartition
from tests.sim.broker import Broker, Record
from tests.sim.growing import TEXT, Sight
from tests.sim.kernel import Kernel
from tests.sim.poison import ends, raw

BAD = "!"
"""So begins the kind of a record that is a dead letter whatever the settings say."""
WHERE = "id % 3 <> 0"
"""The one filter that there is; a record's id is its offset."""
RECORD_BYTES = 100


def body_of(offsets: Sequence[int], columns: bytes = b"") -> bytes:
    """A file of rows of these offsets. columns: what it says of its columns (growing.py)."""
    return json.dumps([*offsets]).encode() + columns


def stats(offsets: Sequence[int]) -> str:
    """What Delta is told of such a file."""
    return json.dumps({"numRecords": len(offsets)})


def offsets_in(body: bytes) -> list[int]:
    """The offsets of a file's rows."""
    found: list[int] = json.loads(body.splitlines()[0])
    return found


class SimReader:
    """RoundReader, of one task."""

    def __init__(self, kernel: Kernel, broker: Broker, room: StagingBudget) -> None:
        self._kernel = kernel
        self._broker = broker
        self._cancelled = 0

    def has_executors(self) -> bool:
        return True

    def begun(self) -> bool:
        return True

    def cancel(self, dropped: bool = False) -> None:
        self._cancelled += 1

    def read(self, order: StagingOrder) -> RoundResult:
        """As RoundReader.read: exact ranges, one file per type, partition and day. Raises RoundFailed."""
        kernel, cancelled = self._kernel, self._cancelled
        kernel.sleep(0.05 + 0.1 * kernel.rng.random())
        counts = Counter[str]()
        fragments = []
        for plan in order.plans.values():
            spared = order.poison_offsets.get(plan.tp, ())
            if plan.start in spared:
                fragments.append(Fragment(plan))
                continue
            records = self._records(plan)
            if self._cancelled != cancelled:
                raise RoundFailed("the round was cancelled")
            left_out = order.left_out(plan.tp)
            waiting = [one for one in records if one.offset not in left_out and lacks(order, plan, one)]
            if waiting:  # nothing behind the first one is read
                plan = replace(plan, end=waiting[0].offset)
                records = [one for one in records if one.offset < plan.end]
            process = kernel.here().process.name
            if bad := next((one for one in records if one.offset not in left_out and ends(one, process)), None):
                first = [one for one in records if one.offset == plan.start]
                found = raw(plan.tp, first) if len(order.plans) == 1 else None
                raise RoundFailed(f"a round failed: it ends on {plan.tp} {bad.offset}", raw=found)
            fragment = self._staged(order, plan, records, counts)
            fragments.append(replace(fragment, missing=frozenset(one.schema for one in waiting if one.schema)))
        return RoundResult(tuple(fragments), dict(counts))

    def _records(self, plan: PartitionPlan) -> list[Record]:
        def answer() -> list[Record]:
            log = self._broker.log(plan.tp)
            if plan.start < log.first:
                raise RoundFailed(f"a round failed: {plan.tp}: {plan.start} is not there any more")
            if plan.end > log.stable:
                raise AssertionError(f"{plan.tp} is read to {plan.end}, beyond its last stable offset {log.stable}")
            return [log.records[offset] for offset in range(plan.start, plan.end) if offset in log.records]

        try:
            found: list[Record] = self._broker.asked(answer)
        except (RoundFailed, AssertionError):
            raise
        except Exception as error:
            raise RoundFailed(f"a round failed: {error}") from error
        return found

    def _staged(
        self, order: StagingOrder, plan: PartitionPlan, records: Iterable[Record], counts: Counter[str]
    ) -> Fragment:
        rows: dict[tuple[str, str], list[int]] = defaultdict(list)
        times: dict[str, int] = {}
        filtered, sight = Counter[str](), Sight(order, plan.tp)
        for record in records:
            if record.offset in order.left_out(plan.tp):
                continue
            counts["records"] += 1
            counts["bytes"] += RECORD_BYTES
            times[ALL] = max(times.get(ALL, 0), record.at_ms)
            if isinstance(decided(order, plan, record), UnknownId):
                names, left_out = [DEAD_LETTERS], list[str]()
            else:
                names, left_out = destinations(order.routing, record)
            for name in names:
                bound = plan.bound(name)
                if bound is not None and record.offset > bound:
                    rows[name, record.day].append(record.offset)
                    sight.look(name, record)
            for name in left_out:
                bound = plan.bound(name)
                filtered[name] += bound is not None and record.offset > bound
        files: dict[str, list[StagedFile]] = defaultdict(list)
        unwritten: dict[str, str] = {}
        for (name, day), offsets in sorted(rows.items()):
            try:
                files[name].append(self._file(order, plan, name, day, offsets, sight.told(name)))
            except OSError as error:
                unwritten[name] = f"a file cannot be written: {error}"
        whole = {name: tuple(sorted(some, key=lambda file: file.offsets)) for name, some in files.items()}
        kept = {name: some for name, some in whole.items() if name not in unwritten}
        times = times if order.times else {}
        return Fragment(plan, kept, unwritten, sight.seen, filtered=+filtered, times=times)

    def _file(
        self, order: StagingOrder, plan: PartitionPlan, name: str, day: str, offsets: list[int], columns: bytes
    ) -> StagedFile:
        point(Fault.BEFORE_STAGED_FILE, name)
        file = str(DataFile(parse(f"day={day}"), order.to.app, plan.tp, plan.epoch, offsets[-1], uuid.uuid4().hex))
        body, span = body_of(offsets, columns), OffsetRange(offsets[0], offsets[-1])
        carried = order.carried_bytes > 0 and self._kernel.rng.random() < 0.5
        if not carried:
            open_store(order.to.root).below(table_folder(name)).write_once(file, body)
        return StagedFile(
            file, span, len(offsets), len(body), stats(offsets), order.target(name).fingerprint,
            body=body if carried else b"", arrow_bytes=RECORD_BYTES * len(offsets),
        )  # fmt: skip

    def alone(self, tp: TopicPartition, offset: int, routing: Routing) -> Any:
        """As RoundReader.alone: a record that is gone is told by its coordinates."""
        found = self._broker.asked(lambda: self._broker.log(tp).records.get(offset))
        wanted = RangeWanted({}, tp, offset, offset + 1, "read_committed", RECORD_BYTES)
        return by_coordinates(wanted) if found is None else raw(tp, [found])


def decided(order: StagingOrder, plan: PartitionPlan, record: Record) -> Decision | None:
    """What is decided of the schema of a record that names one."""
    return None if record.schema is None else order.schemas.of(record.schema, plan.tp, record.offset)


def lacks(order: StagingOrder, plan: PartitionPlan, record: Record) -> bool:
    """Whether a record cannot be read yet."""
    return record.schema is not None and decided(order, plan, record) is None


def destinations(routing: Routing, record: Record) -> tuple[list[str], list[str]]:
    """The tables that a record goes to, the dead letters for each type that cannot have it; those that count it."""
    if record.kind.startswith(BAD):
        return [DEAD_LETTERS], []
    said = record.kind.removeprefix(TEXT)
    found = routing.taking(said) or routing.taking_unrouted
    if not found:
        return ([], [DEAD_LETTERS]) if routing.unrouted == COUNT else ([DEAD_LETTERS], [])
    names, left_out = [], []
    for name in found:
        shape = routing.shape_by_type.get(name)
        if said != record.kind and '"type":"long"' in routing.decoded_of(name):
            names.append(DEAD_LETTERS)
        elif shape is not None and shape.where and not _is_kept(shape.where, record):
            left_out.append(name)
        else:
            names.append(name)
    return names, left_out


def _is_kept(where: str, record: Record) -> bool:
    if where != WHERE:
        raise AssertionError(f"nobody knows here what {where!r} keeps")
    return record.offset % 3 != 0


def merged(origin: FileOrigin, files: Iterable[StagedFile], room: StagingBudget) -> StagedFile:
    """One file with the rows of several, as stores/parquet.merge. Raises OSError, NotWritten."""
    ordered = sorted(files, key=lambda file: file.offsets)
    offsets: list[int] = []
    said: set[bytes] = set()
    for file in ordered:
        body = file.body or origin.store.read(file.path)
        offsets += offsets_in(body)
        said.add(body.partition(b"\n")[2])
    if len(said) != 1:
        raise ValueError(f"files of other columns are merged: {said}")
    if len(offsets) != sum(file.rows for file in ordered):
        raise ValueError(f"merged {len(offsets)} rows of {sum(file.rows for file in ordered)}")
    folder = parse(ordered[0].folder)
    name = str(DataFile(folder, origin.app, origin.tp, origin.epoch, offsets[-1], uuid.uuid4().hex))
    columns = said.pop()
    body = body_of(offsets, b"\n" + columns if columns else b"")
    try:
        origin.store.write_once(name, body)
    except Exception as error:
        raise NotWritten(f"{type(error).__name__}: {error}") from error
    return StagedFile(
        name, OffsetRange(offsets[0], offsets[-1]), len(offsets), len(body), stats(offsets), origin.fingerprint,
        arrow_bytes=RECORD_BYTES * len(offsets),
    )  # fmt: skip
