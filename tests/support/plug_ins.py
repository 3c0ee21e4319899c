"""Functions for `[types.X] python`. A module of its own, so that Spark's workers import it."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def doubled(rows: pa.Table) -> tuple[pa.Table, pa.BooleanArray]:
    """`twice` is two times `n`; rows with a negative one are left out, and 13 is refused, whatever stands beside it."""
    numbers = rows.column("n")
    if pc.any(pc.equal(numbers, 13)).as_py():
        raise ValueError("13 brings bad luck")
    made = pa.table({"twice": pc.multiply(numbers, 2)})
    return made, pc.greater_equal(numbers, 0).combine_chunks()
