"""The settings file of a drill's exporters."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SESSION_SECS = 6.0
SCALARS: Mapping[str, Any] = {
    "spark_master": "local[2]",
    "poll_secs": 0.2,
    "roll_age_max_secs": 0.5,
    "roll_records_max": 200,
    "carried_bytes_max": 4_000,  # some rows of each round are carried, the others are in files
    "heartbeat_secs": 1.0,
    "session_timeout_secs": SESSION_SECS,
}
"""So quick that a run of a minute has many commits."""


def write_settings(
    path: Path,
    scalars: Mapping[str, Any],
    types: Mapping[str, str],
    client: Mapping[str, str],
    sections: Mapping[str, Mapping[str, Any]],
) -> None:
    """A new file that only its owner reads. types: event type -> DDL. client: [kafka_client], if there is any.

    sections: further ones, by name; what [types.<event type>] says beside its columns among them.
    """
    own = {f"types.{name}": {"columns": ddl, **sections.get(f"types.{name}", {})} for name, ddl in types.items()}
    tables = {
        "type_from": {"kind": "field", "name": "type"},
        "event_time": {"kind": "field", "path": "at"},
        **({"kafka_client": client} if client else {}),
        **sections,
        **own,
    }
    path.touch(0o600)
    path.write_text(settings_text(scalars, tables), "utf-8")


def settings_text(scalars: Mapping[str, Any], tables: Mapping[str, Mapping[str, Any]]) -> str:
    """TOML. tables: by their names, quoted where TOML asks for it; names of their settings are quoted here."""
    lines = [f"{name} = {json.dumps(value)}" for name, value in scalars.items()]
    for table, settings in tables.items():
        lines += [f"[{table}]", *(f"{_key(name)} = {json.dumps(value)}" for name, value in settings.items())]
    return "\n".join(lines) + "\n"


def _key(name: str) -> str:
    """A name with dots would be several for TOML."""
    return json.dumps(name) if "." in name else name
