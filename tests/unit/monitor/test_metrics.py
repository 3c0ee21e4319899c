"""Metrics: what is scraped says what the snapshot says, nothing more, under names that Prometheus' rules allow."""

from __future__ import annotations

import ast
import random
import re
from dataclasses import replace
from pathlib import Path

import pytest

from exporter import formats
from exporter.arrow import kafka_time, years
from exporter.core.coordination import CoordinationState
from exporter.core.manifest import RoundResult
from exporter.core.outcome import Held, Landed, Refused, Report, Settled
from exporter.core.reasons import CODES
from exporter.core.writers import Claim, Fragment, PartitionPlan, StagedFile, WriterKey
from exporter.executor import route
from exporter.formats.binary.reasons import Kind
from exporter.monitor.marks import MARKS_MAX, Marks
from exporter.monitor.metrics import METRICS
from exporter.monitor.snapshot import STANDBY_SECS, Outage
from exporter.monitor.totals import Totals
from exporter.monitor.watch import Watch, last_kafka_ms
from exporter.shape import apart, names
from offsets.positions import Position
from offsets.ranges import OffsetRange
from tests.support.snapshots import NOW_MS, P0, P1, at, busy_snapshot, file, scraped, snapshot, writer

UNITS = ("_seconds", "_bytes", "_records", "_ratio", "_total", "_info")
COUNTED = ("leads", "control_silent", "offers_open",
           "ready", "owned_partitions", "waiting_partitions", "leases", "verdicts", "wal_owed", "end_offset",
           "committed_offset", "table_parked", "stuck_partitions", "schema_ids_missing",
           "tables_unregistered", "derive_failing", "events_failing", "process_open_fds",
           "process_max_fds")  # fmt: skip
"""Gauges that count things or name an offset, and so have no unit."""


def test_names_keep_to_the_rules_of_prometheus() -> None:
    """Prefix, base unit at the end, _total for counters only, a help text, and labels of the known few."""
    for metric in METRICS:
        assert re.fullmatch(r"exporter_[a-z]+(_[a-z]+)*", metric.name), metric.name
        assert metric.name.endswith("_total") == (metric.kind == "counter"), metric.name
        assert metric.name.endswith(UNITS) or metric.name.removeprefix("exporter_") in COUNTED, metric.name
        assert metric.help.endswith("."), metric.name
        assert {"topic", "event_type"} - set(metric.labels), f"{metric.name}: partitions times tables"
    assert len({metric.name for metric in METRICS}) == len(METRICS)


def test_every_metric_comes_through_a_scrape_with_its_own_labels() -> None:
    """The text parses; each metric of the table has a series, and no series is of a metric that is not in it."""
    found = scraped(busy_snapshot())
    for metric in METRICS:
        name = f"{metric.name}_bucket" if metric.kind == "histogram" else metric.name
        labels = {label for series in found[name] for label, _ in series} - {"le"}
        assert labels == set(metric.labels), metric.name
    names = {re.sub(r"_(bucket|count|sum|created)$", "", name) for name in found}
    assert names == {metric.name for metric in METRICS}


def test_the_numbers_are_those_of_the_snapshot() -> None:
    """Positions, lag, the original design's three figures, what is staged, and a histogram that adds up."""
    found = scraped(busy_snapshot())
    part = at({"topic": "events", "partition": 0})
    assert found["exporter_committed_offset"][part] == 10
    assert found["exporter_end_offset"][part] == 31
    assert found["exporter_lag_records"][part] == 20
    assert found["exporter_lag_seconds"][part] == 60
    assert found["exporter_committable_delay_records"][part] == 10
    assert found["exporter_position_discrepancy_records"][part] == 5
    assert found["exporter_failed_writes_ratio"][()] == 0.25
    assert found["exporter_staged_bytes"] == {at({"event_type": "order"}): 100, at({"event_type": "click"}): 0}
    assert found["exporter_staged_oldest_seconds"][at({"event_type": "order"})] == 30
    assert found["exporter_records_skipped_total"][()] == 10
    reasons = found["exporter_records_dead_lettered_total"]
    assert {of: number for of, number in reasons.items() if number} == {at({"reason": "not_json"}): 3}
    assert found["exporter_ready"][()] == 0
    assert found["exporter_outage_seconds"] == {at({"dependency": "kafka"}): 10}
    job = {"derive": "mirrored"}
    assert found["exporter_derive_rows_total"] == {at(job): 70}
    assert found["exporter_derive_left_out_rows_total"] == {at({**job, "why": "null key"}): 5}
    assert found["exporter_derive_runs_total"][at({**job, "outcome": "failed"})] == 2
    assert found["exporter_derive_behind_seconds"] == {at(job): 40}
    assert found["exporter_derive_failing"] == {at(job): 0}
    buckets = found["exporter_stage_seconds_bucket"]
    assert buckets[at({"stage": "read", "le": "0.5"})] == 1
    assert buckets[at({"stage": "read", "le": "0.25"})] == 0
    assert buckets[at({"stage": "commit", "le": "600.0"})] == 0
    assert found["exporter_stage_seconds_count"][at({"stage": "commit"})] == 1


def test_tables_that_are_level_with_the_end_are_no_discrepancy() -> None:
    """An idle type at the end of the log does not make the others look late; two that are behind do."""
    level = writer("idle", P0, 30)
    two = snapshot(level, writer("order", P0, 10), ends={P0: 31}).partitions[0]
    three = snapshot(level, writer("order", P0, 10), writer("click", P0, 25), ends={P0: 31}).partitions[0]
    assert (two.discrepancy, three.discrepancy) == (0, 15)


def test_nothing_is_zero_only_because_the_task_has_just_started() -> None:
    """No snapshot, no series; a partition whose end or tables are not read yet has none of what follows from them."""
    assert scraped(None) == {}
    found = scraped(snapshot(owned=frozenset({P0}), waiting=frozenset({P0})))
    for name in ("lag_records", "lag_seconds", "committed_offset", "end_offset", "staged_bytes", "failed_writes_ratio",
                 "complete_through_timestamp_seconds"):  # fmt: skip
        assert f"exporter_{name}" not in found
    assert found["exporter_waiting_partitions"][()] == 1
    read = scraped(snapshot(writer("order", P0, 5), ends={P0: 31}))
    assert "exporter_lag_records" in read
    assert "exporter_lag_seconds" not in read, "how old the oldest one is cannot be told yet"


def test_a_counter_is_zero_before_its_first_count() -> None:
    """Each value of a label that can be known; else no rate has the first burst, which is what an alert is for."""
    fresh = scraped(replace(busy_snapshot(), totals=Totals(), coordination=CoordinationState()))
    for name, series in scraped(busy_snapshot()).items():
        if name.endswith("_total") and not name.startswith("exporter_wal"):
            assert set(series) == set(fresh[name]), name
    assert fresh["exporter_commits_total"][at({"event_type": "order", "outcome": "refused"})] == 0


CODE = re.compile("([a-z]+(?:_[a-z0-9]+)+): ")


def test_every_code_of_a_reason_is_known_beforehand() -> None:
    """Those that formats, routes and casts begin a reason with; what is none of them stands here."""
    none = {"schema_name", "dead_letters", "ts_ms", "ts_us", "ts_ns", "maps_as_objects"}
    said = {kind.name.lower() for kind in Kind}
    for path in [*Path(formats.__path__[0]).rglob("*.py"), Path(kafka_time.__file__), Path(years.__file__),
                 Path(apart.__file__), Path(names.__file__), Path(route.__file__)]:  # fmt: skip
        for node in ast.walk(ast.parse(path.read_text())):
            text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
            if code := CODE.match(text):
                said.add(code[1])
    assert said - none <= set(CODES)


def test_a_revoked_partition_takes_its_series_along() -> None:
    """After an iteration of the loop without it nothing of it is scraped any more."""
    watch = Watch("app", clock=lambda: 1000.0, wall=lambda: NOW_MS / 1000)
    both = {one.key: one for one in (writer("order", P0, 5), writer("order", P1, 5))}

    def passed(*tps: object) -> str:
        mine = {key: one for key, one in both.items() if key.tp in tps}
        watch.ends_read({P0: 10, P1: 10}, 1000.0)
        watch.tick(1000.0, list(tps), [], mine, {P0: "agree", P1: "agree"}, {}, False, None, False)  # type: ignore[arg-type]
        return str(scraped(watch.snapshot))

    assert "'partition', '1'" in passed(P0, P1)
    assert "'partition', '1'" not in passed(P0)
    assert "'partition', '0'" in passed(P0)


def test_a_commit_counts_once_per_outcome_and_the_failed_share_follows() -> None:
    """A commit of two partitions, one landed and one refused, counts as one each; held ones are no writes."""
    watch = Watch()

    def settled(outcome: object) -> Settled:
        return Settled(Claim(WriterKey("order", P0), 0, 1, 2, (), 0), outcome)  # type: ignore[arg-type]

    landed, refused = settled(Landed(Position(0, 2))), settled(Refused(None))
    watch.committed(Report("order", 1, 0.2, (landed, landed, refused)))
    watch.committed(Report("order", None, 0.1, (settled(Held("log")),)))
    assert watch.totals.outcomes == {("order", "landed"): 1, ("order", "refused"): 1, ("order", "held"): 1}
    assert watch.totals.failed_share == 0.5
    assert Watch().totals.failed_share is None


# --- through which time


def test_marks_say_the_greatest_time_that_an_offset_has_reached() -> None:
    """Against a plain list, over random marks, in any order, some with offsets or times that were there before."""
    rng = random.Random(8)
    for _ in range(300):
        plain: list[tuple[int, int]] = []
        marks = Marks()
        for _ in range(rng.randrange(12)):
            mark = rng.randrange(-1, 10), rng.randrange(10)
            plain.append(mark)
            marks = marks.add(*mark)
        least = rng.randrange(-1, 10)
        for offset in range(-2, 11):
            wanted = max((time for at_offset, time in plain if at_offset <= offset), default=None)
            assert marks.time_ms(offset) == wanted, plain
            assert offset < least or marks.since(least).time_ms(offset) == wanted, plain


def test_marks_are_bounded_and_err_on_the_careful_side() -> None:
    """After many marks an answer is never a later time than the true one."""
    marks = Marks()
    for number in range(10 * MARKS_MAX):
        marks = marks.add(number, number)
    assert len(marks.offsets) <= MARKS_MAX
    answers = [marks.time_ms(number) for number in range(10 * MARKS_MAX)]
    assert all(answer is None or answer <= number for number, answer in enumerate(answers))
    assert answers[-1] == 10 * MARKS_MAX - 1


def watched(wall: list[float]) -> Watch:
    return Watch(late_max_secs=60, clock=lambda: 1000.0, wall=lambda: wall[0])


def moment(watch: Watch, *writers: object) -> object:
    mine = {one.key: one for one in writers}  # type: ignore[attr-defined]
    watch.tick(1000.0, {key.tp for key in mine}, [], mine, {}, {}, False, None, False)
    return watch.snapshot


def test_lag_in_seconds_is_that_of_what_is_committed() -> None:
    """Staged is not enough; at the end it is 0; one new record after a quiet hour is as old as the look before it."""
    wall = [10_000.0]
    watch = watched(wall)
    watch.ends_read({P0: 11}, 1000.0)
    assert moment(watch, writer("order", P0, 10)).partitions[0].lag_secs == 0.0
    wall[0] += 3600
    watch.ends_read({P0: 11}, 1000.0)
    wall[0] += 5
    watch.ends_read({P0: 12}, 1000.0)
    assert moment(watch, writer("order", P0, 10, 11)).partitions[0].lag_secs == 5.0
    assert moment(watch, writer("order", P0, 11)).partitions[0].lag_secs == 0.0


def test_a_catch_up_is_as_late_as_the_kafka_time_of_what_it_has_committed() -> None:
    """The stored statistics of a round's last file tell through which Kafka time it reaches."""
    wall = [1_800_000_000.0]
    watch = watched(wall)
    watch.ends_read({P0: 1000}, 1000.0)
    stats = '{"numRecords":1,"maxValues":{"_kafka":{"timestamp":"2027-01-15T07:00:00.000Z","offset":9}}}'
    staged = StagedFile("day=2027-01-15/x", OffsetRange(0, 9), 10, 10, stats)
    fragment = Fragment(PartitionPlan(P0, 1, 0, 0, 10, {"order": -1}), {"order": (staged,)})
    assert last_kafka_ms(fragment) == 1_799_996_400_000
    assert last_kafka_ms(Fragment(fragment.plan)) is None
    watch.integrated(RoundResult((fragment,), {"records": 12}), 0.5)
    assert watch.totals.skipped == 2
    assert moment(watch, writer("order", P0, -1, 9)).partitions[0].lag_secs is None
    assert moment(watch, writer("order", P0, 9)).partitions[0].lag_secs == 3600.0


def test_a_table_is_complete_through_its_slowest_partition_less_the_lateness() -> None:
    """An idle partition that is read to its end moves on with the clock; one that is behind holds the mark back."""
    wall = [10_000.0]
    watch = watched(wall)
    watch.ends_read({P0: 11, P1: 0}, 1000.0)
    wall[0] = 10_100.0
    watch.ends_read({P0: 21, P1: 0}, 1000.0)
    behind = moment(watch, writer("order", P0, 15), writer("order", P1, -1), writer("click", P0, 20))
    assert behind.complete_through_ms("order") == 10_000_000 - 60_000
    assert behind.complete_through_ms("click") == 10_100_000 - 60_000
    unread = moment(watch, writer("order", P0, 5), writer("order", P1, -1))
    assert unread.complete_through_ms("order") is None
    assert replace(behind, waiting=frozenset({P1})).complete_through_ms("order") is None


def test_records_behind_an_open_transaction_are_lag_and_hold_the_completeness_mark_back() -> None:
    """Read as far as it can be is not caught up: they are there, and are committed later with an earlier time."""
    wall = [10_000.0]
    watch = watched(wall)
    watch.ends_read({P0: 11}, 1000.0)
    for wall[0], last in ((10_100.0, 21), (10_200.0, 21), (10_300.0, 31)):
        watch.ends_read({P0: last}, wall[0] - 9000.0, {P0: 11})
    held = moment(watch, writer("order", P0, 10), writer("click", P0, 10))
    (found,) = held.partitions
    assert (found.end, found.lag, found.committable_delay, found.discrepancy) == (31, 20, 20, 0)
    assert (found.lag_secs, found.open_secs) == (300.0, 200.0)
    assert held.complete_through_ms("order") == 10_000_000 - 60_000
    watch.ends_read({P0: 31}, 1400.0, {P0: 21})
    assert moment(watch, writer("order", P0, 20)).partitions[0].open_secs == 0.0, "another transaction, not the first"
    watch.ends_read({P0: 31}, 1500.0, {P0: 31})
    done = moment(watch, writer("order", P0, 30))
    assert (done.partitions[0].lag, done.partitions[0].open_secs) == (0, 0.0)
    assert done.complete_through_ms("order") == 10_300_000 - 60_000


# --- ready or not


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({}, ""),
        ({"stopping": True}, "it is stopping"),
        ({"troubles": {"storage": Outage(1.0, "gone")}}, "storage does not answer: gone"),
        ({"waiting": frozenset({P0})}, "1 of 1 partitions are not recovered yet"),
        ({"owned": frozenset(), "at": STANDBY_SECS - 1}, "no partition was assigned yet"),
        ({"owned": frozenset(), "at": STANDBY_SECS}, ""),
    ],
)
def test_ready_is_who_is_at_work_with_all_that_is_its_own(changes: dict[str, object], says: str) -> None:
    """A spare task is ready too, after a while: else no deployment with one would ever be."""
    assert snapshot(writer("order", P0, 5), **changes).not_ready == says


def test_the_status_shows_each_position() -> None:
    """Per type and partition: committed, read, end, lag, staged, owner, verdict; that of the log wins."""
    moment = replace(busy_snapshot(), log_verdicts={("order", P0): "finish log"})
    order = next(one for one in moment.as_dict()["positions"] if one["event_type"] == "order")
    assert order == {
        "event_type": "order", "topic": "events", "partition": 0, "committed": 10, "epoch": 0, "read": 20, "end": 31,
        "lag": 20, "staged_rows": 1, "staged_bytes": 100, "owner": "host:1:a", "verdict": "finish log",
    }  # fmt: skip
    assert moment.verdict_counts() == {"finish log": 1, "agree": 1}
    assert snapshot(writer("order", P0, 5, staged=(file(6, 7),))).parked("order") == ""
