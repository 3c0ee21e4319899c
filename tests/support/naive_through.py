"""valid_through, looked at deliberately naively over the whole history of the tables: plain Python and pyarrow.

    _delta_log, entry by entry ─┬─ what each version says of it ──┐
                                └─ files that it adds ── rows ────┼── findings, as text
    the topics, record by record ── times through an offset ──────┘

The input has to be in order: a record that is produced later, in whichever partition, has no earlier time. Replays of
dead letters bring older rows, and the dead letters get those of poison records behind their position: such lakes
are not for this.
"""

from __future__ import annotations

import io
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any
from urllib.parse import unquote

import pyarrow.parquet as pq

from tests.support.naive import Lake, Partition, _read, lake_of
from tests.support.places import Place

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass
class Version:
    """One entry of a table's log. rows: partition, offset and time of what it adds. told: the property, if set."""

    number: int
    said: Mapping[str, Any] = field(default_factory=dict)
    rows: list[tuple[Partition, int, datetime]] = field(default_factory=list)
    told: str | None = None

    @property
    def through(self) -> datetime | None:
        return _time(self.said.get("valid_through"))


Times = Mapping[Partition, list[tuple[int, datetime]]]
"""Partition -> offset and time of its records, in order."""


def assert_valid_through(given: Any, mode: str = "strict", basis: str = "record") -> dict[str, list[Version]]:
    """No finding; the versions of each table that say it, for what a test expects of them."""
    lake = lake_of(given)
    tables = {folder: list(versions(lake, folder, basis)) for folder in _folders(lake.place)}
    times = _times(lake)
    found = [line for name, all_of in tables.items() for line in findings(name, all_of, mode, basis, times)]
    assert not found, "\n".join(found)
    return {name: [one for one in all_of if one.through] for name, all_of in tables.items()}


def findings(name: str, history: list[Version], mode: str, basis: str, times: Times) -> Iterator[str]:
    """What is wrong with one table's versions, oldest first."""
    most, told = EPOCH, EPOCH
    for one in history:
        where = f"{name}, version {one.number}"
        for tp, offset, at in one.rows:
            if at <= most:
                yield f"{where}: {tp[0]}-{tp[1]}: {offset} has the time {at}, and {most} was said before"
        claims = {_partition(tp): said for tp, said in one.said.get("partitions", {}).items()}
        if basis == "record":
            yield from _wrong_times(where, claims, times)
        if one.through is not None:
            here = {tp: at for tp, said in claims.items() if (at := _time(said.get("time"))) is not None}
            if mode == "strict" and here.keys() < times.keys():
                yield f"{where}: says {one.through}, and only {len(here)} of {len(times)} partitions take part"
            if one.through < most:
                yield f"{where}: says {one.through}, and {most} was said before"
            if one.through >= min([*here.values()]) and one.through > most:
                yield f"{where}: says {one.through}, and a partition is at {min(here.values())} only"
            most = max(most, one.through)
        if one.told is not None:
            now = _time(one.told) or EPOCH
            if now < told or now > most:
                yield f"{where}: the property is {now}; it was {told}, and {most} was said"
            told = now


def _wrong_times(where: str, claims: Mapping[Partition, Mapping[str, Any]], times: Times) -> Iterator[str]:
    """The time of a claim is one of a record through its new position, and at least that of its own records."""
    for tp, said in claims.items():
        at = _time(said.get("time"))
        through = [time for offset, time in times.get(tp, []) if offset <= said["new"]]
        own = [time for offset, time in times.get(tp, []) if said.get("expected", said["new"]) < offset <= said["new"]]
        if at is not None and (not through or at > max(through) or (own and at < max(own))):
            yield f"{where}: {tp[0]}-{tp[1]}: says {at}; through {said['new']} there is {max(through, default=None)}"


def versions(lake: Lake, folder: str, basis: str) -> Iterator[Version]:
    """All of a table's, with the rows of the files that are still there; rewritten ones add none."""
    there = {file.name: file for file in lake.place.files(f"{folder}/_delta_log")}
    for name, file in sorted(there.items()):
        if not re.fullmatch(r"\d+\.json", name):
            continue
        one = Version(int(name.partition(".")[0]))
        for line in lake.place.read(file).decode("utf-8").splitlines():
            action = json.loads(line)
            if "commitInfo" in action:
                one.said = _json(action["commitInfo"].get("userMetadata"))
            elif "metaData" in action:
                one.told = action["metaData"].get("configuration", {}).get("exporter.valid_through")
            elif action.get("add", {}).get("dataChange"):
                one.rows += _rows(lake.place, f"{folder}/{unquote(action['add']['path'])}", basis)
        yield one


def _rows(place: Place, path: str, basis: str) -> Iterator[tuple[Partition, int, datetime]]:
    if place.size(path) is None:
        return
    for row in pq.read_table(io.BytesIO(place.read(path)), partitioning=None).to_pylist():
        kafka = row["_kafka"]
        at = row.get("_event_time") if basis == "event" else kafka["timestamp"]
        if at is not None and kafka["offset"] is not None:
            yield (kafka["topic"], kafka["partition"]), kafka["offset"], _to_the_milli(at)


def _times(lake: Lake) -> Times:
    found: dict[Partition, list[tuple[int, datetime]]] = defaultdict(list)
    _, ends, messages = _read(lake)
    for tp in ends:
        found[tp] = []
    for (topic, partition, offset), message in sorted(messages.items()):
        at = EPOCH + timedelta(microseconds=message.timestamp_us)
        found[topic, partition].append((offset, _to_the_milli(at)))
    return found


def _to_the_milli(at: datetime) -> datetime:
    return at.replace(microsecond=at.microsecond // 1000 * 1000)


def _folders(place: Place) -> list[str]:
    paths = [file.path.split("/") for file in place.files() if file.name.endswith(".json")]
    return sorted({path[0] for path in paths if len(path) == 3 and path[1] == "_delta_log"})


def _partition(text: str) -> Partition:
    topic, _, number = text.rpartition("-")
    return topic, int(number)


def _time(text: str | None) -> datetime | None:
    return None if not text else datetime.fromisoformat(text.replace("Z", "+00:00"))


def _json(text: str | None) -> Mapping[str, Any]:
    found = json.loads(text) if text else {}
    return found if isinstance(found, dict) else {}
