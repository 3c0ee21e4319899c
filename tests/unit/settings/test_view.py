"""`exporter config`: every value with its layer, tables included, no secret, no broker and no Java."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from exporter.cli.main import cli
from exporter.settings.load import load
from exporter.settings.reference import reference
from exporter.settings.tables import FREE
from exporter.settings.view import MASKED, setting_rows

SECRET = "hunter2-very-secret"
TOML = f"""
brokers = ["k1:9092", "k2:9092"]
topics = ["events"]
group = "exports"
table_root = "/data/tables"
poll_secs = 1234567.5
roll_records_max = 50_000
[type_from]
kind = "json"
name = "meta.type"
[event_time]
kind = "record"
[spark]
"spark.executor.memory" = "3g"
"spark.ssl.keyPassword" = "{SECRET}"
[types.order]
columns = "id BIGINT"
[types."a.b"]
columns_file = "ab.ddl"
[kafka_client]
security_protocol = "SASL_PLAINTEXT"
sasl_mechanism = "PLAIN"
sasl_plain_username = "exporter"
sasl_plain_password = "{SECRET}"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "ab.ddl").write_text("id BIGINT")
    path = tmp_path / "exporter.toml"
    path.write_text(TOML)
    return path


def test_every_setting_has_a_row_with_its_value_and_its_layer(file: Path) -> None:
    """Flag, environment, file, default; what a table does not say is a default too."""
    settings = load(file, {"heartbeat_secs": "7"}, {"EXPORTER_ROUND_SECS_MAX": "30"})
    rows = {row.name: (row.value, row.origin) for row in setting_rows(settings)}
    from_file = f"file {file}"
    assert rows["heartbeat_secs"] == ("7", "flag --heartbeat-secs")
    assert rows["round_secs_max"] == ("30", "environment EXPORTER_ROUND_SECS_MAX")
    assert rows["brokers"] == ('["k1:9092", "k2:9092"]', from_file)
    assert rows["poll_secs"] == ("1234567.5", from_file)
    assert rows["roll_records_max"] == ("50_000", from_file)
    assert rows["app"] == ('"exports"', "default")
    assert rows["event_time_min"] == ('"2000-01-01T00:00:00Z"', "default")
    assert rows["type_from.name"] == ('"meta.type"', from_file)
    assert rows["event_time.unit"] == ('"iso"', "default")
    assert rows["types.order.columns"] == ('"id BIGINT"', from_file)
    assert rows["types.a.b.columns_file"] == (f'"{file.parent / "ab.ddl"}"', from_file)
    assert rows["kafka_client.ssl_cafile"] == (None, "default")
    assert rows['spark."spark.executor.memory"'] == ('"3g"', from_file)
    known = {name for name, _, _ in reference() if not name.startswith(("types.", "topic_formats.", "derive."))} - FREE
    assert {name for name in rows if not name.startswith(("types.", "spark."))} == known


@pytest.mark.parametrize("output", ["text", "json"])
def test_no_secret_is_printed(file: Path, output: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A password shows as a mask, in both formats; nothing is asked of a broker or of Java."""
    for name in [name for name in os.environ if name.startswith("EXPORTER_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    done = CliRunner().invoke(cli, ["config", "--config", str(file), "--format", output])
    assert done.exit_code == 0, done.output
    assert SECRET not in done.output
    assert MASKED in done.output
    if output == "json":
        rows = {row["name"]: row for row in json.loads(done.stdout)}
        assert rows["kafka_client.sasl_plain_password"] == {
            "name": "kafka_client.sasl_plain_password", "value": MASKED, "origin": f"file {file}"
        }  # fmt: skip
