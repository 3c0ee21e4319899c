"""What maintenance tells of each thing that it does."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias, TypeVar

from exporter.errors import ExporterError, TableUnreadable
from exporter.lake.settling import Moved
from exporter.text import first_line

T = TypeVar("T")
_CONFLICT = re.compile(
    r"DELTA_CONCURRENT_|DELTA_METADATA_CHANGED|DELTA_PROTOCOL_CHANGED"
    r"|(?:Concurrent\w*|MetadataChanged|ProtocolChanged)Exception"
)


Outcome: TypeAlias = 'Literal["due", "done", "skipped", "failed"]'


@dataclass(frozen=True)
class MaintenanceStep:
    """One thing that is due for a table, or was done. files and bytes: those that go.

    day: the partition of an OPTIMIZE, an order or a backfill; of a retention the first day that stays. rows: that a
    backfill fills, or that were of erased records. A step of a table that is let be, or that failed, says why; a
    backfill says by which columns.
    """

    table: str
    what: Literal["erase", "retention", "backfill", "order", "optimize", "checkpoint", "sweep", "vacuum", "table"]
    outcome: Outcome
    day: str = ""
    files: int = 0
    bytes: int = 0
    says: str = ""
    rows: int = 0

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def each_told(
    steps: Iterable[MaintenanceStep], told: Callable[[MaintenanceStep], None]
) -> list[MaintenanceStep]:
    """All of them, each told as soon as it is done."""
    done: list[MaintenanceStep] = []
    for step in steps:
        done.append(step)
        told(step)
    return done


def attempted(due: MaintenanceStep, do: Callable[[], T], cannot: str, *hint: str) -> T | MaintenanceStep:
    """What `do` makes of a step that is due, or why it is left for the next turn: another commit was in the way.

    cannot, hint: what is told of an error that is none of ours. Raises ExporterError, TableUnreadable among it.
    """
    try:
        return do()
    except ExporterError:
        raise
    except Exception as error:
        if (why := _in_the_way(error)) is None:
            raise TableUnreadable(f"table {due.table}: {cannot}: {first_line(error)}", *hint) from error
        return MaintenanceStep(due.table, due.what, "skipped", due.day, says=why)


def _in_the_way(error: BaseException) -> str | None:
    """What to say of a commit that another one was in the way of; None for other errors."""
    why = first_line(error)
    conflicts = isinstance(error, Moved) or _CONFLICT.search(f"{why} {error}")
    return f"another commit was in the way: {why}" if conflicts else None
