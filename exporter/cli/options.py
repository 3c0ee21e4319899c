"""The settings as flags of a verb."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import click

from exporter.settings.gone import GONE
from exporter.settings.load import load
from exporter.settings.model import CONFIG_DEFAULT, SCALARS, Settings, flag
from exporter.settings.reference import scalars, with_default
from exporter.settings.scalars import S3

LAKE = frozenset(("brokers", "topics", "topics_pattern", "group", "app", "table_root", "spark_master", "driver_memory"))
LAKE |= S3
"""Settings that say where topics and tables are: what no verb can do without."""
VERDICTS = LAKE | {"isolation", "generation", "record_bytes_max", "event_time_min", "event_time_ahead_max_secs"}
VERDICTS |= {"unknown_fields", "new_type", "unrouted", "partition_by", "force_optional"}
"""And those that say what becomes of a record, and of its table: for whoever compares or decodes."""
CODEC = frozenset(("parquet_compression",))
"""And how data files are packed: for whoever writes some."""
LOG = frozenset(("wal_table", "wal_mode", "wal_endpoint"))
MAINTAINED = frozenset(("maintain_cron", "maintain_file_bytes_max", "maintain_backfill"))
MAINTAINED |= {"retention_days", "dead_letters_retention_days"}
EXPORTED = frozenset(SCALARS) - MAINTAINED
"""What a task takes."""

Loading = Callable[[], Settings]
"""What a verb gets for its settings: it reads them when it wants them. Raises ConfigError with all that is wrong."""


def with_settings(
    settings: Collection[str], assumed: Mapping[str, object] | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Adds what click_options() adds; the command is called with `load: Loading` beside its own parameters.

    assumed: see load().
    """

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def loading(*args: Any, config: Path | None, flags: dict[str, str], **given: Any) -> Any:
            return command(*args, load=lambda: load(config, flags, os.environ, assumed), **given)

        return click_options(settings)(loading)

    return decorate


def click_options(settings: Collection[str]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Adds `--config` and a flag for each of these scalar settings to a click command.

    The command is called with `config: Path | None` and `flags: dict[str, str]` (those that were
    given) beside its own parameters: `load(config, flags, os.environ)`.
    """

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def with_settings(*args: Any, **given: Any) -> Any:
            values = {name: given.pop(f"setting_{name}") for name in (*SCALARS, *GONE) if name in {*settings, *GONE}}
            flags = {name: value for name, value in values.items() if value is not None}
            return command(*args, flags=flags, **given)

        decorated: Callable[..., Any] = with_settings
        texts = {name: (default, description) for name, default, description in scalars()}
        for name in reversed(SCALARS):
            if name in settings:
                help_text = with_default(*texts[name])
                decorated = click.option(flag(name), f"setting_{name}", metavar="VALUE", help=help_text)(decorated)
        for name in GONE:
            decorated = click.option(flag(name), f"setting_{name}", hidden=True)(decorated)
        return click.option(
            "--config", type=click.Path(path_type=Path), help=f"TOML file with settings.  [default: {CONFIG_DEFAULT}]"
        )(decorated)

    return decorate
