"""[derive.<name>]: what is refused, in words that say where it stands and what was meant; and how it is shown."""

from __future__ import annotations

import pytest

from exporter.settings.view import setting_rows
from tests.support.settings import loaded, refused

SQL = 'kind = "sql"\nsource = "order"\nquery = "SELECT id FROM source"'


@pytest.mark.parametrize(
    ("derive", "what", "hint"),
    [
        ('[derive.a]\nsource = "order"', "[derive.a] kind", "[derive]"),
        ('[derive.a]\nkind = "sqk"', "[derive.a] kind", "[derive]"),
        ('[derive.a]\nkind = "sql"\nsource = "order"', "[derive.a] query is missing", "[derive.sql]"),
        (f"[derive.a]\n{SQL}\nqeury = 1", "unknown setting [derive.a] qeury", "did you mean query?"),
        ('[derive.a]\nkind = "bundles"\ninputs.o.sorce = "order"', "unknown setting [derive.a] inputs.o.sorce",
         "did you mean source?"),
        ('[derive.a]\nkind = "mirror"\nsource = "order"\nkeys = 3', "[derive.a] keys", "[derive.mirror]"),
        ("[derive]\na = 3", "[derive.a]", "[derive]"),
        (f"[derive._a]\n{SQL}", "'_a' should be letters", "[derive]"),
        (f"[derive.a]\n{SQL}\n[derive.A]\n{SQL}", "differ by case only", "[derive]"),
        (f"[derives.a]\n{SQL}", "unknown setting 'derives'", "did you mean derive?"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_place_and_the_nearest_name(derive: str, what: str, hint: str) -> None:
    """Wrong, unknown and missing, also in a table within; the kinds are named where there is none."""
    told = refused(tables=derive)
    assert what in told and hint in told
    assert not what.endswith("kind") or "should be one of mirror, bundles, sql, to_kafka" in told


def test_the_settings_of_a_job_are_shown_one_by_one() -> None:
    """Those of tables within too."""
    inputs = 'inputs.o.source = "order"\ninputs.o.transaction = "id"'
    bundles = f'[derive.b]\nkind = "bundles"\n{inputs}\noutputs.x = "SELECT id FROM o"'
    rows = {row.name: row.value for row in setting_rows(loaded(tables=bundles)) if row.name.startswith("derive.b.")}
    assert rows["derive.b.kind"] == '"bundles"'
    assert rows["derive.b.inputs.o.source"] == '"order"'
    assert rows["derive.b.inputs.o.done"] == '"false"'
