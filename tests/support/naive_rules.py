"""Rules as a few `if`s: which tables take an event type, and which of a value's fields a row has under which name.

For the naive checker. Filters and computed columns are plain Python functions that a test gives: what they raise is a
dead letter. SQL for which none is given makes a record Unsure.

    Config  the routing configuration as the dead letters record it, a JSON object
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.support.naive_formats import Config, Unsure

Value = dict[str, Any]
COUNTED = "/counted"
"""Stands for the tables of a record that none takes, and that is counted."""
SIMPLE = {
    "BIGINT": "long", "INT": "integer", "INTEGER": "integer", "SMALLINT": "short", "TINYINT": "byte",
    "STRING": "string", "DOUBLE": "double", "BOOLEAN": "boolean", "TIMESTAMP": "timestamp",
}  # fmt: skip
"""DDL -> Spark's name in JSON."""


@dataclass(frozen=True)
class Plain:
    """What tests know of SQL. Of a value, as json.loads reads it, and of its Message.

    keeps: event type -> whether its table keeps the record. makes: event type -> column -> what it holds.
    """

    keeps: Mapping[str, Callable[[Value, Any], bool]] = field(default_factory=dict)
    makes: Mapping[str, Callable[[Value, Any], Mapping[str, Any]]] = field(default_factory=dict)


NOTHING_PLAIN = Plain()


def takers(config: Config, said: str) -> list[str]:
    """The event types whose tables take a record; COUNTED alone, or none. Whether a new one can have a table, as far as
    that is not a matter of case, is the caller's to say."""
    name = _renamed(config.get("renames", ()), said)
    patterns = dict(config.get("matches", ()))
    found = {one for one, pattern in patterns.items() if re.fullmatch(pattern, name)}
    declared = [one for one, _ in config["types"]]
    if name in declared and name not in patterns:
        found.add(name)
    clashes = name.lower() in {"dead_letters", *(one.lower() for one in declared)}
    if not found and not clashes and config["new_type"] == "table":
        return [name]
    unrouted = config.get("unrouted", "dead_letter")
    if not found and unrouted != "dead_letter":
        return [COUNTED if unrouted == "count" else unrouted]
    return sorted(found)


def _renamed(rules: Sequence[Mapping[str, str]], said: str) -> str:
    for rule in rules:
        if (found := re.fullmatch(rule["match"], said)) is not None:
            pieces = re.split(r"(\$\$|\$\d+|\$\{\w+\})", rule["to"])
            return "".join(_piece(found, piece) for piece in pieces)
    return said


def _piece(found: re.Match[str], piece: str) -> str:
    if piece == "$$":
        return "$"
    if re.fullmatch(r"\$\d+", piece):
        return found[int(piece[1:])] or ""
    return (found[piece[2:-1]] or "") if re.fullmatch(r"\$\{\w+\}", piece) else piece


def shape_of(config: Config, table: str) -> Mapping[str, Any]:
    """What is made of the rows of a type; nothing of most."""
    found: Mapping[str, Any] = dict(config.get("shapes", ())).get(table, {})
    return found


def decoded(config: Config, table: str, kinds: Mapping[str, Any]) -> Mapping[str, Any]:
    """Field of the value -> its type, None if it is not known. kinds: the columns that are declared.

    Without the fields that only lead to columns (`leaves`).
    """
    shape = shape_of(config, table)
    names, ways = dict(shape.get("names", ())), {path.split(".")[0]: path for path, _ in leaves(config, table, kinds)}
    if "decoded" in shape:
        fields = {one["name"]: one["type"] for one in json.loads(shape["decoded"])["fields"]}
        return {name: kind for name, kind in fields.items() if name not in ways} | {
            name: None for name in ways if len(fields[name]["fields"]) > 1
        }
    found = {column: kind for column, kind in kinds.items() if column not in names}
    for column, paths in names.items():
        found |= {path: kinds.get(column) for path in paths if "." not in path}
    return found


def leaves(config: Config, table: str, kinds: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Paths below the top that fill columns, with the type of each."""
    names = shape_of(config, table).get("names", ())
    return [(path, kinds.get(column)) for column, paths in names for path in paths if "." in path]


def at_path(value: Any, path: str) -> Any:
    """What stands at a dotted path; None if nothing does, or what leads there is no object."""
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def is_kept(config: Config, table: str, value: Value, message: Any, plain: Plain) -> bool:
    """Whether a table keeps the record. Raises Unsure where nobody has said."""
    shape = shape_of(config, table)
    if shape.get("python") and table not in plain.keeps:
        raise Unsure
    if not shape.get("where") and table not in plain.keeps:
        return True
    if table not in plain.keeps:
        raise Unsure
    return plain.keeps[table](value, message)


def fields_of(
    config: Config, table: str, value: Value, kinds: Mapping[str, Any], message: Any, plain: Plain
) -> dict[str, Any]:
    """Column -> what it must hold, as far as it is known. kinds: the table's columns. Raises Unsure if SQL may fail."""
    shape, constants = shape_of(config, table), dict(config.get("constants", ()))
    if shape.get("computed") and table not in plain.makes:
        raise Unsure
    names = dict(shape.get("names", ()))
    made = plain.makes[table](value, message) if table in plain.makes else {}
    hidden = {column for column, _ in shape.get("computed", ())} | {*constants}
    if shape.get("python") or shape.get("case", "exact") != "exact":
        return {**constants, **made}
    found = {column: value.get(column) for column in kinds if column not in hidden and column not in names}
    found |= {column: _first(value, paths) for column, paths in names.items() if column not in hidden}
    return {**found, **constants, **made}


def _first(value: Value, paths: Sequence[str]) -> Any:
    return next((found for path in paths if (found := at_path(value, path)) is not None), None)


def rules_of(settings: Any) -> dict[str, Any]:
    """The rules of settings, as a configuration has them. exporter.settings.Settings, read field by field."""
    shapes = [
        [name, {
            "names": [[column, list(paths)] for column, paths in table.names.items()], "case": table.case,
            "python": table.python, "computed": [*table.set.items()], "where": table.where, "drop": [*table.drop],
        }]
        for name, table in settings.types.items()
        if table.names or table.case != "exact" or table.python or table.set or table.where or table.drop
    ]  # fmt: skip
    return {
        "renames": [{"match": one.match, "to": one.to} for one in settings.type_from.rename],
        "matches": [[name, table.match] for name, table in settings.types.items() if table.match],
        "unrouted": settings.unrouted,
        "shapes": shapes,
        "constants": [*settings.constants.items()],
    }
