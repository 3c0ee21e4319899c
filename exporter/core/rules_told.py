"""The rules of a configuration in words: what is in force for each type, for `plan` and `check`. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from exporter.core.routing import Routing
from exporter.core.shapes import COUNT, TO_DEAD_LETTERS, Shape

ALL = "all types"


def rules_told(routing: Routing) -> dict[str, list[str]]:
    """Event type -> its rules in the order in which a record meets them, as the settings spell them; those of all
    under ALL. Of a type without rules nothing is told."""
    told = {ALL: [*_of_all(routing)]}
    matches = dict(routing.matches)
    for name in routing.schemas:
        told[name] = [f"match = {matches[name]}"] if name in matches else []
        if name in routing.shape_by_type:
            told[name] += _of_shape(routing.shape_by_type[name])
    return {name: rules for name, rules in told.items() if rules}


def _of_all(routing: Routing) -> Iterator[str]:
    for rule in routing.renames:
        yield f"rename {rule.match} to {rule.to}"
    if routing.unrouted == COUNT:
        yield "unrouted records are counted"
    elif routing.unrouted != TO_DEAD_LETTERS:
        yield f"unrouted records go to {routing.unrouted}"
    for name, value in routing.constants:
        yield f"constant {name} = {value!r}"


def _of_shape(shape: Shape) -> Iterator[str]:
    for column, paths in shape.names:
        yield f"{column} from {' or '.join(paths)}"
    if shape.case != "exact":
        yield f"case = {shape.case}"
    if shape.python:
        yield f"python = {shape.python} ({shape.python_version})"
    for column, text in shape.computed:
        yield f"set {column} = {text}"
    if shape.where:
        yield f"where {shape.where}"
    if shape.drop:
        yield f"drop {', '.join(shape.drop)}"
