"""DuckDB, as settings are evaluated by it: in memory, in UTC, without files, network or the extensions of others.

One thread keeps the order of rows, and leaves the machine to Spark's workers.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Any

from exporter.errors import ConfigError

_CONFIG: dict[str, Any] = {
    "threads": 1,
    "enable_external_access": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}


def connection() -> Any:
    """A connection of its own to the engine of this process. Raises ConfigError if there is none."""
    return _engine(os.getpid()).cursor()


@cache
def _engine(process: int) -> Any:
    """process: a worker is forked, and an engine is not to be shared with it."""
    try:
        import duckdb
    except ImportError as error:
        raise ConfigError(
            "`where` and `set` are SQL, and duckdb is not installed", "pip install 'kafka-delta-exporter[sql]'"
        ) from error
    made = duckdb.connect(":memory:", config=_CONFIG)
    try:
        made.execute("SET GLOBAL TimeZone = 'UTC'")
    except duckdb.Error as error:
        raise ConfigError(
            f"this duckdb knows no time zones: {error}", "install the one of PyPI: it is built with ICU"
        ) from error
    made.execute("SET lock_configuration = true")
    return made


def quoted(name: str) -> str:
    """A name as SQL has it."""
    return '"' + name.replace('"', '""') + '"'
