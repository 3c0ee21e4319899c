"""Which of Delta's table properties the settings may name for new tables. What their values may be is Delta's to say:
lake/trial.py. Pure."""

from __future__ import annotations

from collections.abc import Iterable

PREFIX = "delta."
RESTED_ON = {
    "appendonly": "dead letters leave their table when they are replayed, and repairs take rows out",
    "columnmapping.": "data files have the names of their columns",
    "compatibility.": "each commit would list all files of the table",
    "constraints.": "nobody would enforce them on the files that tasks write",
    "coordinatedcommits.": "commits go by the table's own log",
    "feature.catalog": "commits go by the table's own log",
    "minreaderversion": "the features that are used decide it",
    "minwriterversion": "the features that are used decide it",
    "randomizefileprefixes": "files stand in the folders of their partitions",
    "randomprefixlength": "files stand in the folders of their partitions",
    "settransactionretentionduration": "positions would expire",
    "universalformat.": "commits of tasks write no other format's metadata",
}
"""Beginnings of names, in lower case for Delta takes them in any, and why a table cannot have such a property."""


def property_problem(names: Iterable[str]) -> str:
    """Why new tables cannot have properties of these names, of the first that they cannot; empty if they can."""
    for name in names:
        key = name.lower()
        if not key.startswith(PREFIX):
            return f"{name} is none of Delta's own properties, whose names begin with {PREFIX}"
        for beginning, why in RESTED_ON.items():
            if key.removeprefix(PREFIX).startswith(beginning):
                return f"{name} cannot be set: {why}"
    return ""
