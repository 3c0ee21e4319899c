"""The settings model as a reference table, as a page of the handbook and as an example file."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Literal, get_args, get_origin

from exporter.settings.derive_tables import DERIVE, KINDS
from exporter.settings.model import NOTHING, SCALARS, Settings, flag, variable
from exporter.settings.said import said
from exporter.settings.tables import FREE, NAMED, TABLES

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic.fields import FieldInfo

EXAMPLE = "`exporter config --write-example`"
"""What explains every setting, wherever the exporter is installed."""
REQUIRED = "required"
_EXAMPLE_OF = {"types": "order_placed", "topic_formats": r'"payments\..*"'}
_TOLD_ELSEWHERE = frozenset({"topic_formats"})
"""Tables of which it is told what they are for, and not each of their settings: another table has the same."""


def with_default(default: str, description: str) -> str:
    if not default:
        return description
    return f"{description}  [{'default: ' if default != REQUIRED else ''}{default}]"


def scalars() -> list[tuple[str, str, str]]:
    """(name, default as TOML or `required`, description) of every setting outside a table, in the model's order."""
    return [_row(name, Settings, name) for name in SCALARS]


def reference() -> list[tuple[str, str, str]]:
    """The same of every setting."""
    rows = scalars()
    for table, model in TABLES.items():
        prefix = f"{table}.<{NAMED[table]}>" if table in NAMED else table
        if table in _TOLD_ELSEWHERE:
            rows.append(_row(prefix, Settings, table))
        else:
            rows += [_row(f"{prefix}.{name}", model, name) for name in model.model_fields]
    for kind, model in KINDS.items():
        rows += [_row(f"{DERIVE}.<{kind}>.{name}", model, name) for name in model.model_fields]
    return [*rows, *(_row(name, Settings, name) for name in sorted(FREE))]


def _row(shown: str, model: type[BaseModel], name: str) -> tuple[str, str, str]:
    return shown, _default_text(model.model_fields[name]), _description(model, name)


def _description(model: type[BaseModel], name: str) -> str:
    """The field's sentence, and what there is to choose from."""
    annotation = model.model_fields[name].annotation
    kinds = get_args(annotation)
    kinds = kinds if type(None) in kinds else (annotation,)
    choices = [choice for kind in kinds if get_origin(kind) is Literal for choice in get_args(kind) if choice]
    text = said(model)[name]
    return f"{text} One of: {', '.join(choices)}." if len(choices) > 1 else text


def _default_text(field: FieldInfo) -> str:
    if field.is_required():
        return REQUIRED
    return "" if field.default_factory or field.default in NOTHING else toml_value(field.default)


def reference_page() -> str:
    """The reference as a page of the handbook."""
    head = (
        "`exporter config --write-reference` prints this page. Every setting outside a `[table]` has one name in three "
        "places: `roll_age_max_secs` in the file is `--roll-age-max-secs`, of the verbs to which it means something, "
        "and `EXPORTER_ROLL_AGE_MAX_SECS`; flags win over the environment, the environment over the file. Unknown "
        "names are errors."
    )
    lines = ["# Settings", "", *textwrap.wrap(head, 120), "", "| setting | default | |", "|---|---|---|"]
    lines += [f"| `{name}` | {f'`{default}`' if default else ''} | {text} |" for name, default, text in reference()]
    return "\n".join(lines) + "\n"


def example_toml() -> str:
    """An example file with every setting; a commented line shows the default, or an example where there is none."""
    head = (
        "Generated from exporter/settings/model.py; copy it to exporter.toml and edit. What is commented out shows the "
        "default, or an example of a setting that has none. Each setting outside a [table] is also a flag and an "
        f"environment variable, which win over this file: roll_age_max_secs = {flag('roll_age_max_secs')} = "
        f"{variable('roll_age_max_secs')}."
    )
    lines = [*comment(head), ""]
    lines += _example_lines(Settings, SCALARS, needed=frozenset({"topics"}))
    for table, model in TABLES.items():
        head = f"[{table}.{_EXAMPLE_OF[table]}]" if table in NAMED else f"[{table}]"
        if table in _TOLD_ELSEWHERE:
            lines += [*comment(said(Settings)[table]), f"# {head}", '# kind = "avro"', ""]
            continue
        lines += [head]
        lines += _example_lines(model, model.model_fields, needed=_EXAMPLE_NEEDED.get(table, frozenset()))
    for kind, model in KINDS.items():
        lines += [*comment(f"{said(Settings)[DERIVE]} Of the kind {kind}:"), f"# [{DERIVE}.{kind}]"]
        example = _example_lines(model, model.model_fields)
        lines += [line if line[:1] in ("", "#") else f"# {line}" for line in example]
    for table in sorted(FREE):
        field = Settings.model_fields[table]
        ((key, text),) = (field.examples or [{}])[0].items()
        lines += [*comment(said(Settings)[table]), f"# [{table}]", f"# {json.dumps(key)} = {toml_value(text)}", ""]
    return "\n".join(lines).rstrip() + "\n"


_EXAMPLE_NEEDED = {
    "type_from": frozenset({"name"}),
    "event_time": frozenset({"path"}),
    "types": frozenset({"columns"}),
}
"""Optional settings of tables without which the example would not load."""


def _example_lines(
    model: type[BaseModel], names: Iterable[str], needed: frozenset[str] = frozenset()
) -> Iterator[str]:
    for name in names:
        field = model.model_fields[name]
        yield from comment(_description(model, name))
        given = field.is_required() or name in needed
        absent = field.is_required() or field.default in NOTHING
        value = (field.examples or [""])[0] if absent else field.default
        yield f"{'' if given else '# '}{name} = {toml_value(value)}"
        yield ""


def comment(text: str) -> list[str]:
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
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{json.dumps(key)} = {toml_value(item)}' for key, item in value.items())} }}"
    if isinstance(value, datetime):
        return json.dumps(value.isoformat().replace("+00:00", "Z"))
    return json.dumps(str(value))
