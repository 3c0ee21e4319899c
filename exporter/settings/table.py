"""What all tables of the TOML file have in common."""

from __future__ import annotations

import re

from pydantic import BaseModel, ConfigDict, SecretStr


class Table(BaseModel):
    """A table of the TOML file."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


def revealed(secret: SecretStr | None) -> str | None:
    """What is behind the mask."""
    return secret.get_secret_value() if secret else None


def check_path(what: str, path: str, needed: bool, dotted: bool) -> None:
    """Raises ValueError if a name is missing, superfluous, or no dotted path."""
    if needed != bool(path):
        raise ValueError(f"{what} is {'missing' if needed else 'not used'} with this kind")
    if dotted and needed and (path.startswith("$.") or not all(path.split("."))):
        raise ValueError(f"{what} {path!r} should be a dotted path such as meta.type")
    if dotted and re.search(r'[\x00-\x1f"\\\\]', path):
        raise ValueError(f"{what} {path!r} holds a character that a JSON text cannot hold as it is")
