"""Which field of a value fills which column."""

from __future__ import annotations

import json
from typing import Any

import pytest

from exporter.core.columns import EVOLVED, JSON_TEXT
from exporter.core.naming import REQUIRED, Names, decoded_schema, named_columns
from exporter.errors import ConfigError


def field(name: str, kind: Any = "string", nullable: bool = True, **metadata: str) -> dict[str, Any]:
    return {"metadata": metadata, "name": name, "nullable": nullable, "type": kind}


def struct(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"fields": list(fields), "type": "struct"}


def text(*fields: dict[str, Any]) -> str:
    return json.dumps(struct(*fields), sort_keys=True, separators=(",", ":"))


COLUMNS = text(
    field("a", "long"), field("uid", "long", nullable=False), field("tel"), field("at", struct(field("x", "double")))
)
CASES: list[tuple[Names, str]] = [
    ((), COLUMNS),
    (
        (("uid", ("user.id",)), ("tel", ("mobile", "user.phone"))),
        text(
            field("a", "long"),
            field("at", struct(field("x", "double"))),
            field("user", struct(field("id", "long", **{REQUIRED: "uid"}), field("phone"))),
            field("mobile"),
        ),
    ),
    (  # into a column that stays, and a column that is first of its own name
        (("tel", ("tel", "at.tel")),),
        text(
            field("a", "long"),
            field("uid", "long", nullable=False),
            field("at", struct(field("x", "double"), field("tel"))),
            field("tel"),
        ),
    ),
    (  # two columns change their names with each other
        (("a", ("uid",)), ("uid", ("a",))),
        text(
            field("tel"),
            field("at", struct(field("x", "double"))),
            field("uid", "long"),
            field("a", "long", **{REQUIRED: "uid"}),
        ),
    ),
]


@pytest.mark.parametrize(("names", "decoded"), CASES)
def test_a_column_is_decoded_at_each_of_its_paths_in_the_value(names: Names, decoded: str) -> None:
    """What stands there has the column's type and may be null; the other columns stay as they are."""
    assert decoded_schema(COLUMNS, names) == decoded


@pytest.mark.parametrize(("names", "decoded"), CASES)
def test_the_columns_follow_from_what_is_decoded(names: Names, decoded: str) -> None:
    """In another order, but whole: the type, what is noted of it, and NOT NULL."""
    found = json.loads(named_columns(decoded, names))["fields"]
    by_name = {one["name"]: one for one in json.loads(COLUMNS)["fields"]}
    assert {one["name"]: one for one in found} == by_name
    moved = [column for column, _ in names]
    assert [one["name"] for one in found] == [name for name in by_name if name not in moved] + moved


@pytest.mark.parametrize(
    ("names", "why"),
    [
        ((("b", ("x",)),), "there is no such column"),
        ((("tel", ()),), "gives it no path"),
        ((("tel", ("",)),), "has an empty name in it"),
        ((("tel", ("user..phone",)),), "has an empty name in it"),
        ((("tel", ("user.",)),), "has an empty name in it"),
        ((("tel", ('user."phone"',)),), "holds '\"'"),
        ((("tel", ("a\\b",)),), "holds '\\\\'"),
        ((("tel", ("a\nb",)),), "holds '\\n'"),
        ((("tel", ("_rescued",)),), "a column of its own"),
        ((("tel", ("_event_time.x",)),), "a column of its own"),
        ((("tel", ("a",)),), "fills another column already"),
        ((("tel", ("at.x",)),), "fills another column already"),
        ((("tel", ("p", "p")),), "fills another column already"),
        ((("tel", ("p",)), ("a", ("p",))), "fills another column already"),
        ((("tel", ("p.q",)), ("a", ("p",))), "fills another column already"),
        ((("tel", ("p",)), ("a", ("p.q",))), "leads through p, which fills a column that is no STRUCT"),
        ((("tel", ("a.b",)),), "leads through a, which fills a column that is no STRUCT"),
    ],
)
def test_names_that_cannot_be_are_refused(names: Names, why: str) -> None:
    """With the column and what is wrong: a field of the value fills one column, and a path has names in it."""
    with pytest.raises(ConfigError) as told:
        decoded_schema(COLUMNS, names, "order")
    assert why in str(told.value)
    assert "types.order, column" in str(told.value)


@pytest.mark.parametrize(
    ("columns", "names", "pair"),
    [
        (text(field("a"), field("b")), (("a", ("User.id",)), ("b", ("user.name",))), ("User", "user")),
        (text(field("a"), field("b")), (("a", ("u.Id",)), ("b", ("u.id",))), ("Id", "id")),
        (text(field("id"), field("b")), (("b", ("ID",)),), ("id", "ID")),
    ],
)
def test_without_case_no_two_fields_are_asked_for_that_differ_by_case_only(
    columns: str, names: Names, pair: tuple[str, str]
) -> None:
    """They would be one field of the value; with case they are two."""
    assert decoded_schema(columns, names)
    with pytest.raises(ConfigError) as told:
        decoded_schema(columns, names, "order", "insensitive")
    assert f"{pair[0]!r}: {pair[1]} differs from it by case only" in str(told.value)


def test_what_nobody_declared_is_in_no_path_s_way() -> None:
    """It goes, or leads to the path and loses its mark to what is in it."""
    grown = {EVOLVED: "t/0/1"}
    evolved = text(
        field("a", "long"),
        field("user", struct(field("id", "double"), field("mail", **{JSON_TEXT: "."})), **grown),
        field("phone", "double", **grown),
    )
    decoded = decoded_schema(
        text(*json.loads(evolved)["fields"], field("uid", "long"), field("tel"), field("m")),
        (("uid", ("user.id",)), ("tel", ("phone",)), ("m", ("phone2.x",))),
    )
    assert json.loads(decoded)["fields"] == [
        field("a", "long"),
        field("user", struct(field("mail", **{JSON_TEXT: ".", **grown}), field("id", "long"))),
        field("phone"),
        field("phone2", struct(field("x"))),
    ]
