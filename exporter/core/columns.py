"""What a column may be called, at every level of a type's schema: the one place that decides it. Pure.

    a name alone     ours, empty, or with a character that Delta, Parquet or a reader of JSON refuses
    names together   equal but for case, or a dotted name that reads like a nested field: `a.b` beside STRUCT<b: ...>
    what is added    by a task, because of what it saw: also no name that Delta has for itself, and none that is long

For what is declared now. What an earlier version has recorded is drained as it was declared then.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias

from exporter.column import spark_json
from exporter.column.types import Field, ListType, MapType, ScalarType, StructType, Type
from exporter.errors import ConfigError
from offsets.partitions import DAY, Spec

EVENT_TIME = "_event_time"
"""Column of a record's event time, in the table of each event type; null in rows of versions that did not keep it."""


def reserved(spec: Spec) -> frozenset[str]:
    """Top-level names that the exporter itself writes into a table of this spec (compared without case)."""
    return OURS | {column.name for column in spec.time_columns}


OURS = frozenset({"_kafka", EVENT_TIME, "_rescued"})
"""Of these in every table."""
PARTITIONING = frozenset({"string", "byte", "short", "integer", "long", "boolean", "date"})
"""Types of a column that can cut a table: each of their values has one text, and it is short."""
INSIDE_OURS = "_kafka."
"""A top-level name that begins so reads like one of the coordinates."""

NO_COLUMNS = '{"type":"struct","fields":[]}'
"""Spark schema JSON of an event type without declared columns: all of a record is in `_rescued`, or in evolved ones."""
EVOLVED = "exporter.evolved"
"""Metadata of a field that was added by evolution: where it was seen first, `topic/partition/offset`, or who knew."""
RECORD = "exporter.record"
"""Metadata of a column that is no value's: what it has of the record, `key`, `headers`, `timestamp_type`, or `cdc`."""
JSON_TEXT = spark_json.JSON_TEXT
"""Metadata of a field that holds JSON as text, for who reads Spark's JSON; elsewhere it is a type."""

JsonText: TypeAlias = Literal["as_sent", "canonical"]
"""How such a text is written: as in the record, byte for byte, or as unknown fields are in `_rescued`."""

REFUSED = frozenset(' ,;{}()="\\')
"""Characters that no name can hold, nor any control character. Delta refuses a space to =, and tab and line feed; the
last two and control characters cannot stand in a JSON text as they are."""

DELTAS_OWN = frozenset({
    "_change_type", "_commit_version", "_commit_timestamp", "__is_cdc",  # of the change data feed
    "_metadata", "_tmp_metadata_row_index", "_file_name_", "_input_file_name_",  # of files
    "_condition_", "__condition__", "_row_id_", "_row_dropped_", "_source_row_index", "_source_row_present_",
    "_target_row_index_", "_target_row_present_",  # of MERGE, UPDATE and DELETE
})  # fmt: skip
"""Top-level names that Delta, or Spark as it reads Delta, gives to columns of its own (compared without case)."""
DELTAS_OPENINGS = ("__delta_internal_", "_row-id-col-", "_row-commit-version-col-")
"""How further ones begin: of deletion vectors, and of row tracking."""
NAME_BYTES_MAX = 255
"""Bytes of UTF-8 of the name of a column that a task adds: what catalogs take (Glue), by which tables are found."""

_LEAVE_OUT = "leave the column out: a field of that name is kept in `_rescued`"


class _Node(NamedTuple):
    """A column or a part of one. path: as it is shown. stored: the names in a Parquet file that lead to it, by dots.

    name: None of what has none, such as an element of an array.
    """

    path: str
    stored: str
    name: str | None


def check_columns(spark_schema_json: str, event_type: str, spec: Spec = DAY, own: Iterable[str] = ()) -> None:
    """Raises ConfigError for the first name that no column may have, or that cannot cut the table as the spec says.

    The text is that of `StructType.json()`. own: further names of columns that the exporter writes (record_columns.py).
    """
    fields = spark_json.struct_of(spark_schema_json).fields
    _check_cut(fields, event_type, spec)
    ours = {*reserved(spec), *map(folded, own)}
    for name in sorted({column.name for column in spec.time_columns} & {*map(folded, own)}):
        raise _refused(event_type, name, "the table is cut by a column of that name", "call the record's own otherwise")
    for field in fields:
        name = folded(field.name)
        if name in ours or name.startswith(INSIDE_OURS):
            what = "the exporter writes a column of that name itself"
            raise _refused(event_type, field.name, what, "rename it")
    for node in _nodes(fields):
        if node.name is not None and (what := _unfit(node.name)):
            raise _refused(event_type, node.path, what, _LEAVE_OUT)
    for one, other in clashes(fields):
        if folded(one) == folded(other):
            raise _refused(event_type, other, f"{one} is there too, and Spark and Delta ignore case", "rename one")
        what = f"readers cannot tell it from {one}"
        raise _refused(event_type, other, what, "rename one: a dotted name must not read like a nested field")


def _check_cut(fields: Sequence[Field], event_type: str, spec: Spec) -> None:
    """Whether the columns that cut a table are there, and can."""
    known = {field.name: field.type for field in fields}
    for name in spec.identity:
        if name not in known:
            what = "`partition_columns` names it, and there is no such column at the top level"
            raise _refused(event_type, name, what, f"there are: {', '.join(known) or 'none'}")
        kind = known[name]
        if not isinstance(kind, ScalarType) or kind.name not in PARTITIONING:
            what = "a column of this type cannot cut a table"
            hint = "`partition_columns` takes columns of type STRING, BOOLEAN, DATE and integers"
            raise _refused(event_type, name, what, hint)


def clashes(fields: Sequence[Field]) -> Iterator[tuple[str, str]]:
    """The paths of two columns each, or parts of such, that a reader of the table takes for one another."""
    seen: dict[str, str] = {}
    for node in _nodes(fields):
        key = folded(node.stored)
        if key in seen:
            yield seen[key], node.path
        seen.setdefault(key, node.path)


def is_own(name: str) -> bool:
    """Whether a top-level column of that name is the exporter's, however its table is cut."""
    return folded(name) in OURS


def unfit(name: str, top: bool) -> bool:
    """Whether no column can have that name, whatever else there is. top: it is to stand at the top of a table."""
    return bool(_unfit(name)) or (top and (is_own(name) or folded(name).startswith(INSIDE_OURS)))


def never_added(name: str, top: bool) -> bool:
    """Whether no field of that name becomes a column by itself: it stays in `_rescued`. top: as in unfit().

    A column that is declared, or there already, may be called so as far as Delta has it.
    """
    if top and ((fold := folded(name)) in DELTAS_OWN or fold.startswith(DELTAS_OPENINGS)):
        return True
    return is_long(name) or unfit(name, top)


def is_long(name: str) -> bool:
    """Whether a name is too long for a column that a task adds."""
    return len(name) * 4 > NAME_BYTES_MAX and len(name.encode("utf-8", "surrogatepass")) > NAME_BYTES_MAX


class Names:
    """Names of fields side by side, none of which readers take for another, or for something in another."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names: set[str] = set()
        self._openings: set[str] = set()
        for name in names:
            self.add(name)

    def add(self, name: str) -> None:
        self._names.add(folded(name))
        self._openings.update(_openings(folded(name)))

    def clash(self, name: str) -> bool:
        """Whether another one would be taken for one of these."""
        mine = folded(name)
        return mine in self._names or mine in self._openings or not self._names.isdisjoint(_openings(mine))


def _openings(name: str) -> list[str]:
    """Of a name with dots: all that ends before one of them."""
    parts = name.split(".")
    return [".".join(parts[:end]) for end in range(1, len(parts))]


def _nodes(fields: Sequence[Field], path: str = "", stored: str = "") -> Iterator[_Node]:
    """The fields of a struct and all that is in them."""
    for field in fields:
        name = field.name
        shown = f"`{name}`" if "." in name else name
        node = _Node(f"{path}.{shown}" if path else shown, f"{stored}.{name}" if stored else name, name)
        yield node
        yield from _inside(field.type, node)


def _inside(kind: Type, node: _Node) -> Iterator[_Node]:
    """All that is in a type, by the names that Parquet gives it. node: what has it."""
    if isinstance(kind, StructType):
        yield from _nodes(kind.fields, node.path, node.stored)
    if isinstance(kind, MapType):
        yield from _part(kind.key, node, kind.shown, ".key_value.key")
        yield from _part(kind.inner, node, kind.shown, ".key_value.value")
    if isinstance(kind, ListType):
        yield from _part(kind.inner, node, kind.shown, ".list.element")


def _part(kind: Type, node: _Node, shown: str, stored: str) -> Iterator[_Node]:
    """What has no name of its own, and all that is in it."""
    inner = _Node(node.path + shown, node.stored + stored, None)
    yield inner
    yield from _inside(kind, inner)


def _unfit(name: str) -> str:
    """What is wrong with a name by itself; empty if it will do."""
    bad = (char for char in name if char in REFUSED or unicodedata.category(char) == "Cc")
    return next((f"a name cannot hold {char!r}" for char in bad), "" if name else "a name cannot be empty")


def folded(text: str) -> str:
    """Equal for names that Spark or Delta take for one: they ignore case, letter by letter.

    For Java two letters are one if they are in upper case, or if what these are in lower case is; so `\u0130` (I with a
    dot) is `i`. Its lower case is two letters, `i` and a dot above it, so these are one with it too.
    """
    return _DOTTED.sub("i", text.lower() if text.isascii() else "".join(map(_letter, text)))


_DOTTED = re.compile("i\u0307+")


@lru_cache(maxsize=10_000)
def _letter(char: str) -> str:
    """One letter, folded. Where a case of it is several letters, Java has it by itself."""
    upper = char.upper()
    lower = (upper if len(upper) == 1 else char).lower()
    return lower[0]


def _refused(event_type: str, path: str, what: str, hint: str) -> ConfigError:
    return ConfigError(f"types.{event_type}, column {path!r}: {what}", hint)
