"""`exporter prepare`: what an image or a new machine does once."""

from __future__ import annotations

import click

from exporter.cli.output import TextOutput
from exporter.stores.store import JAR_SETS


@click.command()
@click.option("--for", "store", type=click.Choice(JAR_SETS), help="Where table_root is, if it is no folder.")
def prepare(store: str | None) -> None:
    """Fetch the jars and make the archive that shortens each start by seconds: once, for images and new machines."""
    from exporter.operate.prepare import prepare as run_prepare
    from exporter.spark.class_data import home

    made = run_prepare(store)
    TextOutput().line(f"{'made' if made else 'nothing to do'}: {home()}")
