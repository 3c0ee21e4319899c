"""Which functions may stand in an expression, over all that DuckDB's catalogue has."""

from __future__ import annotations

import pytest

from exporter.shape.catalogue import Catalogue
from exporter.shape.engine import connection

A_TEXT = {"class": "CONSTANT", "literal": {"kind": "STRING", "text": "sum"}}
_NAMES = (
    "+ add array_cat array_concat array_to_json array_value array_zip current_role current_user inet_client_addr "
    "inet_client_port inet_server_addr inet_server_port json_array json_object json_quote list_cat list_concat "
    "list_pack list_value list_zip map map_concat pg_my_temp_schema pi row row_to_json session_user struct_concat "
    "struct_pack to_json union_value unpivot_list concat concat_ws list_resize array_resize"
)
WITHOUT_ARGUMENTS = frozenset(_NAMES.split(" "))
"""Constants, and what takes any number of arguments."""


def everything() -> list[tuple[str, str, int, str | None, bool]]:
    """Name, kind, number of arguments, stability, and whether a time or its zone is among arguments and result."""
    asked = r"""
        SELECT DISTINCT lower(function_name), function_type, coalesce(len(coalesce(parameter_types, parameters)), 0),
               stability,
               regexp_matches(concat(parameter_types::VARCHAR, ' ', return_type), '(^|\W)(DATE|TIME|INTERVAL)')
        FROM duckdb_functions()"""
    found: list[tuple[str, str, int, str | None, bool]] = connection().execute(asked).fetchall()
    return found


def refused(name: str, number: int) -> bool:
    def macro_problem(text: str, parameters: object) -> str:
        return "a macro"

    return bool(Catalogue(macro_problem).problem(name, [A_TEXT] * number))


def test_what_the_catalogue_calls_volatile_cannot_stand() -> None:
    """Each overload of them; error() alone gives nothing that could differ."""
    volatile = {(name, number) for name, _, number, stability, _ in everything() if stability == "VOLATILE"}
    assert {"random", "uuid", "nextval", "error"} <= {name for name, _ in volatile}
    assert {name for name, number in volatile if not refused(name, number)} == {"error"}


def test_of_what_holds_within_a_query_only_what_asks_the_time_zone_can_stand() -> None:
    """No clock, no setting, no name of a schema: each that stands has a time in its arguments or makes one of them."""
    within = [one for one in everything() if one[3] == "CONSISTENT_WITHIN_QUERY"]
    standing = {(name, number) for name, _, number, _, _ in within if not refused(name, number)}
    assert {("year", 1), ("date_trunc", 2), ("timezone", 2), ("age", 2)} <= standing
    assert {(name, number) for name, _, number, _, timely in within if not timely} & standing == set()
    assert {(name, number) for name, number in standing if not number or (name, number) == ("age", 1)} == set()


def test_no_function_of_several_rows_can_stand() -> None:
    """Aggregates, windows, and what is a table and nothing else."""
    called = everything()
    of_a_row = {name for name, kind, *_ in called if kind in ("scalar", "macro")}
    others = {(name, number) for name, kind, number, _, _ in called if name not in of_a_row}
    assert {("sum", 1), ("row_number", 0), ("unnest", 1)} <= others
    assert {one for one in others if not refused(*one)} == set()


def test_what_takes_nothing_and_may_stand_is_a_constant() -> None:
    """A new function without arguments, of a later DuckDB, is looked at by a person before it may."""
    standing = {name for name, kind, number, _, _ in everything()
                if kind == "scalar" and not number and not refused(name, 0)}  # fmt: skip
    assert standing - WITHOUT_ARGUMENTS == set()


@pytest.mark.parametrize(
    ("name", "number"), [("range", 2), ("generate_series", 3), ("repeat", 2), ("first", 1), ("list", 1)]
)
def test_a_name_that_is_a_table_too_is_judged_as_what_it_is_in_an_expression(name: str, number: int) -> None:
    """range() makes a list there; first() and list() are aggregates wherever they stand."""
    assert refused(name, number) == (name in ("first", "list"))


def test_what_nobody_knows_cannot_stand() -> None:
    """Nor a macro that cannot be looked into."""
    assert refused("nothing_of_that_name", 1)
    assert refused("ago", 1)
