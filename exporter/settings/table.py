"""What all tables of the TOML file have in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, SecretStr


class Table(BaseModel):
    """A table of the TOML file."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


def revealed(secret: SecretStr | None) -> str | None:
    """What is behind the mask."""
    return secret.get_secret_value() if secret else None
