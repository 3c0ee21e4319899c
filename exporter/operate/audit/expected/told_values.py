"""Values that Spark does not read: what its Python workers told of them (readers/telling.py)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as sf

from exporter.core.routing import EventTime, TypeFrom


class ToldValues:
    """See Values. number: the index of the configuration in whose sense they were read."""

    def __init__(self, number: int) -> None:
        self._number = number

    def event_type(self, source: TypeFrom) -> Column:
        """As it was told."""
        return self._told("event_type")

    def event_time(self, source: EventTime) -> Column:
        """As it was told."""
        return sf.timestamp_micros(self._told("time"))

    def is_whole(self) -> Column:
        """True if the library took the value, and all of it."""
        return self._told("whole")

    def doubtful(self) -> Column:
        """True of a value whose schema nothing is decided of."""
        return sf.coalesce(self._told("doubtful"), sf.lit(False))

    def says_null(self) -> Column:
        """As it was told."""
        return sf.coalesce(self._told("empty"), sf.lit(False))

    def compares(self, name: str, kind: Any) -> bool:
        """Nothing: whole contents are compared instead."""
        return False

    def parsed(self, fields: Sequence[Mapping[str, Any]]) -> Column:
        """Never asked for, as nothing is compared."""
        raise NotImplementedError

    def _told(self, name: str) -> Column:
        return sf.get(sf.col("told"), sf.lit(self._number))[name]
