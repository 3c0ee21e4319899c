"""The event type read out of a JSON value without decoding the rest."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from exporter.formats.json.text import NOT_OBJECT, PARSE_ERRORS, TOO_DEEP, not_utf8, refuse_constant, too_deep
from exporter.text import shorten


class JsonPeek:
    """Reads the event type out of JSON values.

    An anchored regex takes the type when it is the object's first key and plain ASCII; every other
    value is read by msgspec. The two differ only for a value that holds the key twice (first against
    last); which one reads a value depends on the value alone, and the judge refuses duplicates.
    """

    def __init__(self, path: str) -> None:
        self._path = path.split(".")
        self._regex = None
        if len(self._path) == 1 and re.fullmatch(r"[A-Za-z0-9_-]+", self._path[0]):
            blank = r"[ \t\n\r]*"
            self._regex = rf'^{blank}\{{{blank}"{self._path[0]}"{blank}:{blank}"(?P<type>[ !#-\[\]-~]*)"{blank}[,}}]'
        self._decoder = msgspec.json.Decoder(_path_struct(self._path))

    def types(self, values: pa.BinaryArray, skipped: pa.BooleanArray) -> tuple[pa.StringArray, dict[int, str]]:
        """Event type per value (null or skipped in: null out) and a reason per other value that has none."""
        found = pa.nulls(len(values), pa.string())
        if self._regex is not None:
            found = pc.struct_field(pc.extract_regex(values, pattern=self._regex), "type").cast(pa.string())
        if skipped.true_count:
            found = pc.if_else(skipped, None, found)
        reasons: dict[int, str] = {}
        unread = pc.and_(found.is_null(), pc.and_not(values.is_valid(), skipped))
        if unread.true_count:
            found = self._read(found, values, unread, reasons)
        empty = pc.equal(found, "")
        for row in pc.indices_nonzero(empty).to_pylist():
            reasons[row] = f"no_type: {self._name} is an empty string"
        return pc.if_else(empty, None, found), reasons

    def _read(
        self, found: pa.StringArray, values: pa.BinaryArray, unread: pa.BooleanArray, reasons: dict[int, str]
    ) -> pa.StringArray:
        """Fill the types of the rows that the regex did not match."""
        names: list[str | None] = []
        rows = pc.indices_nonzero(unread)
        for row, raw in zip(rows.to_pylist(), values.take(rows).to_pylist(), strict=True):
            try:
                if too_deep(raw):
                    raise RecursionError
                value = self._decoder.decode(raw)
                for _ in self._path:
                    value = value.f
                names.append(value)
            except PARSE_ERRORS as error:
                names.append(None)
                reasons[row] = self._why(raw, error)
        return pc.replace_with_mask(found, unread, pa.array(names, pa.string()))

    def _why(self, raw: bytes, error: Exception) -> str:
        """The reason of a value without a type: what is wrong with the whole comes first."""
        try:
            if too_deep(raw):
                return TOO_DEEP
            whole = json.loads(raw.decode(), parse_int=str, parse_float=str, parse_constant=refuse_constant)
        except UnicodeDecodeError as bad:
            return not_utf8(bad)
        except PARSE_ERRORS as bad:
            return "not_json: the value is empty" if not raw.strip() else f"not_json: {shorten(str(bad))}"
        if not isinstance(whole, dict):
            return NOT_OBJECT
        return f"no_type: {self._name}: {shorten(str(error))}"

    @property
    def _name(self) -> str:
        return "$." + ".".join(self._path)


def _path_struct(path: list[str]) -> Any:
    """A msgspec type that reads only the string at a path: each level has one required field, `f`."""
    kind: Any = str
    for name in reversed(path):
        kind = msgspec.defstruct("Peek", [("f", kind)], rename={"f": name}, gc=False)
    return kind
