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

    kind: Literal["mirror"] = Field(examples=["mirror"])
    """A table with the newest row of each key of a source."""
    source: str = Field(examples=["customer"])
    """Event type whose table is mirrored."""
    keys: tuple[Path, ...] = Field(min_length=1, examples=[("customer_id",)])
    """Columns that name a row; nested ones dotted."""
    order: tuple[Path, ...] = Field(default=(), examples=[("updated_at",)])
    """Columns of which the greatest value is the newest, most significant first; the record's offset comes last by
    itself."""
    op: Path = Field(default="", examples=["_cdc"])
    """Column that says what a row does to its key; `_cdc` for that of an envelope. Without it each row is an upsert."""
    upserts: tuple[str, ...] = Field(default=("I", "U", "R"), examples=[("insert", "update")])
    """Values of `op` of rows that are whole."""
    deletes: tuple[str, ...] = Field(default=("D",), examples=[("delete",)])
    """Values of `op` of rows that take their key out."""
    patches: tuple[str, ...] = Field(default=(), examples=[("patch",)])
    """Values of `op` of rows that have some columns alone."""
    fields: Path = Field(default="", examples=["changed"])
    """Column with the list of the columns that a patch fills; without it those that are not null."""
    truncates: Literal["delete", "stop", "ignore"] = Field(default="delete", examples=["stop"])
    """What is done where change data says that the table of its source was emptied: rows that are older go (`delete`),
    the job stops (`stop`), or all rows stay (`ignore`)."""
    deleted_days: int = Field(default=30, ge=1)
    """Days, by the records' timestamps, after which the hidden row of a deleted key goes. Longer than any row comes
    late: an older one brings its key back from then on."""
    deletion_vectors: bool = False
    """Whether a table that is made has deletion vectors: far less is written, and delta-rs' datasets, with DuckDB and
    pandas over them, refuse it."""

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
