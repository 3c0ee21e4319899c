"""A small exporter for tests: the real reading, staging, committing and start-up, without group and loop."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from exporter.core.outcome import Landed
from exporter.core.plan import Budget, plan_round
from exporter.core.record_columns import RecordColumns
from exporter.core.routing import EventTime, Routing, TypeFrom
from exporter.core.schemas import NO_SCHEMAS, KnownSchemas
from exporter.core.table_options import TableOptions
from exporter.core.writers import Writer, WriterKey, freeze, integrate
from exporter.kafka.topics import EARLIEST, FirstPosition, TopicReader, partitions_of
from exporter.lake.lake import Lake
from exporter.local.broker import create_topic
from exporter.operate.audit.audit import audit
from exporter.operate.audit.report import FINDINGS, AuditReport, compress
from exporter.protocol.commit import DeltaCommitter
from exporter.rounds.read import RoundReader
from offsets.selection import Topics
from tests.support import naive
from tests.support.naive_rules import NOTHING_PLAIN, Plain
from tests.support.orders import order_of
from tests.support.places import Folder
from tests.support.recovering import Started
from tests.support.services import Record, produce

APP = "audited"
ROUND_RECORDS = 100_000


def routing_of(ddl: Mapping[str, str], **changed: Any) -> Routing:
    """A routing configuration with the type and the time in the JSON value, fields `type` and `ts`; of this version."""
    from pyspark.sql.types import StructType

    types = tuple(sorted((name, StructType.fromDDL(text).json()) for name, text in ddl.items()))
    known: dict[str, Any] = {"type_from": TypeFrom("json", "type"), "event_time": EventTime("json", "ts", "iso")}
    made = Routing(**{**known, "types": types, **changed})
    return made if "decoder_version" in changed else replace(made, decoder_version=made.decoder_here)


@dataclass
class Exported:
    """A topic and its lake. `through` limits an export to offsets below it, as if the exporter had stopped there.

    schemas: what is decided of schema ids. record_columns: with the key and the headers; for the audit alone. plain:
    what the naive checker is told of SQL.
    """

    session: Any
    kafka: str
    topic: str
    root: Path
    routing: Routing
    schemas: KnownSchemas = NO_SCHEMAS
    record_columns: RecordColumns = field(default_factory=RecordColumns)
    plain: Plain = NOTHING_PLAIN

    @property
    def lake(self) -> Lake:
        return Lake(self.session, self.root, APP, options=TableOptions(record_columns=self.record_columns))

    def sent(self, *partitions: Sequence[Record]) -> Exported:
        """With records in each partition of its topic, which is made, and exported."""
        create_topic(self.kafka, self.topic, len(partitions))
        produce(self.kafka, self.topic, dict(enumerate(partitions)))
        self.export()
        return self

    def copy(self, root: Path) -> Exported:
        """To be spoilt."""
        shutil.copytree(self.root, root)
        return replace(self, root=root)

    def folder(self, event_type: str) -> str:
        return self.lake.table(event_type).uri

    def sql(self, statement: str, **tables: str) -> None:
        """Run SQL with {name} replaced by the table of that event type."""
        self.session.sql(statement.format(**{k: f"delta.`{self.folder(v)}`" for k, v in tables.items()}))

    def report(self, **wanted: Any) -> AuditReport:
        """What `exporter audit` finds."""
        reader = TopicReader({"bootstrap_servers": [self.kafka]}, Topics((self.topic,)), self.routing.isolation)
        try:
            return audit(self.lake, reader, self.routing, **wanted)
        finally:
            reader.close()

    def audit(self, **wanted: Any) -> AuditReport:
        """The same; asked for everything, the naive checker, which compares no whole contents, must find it as well."""
        report = self.report(**wanted)
        if not wanted:
            assert_agree(report, self.naive_findings())
        return report

    def finds(self, **kinds: int) -> AuditReport:
        """What it finds is so much of each kind, and nothing else."""
        return assert_finds(self.audit(), **kinds)

    def naive_findings(self) -> list[str]:
        config = json.loads(self.routing.to_json())
        lake = naive.Lake(self.kafka, (self.topic,), "", Folder(self.root), APP, config, plain=self.plain)
        return naive.findings(lake)

    def export(
        self,
        first_position: FirstPosition = EARLIEST,
        through: int | None = None,
        types: tuple[str, ...] | None = None,
    ) -> None:
        """Export what is there, and commit. types: commit only these (their positions run ahead of the others')."""
        reader = TopicReader({"bootstrap_servers": [self.kafka]}, Topics((self.topic,)), self.routing.isolation)
        try:
            rounds = RoundReader(self.session, {"bootstrap_servers": [self.kafka]})
            committer = DeltaCommitter(self.lake, "test", {})
            started = Started(self.lake, reader, self.routing, committer, first_position)
            tps = partitions_of(reader.identities())
            writers: dict[WriterKey, Writer] = started.recover(dict.fromkeys(tps, 1))
            ends = {tp: end if through is None else min(end, through) for tp, end in reader.end_offsets(tps).items()}
            while plans := plan_round(writers, ends, Budget(ROUND_RECORDS), time.monotonic()):
                order = _order(self, plans, started, committer)
                for fragment in rounds.read(order).fragments:
                    writers = dict(integrate(writers, fragment, time.monotonic()).writers)
            _commit(writers, committer, types)
        finally:
            reader.close()


def _order(lake: Exported, plans: Any, started: Started, committer: DeltaCommitter) -> Any:

    footers = {plan.tp: committer.footer(plan.tp) for plan in plans}
    planned = {plan.tp: plan for plan in plans}
    return order_of(lake.root, lake.routing, planned, dict(started.known.tables), footers, schemas=lake.schemas)


def _commit(writers: Mapping[WriterKey, Writer], committer: DeltaCommitter, types: tuple[str, ...] | None) -> None:
    by_type: dict[str, list[Any]] = defaultdict(list)
    for key, writer in writers.items():
        if writer.frontier > writer.covered and (types is None or key.event_type in types):
            by_type[key.event_type].append(freeze(writer, committer.checked_through(key.event_type)).claim)
    for name, claims in by_type.items():
        report = committer.commit(name, claims)
        if not all(isinstance(settled.outcome, Landed) for settled in report.settled):
            raise RuntimeError(f"{name}: {report.error}")


def assert_finds(report: AuditReport, **kinds: int) -> AuditReport:
    """The report has so many findings of each kind, and no others."""
    found = {kind: getattr(report, kind) for kind in (*FINDINGS, "absent_files")} | {"problems": len(report.problems)}
    assert {kind: count for kind, count in found.items() if count} == kinds, report.as_text()
    return report


def assert_agree(report: AuditReport, lines: Sequence[str]) -> None:
    """The naive checker has as many findings as the audit, and they read like the audit's examples."""
    offsets: dict[tuple[str, str], list[int]] = defaultdict(list)
    texts = set()
    for line in lines:
        if (parts := re.fullmatch(r"(.*-\d+: )(\d+)( \(.*\))?", line)) is None:
            texts.add(line)
        else:
            offsets[parts[1], parts[3] or ""].append(int(parts[2]))
    texts |= {f"{head}{compress(found)}{tail}" for (head, tail), found in offsets.items()}
    files = {str(file).partition(" (")[0] for file in report.absent}
    assert texts == {*report.problems, *files, *map(str, report.examples)}, report.as_text()
    assert len(lines) == report.findings, report.as_text()
