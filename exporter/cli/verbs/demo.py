"""`exporter demo`: the tour."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.option("--records", type=click.IntRange(min=1000), default=200_000, show_default=True, help="Events to produce.")
@click.option("--keep", is_flag=True, help="Keep the broker running until Ctrl-C.")
@click.option("--folder", type=click.Path(path_type=Path), help="Where the lake is written (default: a new folder).")
@click.option("--infer", is_flag=True, help="Let `exporter infer` find out what the events look like.")
@click.option(
    "--format", "form", type=click.Choice(["json", "avro"]), default="json", show_default=True,
    help="Of the events; with avro a schema registry says what they look like.",
)  # fmt: skip
@click.option("--derive", "derives", is_flag=True, help="Make tables of the tables, too: a mirror, and bundles.")
def demo(records: int, keep: bool, folder: Path | None, infer: bool, form: str, derives: bool) -> None:
    """A real broker, mixed events, an export that is killed once, an audit, and what to query next."""
    from exporter.demo.demo import demo as run_demo

    if infer and form != "json":
        raise click.UsageError("--infer looks at JSON: a schema registry says what Avro looks like")
    if derives and (infer or form != "json"):
        raise click.UsageError("--derive goes with neither --infer nor --format avro")
    run_demo(records, keep, folder, infer, avro=form == "avro", derives=derives)
