"""Rows on which something fails, told apart from their neighbours: each is as if it were evaluated alone (ROUTE).

    all at once, as long as nothing fails
    else: those that are suspected, one by one, and the others at once; without a suspicion, in halves
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from exporter.arrow.rows import numbered
from exporter.text import encodable

REASON_MAX = 500
"""Characters of a reason."""


class RowFails(Exception):
    """Something fails on one of some rows at least. The message is the reason, where there is one row only."""


@dataclass(frozen=True)
class MadeRows:
    """table: what was made of the good rows, in their order. bad: input row -> reason, of all others, ascending."""

    table: pa.Table
    bad: dict[int, str]


def each(
    rows: pa.Table,
    attempt: Callable[[pa.Table], pa.Table],
    made_of: pa.Schema,
    suspected: Callable[[pa.Table], pa.BooleanArray | None] = lambda rows: None,
) -> MadeRows:
    """What `attempt` makes of rows: as many of them, or RowFails.

    made_of: the schema of what is made. suspected: of rows of which one fails, those that might, none of them null;
    None if nothing is known.
    """
    search = _Search(attempt, suspected)
    search.look(rows, numbered(rows.num_rows).cast(pa.int64()), hinted=True)
    return search.made(made_of)


@dataclass
class _Search:
    attempt: Callable[[pa.Table], pa.Table]
    suspected: Callable[[pa.Table], pa.BooleanArray | None]
    tables: list[pa.Table] = field(default_factory=list)
    numbers: list[pa.Int64Array] = field(default_factory=list)
    bad: dict[int, str] = field(default_factory=dict)

    def look(self, rows: pa.Table, numbers: pa.Int64Array, hinted: bool) -> None:
        """hinted: whether suspicions are asked for."""
        try:
            made = self.attempt(rows)
        except RowFails as failure:
            if rows.num_rows == 1:
                self.bad[numbers[0].as_py()] = str(failure)
                return
        else:
            self.tables.append(made)
            self.numbers.append(numbers)
            return
        marks = self.suspected(rows) if hinted else None
        if marks is None or not marks.true_count:
            middle = rows.num_rows // 2
            self.look(rows.slice(0, middle), numbers.slice(0, middle), hinted=False)
            self.look(rows.slice(middle), numbers.slice(middle), hinted=False)
            return
        for row in pc.indices_nonzero(marks).to_pylist():
            self.look(rows.slice(row, 1), numbers.slice(row, 1), hinted=False)
        rest = pc.invert(marks)
        if rest.true_count:
            self.look(rows.filter(rest), numbers.filter(rest), hinted=False)

    def made(self, schema: pa.Schema) -> MadeRows:
        """Of all rows that were looked at."""
        table = pa.concat_tables(self.tables) if self.tables else schema.empty_table()
        if len(self.tables) > 1:
            table = table.take(pc.sort_indices(pa.concat_arrays(self.numbers)))
        return MadeRows(table, dict(sorted(self.bad.items())))


def reason(column: str, why: str) -> str:
    """Of a dead letter. column: what could not be made."""
    return " ".join(encodable(f"transform_failed: {column}: {why[:10 * REASON_MAX]}").split())[:REASON_MAX]
