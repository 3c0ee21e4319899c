"""JSON texts that stand in something: the row's text is taken out, and read as any JSON. Runs on Spark executors.

See opening.py for what is taken off, unavailable.py for what is not there. Integers that only a schema could explain
are explained by no guess:

    a DATE column        takes days since 1970 where `semantic_types` says that values are Debezium's or Connect's
    a TIMESTAMP column   takes none: `unknown_unit`
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

from exporter.core.columns import JsonText
from exporter.core.routing import EventTime, Routing, TypeFrom
from exporter.core.value_format import ValueFormat
from exporter.errors import ConfigError
from exporter.formats.cased import Spelling
from exporter.formats.dead_letter import DeadLetter
from exporter.formats.envelopes.change import Envelope, Image, ToldOfChange, cdc_array, named, with_before
from exporter.formats.envelopes.connect import Fields, Node, Payload, day_of, meant
from exporter.formats.envelopes.former import FormerTexts, of_former
from exporter.formats.envelopes.opening import Opening, text_on
from exporter.formats.envelopes.times import EnvelopeTime
from exporter.formats.envelopes.unavailable import sends_flags, unavailable, with_members
from exporter.formats.format import Format, Read
from exporter.formats.json.parts import compact, members_of
from exporter.formats.json.text import PARSE_ERRORS
from exporter.formats.marks import is_evolved
from exporter.formats.said import SaidType
from exporter.text import shorten


class EnvelopedTexts:
    """JSON in {schema, payload}, in an envelope, or in both. inner: reads what is in there."""

    def __init__(self, inner: Format, form: ValueFormat) -> None:
        self._inner = inner
        self._form = form
        self._opening = Opening(form)

    def schema(self, spark_json: str, event_type: str) -> pa.Schema:
        """Implements `Format.schema`: the Arrow schema of a type's columns."""
        return self._inner.schema(spark_json, event_type)

    def peek(self, source: TypeFrom) -> EnvelopePeek:
        """Implements `Format.peek`: what finds event types in values."""
        if source.kind != "json" and (source.kind != "source" or self._opening.envelope is None):
            raise ConfigError(
                f"JSON values name no {source.kind} here", "take the event type from a field, a header or the key"
            )
        return EnvelopePeek(self._opening, source, self._form)

    def reader(
        self, event_type: str, schema: pa.Schema, routing: Routing, json_text: JsonText = "as_sent"
    ) -> EnvelopedReader:
        """Implements `Format.reader`: what reads a type's values into columns."""
        inside, time = routing, None
        if (envelope := self._opening.envelope) is not None:
            time = time_in(envelope.members, schema, routing.event_time)
            inside = replace(routing, type_from=TypeFrom("topic"))
            inside = inside if time is None else replace(inside, event_time=EventTime("record"))
        inner = self._inner.reader(event_type, schema, inside, json_text)
        wanted = WantedColumns.by(schema, routing, self._form)
        if routing.ignores_case(event_type):
            wanted = wanted._replace(spelling=Spelling.of(schema))
        said = SaidType(event_type, routing)
        check = None if self._opening.envelope is None else route_of(routing.type_from)
        former = None
        if names := self._form.before:
            plain = of_former(routing)
            former = FormerTexts(lambda one: self._inner.reader(event_type, one, plain, json_text), schema, names)
        return EnvelopedReader(self._opening, inner, wanted, time, (said, check), former)


def time_in(members: frozenset[str], schema: pa.Schema, time: EventTime) -> EnvelopeTime | None:
    """What reads the event time out of an envelope; None if it stands in the row, or nowhere.

    It stands in the envelope if its path begins with one of its members, and no declared column is called so.
    """
    first = time.path.partition(".")[0]
    declared = {field.name for field in schema if not is_evolved(field)}
    return EnvelopeTime(time) if time.kind == "json" and first in members and first not in declared else None


Route = Callable[[Mapping[str, Any], ToldOfChange], str | None]
"""From an envelope's value, and what was done, to the event type that it names."""


def route_of(source: TypeFrom) -> Route | None:
    """What finds the event type in an envelope; None if it stands elsewhere."""
    path = source.name.split(".")
    if source.kind == "source":
        return lambda _, told: told.source
    return (lambda doc, _: text_on(doc, path)) if source.kind == "json" else None


class WantedColumns(NamedTuple):
    """Names of columns at the top. read: those that are read. days: of which an integer is a day. moments: of which it
    is of an unknown unit. spelling: theirs, if fields fill them whose names differ by case only."""

    read: frozenset[str]
    days: tuple[str, ...]
    moments: tuple[str, ...]
    spelling: Spelling | None = None

    @classmethod
    def by(cls, schema: pa.Schema, routing: Routing, form: ValueFormat) -> WantedColumns:
        """The columns that a reader wants of an image."""
        declared = [field for field in schema if not is_evolved(field)]
        read = frozenset(schema.names if routing.unknown_fields == "rescue" else [field.name for field in declared])
        if form.envelope != "debezium" or form.kind == "connect_json":
            return cls(read if form.envelope == "debezium" else frozenset(), (), ())
        days = [field.name for field in declared if pa.types.is_date(field.type)]
        moments = [field.name for field in declared if pa.types.is_timestamp(field.type)]
        return cls(read, tuple(days) if form.semantic_types == "connect" else (), tuple(moments))


class _Row(NamedTuple):
    """One row as it is read. hidden: members of `_rescued` beside what the reader puts there. former: of its image of
    before the members that differ, and their names."""

    text: bytes
    told: ToldOfChange | None
    time: int | None
    cut: bool
    hidden: bytes
    former: tuple[bytes, frozenset[str]] | None = None


class EnvelopedReader:
    """See Reader. routed: the event types that fit, and what finds one in an envelope."""

    def __init__(
        self,
        opening: Opening,
        inner: Any,
        wanted: WantedColumns,
        time: EnvelopeTime | None,
        routed: tuple[SaidType, Route | None],
        former: FormerTexts | None = None,
    ) -> None:
        self._opening = opening
        self._inner = inner
        self._wanted = wanted
        self._time = time
        self._said, self._route = routed
        self._former = former

    def read(self, values: pa.BinaryArray) -> Read:
        """Implements `Reader.read`: rows and refusals of a batch of values."""
        refused: dict[int, str] = {}
        rows: list[int] = []
        taken: list[_Row] = []
        for row, raw in enumerate(values.to_pylist()):
            try:
                taken.append(self._row(raw))
                rows.append(row)
            except DeadLetter as bad:
                refused[row] = str(bad)
        read: Read = self._inner.read(pa.array([one.text for one in taken], pa.binary()))
        refused |= {rows[at]: reason for at, reason in read.refused.items()}
        kept = read.rows.to_pylist()
        good = [taken[at] for at in kept]
        cdc = None if self._opening.envelope is None else cdc_array([one.told for one in good if one.told])
        if cdc is not None and self._former is not None:
            cdc = with_before(cdc, self._former.told([one.former for one in good]))
        hidden = {at: one.hidden.decode() for at, one in enumerate(good) if one.hidden}
        return replace(
            read,
            rows=pa.array([rows[at] for at in kept], pa.int32()),
            rescued=with_members(read.rescued, hidden),
            refused=refused,
            time=read.time if self._time is None else self._time.array([one.time for one in good]),
            truncated=read.truncated + sum(one.cut for one in good),
            cdc=cdc,
        )

    def _row(self, raw: bytes | None) -> _Row:
        """The row of a value. Raises DeadLetter or Unclear."""
        payload, envelope = self._opening.payload(raw), self._opening.envelope
        if envelope is None:
            text, hidden = self._text(payload.raw, payload.value, payload.node)
            return _Row(text, None, None, False, hidden)
        change = envelope.change(payload.value)
        if self._route is not None and not self._said.fits(self._route(payload.value, change.told)):
            raise DeadLetter(self._said.mismatch)
        time, cut = (None, False) if self._time is None else self._time.read(payload.value)
        text, hidden = self._image_text(payload, change.image, _sends_flags(payload.value))
        return _Row(text, change.told, time, cut, hidden, self._before(payload, text))

    def _before(self, payload: Payload, text: bytes) -> tuple[bytes, frozenset[str]] | None:
        """What columns held before, where that differs. text: of the row."""
        if self._former is None or self._opening.envelope is None:
            return None
        try:
            found = self._opening.envelope.former(payload.value)
            if found is None:
                return None
            was, now = members_of(self._image_text(payload, found)[0]), members_of(text)
        except DeadLetter:
            return None
        both = self._former.names & was.keys() & now.keys()
        names = [name for name in both if bytes(was[name]) != bytes(now[name])]
        return (compact({name: was[name] for name in names}), frozenset(names)) if names else None

    def _image_text(self, payload: Payload, image: Image, flags: bool = True) -> tuple[bytes, bytes]:
        """As `_text`, of the row in an envelope."""
        sent = bytes(members_of(payload.raw)[image.member]) if image.text is None else image.text
        node = payload.node.nodes.get(image.member) if isinstance(payload.node, Fields) else None
        return self._text(sent, image.value, node, flags)

    def _text(
        self, sent: bytes, image: Mapping[str, Any], node: Node | None, flags: bool = True
    ) -> tuple[bytes, bytes]:
        """What is read of a row, and what is not: members of `_rescued`. Raises DeadLetter.

        flags: as is_unavailable has it.
        """
        changed: dict[str, Any] = {}
        if isinstance(node, Fields):
            changed = {name: meant(inner, image[name]) for name, inner in node.nodes.items() if name in image}
        if self._wanted.spelling is not None and (names := self._wanted.spelling.spelled(image, "$")):
            sent = compact({names.get(name, name): part for name, part in members_of(sent).items()})
            image, changed = ({names.get(name, name): one for name, one in some.items()} for some in (image, changed))
        for name in self._wanted.days:
            if type(image.get(name)) is int:
                changed[name] = day_of(image[name])
        for name in self._wanted.moments:
            if type(image.get(name)) is int:
                what = "is an integer whose unit nothing says: declare BIGINT, or have schemas sent (connect_json)"
                raise DeadLetter(f"unknown_unit: $.{shorten(name)} {what}")
        hidden = unavailable(image, self._wanted.read, flags)
        if not changed and not hidden:
            return sent, b""
        parts: dict[str, Any] = members_of(sent)
        kept = {name: parts[name] for name in hidden}
        row = {name: item for name, item in {**parts, **changed}.items() if name not in kept}
        return compact(row), compact(kept)[1:-1] if kept else b""


def _sends_flags(doc: Mapping[str, Any]) -> bool:
    """Whether the source's connector sends flags, as `unavailable.sends_flags` knows it."""
    source = doc.get("source")
    return type(source) is not dict or sends_flags(source.get("connector"), source.get("version"))


class EnvelopePeek:
    """Finds event types. See Peek."""

    def __init__(self, opening: Opening, source: TypeFrom, form: ValueFormat) -> None:
        self._opening = opening
        self._path = source.name.split(".") if source.kind == "json" else []
        self._glance = _glance(opening.envelope, self._path, form)
        self._shown = f"$.{source.name}" if self._path else f"the source of an envelope ({form.envelope})"

    def types(self, values: pa.BinaryArray, skipped: pa.BooleanArray) -> tuple[pa.StringArray, dict[int, str]]:
        """Implements `Peek.types`: the event type of each value, or why there is none."""
        names: list[str | None] = []
        reasons: dict[int, str] = {}
        for row, (raw, skip) in enumerate(zip(values.to_pylist(), skipped.to_pylist(), strict=True)):
            name = None
            if raw is not None and not skip:
                try:
                    name = self._type(raw)
                except DeadLetter as bad:
                    reasons[row] = str(bad)
            names.append(name)
        return pa.array(names, pa.string()), reasons

    def _type(self, raw: bytes) -> str:
        """The event type that a value says. Raises DeadLetter."""
        name = self._glance(raw)
        if name:
            return name
        doc = self._opening.payload(raw).value
        name = text_on(doc, self._path) if self._path else self._opening.source(doc)
        if name:
            return name
        if self._opening.envelope is not None:
            self._opening.envelope.change(doc)
        raise DeadLetter(f"no_type: {self._shown} is missing, empty or no text")


def _glance(envelope: Envelope | None, path: list[str], form: ValueFormat) -> Callable[[bytes], str | None]:
    """Finds the event type of most values without reading the rest of them. None: somebody else has to look.

    path: where it stands; empty: it is the envelope's source. Of a value that holds a key twice it may take another
    than the reader, which refuses such values.
    """
    kind: Any = str
    if not path and envelope is not None:
        names = {f"f{at}": name for at, name in enumerate(envelope.names)}
        kind = msgspec.defstruct("Source", [(field, str | None, None) for field in names], rename=names, gc=False)
        path = [envelope.holder]
    path = ["payload", *path] if form.kind == "connect_json" else path
    for name in reversed(path):
        kind = msgspec.defstruct("Glance", [("f", kind)], rename={"f": name}, gc=False)
    decode = msgspec.json.Decoder(kind).decode

    def glance(raw: bytes) -> str | None:
        try:
            found = decode(raw)
        except PARSE_ERRORS:
            return None
        for _ in path:
            found = found.f
        if type(found) is str or envelope is None:
            return str(found)
        return named([getattr(found, f"f{at}") for at in range(len(envelope.names))])

    return glance
