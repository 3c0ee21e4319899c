"""The ledger of a job: which members its commits have closed, and how; a partition of the job's own table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

LEDGER = "_done"
"""Its `_output`."""
KEPT_LATE = "_late"
"""`_output` of late rows that are kept as well (`late = "dead_letter"`)."""
MEMBER_TYPE = "struct<input:string,topic:string,partition:int,epoch:int,offset:bigint>"
OWN = (
    f"_output string, _seq bigint, _run bigint, _transaction string, _state string, _member {MEMBER_TYPE}, "
    "_lookups string, _row string"
)
"""The job's own columns, before those of its outputs."""
_MEMBERS = f"transaction string, run bigint, state string, lookups string, {MEMBER_TYPE[7:-1].replace(':', ' ')}"


@dataclass(frozen=True)
class Ledger:
    """What a version of the job's table says of members. table: all of its rows; None: there is none yet."""

    session: Any
    table: DataFrame | None

    def rows(self, condition: Column | None = None) -> DataFrame:
        """transaction, run, state, lookups and the member's columns."""
        if self.table is None:
            empty: DataFrame = self.session.createDataFrame([], _MEMBERS)
            return empty
        found = self.table.where(sf.col("_output") == LEDGER)
        found = found if condition is None else found.where(condition)
        return found.selectExpr(
            "_transaction AS transaction", "_run AS run", "_state AS state", "_lookups AS lookups", "_member.*"
        )

    def members(self, condition: Column) -> DataFrame:
        """The members of some rows."""
        return self.rows(condition).drop("transaction", "run", "state", "lookups")

    def transactions(self, least: str | None, most: str | None) -> DataFrame:
        """transaction, input: of those between two, by which Delta skips files. None: there is nothing to ask for."""
        asked = sf.col("_transaction").between(sf.lit(least), sf.lit(most))
        return self.rows(asked).select("transaction", "input")

    def of(self, transactions: DataFrame) -> DataFrame:
        """All members that were of some transactions. transactions: of one column of this name."""
        members = self.rows().join(transactions, "transaction", "left_semi")
        return members.select("input", "topic", "partition", "epoch", "offset")
