"""What a reader of a binary format makes of a batch before anybody asks for columns: rows of their writer's types.

    values ── the writer's schema ── Typed ── fit.py ── Read

Runs on Spark executors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

KEPT = pa.large_string()
"""The type of what no column can hold: the JSON of it, as it stands in `_rescued`."""


@dataclass(frozen=True)
class Typed:
    """Values of one writer's schema: each input row is in exactly one of `rows` and `refused`.

    rows: ascending int32 or int64 input rows that were decoded. record: a struct per row, itself never null, with the
    writer's fields; of types that Delta tables have: string, bool, int8 to int64, float32 and float64, decimal128,
    date32, timestamp[us, UTC], timestamp[us], binary, struct, list, map with keys that are text, and KEPT. Null is what
    the value says to be null, and what it does not say. refused: input row -> reason, which begins with its code and a
    colon. truncated: values in `rows` that lost digits which no column can hold.
    """

    rows: np.ndarray
    record: pa.StructArray
    refused: Mapping[int, str] = field(default_factory=dict)
    truncated: int = 0
