"""The README's tables of exit codes and endpoints are those of the code; settings, verbs, metrics, events: elsewhere.

Settings and verbs: tests/test_tidy.py; metrics: test_metrics.py; events: test_log.py.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import exporter
from exporter.cli.main import cli
from exporter.errors import ExporterError
from exporter.monitor.health import ENDPOINTS
from exporter.settings.reference import reference

README = (Path(__file__).parents[2] / "README.md").read_text()


def errors(kind: type[ExporterError] = ExporterError) -> Iterator[type[ExporterError]]:
    """The tree of errors, all modules loaded."""
    yield kind
    for child in kind.__subclasses__():
        yield from errors(child)


def test_the_exit_codes_of_the_readme_are_those_of_the_errors() -> None:
    """Each code that an error has, and 0; no other."""
    names = [module.name for module in pkgutil.walk_packages(exporter.__path__, "exporter.")]
    assert "exporter.operate.audit.audit" in names
    for name in names:
        importlib.import_module(name)
    table = README[README.index("| exit code |") :]
    told = re.findall(r"^\| (\d+) \|", table[: table.index("\n\n")], re.M)
    assert list(map(int, told)) == sorted({0, *(kind.exit_code for kind in errors())})


def test_the_endpoints_of_the_readme_are_those_that_are_served() -> None:
    """In the order in which the server names them."""
    assert re.findall(r"^\| `(/\w+)` \|", README, re.M) == list(ENDPOINTS)


def test_the_settings_of_the_readme_are_the_generated_ones() -> None:
    """Name, default and description of each, in the order of the model; no other row."""
    table = README[README.index("| setting | default | |") :].split("\n\n")[0].splitlines()[2:]
    rows = [f"| `{name}` | {f'`{default}`' if default else ''} | {text} |" for name, default, text in reference()]
    assert table == rows


def test_the_verbs_stand_in_the_list_of_verbs() -> None:
    """In the block of commands, where a user looks for them; each with a line of its own."""
    block = README[README.index("exporter prepare  ") :]
    listed = set(re.findall(r"^exporter ([a-z-]+)", block[: block.index("```")], re.M))
    assert listed == set(cli.commands)
