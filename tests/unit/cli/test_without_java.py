"""Verbs that only look at tables start no JVM: they read what the files of the tables and of their logs tell."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from exporter.cli.main import cli
from exporter.spark.archives import extract
from tests.support.golden import CUSTOMERS, GOLDEN

LAKES = GOLDEN / "without_event_time.tar.xz"
DERIVED = f"""
{CUSTOMERS}[derive.later]
kind = "mirror"
source = "click"
keys = ["page"]
[derive.copy]
kind = "sql"
source = "order"
query = "SELECT id FROM source"
[derive.pairs.inputs.order]
source = "order"
transaction = "id"
[derive.pairs]
kind = "bundles"
complete = "any"
outputs.both = "SELECT _transaction, id FROM order"
"""
SETTINGS = """
app = "golden"
brokers = "127.0.0.1:1"
topics = ["golden.v1"]
group = "g"
table_root = "{root}"
type_from = {{kind = "json", name = "type"}}
event_time = {{kind = "json", path = "at", unit = "ms"}}
[types.order]
columns = "id BIGINT, amount DECIMAL(12,2), note STRING"
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lake of three tables and dead letters, and one of mirrors, and no Java."""
    for lakes in LAKES, GOLDEN / "coordinated_and_mirrored.tar.xz":
        with tarfile.open(lakes) as opened:
            extract(opened, tmp_path)

    def start(*_: Any, **__: Any) -> Any:
        raise AssertionError("a JVM was started")

    monkeypatch.setattr("exporter.spark.session.start", start)
    return tmp_path


def told(root: Path, *words: str, lake: str = "exported", more: str = "") -> list[Any]:
    path = root / "exporter.toml"
    path.write_text(SETTINGS.format(root=root / lake) + more)
    found = CliRunner().invoke(cli, [*words, "--config", str(path), "--format", "json"], catch_exceptions=False)
    assert found.exit_code == 0, found.output
    return [json.loads(line) for line in found.stdout.splitlines()]


def test_columns_are_told_with_what_found_none(root: Path) -> None:
    """A type that is not declared has all of its values in `_rescued`."""
    by_type = {one["event_type"]: one for one in told(root, "schema")}
    assert by_type.keys() == {"order", "click", "refund"}
    assert [one["path"] for one in by_type["refund"]["rescued"]] == ["at", "id", "type"]
    origins = {one["path"]: one["origin"] for one in by_type["order"]["columns"]}
    assert origins == {"_kafka": "exporter", "id": "declared", "amount": "declared", "note": "declared",
                       "_rescued": "exporter", "day": "exporter"}  # fmt: skip


@pytest.mark.parametrize(
    ("flags", "offsets"),
    [
        ((), [3, 7, 11, 15, 19, 23]),
        (("--type", "order"), [3, 7, 11, 15, 19, 23]),
        (("--type", "click"), []),
        (("--reason", "type_mismatch", "--offsets", "0:7-15"), [7, 11, 15]),
        (("--reason", "type"), []),
        (("--offsets", "1:0-99"), []),
        (("--day", "2026-01-31"), [3, 7, 11, 15, 19, 23]),
        (("--day", "2026-02-01"), []),
    ],
)
def test_dead_letters_are_counted_and_shown(root: Path, flags: tuple[str, ...], offsets: list[int]) -> None:
    """Those that are chosen, in the order of their offsets."""
    (counted,) = told(root, "dead-letters", "list", *flags)
    assert [(one["code"], one["rows"], one["first"], one["last"]) for one in counted] == (
        [("type_mismatch", len(offsets), f"golden.v1-0:{offsets[0]}", f"golden.v1-0:{offsets[-1]}")] if offsets else []
    )
    shown = told(root, "dead-letters", "show", "--limit", "2", "--bytes", "9", *flags)
    assert [one["offset"] for one in shown] == offsets[:2]
    assert all(one["value"].startswith('{"type":"') and one["value_bytes"] > 30 for one in shown)


def test_a_page_is_made_of_what_the_tables_tell(root: Path) -> None:
    """Without a broker, too: then it shows no lag."""
    path = root / "exporter.toml"
    path.write_text(SETTINGS.format(root=root / "exported"))
    found = CliRunner().invoke(cli, ["report", "--output", "-", "--config", str(path)], catch_exceptions=False)
    assert found.exit_code == 0 and "refund" in found.stdout and "type_mismatch" in found.stdout


def test_derived_tables_tell_where_they_stand(root: Path) -> None:
    """A mirror that an earlier version made, and jobs that have not run yet; what a MERGE would be is told, too."""
    (statuses,) = told(root, "derive", "status", lake="coordinated", more=DERIVED)
    found = {one["job"]: one for one in statuses}
    assert {name: one["version"] is not None for name, one in found.items()} == {
        "customers": True, "later": False, "copy": False, "pairs": False,
    }  # fmt: skip
    assert all(sum(one["behind"].values()) > 0 for name, one in found.items() if name != "customers")
    planned = told(root, "derive", "plan", "customers", "later", lake="coordinated", more=DERIVED)
    assert [one["job"] for one in planned] == ["customers", "later"] and "MERGE" in planned[1]["statements"][0]
