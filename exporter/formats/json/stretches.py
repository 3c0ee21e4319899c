"""Where the unknown fields of one record stand in its text: in stretches, between known ones. On Spark executors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from json.decoder import JSONDecoder
from json.encoder import encode_basestring
from typing import NamedTuple, TypeAlias

from exporter.formats.json.shapes import Struct

_value_at = JSONDecoder(parse_int=str, parse_float=str).raw_decode

Path: TypeAlias = tuple[str, ...]


class Stretch(NamedTuple):
    """path: of the object that it stands in. name: its first key. start: that key and its colon as sent. end: what
    follows as sent, up to the next known value or stretch, or, with `last`, to the end of the record.
    """

    path: Path
    name: str
    start: str
    end: str
    last: bool


class StretchMember(NamedTuple):
    """A field of an object that may hold unknown ones. at, value: where key and value begin. end: of the value."""

    path: Path
    name: str
    at: int
    value: int
    end: int
    known: bool


def members_of(text: str, at: int, node: Struct, path: Path) -> Iterator[StretchMember]:
    """Of the object that begins there, a good one, and of those in it; each before those in it."""
    at = _behind_blanks(text, at + 1)
    while text[at] != "}":
        begin = at
        name, at = _value_at(text, at)
        value = _behind_blanks(text, _behind_blanks(text, at) + 1)
        _, end = _value_at(text, value)
        child = node.children.get(name)
        yield StretchMember(path, name, begin, value, end, child is not None)
        if child is not None and isinstance(child.node, Struct) and text[value] == "{":
            yield from members_of(text, value, child.node, (*path, name))
        at = _behind_blanks(text, end)
        at = _behind_blanks(text, at + 1) if text[at] == "," else at


def _behind_blanks(text: str, at: int) -> int:
    while text[at] in " \t\r\n":
        at += 1
    return at


def stretches_of(text: str, members: Sequence[StretchMember]) -> Iterator[tuple[Stretch, str]]:
    """Those of a record with these fields, and what follows their first key."""
    begin: StretchMember | None = None
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


def glue_of(stretches: Sequence[Stretch]) -> list[str]:
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
