"""What the tasks of a round say, put together: one fragment per partition of the order. Pure."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from exporter.core.manifest import FILTERED, RoundResult
from exporter.core.order import StagingOrder
from exporter.core.seen import Seen
from exporter.core.valid_through import latest
from exporter.core.writers import Fragment, StagedFile
from exporter.errors import InvariantBroken
from offsets import Invariant
from offsets.ranges import OffsetRange, TopicPartition


def round_result(order: StagingOrder, rows: Sequence[Mapping[str, Any]]) -> RoundResult:
    """The manifest rows of all tasks, per partition, files in offset order.

    A partition ends where the first of its tasks ended: what others say of what is behind it counts for nothing. If the
    storage did not answer one of them, nothing counts: what that one has not staged it does not name either.
    """
    if storage := next((row["unwritten"] for row in rows if row["topic"] is None and row["unwritten"]), ""):
        return RoundResult((), {}, storage)
    told = [(TopicPartition(row["topic"], row["partition"]), row) for row in rows if row["topic"] is not None]
    ended, missing = _ended(told)
    files: dict[TopicPartition, dict[str, list[StagedFile]]] = {tp: defaultdict(list) for tp in order.plans}
    unwritten: dict[TopicPartition, dict[str, str]] = {tp: {} for tp in order.plans}
    seen: dict[TopicPartition, dict[str, Seen]] = {tp: {} for tp in order.plans}
    met: dict[TopicPartition, dict[str, frozenset[str]]] = {tp: {} for tp in order.plans}
    filtered: dict[TopicPartition, Counter[str]] = {tp: Counter() for tp in order.plans}
    times: dict[TopicPartition, dict[str, int]] = {tp: {} for tp in order.plans}
    counts = Counter[str]()
    for row in rows:
        if row["topic"] is None:
            counts.update(json.loads(row["counts"]))
    for tp, row in told:
        event_type = row["event_type"]
        if tp in ended and row["first_offset"] >= ended[tp]:
            continue
        if row["counts"] is not None:
            counted = json.loads(row["counts"])
            counts.update(counted)
            filtered[tp].update(_filtered(counted))
        elif row["unwritten"] is not None:
            unwritten[tp][event_type] = row["unwritten"]
        elif row["seen"] is not None:
            seen[tp].setdefault(event_type, Seen()).merge(Seen.from_json(row["seen"]))
        elif row["met"] is not None:
            met[tp][event_type] = met[tp].get(event_type, frozenset()) | {*json.loads(row["met"])}
        elif row["times"] is not None:
            times[tp] = latest(times[tp], json.loads(row["times"]))
        elif row["path"] is not None:
            files[tp][event_type].append(_staged(row, order, ended.get(tp)))
    fragments = []
    for tp, plan in order.plans.items():
        whole = {name: staged for name, staged in files[tp].items() if name not in unwritten[tp]}
        ordered = {name: tuple(sorted(staged, key=lambda f: f.offsets)) for name, staged in whole.items()}
        fragment = Fragment(plan, ordered, unwritten[tp], seen[tp], met=met[tp], filtered=filtered[tp], times=times[tp])
        if tp in ended:
            fragment = replace(fragment, plan=replace(plan, end=ended[tp]), missing=missing[tp])
        fragments.append(fragment)
    return RoundResult(tuple(fragments), dict(counts))


def _filtered(counts: Mapping[str, int]) -> dict[str, int]:
    """Event type -> records that a named filter leaves out, of what a task has counted of one partition."""
    return {name.removeprefix(FILTERED): count for name, count in counts.items() if name.startswith(FILTERED)}


def _ended(
    told: Iterable[tuple[TopicPartition, Mapping[str, Any]]],
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, frozenset[int]]]:
    """Where the partitions end that were not read whole, and the ids that they lack."""
    ended: dict[TopicPartition, int] = {}
    missing: dict[TopicPartition, frozenset[int]] = {}
    for tp, row in told:
        if row["ended"] is not None:
            one = json.loads(row["ended"])
            ended[tp] = min(one["end"], ended.get(tp, one["end"]))
            missing[tp] = missing.get(tp, frozenset()) | {*one["missing"]}
    return ended, missing


def _staged(row: Mapping[str, Any], order: StagingOrder, end: int | None) -> StagedFile:
    """A file that the manifest lists. end: of its partition, if it was not read whole. Raises InvariantBroken."""
    offsets = OffsetRange(row["first_offset"], row["last_offset"])
    if end is not None and offsets.last_offset >= end:
        says = f"{row['path']} holds {offsets}, and the reading of its partition ended at {end}"
        raise InvariantBroken(Invariant.COVER, says, "please report this")
    return StagedFile(
        path=row["path"],
        offsets=offsets,
        rows=row["rows"],
        size_bytes=row["size_bytes"],
        stats=row["stats"],
        fingerprint=order.target(row["event_type"]).fingerprint,
        body=row["body"] or b"",
        arrow_bytes=row["arrow_bytes"],
    )
