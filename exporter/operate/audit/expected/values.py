"""What the audit asks of values of one format: Spark SQL over `value`, `text` (it as a string) and `told`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from pyspark.sql import Column

from exporter.core.routing import EventTime, TypeFrom


class Values(Protocol):
    """A second opinion on the values of one format: shares no code with the exporter's own reading of them (formats/).

    Where the two may rightly differ, the answer must be `doubtful` or not `compares`, never a finding.
    """

    def event_type(self, source: TypeFrom) -> Column:
        """What the value says of its event type, as text; null if nothing. source: one that stands in values."""
        ...

    def event_time(self, source: EventTime) -> Column:
        """What the value says of its event time, as a timestamp; null where that cannot be told for sure."""
        ...

    def is_whole(self) -> Column:
        """True if the value can be a good record at all, as far as Spark can tell; else false or null."""
        ...

    def doubtful(self) -> Column:
        """True if a value may be refused here that the exporter takes."""
        ...

    def says_null(self) -> Column:
        """True of a value that says that there is none."""
        ...

    def compares(self, name: str, kind: Any) -> bool:
        """Whether a column of this type (Spark schema JSON, parsed) is read alike in every value that is taken."""
        ...

    def parsed(self, fields: Sequence[Mapping[str, Any]]) -> Column:
        """The value as a struct of these fields (Spark schema JSON, parsed), all of which it compares."""
        ...
