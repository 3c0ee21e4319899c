"""The formats that the audit has an opinion on, by the name that a routing configuration has for them.

A second table beside formats/formats.py, on purpose: a format that stands only there cannot be audited, and says so.
"""

from __future__ import annotations

from collections.abc import Mapping

from exporter.errors import ConfigError
from exporter.operate.audit.expected.json_values import JsonValues
from exporter.operate.audit.expected.values import Values

EXPECTED: Mapping[str, Values] = {"json": JsonValues()}


def values_of(form: str) -> Values:
    """The opinion on values of a format. Raises ConfigError if there is none."""
    found = EXPECTED.get(form)
    if found is None:
        raise ConfigError(f"values of the format {form!r} cannot be audited by this version", "audit with a later one")
    return found
