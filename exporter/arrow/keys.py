"""Times to partition keys, as offsets/partitions.py counts them: whole days, hours, weeks or months since 1970."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from exporter.arrow.kafka_time import US
from offsets.partitions import UNITS


def partition_keys(times: Any, unit: str) -> Any:
    """The key of each time, int64; null for null. times: Arrow timestamps. Rounds down, also before 1970."""
    micros, one = times.cast(US).cast(pa.int64()), UNITS[unit]
    return _by_width(one.width_us, one.first_us, micros) if one.width_us else _UNEVEN[unit](micros)


def dead_letter_keys(times: Any) -> Any:
    """The key of each dead letter: the day of its Kafka timestamp, or 0 for one that no table can hold.

    Key 0 is the same for whoever reads the record, whenever.
    """
    return pc.fill_null(partition_keys(times, "day"), 0)


def _by_width(width_us: int, first_us: int, micros: Any) -> Any:
    micros = pc.subtract(micros, first_us) if first_us else micros
    keys = pc.divide(micros, width_us)
    return pc.if_else(pc.greater(pc.multiply(keys, width_us), micros), pc.subtract(keys, 1), keys)


def _months(micros: Any) -> Any:
    moments = micros.cast(pa.timestamp("us"))
    return pc.add(pc.multiply(pc.subtract(pc.year(moments), 1970), 12), pc.subtract(pc.month(moments), 1))


def _zero(micros: Any) -> Any:
    return pc.if_else(pc.is_valid(micros), 0, None).cast(pa.int64())


_UNEVEN: dict[str, Callable[[Any], Any]] = {"month": _months, "none": _zero}
