"""Names and texts in Spark's SQL."""

from __future__ import annotations

import json
import re

from hypothesis import given
from hypothesis import strategies as st

from exporter.core.deployment import FIXED, refusal
from exporter.sql_text import column, json_setting, literal, literals, quoted

ODD = st.text() | st.sampled_from(["${env:HOME}", "it's", "\\", "\\'", "\0", '"', "`", "--", "/*", "x" * 1_000_000])


@given(ODD)
def test_a_literal_holds_nothing_but_letters_digits_and_plain_marks(text: str) -> None:
    """No quote, backslash or `${` of a text is one of SQL's, whatever a session says of escapes and variables."""
    made = literal(text)
    plain = re.fullmatch("'([A-Za-z0-9 _.,:/+-]*)'", made)
    digits = re.fullmatch(r"CAST\(X'([0-9A-F]*)' AS STRING\)", made)
    assert plain or digits
    assert text == (plain[1] if plain else bytes.fromhex(digits[1]).decode() if digits else None)


def test_names_are_quoted() -> None:
    """Whatever is in them; of a path each part."""
    assert (column("a`b.c"), quoted("a.b`c"), literals(["a", "b\\"])) == (
        "`a``b.c`", "`a`.`b``c`", "'a', CAST(X'625C' AS STRING)",
    )  # fmt: skip


@given(ODD)
def test_no_variable_is_in_a_setting_of_json(text: str) -> None:
    """Spark replaces `${...}` in the values of its settings; who parses the JSON has the text as it was."""
    made = json_setting({"a": text})
    assert "$" not in made and json.loads(made) == {"a": text}


def test_variables_are_replaced_in_no_sql_and_no_settings_change_that() -> None:
    """Spark does it by default, with the environment too."""
    assert FIXED["spark.sql.variable.substitute"] == "false" and refusal("spark.sql.variable.substitute", ())
