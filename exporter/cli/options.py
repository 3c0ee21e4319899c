"""The settings as flags of a verb."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import click

from exporter.settings.model import CONFIG_DEFAULT, SCALARS, flag
from exporter.settings.reference import reference, with_default


def click_options(settings: Collection[str]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Adds `--config` and a flag for each of these scalar settings to a click command.

    The command is called with `config: Path | None` and `flags: dict[str, str]` (those that were
    given) beside its own parameters: `load(config, flags, os.environ)`.
    """

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def with_settings(*args: Any, **given: Any) -> Any:
            values = {name: given.pop(f"setting_{name}") for name in SCALARS if name in settings}
            flags = {name: value for name, value in values.items() if value is not None}
            return command(*args, flags=flags, **given)

        decorated: Callable[..., Any] = with_settings
        texts = {name: (default, description) for name, default, description in reference()}
        for name in reversed(SCALARS):
            if name in settings:
                help_text = with_default(*texts[name])
                decorated = click.option(flag(name), f"setting_{name}", metavar="VALUE", help=help_text)(decorated)
        return click.option(
            "--config", type=click.Path(path_type=Path), help=f"TOML file with settings.  [default: {CONFIG_DEFAULT}]"
        )(decorated)

    return decorate
