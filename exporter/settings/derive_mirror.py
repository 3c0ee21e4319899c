"""[derive.<name>] with kind = "mirror": the newest row per key."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from exporter.settings.table import Table

_PATH = re.compile(r"[^.`]+(\.[^.`]+)*\Z")


def _path(text: str) -> str:
    if text and not _PATH.match(text):
        raise ValueError(f"{text!r} should be the name of a column, with dots before fields in it")
    return text


Path = Annotated[str, AfterValidator(_path)]


class MirrorTable(Table):
    """[derive.<name>], kind = "mirror"."""

    kind: Literal["mirror"] = Field(
        description="A table with the newest row of each key of a source.", examples=["mirror"]
    )
    source: str = Field(description="Event type whose table is mirrored.", examples=["customer"])
    keys: tuple[Path, ...] = Field(
        min_length=1, description="Columns that name a row; nested ones dotted.", examples=[("customer_id",)]
    )
    order: tuple[Path, ...] = Field(
        default=(),
        description="Columns of which the greatest value is the newest, most significant first; the record's offset "
        "comes last by itself.",
        examples=[("updated_at",)],
    )
    op: Path = Field(
        default="",
        description="Column that says what a row does to its key; `_cdc` for that of an envelope. Without it each row "
        "is an upsert.",
        examples=["_cdc"],
    )
    upserts: tuple[str, ...] = Field(
        default=("I", "U", "R"), description="Values of `op` of rows that are whole.", examples=[("insert", "update")]
    )
    deletes: tuple[str, ...] = Field(
        default=("D",), description="Values of `op` of rows that take their key out.", examples=[("delete",)]
    )
    patches: tuple[str, ...] = Field(
        default=(), description="Values of `op` of rows that have some columns alone.", examples=[("patch",)]
    )
    fields: Path = Field(
        default="",
        description="Column with the list of the columns that a patch fills; without it those that are not null.",
        examples=["changed"],
    )
    truncates: Literal["delete", "stop", "ignore"] = Field(
        default="delete",
        description="What is done where change data says that the table of its source was emptied: rows that are older "
        "go (`delete`), the job stops (`stop`), or all rows stay (`ignore`).",
        examples=["stop"],
    )
    deleted_days: int = Field(
        default=30, ge=1,
        description="Days, by the records' timestamps, after which the hidden row of a deleted key goes. Longer than "
        "any row comes late: an older one brings its key back from then on.",
    )  # fmt: skip
    deletion_vectors: bool = Field(
        default=False,
        description="Whether a table that is made has deletion vectors: far less is written, and delta-rs' datasets, "
        "with DuckDB and pandas over them, refuse it.",
    )

    @model_validator(mode="after")
    def _fit(self) -> MirrorTable:
        values = [*self.upserts, *self.deletes, *self.patches]
        if len({*values}) < len(values):
            raise ValueError("upserts, deletes and patches should have no value in common")
        if self.patches and not self.op:
            raise ValueError("patches need op")
        if self.fields and not self.patches:
            raise ValueError("fields needs patches")
        if len({*self.keys}) < len(self.keys):
            raise ValueError("a key is named twice")
        return self
