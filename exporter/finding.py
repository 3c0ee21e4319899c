"""One line of `exporter check`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from exporter.errors import ConfigError, ExporterError


@dataclass(frozen=True)
class Finding:
    """One line of the report. level error makes the verb exit 1, or 2 if what is wrong stands in the settings."""

    what: str
    level: Literal["ok", "warn", "error"]
    says: str
    hint: str = ""
    in_settings: bool = False

    @classmethod
    def of(cls, what: str, error: ExporterError) -> Finding:
        return cls(what, "error", error.message, error.hint, isinstance(error, ConfigError))
