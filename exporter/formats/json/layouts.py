"""Where the records of a type hold unknown fields, and how these are cut out of a whole block at once.

Records of a type are mostly written by one program, so their unknown fields stand between the same known ones. A layout
knows these places by the text around them:

    {"id":7,"at":{"x":1,"z":0.5},"u":"?","w":[1,2],"n":3}     a record of which z, u and w are unknown
                        └S┘   E  └S┘             └E─┘         its stretches: unknown fields that follow each other
    {"id":7,"at":{"x":1,"§1":true},"§2":true,"n":3}           the text for the reader, with a mark for each stretch
    {"at":{"z":0.5},"u":"?","w":[1,2]}                        the unknown fields

No place is believed. The reader takes the text only if each mark stands in the object where its stretch belongs (or in
a map, so they are counted), and no record has such a field itself; and each stretch is proven alone to be
members of an object, unknown ones, none twice: by a pattern if it looks as others did, else by msgspec. So the record
is good JSON with the stretches, too. All other records stay as they are. Runs on Spark executors. What it remembers is
speed, never a verdict.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from json.decoder import JSONDecoder
from json.encoder import encode_basestring
from secrets import token_hex
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from exporter.formats.json.shapes import Child, Struct, numbered, shape_of
from exporter.formats.json.text import PARSE_ERRORS
from exporter.formats.json.unknown import Splitter, plain, same_members

LAYOUTS_MAX = 8
"""With more the names of unknown fields are taken for data: those records go the other way."""
IDLE_MAX = 64
"""Blocks without a record of a layout, after which it is forgotten."""
SEEN_MAX = 64
"""Layouts seen once that are remembered until they are seen again."""
LEARNT_BYTES_MAX = 64 << 10
STRETCHES_MAX = 16
TEMPLATES_MAX = 4
PATTERN_MAX = 8_192
"""Characters. A pattern of much longer ones is refused by Arrow's engine (RE2)."""
LINES_BYTES = 32 << 10
"""Stretches are read together in so many bytes, which are up to thirty times that as objects: a core's cache."""
OPENED_MAX = 100
"""Opening brackets of a stretch beyond which the judge has to see how deep they go."""

_TEXT = r'"(?:[^"\\\x00-\x1f]|\\["\\nrtbf])*"'
"""One that is written so by the judge, too."""
_VALUE = rf"(?:{_TEXT}|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?|true|false|null)"
_PLAIN = rf"{_VALUE}|\[(?:{_VALUE}(?:,{_VALUE})*)?\]"
MARK = token_hex(8)
"""How the names of marks begin. Drawn by each process: no record can have such a field."""
_decode_lines = msgspec.json.Decoder(dict[str, Any]).decode_lines
_decode_lines_exact = msgspec.json.Decoder(dict[str, Any], float_hook=msgspec.Raw).decode_lines
_encode_lines = msgspec.json.Encoder().encode_lines
_value_at = JSONDecoder(parse_int=str, parse_float=str).raw_decode

Path = tuple[str, ...]


class Stretch(NamedTuple):
    """path: of the object that it stands in. name: its first key. start: that key and its colon as sent. end: what
    follows as sent, up to the next known value or stretch, or, with `last`, to the end of the record.
    """

    path: Path
    name: str
    start: str
    end: str
    last: bool


class Cut(NamedTuple):
    """A block without the unknown fields that layouts know.

    texts: for the reader. unknown: of each row, as the judge writes them, null where nothing was cut out. found: the
    number of unknown fields, 0 there. first: the path of the first one, null there.
    """

    texts: pa.BinaryArray
    unknown: pa.StringArray
    found: pa.Int32Array
    first: pa.StringArray

    def part(self, size: int) -> Cut:
        """Its first rows."""
        return Cut(*(column.slice(0, size) for column in self))

    @classmethod
    def none(cls, size: int) -> Cut:
        """Nothing is cut out of so many rows, and there are no texts."""
        texts, none = pa.nulls(size, pa.binary()), pa.nulls(size, pa.string())
        return cls(texts, none, pa.repeat(pa.scalar(0, pa.int32()), size), none)


class _Template(NamedTuple):
    """How the fields of a stretch look if their keys are these, in this order. pattern: of all behind the first key.

    What fits it is as the judge writes it. fields: their number. keys: theirs, not of those in them.
    """

    pattern: str
    fields: int
    keys: frozenset[str]


class _Pairs(list[Any]):
    """An object as (key, value) in its order."""


_parse = JSONDecoder(object_pairs_hook=_Pairs, parse_int=float).decode


def _template(name: str, sent: str) -> _Template | None:
    """That of a stretch, of which `sent` follows its first key; None if its pattern would be too long."""
    fields = _parse(f"{{{encode_basestring(name)}:{sent}}}")
    pattern = _pattern(fields)
    if pattern is None:
        return None
    behind = pattern[len(rf"\{{{re.escape(encode_basestring(name))}:") : -len(r"\}")]
    return _Template(behind, len(fields), frozenset(key for key, _ in fields))


def _pattern(value: Any) -> str | None:
    """Of all values that have the same keys in the same order, and plain values where this one has any."""
    if not isinstance(value, list):
        return _VALUE
    if isinstance(value, _Pairs):
        inner = [(re.escape(encode_basestring(key)), _pattern(item)) for key, item in value]
        pattern = rf"\{{{','.join(f'{key}:{item}' for key, item in inner)}\}}"
        return pattern if len(pattern) <= PATTERN_MAX and all(item for _, item in inner) else None
    items = dict.fromkeys(map(_pattern, value)) or {_VALUE: None}
    if None in items:
        return None
    item = f"(?:{'|'.join(filter(None, items))})"
    pattern = rf"\[(?:{item}(?:,{item})*)?\]"
    return pattern if len(pattern) <= PATTERN_MAX else None


class _Layout:
    """Stretches in the order of the record. idle: blocks since a record had them.

    known: for each the fields that its object may have in the reader. sent: for each what followed its first key once.
    """

    def __init__(self, stretches: Sequence[Stretch], known: Sequence[frozenset[str]], sent: Sequence[str]) -> None:
        self.stretches = stretches
        self.idle = 0
        self._known = known
        self._keys = [f"{encode_basestring(stretch.name)}:" for stretch in stretches]
        self._marked: list[str] = []
        self._glue = _glue(stretches)
        self._first = ".".join(["$", *stretches[0].path, stretches[0].name])
        self._templates: list[list[_Template]] = [[] for _ in stretches]
        for at, text in enumerate(sent):
            self._learn(at, text)

    def mark(self, marks: Sequence[str]) -> None:
        """Give each stretch the name of its mark."""
        self._marked = [f'"{mark}":true{stretch.end}' for mark, stretch in zip(marks, self.stretches, strict=True)]

    def _learn(self, at: int, sent: str) -> None:
        """Take stretches as `sent`, which is good, for usual: of as many fields as others, none of another stretch."""
        mine = self._templates[at]
        found = _template(self.stretches[at].name, sent)
        if found is None or len(mine) >= TEMPLATES_MAX or any(one.fields != found.fields for one in mine):
            return
        beside = [other for i, other in enumerate(self._templates) if i != at]
        if all(found.keys.isdisjoint(one.keys) for other in beside for one in other):
            mine.append(found)

    def cut(self, values: pa.BinaryArray) -> tuple[pa.Int32Array, Cut]:
        """The rows of the values that have these stretches without a doubt, and what is cut out of them."""
        rows, parts = self._parts(values)
        size = len(rows)
        texts: list[pa.BinaryArray | str] = []
        unknown: list[pa.BinaryArray | str] = [self._glue[0]]
        found, odd = pa.repeat(pa.scalar(0, pa.int32()), size), pa.repeat(False, size)
        for i, (before, sent) in enumerate(zip(parts[::2], parts[1::2], strict=False)):
            members = self._members(i, sent)
            texts += [before, self._marked[i]]
            unknown += [self._keys[i], members.texts, self._glue[i + 1]]
            found, odd = pc.add(found, members.found), pc.or_(odd, members.odd)
        whole = _text(unknown)
        if len(self.stretches) > 1 and odd.true_count:
            several = pc.and_(odd, whole.is_valid())
            whole = _replaced(whole, several, _objects("", whole.filter(several), "", frozenset())[0])
        cut = Cut(_text([*texts, parts[-1]]), _utf8(whole), found, pa.repeat(self._first, size))
        if not cut.unknown.null_count:
            return rows, cut
        sure = pc.indices_nonzero(cut.unknown.is_valid())
        return rows.take(sure), Cut(*(column.take(sure) for column in cut))

    def _parts(self, values: pa.BinaryArray) -> tuple[pa.Int32Array, list[pa.BinaryArray]]:
        """The rows that look like it; of these what is before, in and behind each stretch."""
        rows, rest = numbered(len(values)), values
        parts: list[pa.BinaryArray] = []
        for stretch in self.stretches:
            for text, last in ((stretch.start, False), (stretch.end, stretch.last)):
                halves = pc.split_pattern(rest, pattern=text, max_splits=1, reverse=last)
                if len(halves.flatten()) < 2 * len(rest):
                    kept = pc.indices_nonzero(pc.equal(halves.value_lengths(), 2))
                    halves, rows, parts = halves.take(kept), rows.take(kept), [part.take(kept) for part in parts]
                before, rest = (halves.flatten().take(at) for at in _every_second(len(rows)))
                parts.append(before)
        return rows, [*parts, rest]

    def _members(self, at: int, sent: pa.BinaryArray) -> _Members:
        """What stands in a stretch behind its first key."""
        templates = self._templates[at]
        fields = templates[0].fields if templates else 1
        patterns = [one.pattern for one in templates] + ([_PLAIN] if fields == 1 else [])
        odd = pc.invert(pc.match_substring_regex(sent, f"^(?:{'|'.join(patterns)})$"))
        usual = pa.repeat(pa.scalar(fields, pa.int32()), len(sent))
        if not odd.true_count:
            return _Members(sent, usual, odd)
        texts, found = _objects(f"{{{self._keys[at]}", sent.filter(odd), "}", self._known[at])
        if 4 * len(texts) > len(sent) and texts[0].is_valid:
            self._learn(at, texts[0].as_py().decode())
        return _Members(_replaced(sent, odd, texts), _replaced(usual, odd, found), odd)


class _Members(NamedTuple):
    """Of stretches. texts: as the judge writes them, null if in doubt. found: fields. odd: of no usual look."""

    texts: pa.BinaryArray
    found: pa.Int32Array
    odd: pa.BooleanArray


class Layouts:
    """Those of one type, at first none."""

    def __init__(self, root: Struct) -> None:
        self._shape = root
        self._slots: dict[tuple[Path, int], str] = {}
        self._splitter = Splitter(root)
        self._layouts: list[_Layout] = []
        self._seen: dict[tuple[Stretch, ...], None] = {}

    def cut(self, values: pa.BinaryArray) -> Cut | None:
        """The values without the unknown fields that are known by now; None if there are none."""
        if not self._layouts:
            return None
        rows, rest = numbered(len(values)), values
        done: list[tuple[pa.Int32Array, Cut]] = []
        for layout in self._layouts:
            here, cut = layout.cut(rest)
            layout.idle = 0 if len(here) else layout.idle + 1
            if len(here):
                done.append((rows.take(here) if len(here) < len(rows) else rows, cut))
                rows, rest = _without(rows, here), _without(rest, here)
        self._layouts = [layout for layout in self._layouts if layout.idle < IDLE_MAX]
        return _in_order([*done, (rows, Cut.none(len(rest))._replace(texts=rest))]) if done else None

    def learn(self, raw: bytes) -> bool:
        """Look at a good record that has unknown fields. True if they will be cut out from now on."""
        if len(raw) > LEARNT_BYTES_MAX or len(self._layouts) >= LAYOUTS_MAX:
            return False
        try:
            text = raw.decode()
            members = list(_members_of(text, text.index("{"), self._shape, ()))
        except (*PARSE_ERRORS, IndexError):
            return False
        found = dict(_stretches(text, members))
        stretches = tuple(found)
        everywhere = self._splitter.split(raw)
        if everywhere is None or everywhere.found.count > sum(not member.known for member in members):
            return False
        if len(stretches) > STRETCHES_MAX or any(stretches == one.stretches for one in self._layouts):
            return False
        if stretches not in self._seen:
            self._seen = {stretches: None} if len(self._seen) >= SEEN_MAX else {**self._seen, stretches: None}
            return False
        del self._seen[stretches]
        known = [frozenset(_struct_at(self._shape, stretch.path).children) for stretch in stretches]
        layout = _Layout(stretches, known, list(found.values()))
        layout.mark(self._marks(stretches))
        self._layouts = sorted([*self._layouts, layout], key=lambda one: len(one.stretches), reverse=True)
        return True

    def _marks(self, stretches: Sequence[Stretch]) -> list[str]:
        """Names that are known in the object of their stretch only, and there for one of them."""
        before: Counter[Path] = Counter()
        marks = []
        for stretch in stretches:
            slot = (stretch.path, before[stretch.path])
            before[stretch.path] += 1
            marks.append(self._slots.setdefault(slot, f"{MARK}{len(self._slots)}"))
        return marks

    @property
    def marks(self) -> dict[str, Path]:
        """All marks that there may be in texts by now, and the object of each."""
        return {mark: path for (path, _), mark in self._slots.items()}

    def marked(self, root: Struct) -> Struct:
        """The shape, or one with the same fields, with all marks that there may be in texts by now."""
        return _with_marks(root, (), self.marks)


def _struct_at(root: Struct, path: Path) -> Struct:
    for name in path:
        root = root.children[name].node
    return root


def _with_marks(node: Struct, path: Path, marks: Mapping[str, Path]) -> Struct:
    """The shape with a flag for each mark. What is not a struct of structs is the same node."""
    children = {
        name: replace(child, node=_with_marks(child.node, (*path, name), marks))
        if isinstance(child.node, Struct)
        else child
        for name, child in node.children.items()
    }
    flags = {
        mark: Child(shape_of(pa.bool_()), True, declared=False) for mark, place in marks.items() if place == path
    }
    return Struct({**children, **flags}, node.target)


def _glue(stretches: Sequence[Stretch]) -> list[str]:
    """What stands before, between and behind the stretches in the object of the unknown fields."""
    glue: list[str] = []
    here: Path = ()
    text = "{"
    for stretch in stretches:
        shared = 0
        while shared < min(len(here), len(stretch.path)) and here[shared] == stretch.path[shared]:
            shared += 1
        text += "}" * (len(here) - shared) + ("," if glue else "")
        text += "".join(f"{encode_basestring(name)}:{{" for name in stretch.path[shared:])
        glue.append(text)
        here, text = stretch.path, ""
    return [*glue, "}" * (len(here) + 1)]


class _Member(NamedTuple):
    """A field of an object that may hold unknown ones. at, value: where key and value begin. end: of the value."""

    path: Path
    name: str
    at: int
    value: int
    end: int
    known: bool


def _members_of(text: str, at: int, node: Struct, path: Path) -> Iterator[_Member]:
    """Of the object that begins there, a good one, and of those in it; each before those in it."""
    at = _behind_blanks(text, at + 1)
    while text[at] != "}":
        begin = at
        name, at = _value_at(text, at)
        value = _behind_blanks(text, _behind_blanks(text, at) + 1)
        _, end = _value_at(text, value)
        child = node.children.get(name)
        yield _Member(path, name, begin, value, end, child is not None)
        if child is not None and isinstance(child.node, Struct) and text[value] == "{":
            yield from _members_of(text, value, child.node, (*path, name))
        at = _behind_blanks(text, end)
        at = _behind_blanks(text, at + 1) if text[at] == "," else at


def _behind_blanks(text: str, at: int) -> int:
    while text[at] in " \t\r\n":
        at += 1
    return at


def _stretches(text: str, members: Sequence[_Member]) -> Iterator[tuple[Stretch, str]]:
    """Those of a record with these fields, and what follows their first key."""
    begin: _Member | None = None
    for member, following in zip(members, [*members[1:], None], strict=True):
        if member.known:
            continue
        begin = begin or member
        start, sent = text[begin.at : begin.value], text[begin.value : member.end]
        if following is None:
            yield Stretch(begin.path, begin.name, start, text[member.end :], True), sent
        elif following.known or following.path != member.path:
            end = following.value if following.known else following.at
            yield Stretch(begin.path, begin.name, start, text[member.end : end], False), sent
            begin = None


def _text(parts: Sequence[pa.BinaryArray | str]) -> pa.BinaryArray:
    """Row by row what the parts say; null where one of them does."""
    columns = [pa.scalar(part.encode(), pa.binary()) if isinstance(part, str) else part for part in parts]
    if len(columns) == 3 and isinstance(parts[1], str):  # the same, in fewer steps
        return pc.binary_join_element_wise(columns[0], columns[2], columns[1])
    return pc.binary_join_element_wise(*columns, pa.scalar(b"", pa.binary()))


def _objects(
    begin: str, texts: pa.BinaryArray, end: str, known: frozenset[str]
) -> tuple[pa.BinaryArray, pa.Int32Array]:
    """What is JSON objects between `begin` and `end`: as the judge writes it, and how many fields each object has.

    Null and 0 if in doubt or with a known field.
    """
    first, last = begin.encode(), end.encode()
    joined = pc.binary_join(pa.ListArray.from_arrays([0, len(texts)], texts), last + b"\n" + first)[0].as_py()
    lines = first + joined + last
    if _shallow(texts, joined):
        sizes, written = _read_lines(lines, known, _decode_lines)
        if len(sizes) == len(texts) and written == lines:
            return texts, pa.array(sizes, pa.int32())
        sizes, written = _read_lines(lines, known, _decode_lines_exact)
        if len(sizes) == len(texts) and same_members(lines, written):
            return _inner(written.split(b"\n"), first, last), pa.array(sizes, pa.int32())
    found = [_object(first + text + last, known) for text in texts.to_pylist()]
    return _inner([text for text, _ in found], first, last), pa.array([size for _, size in found], pa.int32())


def _inner(texts: Sequence[bytes | None], first: bytes, last: bytes) -> pa.BinaryArray:
    """The texts without their beginning and end."""
    return pa.array([text and text[len(first) : len(text) - len(last)] for text in texts], pa.binary())


def _read_lines(lines: bytes, known: frozenset[str], decode: Callable[[bytes], Any]) -> tuple[list[int], bytes]:
    """The objects, most often one a line, written again; how many fields each has. Without doubt all, or none.

    A line break between two braces stands in no object: there are as many objects as texts only if each is one.
    """
    sizes: list[int] = []
    written: list[bytes] = []
    at = 0
    while at < len(lines):
        end = lines.find(b"\n", at + LINES_BYTES) + 1 or len(lines)
        try:
            read = decode(lines[at:end])
        except PARSE_ERRORS:
            return [], b""
        numbers = list(map(len, read))
        if numbers.count(1) < len(numbers) and not all(map(known.isdisjoint, read)):
            return [], b""
        sizes += numbers
        written.append(_encode_lines(read))
        at = end
    return sizes, b"".join(written)[:-1]


def _object(text: bytes, known: frozenset[str]) -> tuple[bytes | None, int]:
    found = plain(text) if text.count(b"[") + text.count(b"{") <= OPENED_MAX else None
    return (None, 0) if found is None or not known.isdisjoint(found[1]) else (found[0], len(found[1]))


def _replaced(column: pa.Array, where: pa.BooleanArray, by: pa.Array) -> pa.Array:
    return by if len(by) == len(column) else pc.replace_with_mask(column, where, by)


def _shallow(texts: pa.BinaryArray, joined: bytes) -> bool:
    """Whether none has too many opening brackets. A shorter text has not."""
    if joined.count(b"[") + joined.count(b"{") <= len(texts) + OPENED_MAX:
        return True
    if pc.max(pc.binary_length(texts)).as_py() <= OPENED_MAX:
        return True
    opened = pc.add(pc.count_substring(texts, "["), pc.count_substring(texts, "{"))
    return bool(pc.max(opened).as_py() <= OPENED_MAX)


def _utf8(texts: pa.BinaryArray) -> pa.StringArray:
    """Null for those that are not."""
    try:
        return texts.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([text if text is None else _decoded(text) for text in texts.to_pylist()], pa.string())


def _decoded(text: bytes) -> str | None:
    try:
        return text.decode()
    except UnicodeDecodeError:
        return None


@lru_cache(maxsize=4)
def _every_second(size: int) -> tuple[pa.Int32Array, pa.Int32Array]:
    """0, 2, 4 and so on, and those between."""
    first = pc.multiply(numbered(size), pa.scalar(2, pa.int32()))
    return first, pc.add(first, pa.scalar(1, pa.int32()))


def _without(column: pa.Array, rows: pa.Int32Array) -> pa.Array:
    """All but some, which are not none."""
    if len(rows) == len(column):
        return column.slice(0, 0)
    return column.filter(pc.invert(pc.is_in(numbered(len(column)), value_set=rows)))


def _in_order(parts: Sequence[tuple[pa.Int32Array, Cut]]) -> Cut:
    """One of several, each with the rows that it is of."""
    parts = [(rows, cut) for rows, cut in parts if len(rows)]
    if len(parts) == 1:
        return parts[0][1]
    order = pc.array_sort_indices(pa.concat_arrays([rows for rows, _ in parts]))
    return Cut(*(pa.concat_arrays(columns).take(order) for columns in zip(*(cut for _, cut in parts), strict=True)))
