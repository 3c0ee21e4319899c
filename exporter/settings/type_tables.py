"""[types.<event type>]: which records it takes, what is decoded of them, and what its table has of that.

    match ── columns, names, case ── python ── set, where ── drop
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from exporter.core.columns import folded, is_own, unfit
from exporter.core.routing import DEAD_LETTERS
from exporter.core.shapes import pattern_problem, template_problem
from exporter.settings.table import Table, check_path
from exporter.settings.values import Days, PartitionBy
from offsets.names import BadName, case_clash, table_folder
from offsets.partitions import may_be_identity

PYTHON = re.compile(r"(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*:[A-Za-z_]\w*", re.ASCII)
NEED_COLUMNS = ("names", "case", "python", "set", "where", "drop")
"""What speaks of declared columns."""


class RenameTable(Table):
    """[[type_from.rename]]"""

    match: str = Field(examples=["(.*)-v[0-9]+"])
    """Regular expression of whole event types."""
    to: str = Field(examples=["$1"])
    """What they are called; $1 and ${name} are groups."""

    @model_validator(mode="after")
    def _can_be(self) -> RenameTable:
        if reason := template_problem(self.match, self.to):
            raise ValueError(reason)
        return self


def _listed(value: object) -> object:
    """One path is a list of one."""
    if not isinstance(value, dict):
        return value
    return {name: (one,) if isinstance(one, str) else one for name, one in value.items()}


def _pathed(names: Mapping[str, tuple[str, ...]]) -> Mapping[str, tuple[str, ...]]:
    for name, paths in names.items():
        for path in paths:
            check_path(f"the path of {name}", path, needed=True, dotted=True)
        if not paths or len({*paths}) < len(paths):
            raise ValueError(f"{name} should have paths, each once")
    return names


def _addable(names: Collection[str]) -> None:
    """Raises ValueError if a column cannot be called so, in whatever table."""
    for name in names:
        if unfit(name, top=True):
            why = "the exporter writes a column of that name itself" if is_own(name) else "no column can be called so"
            raise ValueError(f"{name!r}: {why}")
    if len({*map(folded, names)}) < len(names):
        raise ValueError("names a column twice")


class TypeTable(Table):
    """[types.<event type>]"""

    match: str = Field(default="", examples=[r"order\..*"])
    """Regular expression: each record whose whole event type fits goes to this table, to others whose expressions fit
    too. Without it the table takes the event type that it is called by."""
    columns: str | None = Field(default=None, examples=["order_id BIGINT, amount DECIMAL(12,2), occurred_at TIMESTAMP"])
    """The event type's columns as Spark DDL; this or columns_file."""
    columns_file: Path | None = Field(default=None, examples=["schemas/order_placed.ddl"])
    """File that holds the columns as Spark DDL; relative to the TOML file."""
    names: Annotated[dict[str, tuple[str, ...]], BeforeValidator(_listed), AfterValidator(_pathed)] = Field(
        default={}, examples=[{"customer": ("customer.id", "customer_id")}]
    )
    """Where a declared column stands in the value, if not under its own name: dotted path, or several, of which the
    first that is there fills it."""
    case: Literal["exact", "insensitive"] = "exact"
    """Whether a field fills the column of its very name, or also one that differs by case; two fields that fill one
    column make a dead letter."""
    python: str = Field(default="", examples=["our.rules:priced"])
    """Function, as package.module:function, that gets decoded rows as an Arrow table and returns rows and a mask; that
    its result depends on nothing else is up to its author."""
    python_version: str = Field(default="", examples=["3"])
    """Text that its author changes with what the function does: a new one is a new configuration."""
    python_columns: str = Field(default="", examples=["price DECIMAL(12,2)"])
    """The columns that the function adds, as Spark DDL."""
    set: dict[str, str] = Field(default={}, examples=[{"customer": "sha256(customer)"}])
    """Columns computed by DuckDB's SQL of the decoded columns, _kafka, _key and _headers; one that is declared takes
    its place. A row on which it fails is a dead letter."""
    where: str = Field(default="", examples=["amount > 0"])
    """DuckDB's SQL of the same: rows for which it is not true are counted, and stand nowhere."""
    drop: tuple[str, ...] = Field(default=(), examples=[("email",)])
    """Decoded columns that the table does not have."""
    force_optional: bool | None = Field(default=None, examples=[True])
    """As the setting of that name, for this event type alone."""

    evolve: Literal["off", "add"] | None = Field(default=None, examples=["add"])
    """As the setting evolve, for this event type. With add columns may be left out altogether, as they may where a
    schema says what is in a value."""
    hints: dict[str, str] = Field(default={}, examples=[{"items[].sent_at": "TIMESTAMP"}])
    """Types of fields that are not declared, for evolve: dotted path -> a type as in columns; [] stands for the
    elements of an array."""
    partition_by: PartitionBy | None = Field(default=None, examples=["hour"])
    """How this type's table is cut by event time, if it is not as the setting partition_by says."""
    retention_days: Days | None = Field(default=None, examples=[400])
    """Days that this type's table keeps its rows for, if not as the setting retention_days says; 0 = for ever."""
    order_by: tuple[str, ...] = Field(default=(), examples=[("customer_id",)])
    """Columns by which maintenance puts rows in order, in partitions that have ended; several as a curve through all of
    them (Z-order). Queries that filter by them pass over files. Dotted paths of what has an order."""
    partition_columns: tuple[str, ...] = Field(default=(), examples=[("country",)])
    """Columns whose values cut the table too, behind the time: STRING, BOOLEAN, DATE or an integer, at the top level.
    Each combination of values is a file of its own at each commit, so they should have few."""

    @field_validator("order_by")
    @classmethod
    def _paths(cls, paths: tuple[str, ...]) -> tuple[str, ...]:
        for path in paths:
            check_path("a column of order_by", path, needed=True, dotted=True)
        if len({*paths}) < len(paths):
            raise ValueError("names a column twice")
        return paths

    @field_validator("partition_columns")
    @classmethod
    def _each_once(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if not may_be_identity(name):
                raise ValueError(
                    f"{name!r} cannot cut a table: of letters, digits and _ only, at most 50, and no name of a time"
                )
        if len({*map(folded, names)}) < len(names):
            raise ValueError("names a column twice")
        return names

    @field_validator("match")
    @classmethod
    def _is_pattern(cls, match: str) -> str:
        if reason := pattern_problem(match):
            raise ValueError(reason)
        return match

    @field_validator("python")
    @classmethod
    def _is_function(cls, name: str) -> str:
        if name and not PYTHON.fullmatch(name):
            raise ValueError(f"{name!r} should be package.module:function")
        return name

    @field_validator("where")
    @classmethod
    def _is_said(cls, text: str) -> str:
        if text and not text.strip():
            raise ValueError("should be an expression, or not be there")
        return text

    @field_validator("set")
    @classmethod
    def _are_said(cls, computed: dict[str, str]) -> dict[str, str]:
        _addable(computed)
        for name, text in computed.items():
            if not text.strip():
                raise ValueError(f"{name} should be an expression")
        return computed

    @field_validator("drop")
    @classmethod
    def _can_go(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        _addable(names)
        return names

    @model_validator(mode="after")
    def _python_is_told(self) -> TypeTable:
        if self.python and not self.python_version:
            raise ValueError("python needs python_version: a text that changes with what the function does")
        for name in ("python_version", "python_columns"):
            if getattr(self, name) and not self.python:
                raise ValueError(f"{name} has no effect without python")
        if both := sorted({*self.set} & {*self.drop}):
            raise ValueError(f"{both[0]} is computed and dropped: set alone takes the place of what was decoded")
        return self

    @property
    def is_declared(self) -> bool:
        """Whether its columns are."""
        return self.columns is not None or self.columns_file is not None

    @property
    def shaping(self) -> list[str]:
        """The settings by which its rows are not as they are decoded, in their order."""
        return [name for name in NEED_COLUMNS if getattr(self, name) != type(self).model_fields[name].default]

    @model_validator(mode="after")
    def _at_most_one(self) -> TypeTable:
        if self.columns is not None and self.columns_file is not None:
            raise ValueError("needs either columns or columns_file")
        if self.columns is not None and not self.columns.strip():
            raise ValueError("columns is empty")
        return self


def _storable(types: dict[str, TypeTable]) -> dict[str, TypeTable]:
    """Each in a folder of its own."""
    try:
        for name in types:
            table_folder(name)
        clash = case_clash((DEAD_LETTERS, *types))
    except BadName as error:
        raise ValueError(str(error)) from None
    if clash is not None and DEAD_LETTERS in clash:
        raise ValueError(f"event type {clash[1]!r}: {DEAD_LETTERS} is the exporter's own table")
    if clash is not None:
        raise ValueError(f"event types {clash[0]!r} and {clash[1]!r} differ by case only")
    return types


Types = Annotated[dict[str, TypeTable], AfterValidator(_storable)]
