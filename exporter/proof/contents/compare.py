"""One value of the topic against its row: columns and `_rescued` together must be what was sent.

    a member of an object    in its column; or in `_rescued`, and the column null; of an object or array, part in each
    an array                 position by position; `_rescued` has null where an element has nothing for it
    null                     as if it were not there
    {}, [], and what has nothing else in it   where `_rescued` is null as if they were not there either

What a configuration lets go of is excused: the fields of the event type and the event time, if no column is declared
for them, and with `unknown_fields = "ignore"` whatever is not declared. The event time is then looked for in
`_event_time`. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias

from exporter.core.columns import EVENT_TIME
from exporter.core.routing import EventTime, Routing
from exporter.proof.contents.documents import NotJson, read, same_scalar, shown, shown_in
from exporter.proof.contents.shapes import ArrayOf, MapOf, Members, Node, NotCompared, shape
from exporter.proof.contents.times import micros
from exporter.proof.contents.typed import Either, Instant, ObjectPairs
from exporter.proof.rules.made import MadeColumns, is_held
from exporter.proof.rules.values import Unsure

Excused: TypeAlias = "Mapping[str, Any]"
"""Name -> what is excused below it; IT: the member itself, whatever it is."""
IT = "it"
_NOTHING: Excused = {}
NOTHING_SURE: Mapping[str, Any] = {}
_UNITS_US = {"s": 1_000_000, "ms": 1_000, "us": 1}
_Path: TypeAlias = "tuple[Any, ...]"
"""(the path of what has it, its name or position); () at the top."""


class Difference(NamedTuple):
    """path: `$.items[0].at`. in_topic, in_table: what stands there, as documents.shown has it."""

    path: str
    in_topic: str
    in_table: str


@dataclass(frozen=True)
class Configured:
    """How one configuration fills one table. excused, drops: see above.

    time: where the event time stands in a value, if `_event_time` is the exporter's. made: what rules make of the
    columns, if there are any; kinds: the types of those that it made, where the table has them as they were made.
    """

    root: Members
    excused: Excused = field(default_factory=dict)
    drops: bool = False
    time: EventTime | None = None
    made: MadeColumns | None = None
    kinds: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, routing: Routing, event_type: str, table_json: str, others: Iterable[str] = ()) -> Configured:
        """table_json: Spark schema JSON of the table as it is now. others: what other configurations declare of it."""
        declared_json, made = routing.columns_of(event_type), MadeColumns.of(routing, event_type)
        own, root = shape(declared_json, table_json), shape(declared_json, table_json, others)
        keeps_all, kinds = not own.fields, dict[str, Any]()
        if made is not None:
            keeps_all = not made.fields and not own.fields.keys() - made.apart
            kinds = _same_types(declared_json, table_json, made.apart)
            root = replace(root, fields={name: one for name, one in root.fields.items() if name not in made.apart})
        timed = routing.event_time.kind == "json" and EVENT_TIME not in {name.lower() for name in root.fields}
        return cls(
            root,
            _NOTHING if keeps_all else _excused(routing),
            routing.unknown_fields == "ignore" and not keeps_all,
            routing.event_time if timed else None,
            made,
            kinds,
        )

    def differences(
        self,
        value: bytes | None,
        columns: Mapping[str, Any],
        rescued: str | None,
        at: int | None,
        document: Callable[[bytes], Any] = read,
        computed: Mapping[str, Any] | None = NOTHING_SURE,
    ) -> list[Difference]:
        """Where a row differs from the value that was sent: each place that differs by itself.

        columns, rescued: the row's columns, as plain values (rows.py), and its `_rescued`. at: its `_event_time` in
        microseconds, or null. document: reads a value, as documents.read does; it raises NotJson for one that is no
        good record. A text that cannot be read is one difference. computed: what computed columns must hold, those
        that are sure; None: one of them fails.
        """
        try:
            sent = None if value is None else document(value)
        except NotJson as error:
            return [Difference("$", f"no value: {error}", "a row")]
        try:
            rest = None if rescued is None else read(rescued)
        except NotJson as error:
            return [Difference("$", shown(sent), f"no JSON: {error}")]
        walk = _Walk(Lets(self.drops, rescued is None))
        if self.made is None:
            walk.members(self.root, sent, columns, rest, self.excused, ())
        else:
            self._made(self.made, walk, sent, columns, rest, computed)
        if self.time is not None and at is not None and not walk.found:
            parts = self.time.path.split(".")
            if instant(said := value_at(sent, parts), self.time.unit) != at:
                walk.found.append(Difference("$." + ".".join(parts), shown(said), f"{Instant(at)} in `_event_time`"))
        return walk.found


    def _made(
        self, made: MadeColumns, walk: _Walk, sent: Any, columns: Any, rest: Any, computed: Mapping[str, Any] | None
    ) -> None:
        """A row of which rules have made something."""
        if computed is None:
            walk.found.append(Difference("$", "a value on which SQL fails", "a row"))
            return
        wanted = {**computed, **made.constants}
        walk.found += [
            Difference(f"$.{name}", f"what makes {shown(wanted[name])}", shown_in(kind, columns.get(name)))
            for name, kind in self.kinds.items()
            if name in wanted and not is_held(kind, wanted[name], columns.get(name))
        ]
        if made.opaque or type(sent) is not dict or not isinstance(rest, dict | None):
            return
        held = {name: one for name, one in columns.items() if name not in made.apart}
        try:
            named = made.by_names(sent, rest or _NOTHING, self.root.fields)
        except Unsure:
            return
        walk.members(self.root, named.sent, held, named.rest, self.excused, ())
        for name, one, left in named.beside:
            walk.beside(name, one, left, self.excused)


def _same_types(declared_json: str, table_json: str, names: Collection[str]) -> dict[str, Any]:
    """The types of columns that the table has as they are declared."""
    both = (json.loads(text)["fields"] for text in (declared_json, table_json))
    declared, table = ({one["name"]: one["type"] for one in fields} for fields in both)
    return {name: kind for name, kind in declared.items() if name in names and kind == table.get(name)}


class Lets(NamedTuple):
    """What may be nowhere of a value that no column holds. empty: {}, [], and what has nothing else in it."""

    all: bool
    empty: bool


NOTHING_GOES = Lets(False, False)


class _Walk:
    """Through one value, its columns and its `_rescued` side by side. lets: go of what nobody has declared."""

    def __init__(self, lets: Lets) -> None:
        self._lets = lets
        self.found: list[Difference] = []

    def members(
        self, node: Members, sent: Any, held: Mapping[str, Any], rest: Any, excused: Excused, path: _Path
    ) -> None:
        """An object whose fields are columns."""
        if type(sent) is not dict or (rest is not None and type(rest) is not dict):
            self._differ(path, sent, "an object" if rest is None else f"an object, and {shown(rest)} in `_rescued`")
            return
        rest, fields = rest or _NOTHING, node.fields
        for name, child in fields.items():
            here, kept, left = sent.get(name), held.get(name), rest.get(name)
            if here is not None or kept is not None or left is not None:
                self._known(child, here, kept, left, excused.get(name, _NOTHING), (path, name))
        for name in (name for name in sent if name not in fields):
            self._unknown(sent[name], rest.get(name), excused.get(name, _NOTHING), self._lets, (path, name))
        for name in (name for name in rest if name not in fields and name not in sent):
            if rest[name] is not None:
                self._differ((path, name), None, f"{shown(rest[name])} in `_rescued`")

    def beside(self, name: str, sent: Any, rest: Any, excused: Excused) -> None:
        """A member at the top that fills no column."""
        self._unknown(sent, rest, excused.get(name, _NOTHING), self._lets, ((), name))

    def _known(self, node: Node, sent: Any, held: Any, rest: Any, excused: Any, path: _Path) -> None:
        """A value that has a column, or a part of one. held: what is in there, rest: in `_rescued`."""
        sent = sent.as_in(held or rest) if isinstance(sent, (ObjectPairs, Either)) else sent
        if isinstance(node, NotCompared):
            return
        if held is None:
            mine = excused if node.evolved else _NOTHING
            self._unknown(sent, rest, mine, self._lets if node.evolved else NOTHING_GOES, path)
        elif isinstance(node, Members):
            self.members(node, sent, held, rest, excused if excused is not IT else _NOTHING, path)
        elif isinstance(node, ArrayOf):
            self._items(node, sent, held, rest, path)
        elif isinstance(node, MapOf):
            self._entries(node, sent, held, rest, path)
        elif rest is not None:
            self._differ(path, sent, "a column, and more in `_rescued`")
        elif sent is None or not node.same(sent, held):
            self._differ(path, sent, shown_in(node.kind, held))

    def _items(self, node: ArrayOf, sent: Any, held: list[Any], rest: Any, path: _Path) -> None:
        if type(sent) is not list or len(sent) != len(held):
            self._differ(path, sent, f"an array of {len(held)}")
            return
        if rest is not None and (type(rest) is not list or len(rest) != len(sent)):
            self._differ(path, sent, f"{shown(rest)} in `_rescued`")
            return
        for at, here in enumerate(sent):
            self._known(node.item, here, held[at], None if rest is None else rest[at], _NOTHING, (path, at))

    def _entries(self, node: MapOf, sent: Any, held: Mapping[str, Any], rest: Any, path: _Path) -> None:
        if type(sent) is not dict or (rest is not None and type(rest) is not dict):
            self._differ(path, sent, f"a map of {len(held)}")
            return
        rest = rest or _NOTHING
        for name in dict.fromkeys([*sent, *held, *rest]):
            self._known(node.item, sent.get(name), held.get(name), rest.get(name), _NOTHING, (path, name))

    def _unknown(self, sent: Any, rest: Any, excused: Any, lets: Lets, path: _Path) -> None:
        """A value that is in `_rescued`, all of it."""
        sent = sent.as_in(rest) if isinstance(sent, (ObjectPairs, Either)) else sent
        if rest is None:
            if not (lets.all or _is_excused(sent, excused, lets.empty)):
                self._differ(path, sent, "nothing")
        elif type(sent) is dict and type(rest) is dict:
            inner = _NOTHING if excused is IT else excused
            for name in dict.fromkeys([*sent, *rest]):
                self._unknown(sent.get(name), rest.get(name), inner.get(name, _NOTHING), NOTHING_GOES, (path, name))
        elif type(sent) is list and type(rest) is list and len(sent) == len(rest):
            for at, here in enumerate(sent):
                self._unknown(here, rest[at], _NOTHING, NOTHING_GOES, (path, at))
        elif not same_scalar(sent, rest):
            self._differ(path, sent, f"{shown(rest)} in `_rescued`")

    def _differ(self, path: _Path, sent: Any, in_table: str) -> None:
        self.found.append(Difference(_shown(path), shown(sent), in_table))


def _is_excused(sent: Any, excused: Any, empty: bool) -> bool:
    """Whether a value may be nowhere: null, or all in it is excused. empty: what has nothing in it is, too."""
    if sent is None or excused is IT:
        return True
    if type(sent) is dict:
        return (empty or bool(excused)) and all(_is_excused(sent[n], excused.get(n, _NOTHING), empty) for n in sent)
    if isinstance(sent, Either):
        return any(_is_excused(one, excused, empty) for one in (sent.value, sent.parts))
    return empty and isinstance(sent, list) and all(_is_excused(one, _NOTHING, True) for one in sent)


def _excused(routing: Routing) -> Excused:
    """The fields of a value that say its event type and its event time."""
    paths = [routing.type_from.name] if routing.type_from.kind == "json" else []
    paths += [routing.event_time.path] if routing.event_time.kind == "json" else []
    found: dict[str, Any] = {}
    for parts in (path.split(".") for path in paths):
        here = found
        for part in parts[:-1]:
            here = here.setdefault(part, {})
        here[parts[-1]] = IT
    return found


def value_at(value: Any, parts: list[str]) -> Any:
    """What stands at a path of a value; None if nothing does."""
    for part in parts:
        value = value.get(part) if type(value) is dict else None
    return value


def instant(value: Any, unit: str) -> int | None:
    """An event time in microseconds since 1970; None if it is none. A value that is a time by itself has no unit."""
    if isinstance(value, Instant):
        return value.micros
    if unit == "iso":
        return micros(value) if type(value) is str else None
    if type(value) is not int:
        return None
    return value // 1_000 if unit == "ns" else value * _UNITS_US[unit]


def _shown(path: _Path) -> str:
    steps: list[str] = []
    while path:
        path, step = path
        steps.append(f"[{step}]" if isinstance(step, int) else f".{step}")
    return "$" + "".join(reversed(steps))
