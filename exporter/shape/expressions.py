"""What an expression of the settings may be: of one row, and of nothing else. Checked on its parsed form.

    refused: subqueries, windows, aggregates, `*`, parameters, names that are no columns, functions that depend on more
    than their arguments (catalogue.py), whatever is no single expression, and what this parser calls by a new name
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from exporter.shape.catalogue import Catalogue
from exporter.shape.engine import connection

_OF_A_ROW = frozenset(
    ("CONSTANT", "OPERATOR", "CASE", "CAST", "COMPARISON", "CONJUNCTION", "BETWEEN", "COLLATE", "TYPE")
)
"""Classes of nodes that may stand wherever they do."""
_TOLD = {
    "SUBQUERY": "a subquery",
    "WINDOW": "a window function",
    "STAR": "`*` and COLUMNS()",
    "PARAMETER": "a parameter",
    "POSITIONAL_REFERENCE": "a column by its number",
    "DEFAULT": "DEFAULT",
}
_VALUES = frozenset(
    ("current_catalog", "current_date", "current_schema", "current_role", "current_time", "current_timestamp",
     "current_user", "localtime", "localtimestamp", "session_user", "user")
)  # fmt: skip
"""Functions that are called without parentheses."""


class NotARowsOwn(ValueError):
    """An expression that cannot be evaluated on a row alone; the message says why."""


class NotSql(ValueError):
    """A text that cannot be parsed; the message says where."""


def used_columns(text: str, columns: Collection[str]) -> frozenset[str]:
    """The columns that an expression reads, of those that there are. Raises NotARowsOwn and NotSql."""
    return frozenset(_Expression(columns).checked(text))


class _Expression:
    """columns: the names that it may use."""

    def __init__(self, columns: Collection[str], catalogue: Catalogue | None = None) -> None:
        self._columns = {name.lower(): name for name in columns}
        self._catalogue = catalogue or Catalogue(self._macro_problem)

    def checked(self, text: str) -> Iterator[str]:
        """The names of columns that are used, as they were declared."""
        return self._walk(self._parsed(text), frozenset())

    def _macro_problem(self, text: str, parameters: Sequence[str]) -> str:
        try:
            for _ in _Expression(parameters, self._catalogue).checked(text):
                pass
        except NotARowsOwn as why:
            return str(why)
        return ""

    def _parsed(self, text: str) -> Any:
        """The node of the one expression that the text is."""
        one, frame = self._statement(f"SELECT (\n{text}\n)")
        _, plain = self._statement("SELECT (\n1\n)")
        if len(one) != 1 or frame != plain:
            raise NotARowsOwn("it is not one expression")
        return one[0]

    def _statement(self, sql: str) -> tuple[list[Any], Any]:
        """What is selected, and all else that a statement says."""
        (found,) = connection().execute("SELECT json_serialize_sql(?)", [sql]).fetchone()
        parsed = json.loads(found)
        if parsed["error"]:
            raise NotSql(parsed["error_message"])
        if len(parsed["statements"]) != 1:
            raise NotARowsOwn("it is not one expression")
        node = parsed["statements"][0]["node"]
        return node.pop("select_list", []), _placeless(node)

    def _walk(self, node: Any, bound: frozenset[str]) -> Iterator[str]:
        """bound: parameters of the lambdas around it, in lower case."""
        if isinstance(node, list):
            for one in node:
                yield from self._walk(one, bound)
        elif isinstance(node, dict):
            kind = node.get("class")
            if kind == "COLUMN_REF":
                yield from self._column(node, bound)
            elif kind == "LAMBDA":
                yield from self._lambda(node, bound)
            else:
                if kind == "FUNCTION":
                    self._call(node)
                elif kind is not None and kind not in _OF_A_ROW:
                    raise NotARowsOwn(f"{_TOLD.get(kind, kind)} cannot stand here")
                for one in node.values():
                    yield from self._walk(one, bound)

    def _column(self, node: Mapping[str, Any], bound: frozenset[str]) -> Iterator[str]:
        name = node["column_names"][0]
        if name.lower() in bound:
            return
        if name.lower() not in self._columns and name.lower() in _VALUES:
            raise NotARowsOwn(f"{name} does not depend on the row alone")
        if name.lower() not in self._columns:
            raise NotARowsOwn(f"there is no column {name}: it can use {', '.join(self._columns.values()) or 'none'}")
        yield self._columns[name.lower()]

    def _lambda(self, node: Mapping[str, Any], bound: frozenset[str]) -> Iterator[str]:
        """Of `x -> y` too, which may be a lambda as well as the value at a path of a JSON text."""
        names = _parameters(node["lhs"])
        if not names or names & self._columns.keys():
            yield from self._walk(node["lhs"], bound)
        elif names & _VALUES:
            raise NotARowsOwn(f"{', '.join(sorted(names & _VALUES))} cannot be a parameter")
        yield from self._walk(node["expr"], bound | names)

    def _call(self, node: Mapping[str, Any]) -> None:
        name = node["function_name"]
        if node.get("schema"):
            raise NotARowsOwn(f"{node['schema']}.{name}() cannot stand here: write {name}(...) with all it takes")
        if why := self._catalogue.problem(name, _arguments(node)):
            raise NotARowsOwn(why)


def _parameters(left: Mapping[str, Any]) -> frozenset[str]:
    """The names of a lambda's parameters, in lower case, if what stands before its arrow can be some."""
    is_row = left["class"] == "FUNCTION" and left["function_name"] == "row"
    named = _arguments(left) if is_row else [left]
    if not all(one["class"] == "COLUMN_REF" and len(one["column_names"]) == 1 for one in named):
        return frozenset()
    return frozenset(one["column_names"][0].lower() for one in named)


def _arguments(call: Mapping[str, Any]) -> list[Any]:
    """The nodes of a call's arguments. Earlier versions of DuckDB call them children."""
    return [one["expression"] for one in call["arguments"]] if "arguments" in call else list(call["children"])


def _placeless(value: Any) -> Any:
    """A part of a parsed statement without where in the text it stands."""
    if isinstance(value, dict):
        return {key: _placeless(one) for key, one in value.items() if not key.startswith("query_location")}
    return value
