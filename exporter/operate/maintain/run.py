"""`exporter maintain`, once or on its schedule."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from exporter.ending import ending
from exporter.errors import TableUnreadable
from exporter.lake.lake import Lake
from exporter.log import get_logger
from exporter.log_events import Event
from exporter.schedule import on_schedule
from exporter.settings.meaning import days_kept, orders_of
from exporter.settings.model import Settings
from exporter.spark.session import jvm_watched
from exporter.workbench import open_lake, routing_of

if TYPE_CHECKING:
    from exporter.operate.maintain.maintain import MaintenanceLimits
    from exporter.operate.maintain.step import MaintenanceStep

log = get_logger(__name__)


def maintain(
    settings: Settings,
    only: Collection[str],
    apply: bool,
    scheduled: bool,
    told: Callable[[MaintenanceStep], None],
    vacuum_hours: int = 0,
) -> list[MaintenanceStep]:
    """Maintain the tables once, or on the schedule until stopped; the steps of the last turn.

    vacuum_hours: see MaintenanceLimits.
    """
    from exporter.operate.maintain.maintain import Maintenance
    from exporter.operate.maintain.step import each_told

    steps: list[MaintenanceStep] = []

    def once() -> None:
        work = Maintenance(lake, limits, stopped)
        steps[:] = each_told(work.steps(work.tables(only), apply), told)

    def in_its_turn() -> None:
        try:
            once()
        except TableUnreadable as error:
            log.warning(Event.MAINTENANCE_FAILED, error=error.message)

    def waits(due: datetime) -> None:
        log.info(Event.MAINTENANCE_SCHEDULED, cron=settings.maintain_cron, next=f"{due:%Y-%m-%dT%H:%M:%SZ}")

    with at_work(settings) as (lake, stopped):
        limits = replace(limits_of(settings), vacuum_hours=vacuum_hours)
        if settings.maintain_backfill:
            limits = replace(limits, backfills=routing_of(settings, lake.session))
        if scheduled:
            on_schedule(settings.maintain_cron, stopped, in_its_turn, waits)
        else:
            once()
    return steps


def backfill(
    settings: Settings, only: Collection[str], apply: bool, told: Callable[[MaintenanceStep], None]
) -> list[MaintenanceStep]:
    """Fill what `_rescued` has for columns that are there by now; all steps."""
    from exporter.operate.maintain.maintain import Maintenance
    from exporter.operate.maintain.step import each_told

    with at_work(settings) as (lake, stopped):
        work = Maintenance(lake, limits_of(settings), stopped)
        return each_told(work.backfill(work.tables(only), apply, routing_of(settings, lake.session)), told)


@contextmanager
def at_work(settings: Settings) -> Iterator[tuple[Lake, Callable[[], bool]]]:
    """The lake, and whether somebody wants an end; nothing is left of it then."""
    asked: list[bool] = []
    lake = open_lake(settings)
    try:
        with jvm_watched(lake.session), ending.stopping(lambda: asked.append(True)):
            yield lake, lambda: bool(asked)
    finally:
        ending.leave()
        lake.stop()


def limits_of(settings: Settings) -> MaintenanceLimits:
    from exporter.operate.maintain.maintain import MaintenanceLimits as Maintained

    return Maintained(
        settings.event_time_late_max_secs,
        settings.maintain_file_bytes_max,
        settings.stage_age_max_secs,
        days_kept(settings),
        orders=orders_of(settings),
    )
