"""The jobs of the settings, opened: each with a Spark session of its own."""

from __future__ import annotations

from collections.abc import Collection

from exporter.derive.job import Job
from exporter.derive.sql import SqlJob
from exporter.derive.target import new_owner
from exporter.errors import ConfigError
from exporter.lake.lake import Lake
from exporter.settings.derive_sql import SqlTable
from exporter.settings.derive_tables import DeriveTable
from exporter.settings.model import Settings


def jobs_of(settings: Settings, lake: Lake, only: Collection[str] = ()) -> list[Job]:
    """The jobs of [derive], or some of them, in the settings' order. Raises ConfigError."""
    if not settings.derive:
        raise ConfigError("there is no [derive] table in the settings", "the handbook's page derive.md begins with one")
    if unknown := sorted({*only} - settings.derive.keys()):
        what = f"there is no [derive.{unknown[0]}]"
        raise ConfigError(what, f"these are: {', '.join(settings.derive)}")
    owner = new_owner()
    chosen = {name: table for name, table in settings.derive.items() if name in (only or settings.derive)}
    return [_job(name, table, settings, lake, owner) for name, table in chosen.items()]


def _job(name: str, table: DeriveTable, settings: Settings, lake: Lake, owner: str) -> Job:
    session = lake.session.newSession()  # its configuration and its views are the job's, not the export's
    if isinstance(table, SqlTable):
        return SqlJob(name, table, lake, session, owner)
    raise ConfigError(f"[derive.{name}] kind = {table.kind} is not there yet", "choose another kind")
