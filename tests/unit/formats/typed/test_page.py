"""The handbook's page of formats, table by table: it says what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest

from exporter.formats.typed.casts import cast_of
from exporter.formats.typed.compiled import sql_name
from exporter.formats.typed.texts import json_text
from tests.support import fit_oracle as oracle
from tests.unit.formats.typed.test_document import sent

PAGE = (Path(__file__).parents[4] / "deploy" / "handbook" / "formats.md").read_text()
KINDS = {
    sql_name(kind): kind
    for kind in (
        pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.bool_(), pa.string(), pa.binary(), pa.date32(),
        pa.timestamp("us", "UTC"), pa.timestamp("us"),
    )
}  # fmt: skip


def table(head: str) -> list[list[str]]:
    """The cells of the rows of the table that begins so."""
    rows = PAGE[PAGE.index(head) :].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in row.split("|")[1:-1]] for row in rows]


def kind_of(name: str) -> pa.DataType:
    decimal = re.fullmatch(r"DECIMAL\((\d+),(\d+)\)", name)
    return pa.decimal128(int(decimal[1]), int(decimal[2])) if decimal else KINDS[name]


WIDER = dict(table("| values of |"))


@pytest.mark.parametrize("source", [*KINDS, "DECIMAL(12,2)"])
def test_what_fits_a_declared_column(source: str) -> None:
    """Those that the page names, * where a value may not, the type itself, and no other."""
    names = re.findall(r"([A-Z_]+(?:\(\d+,\d+\))?)( \*)?", WIDER.get(source, ""))
    said = {name: bool(star) for name, star in names if "DECIMAL" not in name}
    found = {name: cast_of(kind_of(source), kind, free=False) for name, kind in KINDS.items() if name != source}
    assert {name: cast.code == "inexact" for name, cast in found.items() if cast is not None} == said
    least = [kind_of(name) for name, _ in names if "DECIMAL" in name]
    for precision in range(1, 39):
        for scale in range(precision + 1):
            target = pa.decimal128(precision, scale)
            wide = any(precision - scale >= one.precision - one.scale and scale >= one.scale for one in least)
            assert (cast_of(kind_of(source), target, free=False) is not None) == wide


CASES = [
    (name, text)
    for names, texts in table("| type | JSON |")
    for name in names.split(", ")
    for text in re.findall("`(.+?)`", texts)
]


@pytest.mark.parametrize(("name", "text"), CASES)
def test_the_json_of_a_value(name: str, text: str) -> None:
    """Read back and written again it is the same."""
    kind = kind_of(name)
    value = sent(oracle.parsed(text), kind)
    assert json_text(oracle.arrow([value], kind)).to_pylist() == [text]
