"""`exporter config`: each setting's value and where it came from. Asks no broker, starts no JVM, shows no secret."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, SecretStr

from exporter.core.deployment import SECRET
from exporter.settings.derive_tables import DERIVE
from exporter.settings.model import NOTHING, SCALARS, Settings
from exporter.settings.reference import toml_value
from exporter.settings.tables import FREE, TABLES

MASKED = "********"


@dataclass(frozen=True)
class SettingRow:
    """name: as in the reference, tables dotted. value: as TOML writes it, None = not set. origin: its layer."""

    name: str
    value: str | None
    origin: str


def setting_rows(settings: Settings) -> Iterator[SettingRow]:
    """One row per setting in the model's order; of event types and of topics, what is declared of each."""
    for name in SCALARS:
        yield SettingRow(name, _shown(getattr(settings, name)), settings.origin(name))
    for table in (*TABLES, DERIVE):
        given = getattr(settings, table)
        if isinstance(given, BaseModel):
            yield from _table_rows(table, given, settings.origin(table))
            continue
        for one, declared in sorted(given.items()):
            rows = _table_rows(f"{table}.{one}", declared, settings.origin(table))
            yield from (row for row in rows if row.value is not None)
    for table in sorted(FREE):
        for key, text in sorted(getattr(settings, table).items()):
            shown = MASKED if SECRET.search(key) else toml_value(text)
            yield SettingRow(f"{table}.{json.dumps(key)}", shown, settings.origin(table))


def _table_rows(head: str, table: BaseModel, origin: str) -> Iterator[SettingRow]:
    for name in type(table).model_fields:
        where = origin if name in table.model_fields_set else "default"
        yield from _rows(f"{head}.{name}", getattr(table, name), where)


def _rows(name: str, value: object, origin: str) -> Iterator[SettingRow]:
    """One row; of a table, or of tables by name, one row for each of their settings."""
    if isinstance(value, BaseModel):
        yield from _table_rows(name, value, origin)
    elif isinstance(value, dict) and any(isinstance(one, BaseModel) for one in value.values()):
        for key, one in value.items():
            yield from _rows(f"{name}.{key}", one, origin)
    else:
        yield SettingRow(name, _shown(value), origin)


def _shown(value: object) -> str | None:
    if value in NOTHING:
        return None
    if isinstance(value, SecretStr):
        return MASKED
    if isinstance(value, tuple) and all(isinstance(one, BaseModel) for one in value):
        return toml_value(tuple(one.model_dump() for one in value))
    return toml_value(str(value) if isinstance(value, Path) else value)
