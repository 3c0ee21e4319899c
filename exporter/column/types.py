"""What a column is of: one value, whatever notation it was read from or is written in. Pure.

    ScalarType, DecimalType     what has no parts; JSON is a text that holds any JSON value
    StructType of Fields        ListType, MapType: of which `inner` is the element or the value

Whoever writes a notation says once what each of the four comes to, and a Fold goes over the type. Two types are equal
by what they mean: `text` is what one was read from, so that what is stored is written as it stands there, key by key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

T = TypeVar("T")
Type: TypeAlias = "ScalarType | DecimalType | StructType | ListType | MapType"


def _text() -> Any:
    return field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True)
class ScalarType:
    """name: as Spark's JSON has it. What is not in scalars.SCALARS is no column of ours."""

    name: str


JSON = ScalarType("json")
"""A text in Spark's own words, of which the field says that it holds any JSON value."""


@dataclass(frozen=True)
class DecimalType:
    """digits: of them `scale` stand behind the point."""

    digits: int
    scale: int

    @property
    def name(self) -> str:
        return f"decimal({self.digits},{self.scale})"


@dataclass(frozen=True)
class Field:
    """A column, or what a struct has of a name. metadata: but for where it holds JSON, which its type says."""

    name: str
    type: Type
    nullable: bool = True
    metadata: Mapping[str, Any] = field(default_factory=dict)
    text: Mapping[str, Any] = _text()


@dataclass(frozen=True)
class StructType:
    """All columns of a table, too."""

    fields: tuple[Field, ...] = ()
    text: Mapping[str, Any] = _text()

    @property
    def named(self) -> dict[str, Field]:
        return {one.name: one for one in self.fields}


@dataclass(frozen=True)
class ListType:
    """nullable: whether an element may be null."""

    inner: Type
    nullable: bool = True
    text: Mapping[str, Any] = _text()
    step: ClassVar = "element"
    shown: ClassVar = "[]"


@dataclass(frozen=True)
class MapType:
    """nullable: whether a value may be null."""

    key: Type
    inner: Type
    nullable: bool = True
    text: Mapping[str, Any] = _text()
    step: ClassVar = "value"
    shown: ClassVar = "{}"


@dataclass(frozen=True)
class Fold(Generic[T]):
    """What comes of a type, from its leaves upwards: of a struct by what came of each field, and so on."""

    scalar: Callable[[ScalarType | DecimalType], T]
    struct: Callable[[StructType, Sequence[tuple[Field, T]]], T]
    list: Callable[[ListType, T], T]
    map: Callable[[MapType, T, T], T]

    def __call__(self, kind: Type) -> T:
        if isinstance(kind, StructType):
            return self.struct(kind, [(one, self(one.type)) for one in kind.fields])
        if isinstance(kind, ListType):
            return self.list(kind, self(kind.inner))
        if isinstance(kind, MapType):
            return self.map(kind, self(kind.key), self(kind.inner))
        return self.scalar(kind)


def parts(kind: Type) -> Iterator[Type]:
    """All types in a type, it among them."""
    yield kind
    inside = [one.type for one in kind.fields] if isinstance(kind, StructType) else []
    inside += [kind.key] if isinstance(kind, MapType) else []
    for one in (*inside, *([kind.inner] if isinstance(kind, ListType | MapType) else [])):
        yield from parts(one)


def leaf(kind: Type) -> Type:
    """What is in a type's lists and maps of one another; itself if it is neither."""
    while isinstance(kind, ListType | MapType):
        kind = kind.inner
    return kind


def together(
    have: Type, want: Type, structs: Callable[[StructType, StructType], Type], others: Callable[[Type, Type], Type]
) -> Type:
    """`have` with what comes of it and of `want` where both are structs, or of what is neither that nor alike."""
    if isinstance(have, StructType) and isinstance(want, StructType):
        return structs(have, want)
    if isinstance(have, ListType | MapType) and type(have) is type(want):
        return replace(have, inner=together(have.inner, want.inner, structs, others))
    return others(have, want)


all_nullable: Fold[Type] = Fold(
    scalar=lambda one: one,
    struct=lambda of, parts: replace(of, fields=tuple(replace(one, type=kind, nullable=True) for one, kind in parts)),
    list=lambda of, inner: replace(of, inner=inner, nullable=True),
    map=lambda of, key, inner: replace(of, key=key, inner=inner, nullable=True),
)
"""A type with everything in it nullable, at every level."""
