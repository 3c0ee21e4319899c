"""Which field tells the event type, and which the event time, of records that nobody has described. Pure.

A good event type tells which fields a record has. So of each candidate (a text in the value, a header, the key, the
topic) it is measured how much of the uncertainty about the presence of fields it takes away: mutual information with
the presence of each path, less what as many values would seem to take away by chance (Miller and Madow's correction),
as a share of the entropy of all presences. A name such as `type` counts a little, and decides where all records are
alike. An event time is a time in nearly every record, within the bounds that the settings set; of several the one that
is nearest to the records' Kafka timestamps, names counting here too.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal, NamedTuple

from exporter.kafka.sample import SampledRecord
from exporter.operate.infer.forms import form_of, millis_of

DEPTH = 3
"""Levels of objects in which fields are looked for."""
KEYS_MAX = 200
"""An object with more keys is a map, whose keys say nothing."""
TEXT_MAX = 250
VALUES_MAX = 500
"""Values of an event type; of more, tables would be made without end."""
SHARE_MIN = 0.9
"""Of the records that have to have the event type."""
TIME_SHARE_MIN = 0.99
"""Of the records that have to have the event time, within its bounds."""
EXPLAINS_MIN = 0.2
ALIKE_BITS = 0.5
"""Records whose presences of fields are less uncertain than this, all together, are all alike."""

_TYPE_NAMES = frozenset({"type", "eventtype", "event", "eventname", "kind", "messagetype", "recordtype", "schema"})
_TIME_NAMES = frozenset({"ts", "time", "timestamp", "eventtime", "occurredat", "at", "datetime", "createdat", "date"})

Where = Literal["json", "header", "key", "topic"]


class FieldPlace(NamedTuple):
    """Where something stands. name: a dotted path, or a header's name."""

    kind: Where
    name: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" if self.name else f"the {self.kind}"


class Flat(NamedTuple):
    """A record as far as it is looked at: path -> scalar, the paths of all its fields, and texts outside its value."""

    scalars: Mapping[str, Any]
    paths: frozenset[str]
    outside: Mapping[FieldPlace, str]
    timestamp_ms: int | None


@dataclass(frozen=True)
class TypeCandidate:
    """share: of the records that have it. values: how many different ones. explains: of 1, of the fields there are."""

    place: FieldPlace
    share: float
    values: int
    explains: float
    score: float


@dataclass(frozen=True)
class TimeCandidate:
    """unit: as the settings call it. share: of the records that have it within the bounds. lag_secs: the median of how
    long before the Kafka timestamp it lies; None if the records have none.
    """

    path: str
    unit: str
    share: float
    lag_secs: float | None
    score: float


def flat(record: SampledRecord, value: Mapping[str, Any]) -> Flat:
    """A record's paths and scalars. value: what the record has."""
    scalars: dict[str, Any] = {}
    paths: set[str] = set()
    for path, inner in _inside(value, "", 1):
        paths.add(path)
        if type(inner) is str or type(inner) is int:
            scalars[path] = inner
    outside = {FieldPlace("topic"): record.tp.topic}
    headers = ((name, text) for name, text in record.headers if name.isprintable())
    texts: list[tuple[FieldPlace, bytes | None]] = [(FieldPlace("header", name), text) for name, text in headers]
    for place, raw in (*texts, (FieldPlace("key"), record.key)):
        text = text_of(raw)
        if text:
            outside[place] = text
    return Flat(scalars, frozenset(paths), outside, record.timestamp_ms)


def text_of(raw: bytes | None) -> str:
    """A header's value or a key, as text; empty if it is none."""
    try:
        return "" if raw is None else raw.decode()
    except UnicodeDecodeError:
        return ""


def _inside(value: Mapping[str, Any], head: str, depth: int) -> Iterator[tuple[str, Any]]:
    """The fields at dotted paths that the settings can name."""
    if len(value) > KEYS_MAX:
        return
    for name, inner in value.items():
        if inner is None or not name or re.search(r'[.\x00-\x1f\x7f"\\]', name) or (not head and name.startswith("$")):
            continue
        path = f"{head}{name}"
        yield path, inner
        if type(inner) is dict and depth < DEPTH:
            yield from _inside(inner, f"{path}.", depth + 1)


def type_candidates(records: Collection[Flat]) -> list[TypeCandidate]:
    """Best first. records: a few thousands are enough."""
    found = []
    told = Counter(path for one in records for path in one.paths)
    bits = {path: _bits(count, len(records)) for path, count in told.items()}
    unsure = {path: bit for path, bit in bits.items() if bit > 0}
    for place, values in _texts(records).items():
        share = len(values) / len(records)
        count = len(set(values.values()))
        if share < SHARE_MIN or count > min(VALUES_MAX, max(1, len(records) // 2)):
            continue
        explains = _explained(records, values, unsure)
        found.append(TypeCandidate(place, share, count, explains, _type_score(place, share, count, explains)))
    alike = sum(unsure.values()) < ALIKE_BITS
    good = [one for one in found if (_named(one.place) if alike else one.explains >= EXPLAINS_MIN)]
    return sorted(good, key=lambda one: (-one.score, one.place))


def _named(place: FieldPlace) -> bool:
    """Whether a place is called so that nothing else is needed."""
    if place.kind == "topic":
        return False
    return _plain(place.name) in _TYPE_NAMES or (place.kind == "header" and _type_name(place) > 0)


def _type_score(place: FieldPlace, share: float, values: int, explains: float) -> float:
    constant = 0.05 if values == 1 else 0.0
    return explains * share + _type_name(place) - 0.02 * place.name.count(".") - constant


def _type_name(place: FieldPlace) -> float:
    if place.kind in ("key", "topic"):
        return 0.0
    last = _plain(place.name.rpartition(".")[2] if place.kind == "json" else place.name)
    if last in _TYPE_NAMES:
        return 0.15
    return 0.1 if last.endswith(("type", "event", "kind")) else 0.0


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _texts(records: Collection[Flat]) -> dict[FieldPlace, dict[int, str]]:
    """Place -> number of a record -> text, of all places that might tell the event type."""
    found: dict[FieldPlace, dict[int, str]] = defaultdict(dict)
    for number, one in enumerate(records):
        for path, value in one.scalars.items():
            if type(value) is str and 0 < len(value) <= TEXT_MAX and not form_of(value):
                found[FieldPlace("json", path)][number] = value
        for place, value in one.outside.items():
            if len(value) <= TEXT_MAX:
                found[place][number] = value
    return found


def _bits(part: int, whole: int) -> float:
    """The entropy of something that is so in `part` of `whole` cases."""
    if not 0 < part < whole:
        return 0.0
    share = part / whole
    return -share * math.log2(share) - (1 - share) * math.log2(1 - share)


def _explained(records: Collection[Flat], values: Mapping[int, str], unsure: Mapping[str, float]) -> float:
    """The share of the entropy of presences that the values take away."""
    if not unsure:
        return 0.0
    groups: dict[str, list[frozenset[str]]] = defaultdict(list)
    for number, one in enumerate(records):
        groups[values.get(number, "")].append(one.paths)
    left: dict[str, float] = defaultdict(float)
    for paths in groups.values():
        told = Counter(path for one in paths for path in one)
        for path, count in told.items():
            left[path] += len(paths) / len(records) * _bits(count, len(paths))
    chance = (len(groups) - 1) / (2 * len(records) * math.log(2))
    gained = sum(max(0.0, bit - left[path] - chance) for path, bit in unsure.items())
    return gained / sum(unsure.values())


def time_candidates(records: Collection[Flat], since_ms: int, ahead_ms: int) -> list[TimeCandidate]:
    """Best first. An event time has to lie between since_ms and the Kafka timestamp plus ahead_ms."""
    lags: dict[tuple[str, str], list[int | None]] = defaultdict(list)
    for one in records:
        for path, value in one.scalars.items():
            form = form_of(value)
            at = millis_of(value, form) if form else None
            if at is None or at < since_ms:
                continue
            lag = None if one.timestamp_ms is None else one.timestamp_ms - at
            if lag is None or lag >= -ahead_ms:
                lags[path, "iso" if form == "time" else form].append(lag)
    found = []
    for (path, unit), all_lags in lags.items():
        share = len(all_lags) / len(records)
        known = [lag for lag in all_lags if lag is not None]
        lag_secs = median(known) / 1000 if known else None
        if share >= TIME_SHARE_MIN:
            found.append(TimeCandidate(path, unit, share, lag_secs, _time_score(path, lag_secs)))
    return sorted(found, key=lambda one: (-one.score, one.path))


def _time_score(path: str, lag_secs: float | None) -> float:
    named = 1.0 if _plain(path.rpartition(".")[2]) in _TIME_NAMES else 0.0
    return named - 0.2 * path.count(".") - math.log10(1 + abs(lag_secs or 0.0))


def some_of(records: Sequence[SampledRecord], most: int) -> Sequence[SampledRecord]:
    """At least `most` of the records, evenly spread, as far as there are so many."""
    return records[:: max(1, len(records) // most)]
