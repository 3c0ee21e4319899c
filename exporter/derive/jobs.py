"""The jobs of the settings: of what they are made, and each with a Spark session of its own, once it needs one."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any

from exporter.derive.bundles.job import BundlesJob
from exporter.derive.bundles.rules import rules_of
from exporter.derive.bundles.rules import sources_of as sources_of_rules
from exporter.derive.job import Job
from exporter.derive.mirror import MirrorJob
from exporter.derive.sql import SqlJob
from exporter.derive.target import new_owner
from exporter.derive.to_kafka import Surroundings, ToKafkaJob
from exporter.derive.to_kafka_formats import RegisteredForms
from exporter.derive.to_kafka_topic import TargetTopic
from exporter.errors import ConfigError
from exporter.kafka.options import kafka_python_options
from exporter.lake.lake import Lake
from exporter.lake.later import Later
from exporter.lake.table import packs_by
from exporter.registry.client import connect
from exporter.settings.derive_bundles import BundlesTable
from exporter.settings.derive_mirror import MirrorTable
from exporter.settings.derive_sql import SqlTable
from exporter.settings.derive_tables import DeriveTable
from exporter.settings.derive_to_kafka import ToKafkaTable
from exporter.settings.model import Settings
from exporter.workbench import registry_options


def jobs_of(settings: Settings, lake: Lake, only: Collection[str] = ()) -> list[Job]:
    """The jobs of [derive], or some of them; those of which others are made before these. Raises ConfigError."""
    if not settings.derive:
        raise ConfigError("there is no [derive] table in the settings", "the handbook's page derive.md begins with one")
    if unknown := sorted({*only} - settings.derive.keys()):
        what = f"there is no [derive.{unknown[0]}]"
        raise ConfigError(what, f"these are: {', '.join(settings.derive)}")
    owner = new_owner()
    chosen = [name for name in in_order(settings.derive) if name in (only or settings.derive)]
    return [_job(name, settings.derive[name], settings, lake, owner) for name in chosen]


def sources_of(table: DeriveTable) -> tuple[str, ...]:
    """The event types, or other jobs, that a job follows."""
    if isinstance(table, BundlesTable):
        return sources_of_rules(rules_of(table))
    return (table.source,)


def made_of(jobs: Mapping[str, DeriveTable]) -> dict[str, set[str]]:
    """Job -> the other jobs that are sources of it."""
    return {name: {one for one in sources_of(table) if one in jobs and one != name} for name, table in jobs.items()}


def made_from(jobs: Mapping[str, DeriveTable], names: Collection[str]) -> list[str]:
    """The jobs that are made of some event types, or of one another of these; in order. Raises ConfigError."""
    found: list[str] = []
    for name in in_order(jobs):
        if not {*names, *found}.isdisjoint(sources_of(jobs[name])):
            found.append(name)
    return found


def in_order(jobs: Mapping[str, DeriveTable]) -> list[str]:
    """Their names, those of which others are made before these, else as they stand. Raises ConfigError."""
    try:
        return [*TopologicalSorter(made_of(jobs)).static_order()]
    except CycleError as error:
        circle = " of ".join(reversed(error.args[1]))
        raise ConfigError(f"[derive]: {circle}: a job is made of itself", "correct `source` of one of them") from error


def own_session(lake: Lake) -> Later:
    """Of one job: its configuration and its views are not the export's."""

    def start() -> Any:
        session = lake.session.newSession()
        session.conf.set("spark.sql.session.timeZone", "UTC")
        packs_by(session, lake.compression)
        return session

    return Later(start)


def _job(name: str, table: DeriveTable, settings: Settings, lake: Lake, owner: str) -> Job:
    own = own_session(lake)
    if isinstance(table, SqlTable):
        return SqlJob(name, table, lake, own, owner)
    if isinstance(table, MirrorTable):
        return MirrorJob(name, table, lake, own, owner)
    if isinstance(table, BundlesTable):
        return BundlesJob(name, table, lake, own, owner)
    return _to_kafka(name, table, settings, Surroundings(lake, own, settings.derive, owner))


def _to_kafka(name: str, table: ToKafkaTable, settings: Settings, around: Surroundings) -> Job:
    registered = RegisteredForms(table, lambda: connect(registry_options(settings)))
    topic = TargetTopic(kafka_python_options(settings), settings.app, name, table)
    return ToKafkaJob(name, table, around, topic, registered)
