"""The smallest settings file that is whole, for tests that ask no broker and no table."""

from __future__ import annotations

from math import inf
from pathlib import Path
from typing import Any

import pytest

from exporter.errors import ConfigError
from exporter.settings.load import load
from exporter.settings.model import Settings

HEAD = """
brokers = ["127.0.0.1:1"]
topics = ["events"]
group = "exports"
table_root = "/data/tables"
"""
PLAIN = """
[type_from]
kind = "topic"
[event_time]
kind = "record"
"""
ORDER = """
[types.order]
columns = "id BIGINT"
"""
TOML = HEAD + PLAIN + ORDER


def written(
    folder: Path,
    tables: str = "",
    scalars: str = "",
    *,
    head: str = HEAD,
    plain: str = PLAIN + ORDER,
    name: str = "exporter.toml",
) -> Path:
    """Such a file, in a folder, with more in it. plain: the tables that each has."""
    path = folder / name
    path.write_text(head + scalars + plain + tables, "utf-8")
    return path


def looping(**given: Any) -> Settings:
    """Those of a task's loop in which nothing is due by itself, but for what is given."""
    never = {"roll_records_max": 1_000, "roll_bytes_max": 1_000, "roll_age_max_secs": inf, "heartbeat_secs": inf}
    return Settings.model_construct(**{**never, "poll_secs": 0.0, "carried_bytes_max": 0, **given})


def loaded(
    scalars: str = "", tables: str = "", *, head: str = HEAD, plain: str = PLAIN + ORDER, **environ: str
) -> Settings:
    """Of such a file, in the folder of now."""
    return load(written(Path(), tables, scalars, head=head, plain=plain), {}, environ)


def refused(
    scalars: str = "", tables: str = "", *, head: str = HEAD, plain: str = PLAIN + ORDER, **environ: str
) -> str:
    """What the person sees."""
    with pytest.raises(ConfigError) as caught:
        loaded(scalars, tables, head=head, plain=plain, **environ)
    assert caught.value.exit_code == 2
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None or caught.value.__suppress_context__
    return str(caught.value)
