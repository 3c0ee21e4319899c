"""An inference in words. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from exporter.operate.infer.columns import InferredType
from exporter.operate.infer.fields import TimeCandidate, TypeCandidate
from exporter.operate.infer.forms import UNITS
from exporter.operate.infer.infer import Inference


def head_lines(found: Inference) -> Iterator[str]:
    """All but the event types."""
    topics = ", ".join(found.topics)
    yield f"{found.records:,} of {found.retained:,} offsets, {found.partitions} partitions of {topics}"
    for code, count in found.unusable.items():
        yield f"  {count:,} {code}"
    if found.untyped:
        yield f"  {found.untyped:,} without an event type"
    yield f"event type: {_stands(found.type_from.kind, found.type_from.name, found.given[0])}"
    for one in found.type_candidates:
        yield f"  {type_told(one)}"
    at = found.event_time
    unit = f" in {at.unit}" if at.kind == "json" and at.unit != "iso" else ""
    yield f"event time: {_stands(at.kind, at.path, found.given[1])}{unit}"
    for time in found.time_candidates:
        yield f"  {time_told(time)}"
    yield from found.notes


def type_lines(one: InferredType) -> Iterator[str]:
    """What stands above the places of an event type."""
    yield ""
    untimed = f", {one.untimed:,} of them without an event time that would do" if one.untimed else ""
    yield f"{one.event_type}: {one.records:,} records, {one.bytes // max(1, one.records):,} bytes each{untimed}"
    if one.left_out:
        yield f"  cannot be declared: {one.left_out}"


def column_lines(one: InferredType) -> Iterator[str]:
    """The hints and columns of a type, below its paths."""
    if one.hints:
        yield "hints: " + ", ".join(f"{path} = {kind}" for path, kind in one.hints.items())
    for at, column in enumerate(one.columns):
        yield ("columns: " if not at else "         ") + column + ("," if at + 1 < len(one.columns) else "")


def _stands(kind: str, name: str, given: bool) -> str:
    return f"{kind} {name}".strip() + (" (as the settings say)" if given else "")


def type_told(one: TypeCandidate) -> str:
    """A candidate in words: `type` takes 58 values."""
    where = {"json": f"`{one.place.name}`", "header": f"the header `{one.place.name}`"}
    takes = f"takes {one.values:,} value{'s' if one.values > 1 else ''}, in {one.share:.1%} of the records"
    tells = f"tells {one.explains:.0%} of which fields a record has"
    return f"{where.get(one.place.kind, f'the {one.place.kind}')} {takes}; {tells}"


def time_told(one: TimeCandidate) -> str:
    """A candidate in words: `ts` looks like milliseconds."""
    looks = "ISO-8601 text" if one.unit == "iso" else f"{UNITS[one.unit].name} since 1970"
    lag = "" if one.lag_secs is None else f", {one.lag_secs:,.1f} s before the Kafka timestamp (median)"
    return f"`{one.path}` looks like {looks}, in {one.share:.1%} of the records{lag}"
