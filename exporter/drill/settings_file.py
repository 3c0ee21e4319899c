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
    lines = [f"{name} = {json.dumps(value)}" for name, value in scalars.items()]
    lines += ["[type_from]", 'kind = "field"', 'name = "type"', "[event_time]", 'kind = "field"', 'path = "at"']
    for name, ddl in types.items():
        more = _told(sections.get(f"types.{name}", {}))
        lines += [f"[types.{json.dumps(name)}]", f"columns = {json.dumps(ddl)}", *more]
    for section, settings in {**({"kafka_client": client} if client else {}), **sections}.items():
        if section.removeprefix("types.") not in types:
            lines += [f"[{section}]", *_told(settings)]
    path.touch(0o600)
    path.write_text("\n".join(lines) + "\n", "utf-8")


def _told(settings: Mapping[str, Any]) -> list[str]:
    return [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
