"""What a decoder returns, whatever the format."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True)
class DecodedBatch:
    """A decoded batch: each input row is in exactly one of `good` and `bad`.

    table: one row per good record: the declared columns, `_rescued` (string) and `_event_time`
    (timestamp[us, UTC], never null); of values in an envelope also `_cdc`, its key null. good: ascending
    int32 input rows. bad: (input row, stage, reason), ascending. ignored: unknown fields left out of good
    records. truncated: timestamps that lost fraction digits 7-9, in good records and those that only a time
    out of its bounds made bad.
    """

    table: pa.Table
    good: pa.Int32Array
    bad: list[tuple[int, str, str]]
    ignored: int = 0
    truncated: int = 0
