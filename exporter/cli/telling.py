"""How the error that ended a verb is told: to a person in two lines, in a task's log for programs as its last event."""

from __future__ import annotations

import threading
import traceback

import click

from exporter.ending import ending
from exporter.errors import ExporterError, JvmEnded
from exporter.log import as_json, get_logger, relay
from exporter.log_events import Event
from exporter.secrets import masked
from exporter.spark.jvm_lines import JvmLines

log = get_logger(__name__)


def told(error: BaseException) -> int:
    """Tell it; the exit code.

    What nobody foresaw is told as Python does, without secrets: what it quotes may hold options of a client.
    """
    if isinstance(error, JvmEnded):
        JvmLines.last_words()
    in_log = ending.installed and as_json()
    if isinstance(error, ExporterError):
        if in_log:
            log.error(Event.TASK_FAILED, error=error.message, hint=error.hint, exit_code=error.exit_code)
        else:
            click.echo(masked(f"error: {error}"), err=True)
        return error.exit_code
    if in_log:
        log.error(Event.TASK_FAILED, error=repr(error), hint="", exit_code=1, exc_info=error)
    else:
        click.echo(masked("".join(traceback.format_exception(error))), err=True, nl=False)
    return 1


def overdue(error: BaseException | None) -> int | None:
    """The way out takes too long; it was taken because of the error, whose exit code this is, or of none."""
    log.error(Event.END_OVERDUE)
    return None if error is None else told(error)


def in_a_thread(failed: threading.ExceptHookArgs) -> None:
    """What ended a thread that nobody asks for its result."""
    if failed.exc_value is not None:
        relay("threading", "ERROR", "".join(traceback.format_exception(failed.exc_value)))
