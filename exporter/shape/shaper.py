"""From the decoded rows of one type to the rows of its table. Runs on Spark executors.

    names ── python ── computed, where ── drop ── constants

Each row by itself (ROUTE): a row on which something fails is told of, and its neighbours are as if it were not there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from exporter.core.shapes import Constant, Shape
from exporter.shape.names import Naming

OWN = ("_rescued", "_event_time")
"""The last two columns of decoded rows."""


@dataclass(frozen=True)
class Shaped:
    """Each input row is in `kept`, in `bad`, or one of the `filtered`.

    table: one row for each of `kept`: the table's columns, then OWN. kept, filtered: ascending int32 input rows. bad:
    (input row, reason), ascending.
    """

    table: pa.Table
    kept: pa.Int32Array
    filtered: pa.Int32Array
    bad: Sequence[tuple[int, str]] = ()


class Shaper:
    """Of one type; None is a shape that changes nothing."""

    def __init__(self, shape: Shape | None, constants: Sequence[tuple[str, Constant]]) -> None:
        self._naming = None if shape is None or not shape.names else Naming(shape.decoded, shape.names)
        self._constants = [(name, pa.scalar(value)) for name, value in constants]

    def shaped(self, decoded: pa.Table, record: pa.Table) -> Shaped:
        """decoded: as a decoder gives it, without `_cdc`. record: `_kafka`, `_key`, `_headers` of the same rows."""
        bad: dict[int, str] = {}
        if self._naming is not None:
            decoded, bad = self._naming.named(decoded, len(OWN))
        rows = pa.array([row for row in range(decoded.num_rows) if row not in bad], pa.int32())
        table = decoded.take(rows) if bad else decoded
        return Shaped(self._with_constants(table), rows, rows.slice(0, 0), sorted(bad.items()))

    def _with_constants(self, table: pa.Table) -> pa.Table:
        own = len(OWN)
        for name, value in self._constants:
            table = table.add_column(table.num_columns - own, name, pa.repeat(value, table.num_rows))
        return table
