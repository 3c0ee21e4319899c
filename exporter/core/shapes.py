"""What a configuration makes of records beside reading them. Pure, and stored with the configuration.

    event type as sent ── renames ── matches ── the tables that take it, or what is done with one that none takes
    value ── decoded columns ── names ── python ── where ── set ── drop ── constants ── the table's columns

A record goes to each table whose rule its event type matches. Whatever is done with its columns is done to the rows of
one type, each by itself (ROUTE).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

from exporter.column.spark_json import struct_of, text_of
from exporter.column.types import Field, ScalarType

Constant = str | int | float | bool
"""What a column can hold in every row."""

COUNT = "count"
"""`unrouted`: a record that no table takes is counted and stands nowhere."""
TO_DEAD_LETTERS = "dead_letter"
"""`unrouted`: it is a dead letter."""

_GROUP = re.compile(r"\$(?:(\d+)|\{(\w+)\}|(\$))", re.ASCII)
_KINDS = {bool: "boolean", int: "long", float: "double", str: "string"}
"""Python type of a constant -> Spark's type of its column."""


@dataclass(frozen=True)
class Rename:
    """An event type that `match` fits whole is called `to` from here on; `$1` and `${name}` are groups, `$$` is `$`."""

    match: str
    to: str


@dataclass(frozen=True)
class Shape:
    """What becomes of the rows of one type on their way from the value to the table.

    decoded: Spark schema JSON of what is decoded, in the names that the value has. names: column -> the paths in the
    value that fill it, the first that is there. case: whether fields that differ from a column by case only fill it.
    python: `package.module:function`, python_version: a text of its author's, python_columns: Spark schema JSON of what
    it adds. computed: column -> SQL. where: SQL; rows for which it is not true are counted. drop: columns that are
    decoded and not kept. All SQL is DuckDB's over what is there before `computed`.
    """

    decoded: str
    names: tuple[tuple[str, tuple[str, ...]], ...] = ()
    case: Literal["exact", "insensitive"] = "exact"
    python: str = ""
    python_version: str = ""
    python_columns: str = ""
    computed: tuple[tuple[str, str], ...] = ()
    where: str = ""
    drop: tuple[str, ...] = ()

    @property
    def sql(self) -> bool:
        """Whether it needs an engine for SQL."""
        return bool(self.where or self.computed)

    @classmethod
    def from_stored(cls, fields: Mapping[str, Any]) -> Shape:
        """The inverse of how a configuration stores it."""
        return cls(
            **{
                **fields,
                "names": tuple((column, tuple(paths)) for column, paths in fields.get("names", ())),
                "computed": tuple((column, text) for column, text in fields.get("computed", ())),
                "drop": tuple(fields.get("drop", ())),
            }
        )


def renamed(renames: Iterable[Rename], text: str) -> str:
    """An event type by the first rule that fits it whole; as it is if none does."""
    for rule in renames:
        if (found := _pattern(rule.match).fullmatch(text)) is not None:
            return _GROUP.sub(lambda group: _filled(found, group), rule.to)
    return text


def matched(matches: Iterable[tuple[str, str]], text: str) -> list[str]:
    """The types whose pattern fits an event type whole. matches: (event type of the table, pattern)."""
    return [name for name, pattern in matches if _pattern(pattern).fullmatch(text) is not None]


def template_problem(match: str, to: str) -> str:
    """Why a rule cannot be; empty if it can."""
    if reason := pattern_problem(match):
        return f"match: {reason}"
    pattern = re.compile(match)
    for group in _GROUP.finditer(to):
        key = _key(group)
        if (key > pattern.groups) if isinstance(key, int) else (key and key not in pattern.groupindex):
            return f"to {to!r} names a group that {match!r} does not have: {group[0]}"
    return "to is empty" if not to else ""


def pattern_problem(text: str) -> str:
    """Why a text is no regular expression; empty if it is one."""
    try:
        re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        return f"{text!r} is no regular expression: {error}"
    return ""


def constant_fields(constants: Iterable[tuple[str, Constant]]) -> list[Field]:
    """The columns that hold the constants of the settings."""
    return [Field(name, ScalarType(_KINDS[type(value)])) for name, value in constants]


def with_fields(spark_json: str, fields: Iterable[Field]) -> str:
    """A Spark schema with further fields behind its own, as canonical JSON text."""
    schema = struct_of(spark_json)
    return text_of(replace(schema, fields=(*schema.fields, *fields)), sort_keys=True)


@lru_cache(maxsize=1_000)
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text)


def _filled(found: re.Match[str], group: re.Match[str]) -> str:
    return group[3] or found[_key(group)] or ""


def _key(group: re.Match[str]) -> int | str:
    """Number or name of what stands for a group; a name of digits only is a number, as no group is called so."""
    name = group[1] or group[2] or ""
    return int(name) if name.isdigit() else name
