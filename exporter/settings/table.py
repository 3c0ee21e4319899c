"""What all tables of the TOML file have in common."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, SecretStr, model_validator


class Table(BaseModel):
    """A table of the TOML file. A secret `name` may stand in a file of its own, which `name_file` names."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    @classmethod
    def secrets(cls) -> list[str]:
        """Those of the table's settings that are secrets."""
        return [name for name, field in cls.model_fields.items() if SecretStr in get_args(field.annotation)]

    @model_validator(mode="before")
    @classmethod
    def _from_files(cls, given: Any) -> Any:
        for name in cls.secrets() if isinstance(given, dict) else ():
            if (path := given.get(f"{name}_file")) is None:
                continue
            if given.get(name) is not None:
                raise ValueError(f"{name} and {name}_file say the same: give one of them")
            given = {**given, name: _secret_in(name, Path(path))}
        return given


def _secret_in(name: str, path: Path) -> str:
    """What is in the file, but for the line's end that editors put there. Raises ValueError."""
    try:
        secret = path.read_text("utf-8").rstrip("\r\n")
    except OSError as error:
        raise ValueError(f"{name}_file {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{name}_file {path} is not UTF-8") from None
    if not secret:
        raise ValueError(f"{name}_file {path} is empty")
    return secret


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
