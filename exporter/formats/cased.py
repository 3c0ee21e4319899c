"""Fields whose names differ from those of declared columns by case only: which column each fills. On Spark executors.

    column `user STRUCT<id BIGINT>`       what is read instead
    {"User": {"ID": 7, "x": 1}}           {"user": {"id": 7, "x": 1}}

Everything that reads a value afterwards sees the columns' own spelling, so that nothing else knows of it. Two such
fields of one struct, whatever they hold, refuse the record: which of them is meant nobody says. What nobody declared is
asked for as it is spelled (VERDICT).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TypeAlias

import pyarrow as pa

from exporter.core.columns import folded
from exporter.formats.dead_letter import DeadLetter
from exporter.formats.marks import is_evolved
from exporter.text import shorten

fold = lru_cache(maxsize=10_000)(folded)
"""Equal for names that differ by case only. Names of fields come again and again."""


def ambiguous(path: str, name: str, sent: Iterable[str]) -> DeadLetter:
    """Two fields fill one column. path, name: of the struct and of the column in it, by the columns' names."""
    shown = " and ".join(repr(shorten(one)) for one in sent)
    return DeadLetter(f"ambiguous_field: {shorten(f'{path}.{name}')} is filled by {shown}")


@dataclass(frozen=True)
class Spelling:
    """Of a struct: folded name -> the name of the declared field, and what is in it."""

    fields: Mapping[str, tuple[str, Inside]]

    @classmethod
    def of(cls, fields: Iterable[pa.Field]) -> Spelling:
        """The spelling of declared columns; evolved ones have none."""
        declared = [one for one in fields if not is_evolved(one)]
        return cls({fold(one.name): (one.name, _inside(one.type)) for one in declared})

    @cached_property
    def deep(self) -> dict[str, Inside]:
        """Name of a column -> what is in it, where something is."""
        return {name: inside for name, inside in self.fields.values() if inside is not None}

    def path(self, path: Sequence[str]) -> list[str]:
        """A path in a value as it reads once all are spelled alike."""
        if not path:
            return []
        name, below = self.fields.get(fold(path[0]), (path[0], None))
        return [name, *(below.path(path[1:]) if isinstance(below, Spelling) else path[1:])]

    def spelled(self, names: Iterable[str], path: str) -> dict[str, str]:
        """Name of a field -> the column's, where they differ. Raises DeadLetter. path: of the struct."""
        found: dict[str, str] = {}
        for name in names:
            wanted = self.fields.get(fold(name))
            if wanted is None:
                continue
            if wanted[0] in found:
                raise ambiguous(path, wanted[0], [found[wanted[0]], name])
            found[wanted[0]] = name
        return {sent: name for name, sent in found.items() if sent != name}


@dataclass(frozen=True)
class CasedItems:
    """The spelling of what stands in an array."""

    item: Inside


@dataclass(frozen=True)
class Values:
    """Of a map: its keys are data, and stay."""

    item: Inside


Inside: TypeAlias = Spelling | CasedItems | Values | None
"""What is spelled alike in a value of a type; None if nothing is."""


def _inside(kind: pa.DataType) -> Inside:
    if pa.types.is_struct(kind):
        return Spelling.of(kind)
    if not (pa.types.is_list(kind) or pa.types.is_map(kind)):
        return None
    field = kind.item_field if pa.types.is_map(kind) else kind.value_field
    item = None if is_evolved(field) else _inside(field.type)
    return None if item is None else Values(item) if pa.types.is_map(kind) else CasedItems(item)


def spelled_type(kind: pa.DataType, spelling: Inside, path: str = "$") -> pa.DataType:
    """The type of a writer's values once all are spelled alike. Raises DeadLetter."""
    types = pa.types
    if isinstance(spelling, Spelling) and types.is_struct(kind):
        names = spelling.spelled([one.name for one in kind], path)
        fields = [one.with_name(names.get(one.name, one.name)) for one in kind]
        deep = spelling.deep
        return pa.struct(
            [one.with_type(spelled_type(one.type, deep.get(one.name), f"{path}.{one.name}")) for one in fields]
        )
    if isinstance(spelling, CasedItems) and types.is_list(kind):
        item = kind.value_field
        return pa.list_(item.with_type(spelled_type(item.type, spelling.item, f"{path}[]")))
    if isinstance(spelling, Values) and types.is_map(kind):
        item = kind.item_field
        return pa.map_(kind.key_type, item.with_type(spelled_type(item.type, spelling.item, f"{path}{{}}")))
    return kind
