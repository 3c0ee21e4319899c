"""The console script: the verbs of VERBS, and what becomes of the error that ends one."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import click

from exporter import __version__, log
from exporter.cli.telling import in_a_thread, overdue, told
from exporter.cli.verbs.audit import audit
from exporter.cli.verbs.backfill import backfill
from exporter.cli.verbs.catalog import catalog
from exporter.cli.verbs.check import check
from exporter.cli.verbs.config import config
from exporter.cli.verbs.dead_letters import dead_letters
from exporter.cli.verbs.demo import demo
from exporter.cli.verbs.derive import derive
from exporter.cli.verbs.drill import drill
from exporter.cli.verbs.erase import erase
from exporter.cli.verbs.infer import infer
from exporter.cli.verbs.maintain import maintain
from exporter.cli.verbs.offsets import offsets
from exporter.cli.verbs.plan import plan
from exporter.cli.verbs.prepare import prepare
from exporter.cli.verbs.repair import repair
from exporter.cli.verbs.report import report
from exporter.cli.verbs.run import run
from exporter.cli.verbs.schema import schema
from exporter.cli.verbs.status import status
from exporter.cli.verbs.sweep import sweep
from exporter.ending import ending

VERBS: tuple[click.Command, ...] = (
    run, prepare, infer, check, plan, config, offsets, status, schema, catalog, audit, sweep, maintain, backfill,
    erase, report, dead_letters, repair, derive, demo, drill,
)  # fmt: skip
"""Each file of verbs/ has one of them."""


class _Verbs(click.Group):
    """Shows the first sentence of each verb whole, over as many lines as it takes."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """As click's own, but for the limit."""
        verbs = [(name, self.commands[name]) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl([(name, verb.get_short_help_str(limit=1_000)) for name, verb in verbs])


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="exporter")
def cli() -> None:
    """Kafka topics of many event types in, one Delta table per type out, each record exactly once."""
    log.configure()


for verb in VERBS:
    cli.add_command(verb)


def main() -> None:
    """The console script, once signals are taken over (entry.py): what ends the verb is told, and is its exit code."""
    ending.install(sys.argv[1:])
    ending.tell, threading.excepthook = overdue, in_a_thread
    ending.exit(_exit_code(lambda: cli(standalone_mode=False)))


def _exit_code(verb: Callable[[], Any]) -> int:
    try:
        verb()
    except click.exceptions.Exit as done:
        return int(done.exit_code)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return 130
    except Exception as error:  # noqa: BLE001 - whatever it is, this is the end
        return told(error)
    return 0
