"""`exporter config`: the settings in force, and the pages that are made from the model."""

from __future__ import annotations

import click

from exporter.cli.options import Loading, with_settings
from exporter.cli.output import FORMAT, Output, TextOutput, plain
from exporter.settings.model import CONFIG_DEFAULT, SCALARS
from exporter.settings.reference import example_toml, reference_page


@click.command()
@click.option(
    "--write-example", is_flag=True, help=f"Print {CONFIG_DEFAULT} with every setting explained, and do nothing else."
)
@click.option("--write-reference", is_flag=True, help="Print the handbook's page of settings, and do nothing else.")
@FORMAT
@with_settings(SCALARS)
def config(write_example: bool, write_reference: bool, output: Output, load: Loading) -> None:
    """Each setting's value and where it came from, secrets masked; needs neither broker nor Java."""
    from exporter.settings.view import setting_rows

    if write_example:
        TextOutput().whole(example_toml())
        return
    if write_reference:
        TextOutput().whole(reference_page())
        return
    rows = list(setting_rows(load()))
    cells = [(row.name, plain(row.value), row.origin) for row in rows]
    output.show([vars(row) for row in rows], lambda text: text.table(("setting", "value", "from"), cells))
