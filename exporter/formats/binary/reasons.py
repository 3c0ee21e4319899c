"""Why a row of a batch is refused, as one number per row: a place in the schema and a kind.

    0                            nothing is wrong
    1 + place * WIDTH + kind     `truncated: $.items[2].price ends before its value does`

ReasonPaths are paths that a plan knows; those of items get their number while a batch is read. Pure.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from exporter.text import shorten

WIDTH = 64
"""So many kinds there may be."""


class Kind(IntEnum):
    """What is wrong with the value at a place. The code of a reason is the name in lower case."""

    TRUNCATED = 0
    BAD_VARINT = 1
    BAD_LENGTH = 2
    OUT_OF_RANGE = 3
    TOO_BIG = 4
    NOT_UTF8 = 5
    BAD_BOOLEAN = 6
    BAD_ENUM = 7
    BAD_BRANCH = 8
    UNKNOWN_SYMBOL = 9
    UNRESOLVABLE_BRANCH = 10
    BAD_DECIMAL = 11
    DUPLICATE_KEY = 12
    TRAILING_BYTES = 13
    BAD_TIME = 14
    WRONG_WIRE_TYPE = 15
    DUPLICATE_FIELD = 16
    UNKNOWN_FIELD = 17
    UNKNOWN_ENUM = 18
    MISSING_FIELD = 19
    BAD_TAG = 20
    TOO_DEEP = 21
    INEXACT = 22


TEXTS = {
    Kind.TRUNCATED: "ends before its value does",
    Kind.BAD_VARINT: "is a number of more than 64 bits",
    Kind.BAD_LENGTH: "has a length that there cannot be",
    Kind.OUT_OF_RANGE: "lies outside of what its type can hold",
    Kind.TOO_BIG: "brings the items of one record above what is taken",
    Kind.NOT_UTF8: "is text that is not UTF-8",
    Kind.BAD_BOOLEAN: "is neither true nor false",
    Kind.BAD_ENUM: "is the number of no symbol",
    Kind.BAD_BRANCH: "is of a branch that the union does not have",
    Kind.UNKNOWN_SYMBOL: "is a symbol that the reader's schema lacks",
    Kind.UNRESOLVABLE_BRANCH: "is of a branch that the reader's schema cannot take",
    Kind.BAD_DECIMAL: "is a decimal of more digits than declared, or of none",
    Kind.DUPLICATE_KEY: "has a key twice",
    Kind.TRAILING_BYTES: "is followed by bytes that belong to no field",
    Kind.BAD_TIME: "is text that is no time",
    Kind.WRONG_WIRE_TYPE: "has a wire type that its field cannot have",
    Kind.DUPLICATE_FIELD: "is there twice",
    Kind.UNKNOWN_FIELD: "is a field that its schema does not have",
    Kind.UNKNOWN_ENUM: "is the number of no value of its enum",
    Kind.MISSING_FIELD: "is required, but missing",
    Kind.BAD_TAG: "is not the beginning of a field",
    Kind.TOO_DEEP: "is nested too deep",
    Kind.INEXACT: "would be rounded",
}


def number_of(place: int, kind: Kind) -> int:
    """What `bad` of a cursor holds for it."""
    return 1 + place * WIDTH + kind


class ReasonPaths:
    """The paths of a schema, by number. A plan has one; each batch goes on from a copy."""

    def __init__(self, paths: list[str] | None = None) -> None:
        self._paths = paths or []
        self._moved: dict[tuple[int, int, int], int] = {}

    def copy(self) -> ReasonPaths:
        return ReasonPaths(list(self._paths))

    def add(self, path: str) -> int:
        """The number of a path."""
        self._paths.append(path)
        return len(self._paths) - 1

    def reason(self, number: int) -> str:
        """The text of a row's number, which is not 0."""
        place, kind = divmod(number - 1, WIDTH)
        return f"{Kind(kind).name.lower()}: {shorten(self._paths[place])} {TEXTS[Kind(kind)]}"

    def numbered(self, bad: np.ndarray, items: int, at: np.ndarray) -> np.ndarray:
        """The numbers of what went wrong in items, with which item of its list each one is of.

        items: the place of the list's items, whose path ends with [] or {}. at: the item's number, for each of bad.
        """
        found = np.empty_like(bad)
        for row, (number, item) in enumerate(zip(bad.tolist(), at.tolist(), strict=True)):
            key = (number, items, item)
            if key not in self._moved:
                self._moved[key] = self._of_item(number, items, item)
            found[row] = self._moved[key]
        return found

    def _of_item(self, number: int, items: int, item: int) -> int:
        place, kind = divmod(number - 1, WIDTH)
        general, path = self._paths[items], self._paths[place]
        if not path.startswith(general):
            return number
        here = f"{general[:-1]}{item}{general[-1]}"
        return number_of(self.add(here + path[len(general) :]), Kind(kind))
