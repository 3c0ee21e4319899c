"""`exporter check --deep`: are the rows there that the positions speak of? Log, tables and topics; writes nothing.

For tables whose own log was cleaned up beyond what any task has looked at, this is what a start asks for where no
write-ahead log can prove them (protocol 5.1); for all others it is a second opinion.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from exporter.errors import ExporterError, LogCleaned
from exporter.finding import Finding
from exporter.kafka.options import kafka_python_options
from exporter.kafka.topics import TopicReader, partitions_of
from exporter.lake.accidents import AppHistory
from exporter.lake.lake import Lake
from exporter.lake.views import views_of
from exporter.operate.audit.audit import audit
from exporter.settings.meaning import table_options
from exporter.settings.model import Settings
from exporter.wal.check import LogCheck, broken
from exporter.workbench import Workbench, open_journal, routing_of
from offsets.intents import WalUnreachable
from offsets.table_log import TableView

LOG, AUDIT = "write-ahead log", "audit"


def check_deep(settings: Settings, session: Any) -> Iterator[Finding]:
    """One finding for the log, one for each table that it alone can prove, one for the comparison with the topics."""
    try:
        reader = TopicReader(kafka_python_options(settings), settings.selection, settings.isolation)
    except ExporterError as error:
        yield Finding(AUDIT, "error", error.message, error.hint)
        return
    try:
        configuration = routing_of(settings, session)
        lake = Lake(session, settings.store, settings.app, settings.sync, table_options(settings))
        yield from compare(Workbench(lake, reader, configuration), settings)
    except ExporterError as error:
        yield Finding(AUDIT, "error", error.message, error.hint)
    finally:
        reader.close()


def compare(bench: Workbench, settings: Settings) -> Iterator[Finding]:
    """The findings, on a session that is there. Raises what the audit raises."""
    check = LogCheck(bench.lake, open_journal(settings, bench.routing))
    unproven: dict[str, LogCleaned] = {}
    try:
        logged = check.read(partitions_of(bench.topics.identities()))
        views = dict(_views(bench.lake, unproven))
        stopped = broken(check.judge(logged, views, unproven=unproven))
        if stopped:
            yield Finding(LOG, "error", stopped.message, stopped.hint)
        elif check.on:
            yield Finding(LOG, "ok", f"{len(views)} tables hold what it knows")
            unproven = {}
    except LogCleaned as cleaned:
        yield Finding(LOG, "warn", f"it holds nothing of this table: {cleaned.message}", cleaned.hint)
    except WalUnreachable as error:
        yield Finding(LOG, "error", error.message, "check `wal_endpoint`, or see `exporter check`")
    report = audit(bench.lake, bench.topics, bench.routing)
    for name, why in unproven.items():
        if report.clean:
            hint = "`exporter repair --rewind --apply` accepts it; then the export goes on"
            yield Finding(f"table {name}", "warn", f"nothing is missing, but {why.message}", hint)
        else:
            yield Finding(f"table {name}", "error", why.message, why.hint)
    if report.clean:
        yield Finding(AUDIT, "ok", f"{report.checked} records compared, each is where it must be once")
    else:
        hint = "`exporter audit` lists them, `exporter repair --rewind` shows what can be done"
        yield Finding(AUDIT, "error", f"{report.findings} findings in {report.checked} records", hint)


def _views(lake: Lake, unproven: dict[str, LogCleaned]) -> Iterator[tuple[str, TableView]]:
    """The tables of the app; fills `unproven`."""
    for name, view in views_of(lake):
        try:
            AppHistory(lake.table(name), lake.app, view).since  # noqa: B018 - reads the log now
        except LogCleaned as cleaned:
            unproven[name] = cleaned
        yield name, view
