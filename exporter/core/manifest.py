"""What a finished round staged, and the names of what its tasks counted. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from exporter.core.writers import Fragment
from exporter.errors import RoundFailed


@dataclass(frozen=True)
class RoundResult:
    """What a finished round staged, per partition, and what its tasks counted.

    storage: why the storage did not answer a task of it, whatever the table; then there are no fragments.
    """

    fragments: tuple[Fragment, ...]
    counts: Mapping[str, int]
    storage: str = ""

    @property
    def unwritten(self) -> dict[str, str]:
        """Event type -> why some file of it could not be written."""
        return {name: error for fragment in self.fragments for name, error in fragment.unwritten.items()}

    @property
    def incomplete(self) -> str:
        """Why not all of it was written; empty if it was."""
        return self.storage or next(iter(self.unwritten.values()), "")

    def whole(self) -> RoundResult:
        """This, if every file was written. Raises RoundFailed."""
        for name, error in self.unwritten.items():
            raise RoundFailed(f"table {name}: {error}")
        if self.storage:
            raise RoundFailed(f"storage: {self.storage}")
        return self


TYPES_OVER_MAX = "types_over_max"
"""Count of the records that were not staged because of `new_types_max`."""

TOMBSTONES = "tombstones"
"""Count of the records without a value that are in no table, as the setting `tombstones` says."""

FILTERED = "filtered:"
"""Before an event type: count of its records beyond the bound that its filter leaves out; before that of the dead
letters, of those that no table takes and that are counted (protocol 3.9)."""

COPIES = "copies"
"""Count of the rows, dead letters and filtered rows that are a record's second, third and so on (fan-out)."""

REASON = "dead_letters:"
"""Before a reason's code: count of the dead letters that were staged for it."""

STEPS = ("fetch", "route", "decode", "split", "encode")
"""What a task does, one at a time. fetch: wait for the JVM, which reads Kafka. encode: and write files."""
MICROS = "micros:"
"""Before a step's name: count of the microseconds that it took."""
