"""Settings that there were once: a file, a flag or a variable that still has one is told what became of it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from structlog.testing import capture_logs

from exporter.cli.main import cli
from exporter.errors import ConfigError
from exporter.settings.gone import GONE
from exporter.settings.load import load
from exporter.settings.model import SCALARS, Settings, flag, variable
from tests.support.settings import TOML, loaded, refused

DEFAULTS = {
    "s3_path_style": False, "s3_allow_http": False, "block_port": 0, "columns_max": 1_000, "open_files_max": 10_000,
    "stage_age_max_secs": 21_600, "commit_mode": "own", "commit_timeout_secs": 30, "topics_refresh_secs": 30,
    "wal_keep_days": 14, "wal_verify_secs": 300, "derive_secs": 10, "session_timeout_ms": 45_000,
}  # fmt: skip
"""What each was where nobody said anything."""
OTHERS = {
    "s3_path_style": True, "s3_allow_http": True, "block_port": 7079, "columns_max": 2_000, "open_files_max": 1,
    "stage_age_max_secs": 60, "commit_mode": "coordinated", "commit_timeout_secs": 60, "topics_refresh_secs": 0.3,
    "wal_keep_days": 30, "wal_verify_secs": 1.0, "derive_secs": 0.2, "session_timeout_ms": 6_000,
}  # fmt: skip
FOLLOW = [
    ({"s3_path_style": True, "s3_allow_http": True}, {"s3_endpoint": "http://h:1"}),
    ({"s3_path_style": True, "s3_allow_http": False}, {"s3_endpoint": "https://h:1"}),
    ({"columns_max": 2_000}, {"keys_max": 250}),
    ({"columns_max": 1_000}, {"keys_max": 2}),
    ({"open_files_max": 312}, {"memory_max_bytes": 16 << 20}),
    ({"stage_age_max_secs": 172_800, "derive_secs": 10}, {"roll_age_max_secs": 43_200}),
    ({"derive_secs": 0.5}, {"roll_age_max_secs": 3}),
    ({"derive_secs": 2, "commit_timeout_secs": 6, "commit_mode": "coordinated"},
     {"control_topic": "rounds", "commit_interval_secs": 2}),
    ({"wal_verify_secs": 5}, {"heartbeat_secs": 1}),
    ({"wal_verify_secs": 300}, {"heartbeat_secs": 3_600}),
    ({"session_timeout_ms": 6_000}, {"session_timeout_secs": 6}),
]  # fmt: skip
"""What held for some settings -> by which the same holds now."""


def lines(settings: dict[str, Any]) -> str:
    return "".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items())


def told(logs: Any) -> list[str]:
    """The names as they were given: a setting, a variable or a flag."""
    return [re.split("[ =]", line["setting"])[0] for line in logs if line["event"] == "setting_gone"]


@pytest.fixture
def logs() -> Iterator[Any]:
    with capture_logs() as lines:
        yield lines


def test_what_is_gone_is_no_setting_and_its_former_default_holds_still() -> None:
    """Whoever gave none of them sees no difference."""
    assert DEFAULTS.keys() == OTHERS.keys() == GONE.keys() and not GONE.keys() & Settings.model_fields.keys()
    assert {name: gone.now(loaded()) for name, gone in GONE.items()} == DEFAULTS
    assert not {*GONE} & {*SCALARS}


@pytest.mark.parametrize("name", GONE)
def test_a_value_that_holds_anyway_is_a_warning_however_it_is_given(name: str, logs: Any) -> None:
    """In the file, as a variable and as a flag; the start goes on."""
    value = DEFAULTS[name]
    Path("exporter.toml").write_text(lines({name: value}) + TOML, "utf-8")
    load(None, {name: str(value)}, {variable(name): str(value)})
    assert told(logs) == [name, variable(name), flag(name)]
    assert loaded().model_dump() == load(None, {}, {}).model_dump()


@pytest.mark.parametrize("name", GONE)
@pytest.mark.parametrize("way", ["file", "variable", "flag"])
def test_another_value_is_refused_with_what_to_write_instead(name: str, way: str, logs: Any) -> None:
    """Nothing changes by itself that somebody had asked for."""
    given, text = {name: OTHERS[name]}, str(OTHERS[name])
    Path("exporter.toml").write_text(lines(given if way == "file" else {}) + TOML, "utf-8")
    with pytest.raises(ConfigError) as error:
        load(None, {name: text} if way == "flag" else {}, {variable(name): text} if way == "variable" else {})
    spelled = {"file": f"{name} = ", "variable": f"{variable(name)}=", "flag": f"{flag(name)} "}[way]
    assert error.value.message.startswith(spelled) and GONE[name].became in error.value.message
    assert error.value.hint == GONE[name].instead and not told(logs)


@pytest.mark.parametrize(("gone", "given"), FOLLOW, ids=str)
def test_it_follows_from_the_settings_that_are_left(gone: dict[str, Any], given: dict[str, Any], logs: Any) -> None:
    """So a lake that had both goes on as it was."""
    loaded(lines(given | gone))
    assert told(logs) == sorted(gone, key=[*GONE].index)


def test_a_verb_still_takes_the_flag_and_says_so() -> None:
    """Its help does not name it."""
    Path("exporter.toml").write_text(TOML, "utf-8")
    found = CliRunner().invoke(cli, ["config", "--wal-keep-days", "30"])
    assert isinstance(found.exception, ConfigError) and "--wal-keep-days '30'" in str(found.exception)
    assert CliRunner().invoke(cli, ["config", "--wal-keep-days", "14"]).exit_code == 0
    assert "--wal-keep-days" not in CliRunner().invoke(cli, ["config", "--help"]).output


def test_all_that_are_gone_are_told_at_once() -> None:
    """And what is gone is told after what is wrong by itself, for it goes by the others."""
    assert f"{len(GONE)} problems" in refused(lines(OTHERS))
    assert "wal_keep_days" not in refused(lines({"wal_keep_days": 30, "heartbeat_secs": 0}))
