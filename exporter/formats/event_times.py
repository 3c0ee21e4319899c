"""The event times of good records, and whether they lie within bounds. Runs on Spark executors. Has no clock."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from exporter.arrow.kafka_time import US
from exporter.arrow.years import US_FIRST, US_LAST
from exporter.core.routing import Routing
from exporter.formats.joined import MIXED

_FACTORS_US = {"s": 1_000_000, "ms": 1_000, "us": 1}


class EventTimes:
    """The checks of one routing configuration."""

    def __init__(self, routing: Routing) -> None:
        time = routing.event_time
        self._routing = routing
        self._path = None if time.kind == "record" else time.path
        self._unit = "iso" if self._path is None else time.unit

    def check(self, sent: pa.Array, kafka: pa.Array) -> tuple[pa.Array, pa.BooleanArray, dict[int, str]]:
        """Event time per row, whether it is within bounds, and the reason per position where it is not."""
        if sent.type != MIXED:
            return self._check(sent, kafka)
        numbers, instants = sent.flatten()
        is_instant = instants.is_valid()
        times, inside, late = self._check(numbers, kafka)
        others, others_inside, others_late = self._check(instants, kafka)
        found = {row: others_late.get(row) if is_instant[row].as_py() else why for row, why in late.items()}
        chosen = pc.if_else(is_instant, others, times), pc.if_else(is_instant, others_inside, inside)
        return *chosen, {row: why for row, why in found.items() if why}

    def _check(self, sent: pa.Array, kafka: pa.Array) -> tuple[pa.Array, pa.BooleanArray, dict[int, str]]:
        """The same of numbers, or of instants."""
        unit = "iso" if pa.types.is_timestamp(sent.type) else self._unit
        micros, representable = _micros(sent, unit)
        low, ahead = self._routing.event_time_min_us, self._routing.event_time_ahead_max_secs * 1_000_000
        inside = pc.and_(representable, pc.greater_equal(micros, max(low, US_FIRST)))
        inside = pc.and_(inside, pc.less_equal(micros, US_LAST))
        inside = pc.and_(inside, pc.less_equal(pc.subtract(micros, ahead), kafka.cast(pa.int64())))
        inside = pc.fill_null(inside, False)
        times = micros.cast(US)
        if inside.true_count == len(inside):
            return times, inside, {}
        late = pc.indices_nonzero(pc.invert(inside))
        shown = sent.take(late).cast(pa.string()).to_pylist()
        behind = kafka.take(late).cast(pa.string()).to_pylist()
        reasons = [self._reason(value, record, unit) for value, record in zip(shown, behind, strict=True)]
        return times, inside, dict(zip(late.to_pylist(), reasons, strict=True))

    def _reason(self, value: str | None, record: str | None, unit: str) -> str:
        path = "the Kafka timestamp" if self._path is None else f"$.{self._path}"
        if value is None:
            return f"missing_event_time: {path} is null or missing"
        shown = value if unit == "iso" else f"{value} {unit}"
        ahead = self._routing.event_time_ahead_max_secs
        low = pa.scalar(self._routing.event_time_min_us, US).cast(pa.string()).as_py()
        return f"event_time_out_of_bounds: {path} = {shown} lies outside {low} .. {record} (Kafka) + {ahead} s"


def _micros(sent: pa.Array, unit: str) -> tuple[pa.Array, pa.Array]:
    """Event times as int64 microseconds, and whether each can be expressed so."""
    if unit == "iso":
        micros = sent.cast(pa.int64())
        return micros, micros.is_valid()
    number = sent.cast(pa.int64())
    if unit == "ns":
        cut = pc.divide(number, 1000)
        return pc.if_else(pc.greater(pc.multiply(cut, 1000), number), pc.subtract(cut, 1), cut), number.is_valid()
    factor = _FACTORS_US[unit]
    limit = (2**63 - 1) // factor
    fits = pc.and_(pc.less_equal(number, limit), pc.greater_equal(number, -limit))
    return pc.multiply(pc.if_else(fits, number, 0), factor), fits
