"""`exporter prepare`: what an image or a new machine does once."""

from __future__ import annotations

import click

from exporter.cli.output import Text


@click.command()
def prepare() -> None:
    """Fetch the jars and make the archive that shortens each start by seconds: once, for images and new machines."""
    from exporter.operate.prepare import prepare as run_prepare
    from exporter.spark.class_data import home

    made = run_prepare()
    Text().line(f"{'made' if made else 'nothing to do'}: {home()}")
