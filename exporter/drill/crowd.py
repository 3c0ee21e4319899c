"""Many members that commit in rounds, whose leader is killed again and again: how many versions, how late are records.

    8 members, each a process with a JVM of its own ──> 10 tables, 12 partitions; a round each 5 s, 30 and more of them
    kill -9 of the leader, five times ──> another leads, a new member joins ──> measured over all of it
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Mapping, Sequence
from typing import Any

from kafka import KafkaConsumer
from kafka import TopicPartition as KafkaTopicPartition

from exporter.drill.coordinated import coordinate, leader, start_members, wait_merged
from exporter.drill.lateness import Period, arrivals, handovers, versions
from exporter.drill.producer import NOON, DrillRecord
from exporter.drill.record import spread
from exporter.drill.run import LIFE_SECS_MAX, NotAsItMust, Run
from exporter.drill.tasks import Task
from exporter.drill.timeline import owned, turns
from exporter.local.children import quick_java
from exporter.local.plain import PlainCommit

PARTITIONS, MEMBERS, TABLES, KILLS = 12, 8, 10, 5
ROUNDS, INTERVAL_SECS = 30, 5.0
CALM_ROUNDS = 3
"""Before the first kill, and between one from which the members have recovered and the next one."""
PER_SEC = 50
VERSIONS_MAX = 1.2
"""Per table and round."""
LATE_ROUNDS_MAX = 2
"""Rounds after which a record is in its table, with the time for which nobody has read its partition: it waits for one
before its leader dies, and for another one once the next owner has read it. What a round takes on this machine the
records tell that came before anybody died: eight JVMs may ask for more than it has."""
SMALL: Mapping[str, Any] = {
    "spark_master": "local[1]",
    "driver_memory": "512m",
    "poll_secs": 2.0,
    "roll_records_max": 100_000,
    "carried_bytes_max": 1 << 20,
    "heartbeat_secs": 30.0,
}
"""What lets so many members live on one machine."""
FRUGAL = {
    "JDK_JAVA_OPTIONS": f"{quick_java()['JDK_JAVA_OPTIONS']} -XX:+UseSerialGC",
    "MALLOC_ARENA_MAX": "2",
}


def record(number: int) -> DrillRecord:
    """The n-th one, of now; each table gets one in turn."""
    kind = f"type_{number % TABLES}"
    value = {"type": kind, "at": NOON.isoformat(), "id": number}
    return DrillRecord(kind.encode(), json.dumps(value).encode(), int(time.time() * 1000))


def crowd(run: Run) -> None:
    """Eight members, 12 partitions, 10 tables, rounds of 5 s; the leader is killed five times (or --kills)."""
    control = coordinate(run, INTERVAL_SECS)
    run.types = {f"type_{number}": "id BIGINT" for number in range(TABLES)}
    run.scalars |= SMALL
    run.environment |= FRUGAL
    load = run.load(record, PER_SEC, steady=False)
    members = start_members(run, MEMBERS)
    load.start()
    _calm(run, members)
    calm_at = time.time()
    run.nap(CALM_ROUNDS * INTERVAL_SECS)
    _calm(run, members)
    began = time.time()
    for _ in range(min(KILLS, run.size.kills)):
        run.nap(CALM_ROUNDS * INTERVAL_SECS)
        _leader_dies(run)
        _calm(run, members)
    while len(_rounds(run, control, Period(began, time.time()))) < ROUNDS:
        run.nap(INTERVAL_SECS)
    span = Period(began, time.time())
    run.nap(2 * CALM_ROUNDS * INTERVAL_SECS)  # so that what was sent last is not committed by the members' ends
    load.stop()
    living = [one for one in run.tasks if one.ended() is None]
    for one in living:
        run.stop(one)
    run.finish()
    late, calm = (_late(run, one) for one in (span, Period(calm_at, began)))
    rounds = len(_rounds(run, control, span))
    without = handovers([turn for one in run.tasks for turn in turns(one)], span)
    run.record.figures = figures(run.commits, late, calm, span, rounds, without)
    judge(run.record.figures)


def _late(run: Run, span: Period) -> list[float]:
    """Seconds from each record of a span to its commit, in order."""
    some = arrivals(run.commits, run.plain_topic.wanted, run.plain_topic.sent_at, run.topic, span)
    return [one.secs for one in some]


def _calm(run: Run, members: Sequence[Task]) -> None:
    """Until somebody leads, and each table has rows that were staged since: nobody waits for one that is dead."""
    wait_merged(run, *members)
    since = time.time()

    def all_written() -> bool:
        return {one.table for one in run.commits if one.at >= since and one.rows} >= run.types.keys()

    run.wait(all_written, LIFE_SECS_MAX, "each table has new rows", *members)


def _leader_dies(run: Run) -> None:
    """Kill it, and let a new member take its place."""
    victim = leader(run)
    lost = owned(victim)
    run.kill(victim)
    fresh = run.start()

    def taken_over() -> bool:
        return lost <= {tp for one in run.tasks if one.ended() is None for tp in owned(one)}

    run.wait(taken_over, LIFE_SECS_MAX, f"others own {lost}")
    run.wait(lambda: owned(fresh), LIFE_SECS_MAX, f"{fresh.name} owns something", fresh)


def _rounds(run: Run, control: str, span: Period) -> set[str]:
    """The rounds that the control topic says have begun in the span, whoever led."""
    consumer = KafkaConsumer(**run.services.options, enable_auto_commit=False)
    tp, found = KafkaTopicPartition(control, 0), set[str]()
    try:
        consumer.assign([tp])
        end = consumer.end_offsets([tp])[tp]
        consumer.seek_to_beginning(tp)
        while consumer.position(tp) < end:
            for message in consumer.poll(timeout_ms=500, max_records=5000).get(tp, ()):
                said = json.loads(message.value)
                if said["kind"] == "begin" and span.has(message.timestamp / 1000):
                    found.add(said["round_id"])
    finally:
        consumer.close()
    return found


def figures(
    commits: Sequence[PlainCommit],
    late: Sequence[float],
    calm: Sequence[float],
    span: Period,
    rounds: int,
    without: Sequence[float],
) -> dict[str, Any]:
    """What was measured in the span. late: seconds from each record to its commit, in order. Pure.

    calm: the same of records that came before the span. without: seconds for which a partition was nobody's.
    by_itself: share of the commits that a task made of its own claims alone.
    """
    made = [one for one in commits if span.has(one.at)]
    per_round = [count / rounds for count in versions(made, span).values()]
    return {
        "secs": round(span.end - span.begin, 1),
        "rounds": rounds,
        "versions_per_table_and_round": {
            "median": round(statistics.median(per_round), 2), "max": round(max(per_round), 2),
        },
        "claims_per_commit": round(statistics.mean(len(one.moves) for one in made), 1),
        "by_itself": round(sum(not one.offers for one in made) / len(made), 3),
        "handover_secs": spread(without),
        "calm_late_secs": spread(calm),
        "late_secs": spread(late),
    }  # fmt: skip


def judge(figures: Mapping[str, Any]) -> None:
    """Compare the crowd's figures with their bounds. Raises NotAsItMust."""
    most = figures["versions_per_table_and_round"]["max"]
    round_secs = max(INTERVAL_SECS, figures["calm_late_secs"].get("max", 0.0))
    latest = LATE_ROUNDS_MAX * round_secs + figures["handover_secs"].get("max", 0.0)
    if most > VERSIONS_MAX:
        raise NotAsItMust(f"{most} versions per table and round, not {VERSIONS_MAX} at most: {dict(figures)}")
    if figures["late_secs"]["max"] > latest:
        raise NotAsItMust(f"a record came after more than {latest:.1f} s: {dict(figures)}")
