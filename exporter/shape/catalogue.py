"""Which functions may stand in an expression: those that say the same of the same row, whenever and beside whatever.

DuckDB's own catalogue decides, overload by overload, and what a macro consists of. What it does not know is refused.

    CONSISTENT               may stand
    CONSISTENT_WITHIN_QUERY  may, if it asks no more than the time zone, which is always UTC; the clock may not
    VOLATILE                 may not, but for error(): it gives nothing
    aggregate, window ...    may not: a row stands for itself
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from exporter.shape.engine import connection

_KEPT_APART = {
    "hash": "differs between versions of DuckDB",
    "version": "differs between versions of DuckDB",
    "unnest": "makes several rows of one",
    "unlist": "makes several rows of one",
}
"""Function -> what is wrong with it that the catalogue does not tell."""
_WITH_AGGREGATES = frozenset(("list_aggr", "list_aggregate", "array_aggr", "array_aggregate", "aggregate"))
_RANDOM_AGGREGATES = frozenset(("reservoir_quantile",))
_TIMES = ("DATE", "TIME", "INTERVAL")
"""What the names of types begin with that have to do with time zones."""


class _Overload(NamedTuple):
    kind: str
    arguments: list[str] | None
    names: list[str] | None
    varargs: str | None
    returns: str | None
    stability: str | None
    macro: str | None

    def takes(self, number: int) -> bool:
        """Whether it is called with so many arguments; those of a macro may have defaults."""
        least = len(self.arguments or self.names or ())
        return number >= least if self.varargs else number <= least if self.macro else number == least


class Catalogue:
    """judge: says why a macro's text cannot be evaluated, from the text and its parameters."""

    def __init__(self, judge: Callable[[str, Sequence[str]], str]) -> None:
        self._judge = judge
        self._open: set[str] = set()

    def problem(self, name: str, arguments: Sequence[Any]) -> str:
        """Why a call cannot stand in an expression; empty if it can. arguments: nodes of the parsed expression."""
        name = name.lower()
        if name in _KEPT_APART:
            return f"{name}() {_KEPT_APART[name]}"
        if name in _WITH_AGGREGATES and not _is_steady(arguments):
            return f"{name}() needs the name of an aggregate as a text, of one that draws no sample"
        found = _overloads().get(name, [])
        fitting = [one for one in found if one.takes(len(arguments))] or found
        reasons = [self._reason(name, len(arguments), one) for one in fitting]
        return next((one for one in reasons if one), "" if found else f"there is no function {name}()")

    def _reason(self, name: str, number: int, one: _Overload) -> str:
        if one.kind == "macro":
            return self._of_macro(name, one)
        if one.kind in ("aggregate", "window"):
            return f"{name}() looks at several rows"
        if one.kind != "scalar":
            return f"{name}() makes several rows of one"
        if one.stability == "CONSISTENT" or name == "error" or _asks_the_zone(name, number, one):
            return ""
        return f"{name}() does not depend on the row alone"

    def _of_macro(self, name: str, one: _Overload) -> str:
        if name in self._open or one.macro is None:
            return f"{name}() is a macro that cannot be looked into"
        self._open.add(name)
        try:
            why = self._judge(one.macro, one.names or ())
        finally:
            self._open.discard(name)
        return f"{name}() is made of what cannot stand here: {why}" if why else ""


@cache
def _overloads() -> Mapping[str, list[_Overload]]:
    """Name in lower case -> what can be called so in an expression, or what else there is of that name."""
    asked = """SELECT lower(function_name), function_type, parameter_types, parameters, varargs, return_type, stability,
                      macro_definition FROM duckdb_functions()"""
    found: dict[str, list[_Overload]] = defaultdict(list)
    for name, *row in connection().execute(asked).fetchall():
        found[name].append(_Overload(*row))
    of_values = ("scalar", "macro", "aggregate", "window")
    return {name: [one for one in all_ if one.kind in of_values] or all_ for name, all_ in found.items()}


def _asks_the_zone(name: str, number: int, one: _Overload) -> bool:
    """Whether what it depends on, beside its arguments, is the time zone."""
    if one.stability != "CONSISTENT_WITHIN_QUERY" or not one.arguments or (name, number) == ("age", 1):
        return False
    return any(kind.startswith(_TIMES) for kind in (*one.arguments, one.returns or ""))


def _is_steady(arguments: Sequence[Any]) -> bool:
    """Whether what follows the list is the name of an aggregate that gives the same of the same list."""
    if len(arguments) < 2 or arguments[1].get("class") != "CONSTANT":
        return False
    return not any(one in json.dumps(arguments[1]).lower() for one in _RANDOM_AGGREGATES)
