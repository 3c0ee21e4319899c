"""[derive.<name>]: what is refused, in words that say where it stands and what was meant; and how it is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.errors import ConfigError
from exporter.settings.load import load
from exporter.settings.view import setting_rows
from tests.support.settings import TOML

SQL = 'kind = "sql"\nsource = "order"\nquery = "SELECT id FROM source"'


def loaded(tmp_path: Path, derive: str) -> Path:
    path = tmp_path / "exporter.toml"
    path.write_text(f"{TOML}\n{derive}\n")
    return path


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
def test_what_is_wrong_is_told_with_its_place_and_the_nearest_name(
    tmp_path: Path, derive: str, what: str, hint: str
) -> None:
    """Wrong, unknown and missing, also in a table within; the kinds are named where there is none."""
    with pytest.raises(ConfigError) as caught:
        load(loaded(tmp_path, derive), {}, {})
    assert what in str(caught.value)
    assert hint in str(caught.value)
    if what.endswith("kind"):
        assert "should be one of mirror, bundles, sql, to_kafka" in str(caught.value)


def test_the_settings_of_a_job_are_shown_one_by_one(tmp_path: Path) -> None:
    """Those of tables within too."""
    inputs = 'inputs.o.source = "order"\ninputs.o.transaction = "id"'
    bundles = f'[derive.b]\nkind = "bundles"\n{inputs}\noutputs.x = "SELECT id FROM o"'
    settings = load(loaded(tmp_path, bundles), {}, {})
    rows = {row.name: row.value for row in setting_rows(settings) if row.name.startswith("derive.b.")}
    assert rows["derive.b.kind"] == '"bundles"'
    assert rows["derive.b.inputs.o.source"] == '"order"'
    assert rows["derive.b.inputs.o.done"] == '"false"'
