"""Which partition spec each table has: that of the settings when it is made, its own from then on. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from exporter.core.routing import DEAD_LETTERS
from exporter.errors import ConfigError
from offsets.partitions import DAY, UNIT_PROPERTY, Spec, of_columns
from offsets.table_log import TableView


@dataclass(frozen=True)
class Specs:
    """Event type -> spec. others: of the event types that are not named. The dead letters are always cut by day."""

    named: Mapping[str, Spec] = field(default_factory=dict)
    others: Spec = DAY

    def of(self, event_type: str) -> Spec:
        return DAY if event_type == DEAD_LETTERS else self.named.get(event_type, self.others)

    def refused(self, event_type: str, view: TableView) -> ConfigError | None:
        """What to tell if the settings cut a table otherwise than it was made."""
        own, wanted = table_spec(view), self.of(event_type)
        if own == wanted:
            return None
        columns = f", `partition_columns = {[*own.identity]}`".replace("'", '"') if own.identity else ""
        where = f" in [types.{event_type}]" if event_type in self.named else ""
        return ConfigError(
            f"table {event_type} is cut by {own}, and the settings cut it by {wanted}",
            f'a table stays as it was made: set `partition_by = "{own.time}"`{columns or ", no `partition_columns`"}'
            f"{where}; or export into another `table_root` under another `app`",
        )


def own_spec(view: TableView) -> Spec | None:
    """That of a table, by its partition columns and the unit that it names; None if they are none of ours."""
    return of_columns(view.partition_columns, view.properties.get(UNIT_PROPERTY, ""))


def table_spec(view: TableView) -> Spec:
    """That of a table; where it is none of ours nothing is written to it (fillable.py)."""
    return own_spec(view) or DAY
