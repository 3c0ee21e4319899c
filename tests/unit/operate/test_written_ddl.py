"""The DDL that `infer` and `schema` write, read as settings are: it is the schema that it was made from."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from exporter.column.ddl import ddl_of
from exporter.core.columns import JSON_TEXT
from exporter.core.evolve import Evolution
from exporter.core.seen import At
from exporter.operate.infer.columns import hints_of, inferred_fields
from exporter.operate.infer.looks import Looks
from exporter.workbench import parse_schemas
from tests.support.schemas import listed

WORDS = """all and anti any array as at authorization between binary bigint boolean both by byte case cast char check
collate column comment constraint create cross current_date current_time cube day date dayofyear decimal default delete
desc describe distinct double drop else end escape except exists explain false fetch filter float for foreign from full
function generated global grant group grouping having hour if in inner insert int integer intersect interval into is
item items join json key keys language lateral leading left like limit long map match merge month name natural no not
null of offset on only or order outer overlaps partition position primary range real references right row rows select
semi session set short smallint some sort start string struct sum table then time timestamp timestamp_ntz tinyint to
trailing true truncate type union unique unknown update user using value values variant varchar view void when where
while window with year zone""".split()  # noqa: SIM905 - as one reads it
ODD = [
    "a.b", "a-b", "größe", "日本", "`", "a`b", "1st", "$x", "x:y", "<", ">", "[0]", "?", "'", "#", "--", "/*", "*/",
    "é\u00a0",
]  # fmt: skip


def nested(made: random.Random, names: list[str], depth: int = 0) -> Any:
    """A value that has every kind somewhere."""
    kind = made.randrange(9 if depth < 4 else 6)
    if kind < 6:
        return made.choice([True, 7, 2**70, 0.5, "text", "2026-01-31", "2026-01-31T12:00:00Z"])
    if kind == 6:
        return [nested(made, names, depth + 1) for _ in range(made.randrange(1, 3))]
    return {name: nested(made, names, depth + 1) for name in made.sample(names, made.randrange(1, 5))}


def told(kind: Any, metadata: Any) -> Any:
    """A type, or a field, by what this test goes by: names, types and where JSON texts are."""
    if isinstance(kind, str):
        return kind, metadata.get(JSON_TEXT, "")
    if kind["type"] == "struct":
        return [(one["name"], told(one["type"], one["metadata"])) for one in kind["fields"]]
    inner = told(kind["elementType" if kind["type"] == "array" else "valueType"], metadata)
    return kind["type"], inner


@pytest.mark.parametrize("names", [WORDS, ODD], ids=["words of SQL", "odd names"])
def test_the_schema_that_was_written_is_read(names: list[str]) -> None:
    """Every name as a column and within one; any JSON wherever it stands."""
    made, wanted = random.Random(7), {}
    for number in range(20):
        looks = Looks()
        for at in range(3):
            value = {name: nested(made, names) for name in made.sample(names, min(len(names), 40))}
            looks.add(value, At("t", 0, at), 1)
        wanted[f"t{number}"] = inferred_fields(looks, Evolution(hints_of(looks), keys_max=250))
    parsed = parse_schemas({name: ",\n".join(ddl_of(fields)) for name, fields in wanted.items()})
    for name, fields in wanted.items():
        assert told(json.loads(parsed[name]), {}) == told({"type": "struct", "fields": listed(fields)}, {})
