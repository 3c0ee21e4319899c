"""[derive.<name>] with kind = "bundles": transactions that are put together from the rows of several tables."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from exporter.settings.table import Table


class InputTable(Table):
    """[derive.<name>.inputs.<input>]"""

    source: str = Field(description="Event type whose rows are members.", examples=["order"])
    transaction: str = Field(description="SQL: the transaction that a row belongs to.", examples=["order_id"])
    done: str = Field(default="false", description="SQL: whether a row completes its transaction.", examples=["last"])


class BundlesTable(Table):
    """[derive.<name>], kind = "bundles"."""

    kind: Literal["bundles"] = Field(
        description="A table with what transactions of several rows come to.", examples=["bundles"]
    )
    inputs: dict[str, InputTable] = Field(
        default={}, description="The members' tables, each as a view of this name.",
        examples=[{"orders": {"source": "order", "transaction": "order_id"}}],
    )  # fmt: skip
    outputs: dict[str, str] = Field(
        default={}, description="Name of an output -> SQL over the views, of the transactions that are done.",
        examples=[{"totals": "SELECT order_id, sum(amount) AS total FROM orders GROUP BY order_id"}],
    )  # fmt: skip
