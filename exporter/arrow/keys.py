"""Times to partition keys: whole widths since 1970 (offsets/partitions.py)."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from exporter.arrow.kafka_time import US


def partition_keys(times: Any, width_us: int) -> Any:
    """The key of each time, int64; null for null. times: Arrow timestamps. Rounds down, also before 1970."""
    micros = times.cast(US).cast(pa.int64())
    keys = pc.divide(micros, width_us)
    return pc.if_else(pc.greater(pc.multiply(keys, width_us), micros), pc.subtract(keys, 1), keys)


def letter_keys(times: Any, width_us: int) -> Any:
    """The key of each dead letter: that of its Kafka timestamp, or 0 for one that no table can hold.

    Key 0 is the same for whoever reads the record, whenever.
    """
    return pc.fill_null(partition_keys(times, width_us), 0)
