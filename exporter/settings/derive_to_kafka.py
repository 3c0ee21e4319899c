"""[derive.<name>] with kind = "to_kafka": the rows of a table as records of a topic."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from exporter.settings.table import Table


class ToKafkaTable(Table):
    """[derive.<name>], kind = "to_kafka"."""

    kind: Literal["to_kafka"] = Field(
        description="A topic with the rows of a table, in their order.", examples=["to_kafka"]
    )
    source: str = Field(
        description="Event type, or another [derive] table of kind bundles or sql, whose rows are sent.",
        examples=["order"],
    )
    topic: str = Field(description="Topic that the rows are sent to; one that is missing is made.", examples=["orders"])
