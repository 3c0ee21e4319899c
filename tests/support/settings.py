"""The smallest settings file that is whole, for tests that ask no broker and no table."""

from __future__ import annotations

from math import inf
from pathlib import Path
from typing import Any

import pytest

from exporter.errors import ConfigError
from exporter.settings.load import load
from exporter.settings.model import Settings

TOML = """
brokers = ["127.0.0.1:1"]
topics = ["events"]
group = "exports"
table_root = "/data/tables"
[type_from]
kind = "topic"
[event_time]
kind = "record"
[types.order]
columns = "id BIGINT"
"""


def written(folder: Path, tables: str = "") -> Path:
    """Such a file, in a folder."""
    path = folder / "exporter.toml"
    path.write_text(TOML + tables, "utf-8")
    return path


def looping(**given: Any) -> Settings:
    """Those of a task's loop in which nothing is due by itself, but for what is given."""
    never = {"roll_records_max": 1_000, "roll_bytes_max": 1_000, "roll_age_max_secs": inf, "heartbeat_secs": inf}
    return Settings.model_construct(**{**never, "poll_secs": 0.0, "carried_bytes_max": 0, **given})


def loaded(scalars: str = "", tables: str = "", **environ: str) -> Settings:
    """Of such a file, in the folder of now, with more in it."""
    Path("exporter.toml").write_text(scalars + TOML + tables, "utf-8")
    return load(Path("exporter.toml"), {}, environ)


def refused(scalars: str = "", tables: str = "", **environ: str) -> str:
    """What the person sees."""
    with pytest.raises(ConfigError) as caught:
        loaded(scalars, tables, **environ)
    return str(caught.value)
