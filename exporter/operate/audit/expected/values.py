"""What the audit asks of values of one format: Spark SQL over the columns `value` and `text` (it as a string)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from pyspark.sql import Column


class Values(Protocol):
    """A second opinion on the values of one format: shares no code with the exporter's own reading of them (formats/).

    Where the two may rightly differ, the answer must be `doubtful` or not `compares`, never a finding.
    """

    def text_at(self, path: str) -> Column:
        """What stands at a dotted path of the value, as text; null if nothing does."""
        ...

    def is_whole(self) -> Column:
        """True if the value can be a good record at all, as far as Spark can tell; else false or null."""
        ...

    def doubtful(self) -> Column:
        """True if Spark may refuse a value that the exporter takes."""
        ...

    def compares(self, name: str, kind: Any) -> bool:
        """Whether a column of this type (Spark schema JSON, parsed) is read alike in every value that is taken."""
        ...

    def parsed(self, fields: Sequence[Mapping[str, Any]]) -> Column:
        """The value as a struct of these fields (Spark schema JSON, parsed), all of which it compares."""
        ...

    def document(self, value: bytes) -> Any:
        """The value as contents/documents.py has it, with what JSON cannot say as it would be written there.

        For workers: no column. Raises NotJson.
        """
        ...
