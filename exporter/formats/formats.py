"""The formats that there are, by the name that a routing configuration has for them."""

from __future__ import annotations

from collections.abc import Mapping

from exporter.core.routing import Routing
from exporter.errors import ConfigError
from exporter.formats.format import Format
from exporter.formats.json.format import Json

FORMATS: Mapping[str, Format] = {"json": Json()}


def format_of(routing: Routing | type[Routing]) -> Format:
    """The format of a configuration; of the class: that of one that names none. Raises ConfigError."""
    found = FORMATS.get(routing.format)
    if found is None:
        raise ConfigError(
            f"values are of the format {routing.format!r}, which this version does not know",
            f"it knows {', '.join(sorted(FORMATS))}: run the version that this configuration was recorded by",
        )
    return found
