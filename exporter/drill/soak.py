"""The soak: hours of hostile records under load, one member that lives through it all, others killed beside it.

What it looks for is what short drills cannot see: memory that grows, warnings that nobody explains.
"""

from __future__ import annotations

import json
import re
import signal
import statistics
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kafka import KafkaProducer

from exporter.drill import hostile
from exporter.drill.run import NotAsItMust, Run
from exporter.drill.tasks import Task
from exporter.local.children import hears, quick_java, session_members
from exporter.spark import jars

MINUTES = 60.0
"""Unless told otherwise."""
PER_SEC = 2000
PARTITIONS = 3
WEIGH_SECS = 15.0
HEAP, HEAPS = "heap", 40
"""What lives in the JVM's heap, and how often it is weighed: each time all garbage is collected."""
GROWTH_MAX = 0.06
"""Between the second and the last quarter, of each process of the member that lives. In the first one pools fill up to
what the largest round takes. A leak that takes a tenth more from the first to the last takes 0.064 more here."""
HEAP_GROWTH_MAX = 0.5
"""Of the heap: the least of ten collections is 78 to 99 MiB, where nothing grows, by what a round under way holds."""
SETTLED = 0.05
"""Share of the time, at its begin, that does not count: caches fill, code is compiled."""
ALLOCATED = ("Pss_Anon:", "Pss_Shmem:", "SwapPss:")
"""Lines of /proc/<pid>/smaps_rollup (Linux 5.3 and later)."""
OPEN_EVERY_SECS = 240.0
OPEN_SECS = 20.0
HUGE_AT_SECS = 30.0
HUGE_BYTES = 150_000_000
"""A record that a producer packs to a thousandth of it. Who reads it begins anew, so it comes before the weighing."""
STEADY = {
    "JDK_JAVA_OPTIONS": f"{quick_java()['JDK_JAVA_OPTIONS']} -XX:InitialRAMPercentage=100 -XX:+AlwaysPreTouch",
    "MALLOC_ARENA_MAX": "2",
}
"""What a process may take by its settings it has from the start, so what grows is a leak: the heap is in memory whole,
and glibc keeps no pool of freed memory for each of the many threads."""
CONFIG = {"message.timestamp.after.max.ms": str(2**63 - 1), "max.message.bytes": "20000000"}
"""Of its topic: hostile records have any timestamp and any size."""
ROLLS: Mapping[str, Any] = {"roll_age_max_secs": 20.0, "roll_records_max": 200_000, "carried_bytes_max": 8 << 20}
OFTEN = {"table_properties": {"delta.checkpointInterval": "20"}}
"""Each table has its first checkpoints in the first quarter, as one of a long life has many: who reads the first one
takes more memory from then on. At the usual interval of 100 they come in the second quarter."""
EXPLAINED: Mapping[str, str] = {
    "commit_refused": "a partition came back to a member while its last owner's commit was under way",
    "outage_seen": "the broker pauses for its own garbage or to roll a segment, with both cores taken",
    "group_poll_failed": "the same",
    "round_failed": "a record that its worker does not survive was found by halves",
    "record_condemned": "and became a dead letter by its coordinates",
}
"""Warnings and errors that a soak may log, and why."""


def soak(run: Run) -> None:
    """For --minutes: 2,000 records/s of 20 types, one in a hundred hostile; members are killed at random beside one.

    In the first minute a record comes that unpacks to more than the heap holds, and every four minutes a transaction
    stays open for a while.
    """
    minutes = run.size.minutes or MINUTES
    run.types, run.scalars = dict(hostile.TYPES), {**run.scalars, **ROLLS}
    run.sections = {**run.sections, **OFTEN}
    run.environment |= STEADY
    load = run.load(hostile.mixed, PER_SEC)
    member = run.start()
    run.wait_commit(member)
    scales = Scales(member)
    sender = KafkaProducer(**run.services.options, transactional_id=run.app, transaction_timeout_ms=600_000)
    try:
        sender.init_transactions()
        _strike(run, member, scales, sender, minutes * 60)
    finally:
        sender.close()
    load.stop()
    run.stop(member)
    (run.folder / "weights.json").write_text(json.dumps(scales.series()), "utf-8")
    run.record.figures = {"minutes": minutes, "memory_mib": scales.quarters(), "warnings": dict(warnings(run.tasks))}
    run.finish()
    judge(run.record.figures)


def _strike(run: Run, member: Task, scales: Scales, sender: KafkaProducer, secs: float) -> None:
    """Kill a second member at random moments, leave transactions open, weigh the one that lives."""
    began = run.secs
    due = {"weigh": 0.0, "heap": 0.0, "open": OPEN_EVERY_SECS / 2, "close": float("inf"), "huge": HUGE_AT_SECS}
    while run.secs - began < secs:
        other = run.start()
        run.wait_commit(other)
        until = run.secs + run.rng.uniform(0, 60)
        while run.secs < until:
            at = run.secs - began
            if at >= due["weigh"]:
                scales.weigh(at / secs)
                due["weigh"] = at + WEIGH_SECS
            if at >= due["heap"]:
                scales.weigh_heap(at / secs)
                due["heap"] = at + secs / HEAPS
            if at >= due["open"]:
                sender.begin_transaction()
                _send_one(run, sender)
                due |= {"open": float("inf"), "close": at + OPEN_SECS}
            if at >= due["close"]:
                sender.commit_transaction()
                due |= {"open": at + OPEN_EVERY_SECS, "close": float("inf")}
            if at >= due["huge"]:
                _send_huge(run)
                due["huge"] = float("inf")
            run.nap(1.0)
            if member.ended() is not None:
                raise NotAsItMust(f"{member.name} ended with {member.ended()}\n{member.tail()}")
        run.kill(other, run.rng.random() < 0.5)
        run.plain_topic.read()
    if due["close"] < float("inf"):
        sender.commit_transaction()


def _send_one(run: Run, sender: KafkaProducer) -> None:
    record = hostile.ordinary(0)
    sender.send(run.topic, record.value, record.key, partition=0, timestamp_ms=record.timestamp_ms)
    sender.flush()


def _send_huge(run: Run) -> None:
    packed = {"compression_type": "gzip", "max_request_size": 2 * HUGE_BYTES}
    producer = KafkaProducer(**run.services.options, **packed)
    try:
        record = hostile.too_long(HUGE_BYTES)
        producer.send(run.topic, record.value, record.key, partition=0, timestamp_ms=record.timestamp_ms)
        producer.flush()
    finally:
        producer.close()


class Scales:
    """The memory of a task's processes over time: what each holds, by what it is."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._weights: list[tuple[float, dict[str, int]]] = []

    def weigh(self, moment: float) -> None:
        """moment: share of the whole time, 0 to 1."""
        weights: dict[str, int] = defaultdict(int)
        for kind, pid in self._processes():
            weights[kind] += own_bytes(pid)
        self._weights.append((moment, dict(weights)))

    def weigh_heap(self, moment: float) -> None:
        """What lives in the JVM's heap, which is in memory whole however little does. Nothing without a JDK."""
        living = [live_bytes(pid) for kind, pid in self._processes() if kind == "jvm"]
        if any(living):
            self._weights.append((moment, {HEAP: sum(living)}))

    def _processes(self) -> Iterator[tuple[str, int]]:
        for pid in session_members(self._task.pid):
            yield kind_of(pid, self._task.pid), pid

    def quarters(self) -> dict[str, tuple[float, ...]]:
        """Kind of process, and the heap -> MiB of each quarter."""
        return quarters(self._weights)

    def series(self) -> list[tuple[float, dict[str, float]]]:
        """Each time that they were weighed: its share of the whole time, and kind of process -> MiB."""
        return [(round(at, 4), {kind: _mib(kind, [size]) for kind, size in one.items()}) for at, one in self._weights]


def quarters(weights: Sequence[tuple[float, Mapping[str, int]]]) -> dict[str, tuple[float, ...]]:
    """Kind of process -> medians of each quarter of the time that counts, MiB; without a kind not weighed in all.

    Of the heap it is the least: what a round under way holds is no leak.
    """
    length = (1.0 - SETTLED) / 4
    weighed: dict[str, list[list[int]]] = {kind: [[], [], [], []] for _, one in weights for kind in one}
    for moment, one in weights:
        if moment >= SETTLED:
            for kind, size in one.items():
                weighed[kind][min(3, int((moment - SETTLED) / length))].append(size)
    return {kind: tuple(_mib(kind, one) for one in found) for kind, found in sorted(weighed.items()) if all(found)}


def _mib(kind: str, sizes: Sequence[int]) -> float:
    typical = min(sizes) if kind == HEAP else statistics.median(sizes)
    return round(typical / (1 << 20), 1)


def kind_of(pid: int, driver: int) -> str:
    """driver, jvm or workers (Spark's Python processes, their daemon among them)."""
    if pid == driver:
        return "driver"
    try:
        name = Path(f"/proc/{pid}/comm").read_text("utf-8", "replace").strip()
    except OSError:
        return "gone"
    return "jvm" if name == "java" else "workers"


def own_bytes(pid: int) -> int:
    """What it has allocated, in memory or swapped, its share of what forks have in common; 0 if it is gone.

    Pages of files (its libraries) are left out: a share of them grows whenever another process that maps them ends.
    """
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text("utf-8", "replace").splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(ALLOCATED))


def live_bytes(pid: int) -> int:
    """What a JVM's heap holds once all garbage is collected, which is done first; 0 if it is gone, or without jcmd."""
    if not hears(pid, signal.SIGQUIT):  # jcmd knocks with it, which ends a JVM that has just begun
        return 0
    jcmd = jars.find_java().resolve().with_name("jcmd")
    try:
        told = subprocess.run([jcmd, str(pid), "GC.class_histogram"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    total = re.search(r"^Total +\d+ +(\d+)", told.stdout, re.MULTILINE)
    return int(total.group(1)) if total else 0


def warnings(tasks: Sequence[Task]) -> Counter[str]:
    """How often what was logged as a warning or worse."""
    found: Counter[str] = Counter()
    for task in tasks:
        found.update(said.name for said in task.events() if said.fields.get("level") not in ("info", "debug"))
    return found


def judge(figures: Mapping[str, Any]) -> None:
    """Raises NotAsItMust if memory has grown or was never weighed, or for a warning that has no explanation."""
    if not figures["memory_mib"]:
        raise NotAsItMust("no process was weighed in every quarter: the soak was too short")
    for kind, (_, second, _, last) in figures["memory_mib"].items():
        if last > second * (1 + (HEAP_GROWTH_MAX if kind == HEAP else GROWTH_MAX)):
            raise NotAsItMust(f"{kind} took {second} MiB in the second quarter and {last} in the last")
    strange = figures["warnings"].keys() - EXPLAINED.keys()
    if strange:
        raise NotAsItMust(f"logged without an explanation: {sorted(strange)}")
