"""What an inference proposes, as a first settings file. Pure but for the folder that relative names begin in."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from exporter.errors import FoundProblem
from exporter.operate.infer.columns import InferredType
from exporter.operate.infer.infer import Inference
from exporter.operate.infer.told import time_told, type_told
from exporter.settings.first import First, FirstType
from exporter.settings.model import SCALARS, Settings
from exporter.settings.scalars import S3

REACHED = frozenset(("brokers", "topics", "topics_pattern", "group", "app", "table_root")) | S3
"""What a file is not whole without."""


def first_of(settings: Settings, found: Inference, path: Path) -> First:
    """path: where the file will stand. With evolve = add no columns are declared: they come by themselves.

    Raises FoundProblem if the sample holds nothing to begin with.
    """
    good = [one for one in found.types if not one.left_out]
    if not good:
        hint = "`exporter infer` without --write tells what they are"
        raise FoundProblem(f"none of the {found.records:,} records of the sample could be a row", hint)
    evolves = settings.evolve == "add"
    scalars = _scalars(settings, path)
    if evolves and settings.origin("new_type") == "default":
        scalars["new_type"] = "table"
    return First(
        head=f"Written by `exporter infer` from {found.records:,} records of {', '.join(found.topics)}. What is not "
        "here has a default: `exporter config --write-example` explains every setting.",
        scalars=scalars,
        tables={"type_from": _stands(found.type_from), "event_time": _stands(found.event_time)},
        types={one.event_type: _first_type(one, evolves) for one in good},
        remarks={
            "group": "The consumer group of the export, and its name in the tables for ever.",
            "table_root": "Where the tables are made.",
            "new_type": "Each event type that is met gets a table.",
            "evolve": "Columns come from what the records have; one that does not fit them is no dead letter.",
            "type_from": "Given." if found.given[0] else next(map(type_told, found.type_candidates), "Nothing better."),
            "event_time": "Given." if found.given[1] else next(map(time_told, found.time_candidates), "No field does."),
        },
    )


def _scalars(settings: Settings, path: Path) -> dict[str, object]:
    """What was given beside the file, in the order of the model; group and table_root even if they were not."""
    named = settings.topics[0] if settings.topics else "exporter"
    made = {
        "group": re.sub(r"[^A-Za-z0-9_-]+", "-", f"{named}-exporter"),
        "table_root": str(path.absolute().parent / "lake"),
    }
    found: dict[str, object] = {}
    for name in SCALARS:
        origin = settings.origin(name)
        if origin.startswith("flag ") or (name in REACHED and origin.startswith("environment ")):
            found[name] = getattr(settings, name)
        elif name in made and origin == "default":
            found[name] = made[name]
    return found


def _stands(place: Any) -> dict[str, object]:
    """A place as settings tell it."""
    told = {name: value for name, value in vars(place).items() if not (name == "unit" and place.kind == "record")}
    return told if place.kind != "json" else {**told, "kind": "field"}


def _first_type(one: InferredType, evolves: bool) -> FirstType:
    doubts = [f"{one.untimed:,} without an event time that would do"] if one.untimed else []
    says = ", ".join([f"{one.records:,} records of the sample", *doubts])
    return FirstType((), one.hints, says) if evolves else FirstType(one.columns, {}, says, one.doubts, one.rare)
