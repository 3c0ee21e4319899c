"""The codes of tables, and those of records that belong to none of them."""

from __future__ import annotations

DEAD_LETTER = 0
"""Code of the dead-letter table; event types have 1, 2, ..."""
EITHER = -2
"""Expected code where Spark's reader cannot be trusted to judge the value: any one table will do."""
UNKNOWN = -3
"""Expected code where no routing configuration is known for the offset: not checked."""
FILTERED = -4
"""Expected code of a tombstone that is counted and stands in no table."""
UNROUTED = -5
"""The same of a record whose event type no table takes."""
WHOLE = -6
"""Expected code of the place where the dead letter of a record as a whole may stand, one that tables take."""
NOT_HERE = -7
"""Expected code of a place that a row has and its record does not."""
EARLIER = -8
"""Expected code of a record that this version refuses, and an earlier one may have taken: a row of any one table."""
EARLIER_UNROUTED = -9
"""UNROUTED where an earlier version may not have known the event type, so that the record is a dead letter."""
SIFTED = -10
"""SIFTED - code, and so this or less: a filter of that table takes the record out; it is counted."""


def sifted(code: int) -> int:
    """Expected code of a record that a table's filter takes out."""
    return SIFTED - code


def sifted_from(expected: int) -> int | None:
    """The inverse; None of other codes."""
    return SIFTED - expected if expected <= SIFTED else None
