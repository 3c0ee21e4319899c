"""The settings model as flags, as a reference table and as an example file."""

from __future__ import annotations

import functools
import json
import textwrap
from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

import click

from exporter.settings import CONFIG_DEFAULT, NOTHING, SCALARS, Settings, flag, variable
from exporter.settings_tables import TABLES

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

EXAMPLE = "`exporter config --write-example`"
"""What explains every setting, wherever the exporter is installed."""
REQUIRED = "required"
_EXAMPLE_TYPE = "order_placed"


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
                help_text = _with_default(*texts[name])
                decorated = click.option(flag(name), f"setting_{name}", metavar="VALUE", help=help_text)(decorated)
        return click.option(
            "--config", type=click.Path(path_type=Path), help=f"TOML file with settings.  [default: {CONFIG_DEFAULT}]"
        )(decorated)

    return decorate


def _with_default(default: str, description: str) -> str:
    if not default:
        return description
    return f"{description}  [{'default: ' if default != REQUIRED else ''}{default}]"


def reference() -> list[tuple[str, str, str]]:
    """(name, default as TOML or `required`, description) of every setting, in the model's order."""
    rows = [(name, Settings.model_fields[name]) for name in SCALARS]
    for table, model in TABLES.items():
        prefix = "types.<event type>" if table == "types" else table
        rows += [(f"{prefix}.{name}", field) for name, field in model.model_fields.items()]
    return [(name, _default_text(field), _description(field)) for name, field in rows]


def _description(field: FieldInfo) -> str:
    """The field's sentence, and what there is to choose from."""
    kinds = get_args(field.annotation)
    kinds = kinds if type(None) in kinds else (field.annotation,)
    choices = [choice for kind in kinds if get_origin(kind) is Literal for choice in get_args(kind)]
    text = field.description or ""
    return f"{text} One of: {', '.join(choices)}." if len(choices) > 1 else text


def _default_text(field: FieldInfo) -> str:
    if field.is_required():
        return REQUIRED
    return "" if field.default in NOTHING else toml_value(field.default)


def example_toml() -> str:
    """An example file with every setting; a commented line shows the default, or an example where there is none."""
    head = (
        "Generated from exporter/settings.py; copy it to exporter.toml and edit. What is commented out shows the "
        "default, or an example of a setting that has none. Each setting outside a [table] is also a flag and an "
        f"environment variable, which win over this file: roll_age_max_secs = {flag('roll_age_max_secs')} = "
        f"{variable('roll_age_max_secs')}."
    )
    lines = [*_comment(head), ""]
    lines += _example_lines(((name, Settings.model_fields[name]) for name in SCALARS), needed=_EXAMPLE_NEEDED)
    for table, model in TABLES.items():
        lines += [f"[types.{_EXAMPLE_TYPE}]" if table == "types" else f"[{table}]"]
        lines += _example_lines(model.model_fields.items(), needed=_EXAMPLE_NEEDED)
    return "\n".join(lines).rstrip() + "\n"


_EXAMPLE_NEEDED = frozenset({"topics", "name", "path", "columns"})
"""Optional settings without which the example would not load."""


def _example_lines(fields: Iterable[tuple[str, FieldInfo]], needed: frozenset[str] = frozenset()) -> Iterator[str]:
    for name, field in fields:
        yield from _comment(_description(field))
        given = field.is_required() or name in needed
        absent = field.is_required() or field.default in NOTHING
        value = (field.examples or [""])[0] if absent else field.default
        yield f"{'' if given else '# '}{name} = {toml_value(value)}"
        yield ""


def _comment(text: str) -> list[str]:
    return textwrap.wrap(text, 110, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False)


def toml_value(value: object) -> str:
    """A setting's value as the TOML file writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value:_}" if value >= 10_000 else f"{value}"
    if isinstance(value, float):
        return f"{value:.0f}" if value.is_integer() and value < 1e15 else repr(value)
    if isinstance(value, tuple):
        return f"[{', '.join(toml_value(item) for item in value)}]"
    if isinstance(value, datetime):
        return json.dumps(value.isoformat().replace("+00:00", "Z"))
    return json.dumps(str(value))
