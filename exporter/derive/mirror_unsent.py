"""Which values a change did not send, as `_rescued` has them: SQL texts for mirrors (protocol 9.5). Constants alone.

The export puts Debezium's placeholder into `_rescued` and null into its column, of each type of column that it may be
of (formats/envelopes/unavailable.py). Here it is the text of that member: a text without quotes, all else as JSON.
"""

from __future__ import annotations

import base64
import json

from exporter.formats.envelopes.unavailable import LONE_TEXTS, NOWHERE, PLACEHOLDER_BYTES, POINTS, TEXTS

_DIGITS = [base64.b64encode(bytes([byte])).decode() for byte in PLACEHOLDER_BYTES]
_WHOLE = (
    *sorted(TEXTS),
    *(json.dumps([text]) for text in sorted(LONE_TEXTS)),
    *(
        json.dumps(items, separators=(",", ":"))
        for items in ([True] * len(_DIGITS), _DIGITS, [{"scale": 0, "value": digit} for digit in _DIGITS])
    ),
)
"""The members that are compared whole."""


def is_unsent(member: str) -> str:
    """SQL: whether a member of `_rescued`, an SQL text, is a placeholder; never null."""
    whole = ", ".join(f"'{text}'" for text in _WHOLE)
    bytes_ = ", ".join(f"{byte}D" for byte in PLACEHOLDER_BYTES)
    # the bytes, times what makes 95 of the first one: decimals have a scale
    near = f"abs(number * {PLACEHOLDER_BYTES[0]} - byte * get(numbers, 0)) <= 1e-9 * get(numbers, 0)"
    spells = f"forall(zip_with(numbers, array({bytes_}), (number, byte) -> {near}), fits -> coalesce(fits, false))"
    spelt = f"size(numbers) = {len(PLACEHOLDER_BYTES)} AND get(numbers, 0) > 0 AND {spells}"
    points = ", ".join(f"'{wkb}'" for wkb in sorted(POINTS))
    nowhere = [f"try_cast(get_json_object(member, '$.{name}') AS DOUBLE) = {NOWHERE}" for name in "xy"]
    parsed = (
        f"exists(array(from_json(member, 'ARRAY<DOUBLE>')), numbers -> coalesce({spelt}, false))",
        f"get_json_object(member, '$.wkb') IN ({points})",
        " AND ".join(nowhere),
    )
    each = " OR ".join(f"coalesce({one}, false)" for one in parsed)
    # nearly all members are texts: to find out by a parser that one is no JSON takes longer than all else
    found = f"member IN ({whole}) OR (member RLIKE '^[ \\\\t\\\\r\\\\n]*[\\\\[{{]' AND ({each}))"
    # what is asked of more than once stands in a lambda, where it is a value: SQL has no other name for it
    return f"exists(array({member}), member -> member IS NOT NULL AND ({found}))"
