"""[derive.<name>] with kind = "sql": rows that one SELECT makes of each new row."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from exporter.settings.table import Table
from exporter.settings.values import Count


class SqlTable(Table):
    """[derive.<name>], kind = "sql"."""

    kind: Literal["sql"] = Field(examples=["sql"])
    """A table to which the rows of one SELECT over new rows are appended."""
    source: str = Field(examples=["order"])
    """Event type whose rows are read."""
    query: str = Field(examples=["SELECT order_id, item.sku FROM source LATERAL VIEW explode(items) AS item"])
    """SELECT over the view `source`, row by row: filter, flatten, explode; no aggregate and no window."""
    offsets_max: Count = 20_000_000
    """Offsets that one run, one commit, takes at most about; what is left is taken by the next one at once."""
