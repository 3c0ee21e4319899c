"""Top-level columns with something of the record itself, by the names that the settings give them. Pure.

They are no part of a value, and of no configuration's fingerprint: no verdict depends on them. A table gets them as it
gets planned columns (protocol/planned.py); rows from before have null there.
"""

from __future__ import annotations

from dataclasses import dataclass

from exporter.core.columns import folded, never_added
from exporter.core.routing import Routing
from offsets.partitions import TIME_NAMES

CDC = "_cdc"
"""Column of what was done to a row, in the tables of a configuration with an envelope."""
BEFORE = "_cdc_before"
"""Column of what an update says of columns before it, where the settings name any."""


@dataclass(frozen=True)
class RecordColumns:
    """The names of the columns for a record's key, its headers and the kind of its timestamp; empty: there is none."""

    key: str = ""
    headers: str = ""
    timestamp_type: str = ""

    @property
    def given(self) -> tuple[str, ...]:
        """Those that there are."""
        return tuple(name for name in (self.key, self.headers, self.timestamp_type) if name)


def has_cdc(routing: Routing, event_type: str = "") -> bool | None:
    """Whether rows say what was done to them; None where it depends on the topics that a type's records come from.

    event_type: of a type alone; empty: whether some rows do.
    """
    told = {form.envelope != "none" for form in routing.formats}
    if not event_type or len(told) == 1:
        return any(told)
    return routing.format_of(event_type).envelope != "none" if routing.type_from.kind == "topic" else None


def has_before(routing: Routing) -> bool:
    """Whether some rows say what columns held before."""
    return any(form.before for form in routing.formats)


def name_problem(name: str) -> str:
    """Why no such column can be called so; empty if it can."""
    if folded(name) in {CDC, BEFORE, *TIME_NAMES} or never_added(name, top=True) or "." in name:
        return f"{name!r} cannot be the name of a column beside those that the exporter writes itself"
    return ""
