"""[derive.<name>] with kind = "mirror": the newest row per key."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from exporter.settings.table import Table


class MirrorTable(Table):
    """[derive.<name>], kind = "mirror"."""

    kind: Literal["mirror"] = Field(
        description="A table with the newest row of each key of a source.", examples=["mirror"]
    )
    source: str = Field(description="Event type whose table is mirrored.", examples=["customer"])
    keys: tuple[str, ...] = Field(
        min_length=1, description="Columns that name a row; nested ones dotted.", examples=[("customer_id",)]
    )
    order: tuple[str, ...] = Field(
        default=(),
        description="Columns of which the greatest value is the newest, most significant first; the record's offset "
        "comes last by itself.",
        examples=[("updated_at",)],
    )
