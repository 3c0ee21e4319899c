"""`exporter run`: export until stopped."""

from __future__ import annotations

import gc

import click

from exporter.cli.options import EXPORTED, Loading, with_settings
from exporter.core.routing import DEAD_LETTERS
from exporter.faults import Fault, point
from exporter.stores.obstacles import require_room


@click.command()
@click.option("--until-caught-up", is_flag=True, help="Stop at the ends that the topic has now (for cron).")
@with_settings(EXPORTED)
def run(until_caught_up: bool, load: Loading) -> None:
    """Export until stopped, or until today's ends."""
    from exporter.spark import session as spark

    gc.disable()  # until the task is at work: all that comes before stays
    settings = load()
    require_room(settings.store, (DEAD_LETTERS, *settings.types), settings.sync)
    point(Fault.BEFORE_SPARK)
    started = spark.starting(settings.deployment, f"exporter {settings.app}", settings.store.java)
    from exporter.cli.progress import ProgressDisplay  # these take as long as the JVM does
    from exporter.task.build import run as run_task

    with ProgressDisplay() as display:
        run_task(settings, started, until_caught_up, display.update)
