"""What the rules of configurations make of each record, told in one pass over the records of the topics.

    event type ── renames, matches, unrouted ── the tables that take it, and what each makes of the record

Rows in, the same rows with one column more out, in Spark's workers. Knows no driver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from exporter.core.routing import Routing
from exporter.operate.audit.rules.routes import Routes

TAKER_DDL = "struct<code: int, expected: int>"
"""One table that takes a record, or what stands for none. expected: what must become of a good record there."""
RULED_DDL = f"array<array<{TAKER_DDL}>>"
"""The takers, by the index of a configuration; null of one that was not asked for."""
_RULED = pa.list_(pa.list_(pa.struct([("code", pa.int32()), ("expected", pa.int32())])))


def ruling(
    routings: Sequence[Routing], codes: Mapping[str, int]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function of mapInArrow. codes: event type -> code. Of each row the column `asked` says by which
    configurations: their index, and the event type that the record has by it."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        ruler = _Ruler(routings, codes)
        for batch in batches:
            ruled = pa.array([ruler.ruled(asked) for asked in batch.column("asked").to_pylist()], _RULED)
            yield pa.RecordBatch.from_arrays([*batch.columns, ruled], names=[*batch.schema.names, "ruled"])

    return run


class _Ruler:
    """By each configuration."""

    def __init__(self, routings: Sequence[Routing], codes: Mapping[str, int]) -> None:
        self._routes = [Routes(one, codes) for one in routings]

    def ruled(self, asked: Sequence[Mapping[str, Any]]) -> list[list[dict[str, int]] | None]:
        """One entry for each configuration."""
        found: list[list[dict[str, int]] | None] = [None] * len(self._routes)
        for one in asked:
            number = one["routing"]
            codes = self._routes[number].takers(one["event_type"])
            found[number] = [{"code": code, "expected": code} for code in codes]
        return found
