"""What a status says, in the words of whoever runs an export, and whether it needs a hand. Pure.

A status is what /status of a task serves, or the same of the tables alone, where some of it is missing; a task of
another version may lack some of it, too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from exporter.display.concerns import Concern, dead_letters, headline
from exporter.display.units import secs_span, things

OPEN_SECS = 900.0
"""Brokers abort a transaction after transaction.max.timeout.ms (15 min) at most: one that is older hangs."""
LATE_SECS = 600.0
"""Age of the oldest record that is not committed yet, from which on an export is catching up."""
FAILED_RATIO = 0.2
"""Of the commits that are offered: from here on two tasks have one partition, or the storage fails."""
CHECK = "exporter check"

Status = Mapping[str, Any]
Goals = dict[tuple[str, int], int]
"""(topic, partition) -> the offset after the last record that has to be committed."""


@dataclass(frozen=True)
class TableFigures:
    """One table over all partitions that are told of. behind: None if it is not known of all of them.

    complete_ms: its completeness mark, ms since 1970.
    """

    name: str
    partitions: int
    behind: int | None
    staged_rows: int | None
    staged_bytes: int | None
    complete_ms: int | None = None

    @property
    def complete(self) -> str | None:
        """The mark as people read it."""
        return None if self.complete_ms is None else day_time(self.complete_ms)


def goals(status: Status) -> Goals:
    """The ends that the partitions have now."""
    positions = status.get("positions", ())
    return {(one["topic"], one["partition"]): one["end"] for one in positions if one["end"] is not None}


def behind(status: Status, ends: Mapping[tuple[str, int], int]) -> int:
    """How many offsets are not committed yet up to these ends, over partitions, by each one's least position.

    Partitions without any position do not count (unknown()); nor do tables that are not anchored: they begin where the
    dead letters are.
    """
    least = _committed(status)
    return sum(max(0, end - 1 - least[tp]) for tp, end in ends.items() if tp in least)


def _committed(status: Status) -> Goals:
    """(topic, partition) -> the least position of its tables, where there is one."""
    least: Goals = {}
    for one in status.get("positions", ()):
        if one["committed"] is not None:
            tp = one["topic"], one["partition"]
            least[tp] = min(one["committed"], least.get(tp, one["committed"]))
    return least


def unknown(status: Status) -> str:
    """Why it cannot be told of all partitions how far behind they are; empty if it can."""
    if "positions" not in status:
        return str(status.get("not_ready") or "it tells no positions")
    known, ends = _committed(status), {(one["topic"], one["partition"]): one["end"] for one in _partitions(status)}
    lacking = {"position": [tp for tp in ends if tp not in known], "end": [tp for tp in ends if ends[tp] is None]}
    for what, missing in lacking.items():
        if missing:
            return f"{len(missing)} of {len(ends)} partitions without a known {what}"
    return ""


def _partitions(status: Status) -> Collection[Mapping[str, Any]]:
    return status["partitions" if "partitions" in status else "positions"]  # type: ignore[no-any-return]


def held_back(status: Status) -> str:
    """The open transaction that has kept records from being read for longest, if a task tells of one."""
    worst = _longest_open(status)
    if worst is None:
        return ""
    secs = worst["open_transaction_secs"]
    return f"; a transaction has been open for {secs:,.0f} s in {worst['topic']}-{worst['partition']}"


def _longest_open(status: Status) -> Mapping[str, Any] | None:
    known = [one for one in status.get("partitions", ()) if one.get("open_transaction_secs")]
    return max(known, key=lambda one: float(one["open_transaction_secs"]), default=None)


def oldest_secs(status: Status) -> float:
    """Age of the oldest record that is not committed yet, at most; 0 where nothing is, or nobody tells."""
    return max((one.get("lag_secs") or 0.0 for one in status.get("partitions", ())), default=0.0)


def tables_of(status: Status) -> list[TableFigures]:
    """In the order of their names."""
    by_name: dict[str, list[Mapping[str, Any]]] = {}
    for one in status.get("positions", ()):
        by_name.setdefault(one["event_type"], []).append(one)
    complete = {one["event_type"]: one.get("complete_through_ms") for one in status.get("tables", ())}
    found = []
    for name, some in sorted(by_name.items()):
        lag, rows, size = (_sum(some, part) for part in ("lag", "staged_rows", "staged_bytes"))
        found.append(TableFigures(name, len(some), lag, rows, size, complete.get(name)))
    return found


def _sum(some: Collection[Mapping[str, Any]], name: str) -> int | None:
    known = [one[name] for one in some]
    return None if None in known else sum(known)


def under_way(status: Status) -> str:
    """What an export is at that is neither well nor in need of a hand: it starts, ends, or catches up."""
    if not status.get("ready", True) and not status.get("outages") and not status.get("stuck"):
        return str(status["not_ready"])
    if dark := unknown(status):
        return f"not known yet: {dark}"
    if oldest_secs(status) > LATE_SECS:
        return "catching up"
    if "ready" not in status and behind(status, goals(status)):
        return "lagging; no task was asked whether it is at work"
    return ""


def concerns(status: Status) -> list[Concern]:
    """What needs a hand, and what is worth a note."""
    return [*_of_servers(status), *_of_tables(status), *_of_records(status), *_of_others(status)]


def _of_servers(status: Status) -> Iterator[Concern]:
    """Outages, and partitions that cannot be read on."""
    if hangs := status.get("hangs"):
        yield Concern(f"the task hangs: {hangs}")
    for name, outage in status.get("outages", {}).items():
        yield Concern(f"{name} has not answered for {secs_span(outage['secs'])}: {outage['error']}", CHECK)
    for tp, why in status.get("stuck", {}).items():
        yield Concern(f"{tp} cannot be read on: {why}")
    worst = _longest_open(status)
    if worst is not None and (secs := worst["open_transaction_secs"]) > OPEN_SECS:
        what = f"a transaction in {worst['topic']}-{worst['partition']} has been open for {secs_span(secs)}"
        yield Concern(f"{what}: what is behind it cannot be read", "kafka-transactions.sh find-hanging")
    if (ratio := status.get("failed_writes_ratio") or 0.0) > FAILED_RATIO:
        yield Concern(f"{ratio:.0%} of the commits fail: see commit_refused and commit_unknown in the log")


def _of_tables(status: Status) -> Iterator[Concern]:
    for table in status.get("tables", ()):
        if table["parked"]:
            yield Concern(f"table {table['event_type']} cannot be written: {table['parked']}", CHECK)
        if columns := table.get("outgrown"):
            what = f"table {table['event_type']}: {', '.join(columns)}: what does not fit is in _rescued"
            yield Concern(what, "exporter schema", bad=False)
    for one in status.get("positions", ()):
        if one["verdict"].startswith("stop") or one["verdict"] in ("accident", "log unreachable"):
            where = f"table {one['event_type']}, {one['topic']}-{one['partition']}"
            yield Concern(f"{where}: {one['verdict']} {one.get('says', '')}".rstrip(), "exporter plan")


def _of_records(status: Status) -> Iterator[Concern]:
    if dead := status.get("dead_letters", 0):
        yield from dead_letters(dead, dead / max(dead, status["records_read"]))


def _of_others(status: Status) -> Iterator[Concern]:
    """What runs beside the export."""
    for job in status.get("derive", ()):
        if job["error"]:
            says = "has ended" if job["ended"] else "waits" if job.get("waits") else "fails"
            bad = not job.get("waits") or job["ended"]
            yield Concern(f"derive {job['job']} {says}: {job['error']}", "exporter derive status", bad)
    for sink in status.get("events", ()):
        if sink["error"]:
            yield Concern(f"events to {sink['sink']} are held up: {sink['error']}")
    if trouble := (status.get("coordination") or {}).get("trouble"):
        yield Concern(f"the control topic is silent, this task commits by itself: {trouble}", bad=False)


def headline_of(status: Status) -> str:
    """The verdict in a line."""
    return headline(concerns(status), under_way(status)).rstrip(":")


def first_line(status: Status) -> str:
    """What the export does, and how far behind it is."""
    tps = {(one["topic"], one["partition"]) for one in status.get("positions", ())}
    tables = len({one["event_type"] for one in status.get("positions", ())})
    from_to = f"{things(len(tps), 'partition')} into {things(tables, 'table')}, " if tps else ""
    return f"{status.get('app', '-')}: {from_to}{how_far(status)}"


def how_far(status: Status) -> str:
    """How far behind it is, never 0 for what nobody has looked at."""
    total, dark = behind(status, goals(status)), unknown(status)
    if dark:
        return f"a consumer lag of at least {things(total, 'record')}" if total else "the consumer lag is not known yet"
    if not total:
        return "no consumer lag"
    secs = oldest_secs(status)
    return f"a consumer lag of {things(total, 'record')}{f', {secs_span(secs)} at most' if secs else ''}"


def since_start(status: Status) -> list[str]:
    """What a task has done since it began; nothing of the tables alone."""
    if "records_read" not in status:
        return []
    done = [f"{things(status['records_read'], 'record')} read", f"{things(status['rows_committed'], 'row')} committed"]
    if dead := status.get("dead_letters"):
        done.append(things(dead, "dead letter"))
    left = [f"{name} {count:,}" for name, count in status.get("filtered", {}).items()]
    if unrouted := status.get("unrouted"):
        left.append(f"of no table {unrouted:,}")
    if left:
        done.append(f"left out by filters: {', '.join(left)}")
    return [f"since the task began: {', '.join(done)}"]


def beside(status: Status) -> Iterator[str]:
    """How jobs and sinks fare of which nothing is to be said otherwise."""
    for job in status.get("derive", ()):
        if not job["error"]:
            done = f"{job['rows']:,} rows in {job['runs']:,} runs"
            yield f"derive {job['job']}: {done}, {secs_span(job['behind_secs'])} behind"
    for sink in status.get("events", ()):
        yield f"events to {sink['sink']}: {sink['announced']:,} messages by this task"


def complete_ms(status: Status) -> int | None:
    """Through which time all tables are complete, ms since 1970; None if it is not known of one of them."""
    complete = [table["complete_through_ms"] for table in status.get("tables", ())]
    return None if not complete or None in complete else min(complete)


def complete_lines(status: Status) -> Iterator[str]:
    """Through which time tables are complete, and valid."""
    if (at := complete_ms(status)) is not None:
        yield f"all tables are complete through {day_time(at)} UTC"
    valid = [table.get("valid_through") for table in status.get("tables", ())]
    if any(valid):
        unsaid = valid.count(None)
        yield f"tables are valid through {min(at for at in valid if at)}{f', {unsaid} without' if unsaid else ''}"


def day_time(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000, timezone.utc):%Y-%m-%d %H:%M:%S}"


def protocol_lines(status: Status) -> Iterator[str]:
    """What else a task tells, in the protocol's words: what keeps it, rounds and offers, where the time went."""
    if not status.get("ready", True):
        yield f"not ready: {status['not_ready']}"
    if transaction := held_back(status):
        yield transaction.removeprefix("; ")
    if coordination := status.get("coordination"):
        yield of_rounds(coordination)
    if spent := status.get("secs"):
        yield f"where the time went: {times(spent)}"


def of_rounds(coordination: Mapping[str, Any]) -> str:
    """What a task does in coordinated mode."""
    ended = coordination["ended"]
    alone = f", {sum(ended.values()) - ended.get('answered', 0):,} of {sum(ended.values()):,} offers unanswered"
    rounds, merged = sum(coordination["rounds"].values()), f"{coordination['merged']:,} offers"
    led = f"leads: {rounds:,} rounds, {coordination['commits']:,} commits of {merged}" if coordination["leads"] else ""
    return f"coordinated, {led or 'follows'}{alone if sum(ended.values()) else ''}"


def times(secs: Mapping[str, float]) -> str:
    """Seconds by stage of the loop, and of a stage with steps (`stage.step`) the share of each step."""
    told = []
    for stage, spent in secs.items():
        steps = {name.partition(".")[2]: of for name, of in secs.items() if name.startswith(f"{stage}.")}
        whole = sum(steps.values()) or 1.0
        shares = ", ".join(f"{step} {of / whole:.0%}" for step, of in steps.items())
        if "." not in stage:
            told.append(f"{stage} {spent:,.1f} s" + (f" ({shares})" if shares else ""))
    return ", ".join(told)
