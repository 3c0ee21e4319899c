"""A plan as the reader walks it: each field with its place among the reasons' paths, and what each tag means. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from exporter.formats.binary.reasons import ReasonPaths
from exporter.formats.protobuf.model import LENGTH, WIRE
from exporter.formats.protobuf.plan import FieldPlan, MessagePlan


class Tagged(NamedTuple):
    """What stands behind a tag. wire: its type. place: of the field. repeats: whether it may be there again."""

    wire: int
    place: int
    repeats: bool


@dataclass(frozen=True)
class WiredSlot:
    """A slot of a message. place: of the field. items: of one item of its list; else as place. inside: its message."""

    slot: FieldPlan
    place: int
    items: int
    inside: Wired | None


@dataclass(frozen=True)
class Wired:
    """A message at one place of a schema. tags: by their numbers, as writers send them. numbers: field -> its place."""

    plan: MessagePlan
    path: str
    place: int
    slots: tuple[WiredSlot, ...]
    tags: dict[int, Tagged]
    numbers: dict[int, int]

    @property
    def type(self) -> pa.StructType:
        """One field per slot."""
        return pa.struct([pa.field(one.slot.name, one.slot.type) for one in self.slots])

    def only(self, path: Sequence[str]) -> Wired:
        """The same message, of which only what stands at a path is made into columns."""
        name, *below = path
        kept = [one for one in self.slots if one.slot.name == name]
        if below and kept and (inside := kept[0].inside) and kept[0].slot.shape == "one" and not kept[0].slot.unwrapped:
            inside = inside.only(below)
            slot = dataclasses.replace(kept[0].slot, type=inside.type)
            kept = [dataclasses.replace(kept[0], slot=slot, inside=inside)]
        return dataclasses.replace(self, slots=tuple(kept))


def wired(plan: MessagePlan, places: ReasonPaths, path: str = "$") -> Wired:
    """Give each field of a plan, and each message in it, its place."""
    slots, tags, numbers = [], {}, {}
    place = places.add(path)
    for slot in plan.slots:
        here = f"{path}.{slot.name}"
        at = places.add(here)
        below = here if slot.shape == "one" else f"{here}{{}}" if slot.shape == "map" else f"{here}[]"
        items = at if slot.shape == "one" else places.add(below)
        inside = wired(slot.message, places, below) if slot.message else None
        slots.append(WiredSlot(slot, at, items, inside))
        numbers[slot.number] = at
        tags[slot.tag] = Tagged(WIRE[slot.kind], at, slot.shape != "one")
        if slot.packed_tag:
            tags[slot.packed_tag] = Tagged(LENGTH, at, True)
    return Wired(plan, path, place, tuple(slots), dict(sorted(tags.items())), numbers)
