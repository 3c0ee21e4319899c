"""[table_properties]: what Delta takes, what tables may not have, and that nothing stays of the trial."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from exporter.core.table_options import TableOptions
from exporter.errors import ConfigError
from exporter.lake.change import Change
from exporter.lake.lake import Lake
from exporter.lake.schema import table_schema
from exporter.lake.trial import tried
from exporter.operate.check.check import check_tables
from exporter.settings.load import load
from tests.support.settings import TOML

pytestmark = pytest.mark.spark

TAKEN = {
    "delta.logRetentionDuration": "interval 30 days", "delta.deletedFileRetentionDuration": "interval 2 weeks",
    "delta.checkpointInterval": "20", "delta.dataSkippingNumIndexedCols": "5", "delta.enableChangeDataFeed": "true",
    "delta.enableRowTracking": "true", "delta.enableInCommitTimestamps": "true",
}  # fmt: skip


def lake_with(spark: Any, root: Path, properties: Mapping[str, str]) -> Lake:
    return Lake(spark, root, "app", options=TableOptions(properties=properties))


def metadata(root: Path) -> dict[str, Any]:
    """Of the table's first version."""
    lines = (root / "order" / "_delta_log" / f"{0:020d}.json").read_text().splitlines()
    (found,) = [json.loads(line)["metaData"] for line in lines if "metaData" in line]
    return dict(found)


def made(lake: Lake, root: Path) -> dict[str, Any]:
    """The metadata of a table that is made in a lake; only what does not change from one to the next."""
    change = Change((), {}, {}, create=table_schema('{"type":"struct","fields":[]}'), table_id="of-this-test")
    lake.table("order").commit(change, lambda view: None)
    return metadata(root) | {"createdTime": 0}


def test_a_table_gets_the_properties_and_without_them_is_made_as_ever(spark: Any, tmp_path: Path) -> None:
    """Those of the settings beside those of the exporter, which keep what only they say."""
    plain, chosen = tmp_path / "plain", tmp_path / "chosen"
    before = made(Lake(spark, plain, "app"), plain)
    ours = {"exporter.app": "app", "exporter.format": "1", "exporter.event_type": "order"}
    assert before["configuration"] == {"delta.checkpointInterval": "100", **ours}
    lake = lake_with(spark, chosen, TAKEN)
    assert tried(lake) == ()
    assert list(chosen.rglob("*")) == [], "nothing stays of a trial"
    after = made(lake, chosen)
    given = {name: text for name, text in after["configuration"].items() if "materialized" not in name}
    assert given == {**TAKEN, **ours}
    assert after | {"configuration": 0} == before | {"configuration": 0}


def test_who_will_not_read_such_tables_is_told(spark: Any, tmp_path: Path) -> None:
    """The features that a reader has to know; all others are of writers alone."""
    features = {"delta.enableDeletionVectors": "true", "delta.checkpointPolicy": "v2"}
    assert tried(lake_with(spark, tmp_path, features)) == ("deletionVectors", "v2Checkpoint")


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("delta.logRetentionDurations", "interval 30 days", "did you mean delta.logRetentionDuration"),
        ("delta.LogRetentionDuration", "interval 30 days", "would not take it for delta.logRetentionDuration"),
        ("delta.logRetentionDuration", "interval 1 month", "Months and years are not accepted"),
        ("delta.checkpointInterval", "0", "needs to be a positive integer"),
        ("delta.enableDeletionVectors", "yes", 'For input string: "yes"'),
        ("delta.deletedFileRetentionDuration", "interval 2 hours", "VACUUM would delete staged files"),
        ("delta.dataSkippingStatsColumns", "nope", "nope"),
        ("delta.feature.nope", "supported", "not recognized"),
        ("delta.feature.clustering", "supported", "cannot be filled: Delta writer feature clustering"),
        ("delta.enableIcebergCompatV2", "true", "cannot be filled"),
    ],
)
def test_what_delta_or_we_cannot_do_with_is_refused(
    name: str, text: str, says: str, spark: Any, tmp_path: Path
) -> None:
    """Before anything is made; a typo is told with the name that is meant."""
    with pytest.raises(ConfigError) as refused:
        tried(lake_with(spark, tmp_path, {name: text}))
    assert says in str(refused.value)
    assert list(tmp_path.rglob("*")) == []


def test_check_tells_the_rules_that_are_in_force(spark: Any, tmp_path: Path) -> None:
    """By event type; of a type without rules nothing."""
    path = tmp_path / "exporter.toml"
    toml = TOML.replace("/data/tables", str(tmp_path / "lake"))
    path.write_text(f"{toml}where = 'id > 1'\n[types.plain]\ncolumns = 'a INT'\n")
    told = [one for one in check_tables(load(path, {}, {}), spark) if one.what.startswith("rules")]
    assert [(one.what, one.level, one.says) for one in told] == [("rules of order", "ok", "where id > 1")]


def test_all_that_is_wrong_is_told_at_once_and_check_finds_it(spark: Any, tmp_path: Path) -> None:
    """As an error in the settings; a warning where old readers are shut out."""

    def found(text: str) -> list[tuple[str, bool, str]]:
        path = tmp_path / "exporter.toml"
        path.write_text(f"{TOML.replace('/data/tables', str(tmp_path / 'lake'))}\n[table_properties]\n{text}")
        findings = check_tables(load(path, {}, {}), spark)
        return [(one.level, one.in_settings, one.says) for one in findings if one.what == "table_properties"]

    ((level, in_settings, says),) = found('"delta.checkpointInterval" = "-1"\n"delta.a" = "b"')
    assert (level, in_settings) == ("error", True)
    assert "2 table properties" in says and "checkpointInterval" in says and "delta.a" in says
    ((level, _, says),) = found('"delta.enableDeletionVectors" = "true"')
    assert level == "warn" and says.endswith("readers that know deletionVectors")
    assert found('"delta.checkpointInterval" = "30"') == [("ok", False, "delta.checkpointInterval")]
