"""kind = "bundles": what transactions of several rows come to, each once (protocol 9.6)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from exporter.derive.bundles.audit import AuditedBundles, audit
from exporter.derive.bundles.judged import DONE, EXPIRED, LATE, Before, JudgedTransactions, KeptFrames, judge
from exporter.derive.bundles.ledger import Ledger
from exporter.derive.bundles.members import MembersReading, union
from exporter.derive.bundles.outputs import as_written, late_rows, ledger_rows, output_rows, schema_of, views
from exporter.derive.bundles.rules import pairs, rules_of, sources_of
from exporter.derive.failing import told
from exporter.derive.job import AuditLine, JobStatus, Planned, Ran
from exporter.derive.source import PinnedSource, others_told, pin
from exporter.derive.target import RunCommit, RunFailed, Target
from exporter.errors import ConfigError
from exporter.lake.lake import Lake
from exporter.lake.later import Later
from exporter.lake.rows import rows_of
from exporter.settings.derive_bundles import BundlesTable
from offsets.cursors import as_transactions, cursor_of, head_of, slices, superseded, window
from offsets.partitions import Spec
from offsets.table_log import TableView

OPEN = "open.members"
"""Behind the job in the appIds of where the first open member is. No folder of an event type has a dot."""
NUMBERS = ("seq", "newest", "judged", "open", "oldest")
"""What else a commit says, as <app>/derive/<job>/<name>: the last number of a row, the newest event time that was seen,
that by which transactions expired, how many members are open, and the oldest one's time. Times are microseconds; 0 says
that there is none."""
SPEC = Spec("none", ("_output",))


@dataclass(frozen=True)
class Begun:
    """What a run is based on. view: the job's table; None: there is none yet, or a rebuild does without it."""

    readings: Mapping[str, MembersReading]
    lookups: Mapping[str, PinnedSource]
    numbers: Mapping[str, int]
    view: TableView | None

    @property
    def more(self) -> bool:
        """Whether sources have more than this run takes."""
        return any(slices(one.until, one.source.now) for one in self.readings.values())

    @property
    def has_new(self) -> bool:
        """Whether sources have anything that was not taken."""
        return any(one.source.has_new(one.taken) for one in self.readings.values())


class BundlesJob:
    """One [derive.<name>] of kind bundles."""

    kind = "bundles"

    def __init__(self, name: str, table: BundlesTable, lake: Lake, later: Later, owner: str) -> None:
        """later: the job's own session, of which nobody else uses the views and the configuration."""
        self.name = name
        self._table = table
        self._rules = rules_of(table)
        self._lake = lake
        self._later = later
        self._target = Target(lake, name, self.kind, owner)

    def plan(self) -> Planned:
        """The offsets that are new, what would become of their transactions, and the SQL."""
        begun = self._begun(self._target.view())
        ranges = {
            str(one.tp): str(one)
            for reading in begun.readings.values()
            for one in slices(reading.taken, reading.until)
        }
        statements = [one.statement for _, one in pairs(self._rules)]
        statements += [f"{name}: {sql}" for rule in self._rules for name, sql in rule.outputs]
        if not begun.has_new:
            return Planned(self.name, self.kind, ranges, statements, "nothing is new")
        with self._told(), KeptFrames() as keep:
            judged = self._judged(begun, self._rows(begun, keep), keep)
            self._made(begun, judged)
            return Planned(self.name, self.kind, ranges, statements, _says(judged))

    def run(self) -> Ran:
        """All that is new, or as much as a window holds, in one commit."""
        view = self._target.view()
        begun = self._begun(view)
        if not begun.has_new:
            return Ran(self.name)
        with self._told(), KeptFrames() as keep:
            rows = self._rows(begun, keep)
            return self._committed(view, begun, self._judged(begun, rows, keep), keep)

    def rebuild(self) -> Ran:
        """Take out all rows and begin with all that the sources hold."""
        view = self._target.view()
        begun = self._begun(None, whole=True)
        with self._told(), KeptFrames() as keep:
            judged = self._judged(begun, self._rows(begun, keep), keep)
            return self._committed(view, begun, judged, keep, removes_all=view is not None)

    def status(self) -> JobStatus:
        """By what the last commit says."""
        view = self._target.view()
        begun = self._begun(view)
        behind = {
            name: sum(one.through - one.after for one in slices(reading.taken, reading.source.now))
            for name, reading in begun.readings.items()
        }
        numbers = begun.numbers
        facts = {"rows": numbers["seq"], "members open": numbers["open"], "oldest open": _time(numbers["oldest"])}
        facts |= {name: count for one in begun.readings.values() for name, count in others_told(one.source).items()}
        return JobStatus(self.name, self.kind, view.version if view else None, behind, facts)

    def audit(self) -> Sequence[AuditLine]:
        """Each member once, each row reproduced, the numbers without a hole."""
        view = self._target.view()
        if view is None:
            return ()
        begun = self._begun(view)
        with self._told():
            lookups = {name: one.source for name, one in self._table.lookups.items()}
            table, of = self._rows_of(view), (begun.readings, self._ledger(view), begun.numbers)
            return audit(AuditedBundles(self.name, self._later, self._rules, *of, lookups, table, self._lake))

    def _begun(self, view: TableView | None, whole: bool = False) -> Begun:
        """whole: however much it is."""
        transactions = view.transactions if view else {}
        app = self._lake.app
        names = [*sources_of(self._rules), *(one.source for one in self._table.lookups.values())]
        pinned = {name: pin(self._lake, self._later, name) for name in dict.fromkeys(names)}
        readings = {}
        for name in sources_of(self._rules):
            source, taken = pinned[name], cursor_of(transactions, app, self.name, name)
            source.require_kept(taken, self.name)
            until = source.now if whole else window(taken, source.now, self._table.window_records_max)
            first = cursor_of(transactions, app, f"{self.name}/{OPEN}", name)
            readings[name] = MembersReading(source, first, taken, until)
        lookups = {view: pinned[one.source] for view, one in self._table.lookups.items()}
        head = head_of(app, self.name)
        numbers = {name: transactions.get(f"{head}{name}", 0) for name in NUMBERS}
        return Begun(readings, lookups, numbers, view)

    def _ledger(self, view: TableView | None) -> Ledger:
        return Ledger(self._later.session, self._rows_of(view) if view else None)

    def _rows_of(self, view: TableView) -> DataFrame:
        return rows_of(self._later.session, self._target.table, view.version)

    def _rows(self, begun: Begun, keep: KeptFrames) -> dict[str, DataFrame]:
        """What is read of each source, once a run."""
        return {name: keep(one.rows()) for name, one in begun.readings.items()}

    def _judged(self, begun: Begun, rows: Mapping[str, DataFrame], keep: KeptFrames) -> JudgedTransactions:
        """Nothing expires before all that the sources have is looked at: some would be ahead of others."""
        before = Before(self._ledger(begun.view), begun.numbers["newest"] or None, not begun.more)
        return judge(begun.readings, rows, self._rules, before, keep)

    def _committed(
        self,
        view: TableView | None,
        begun: Begun,
        judged: JudgedTransactions,
        keep: KeptFrames,
        removes_all: bool = False,
    ) -> Ran:
        made, count = self._made(begun, judged), 0
        if judged.any_done:
            made = keep(made)
            count = self._counted(made)
        parts = [made if count else made.limit(0), ledger_rows(judged), *late_rows(judged, self._rules)]
        pinned = {name: one.view.version for name, one in begun.lookups.items()}
        rows = as_written(union(parts), self._target.runs(view) + 1, pinned)
        schema = schema_of(self.name, rows, view.schema_json if view else None, removes_all)
        create, evolve = (schema, None) if view is None else (None, schema)
        positions = self._positions(begun, judged, view, count)
        commit = RunCommit(rows, positions, create=create, evolve=evolve, spec=SPEC, removes_all=removes_all)
        version = self._target.commit(view, commit)
        return Ran(self.name, count, version, begun.more, _says(judged))

    def _made(self, begun: Begun, judged: JudgedTransactions) -> DataFrame:
        """The output rows; not read yet."""
        views(judged.rows, self._rules, judged.members.where(sf.col("state") == DONE), begun.lookups)
        return output_rows(self._later.session, self.name, self._rules, judged, begun.numbers["seq"])

    def _counted(self, made: DataFrame) -> int:
        """How many rows. Raises ConfigError if one is of no transaction that is done."""
        astray = sf.max(sf.when(sf.col("_at").isNull(), sf.col("_output")))
        count, placed, output = made.agg(sf.count("*"), sf.count("_at"), astray).first() or (0, 0, "")
        if count != placed:
            what = f"output {output}: {count - placed} rows have a _transaction that is none of its views'"
            raise ConfigError(f"[derive.{self.name}] {what}", "select the _transaction of an input's view")
        return int(count)

    def _positions(
        self, begun: Begun, judged: JudgedTransactions, view: TableView | None, count: int
    ) -> dict[str, int]:
        app = self._lake.app
        said: dict[str, int] = {}
        for name, reading in begun.readings.items():
            said |= as_transactions(reading.until, app, self.name, name)
            said |= as_transactions(judged.open_of(name), app, f"{self.name}/{OPEN}", name)
        if view is not None:
            said |= superseded(view.transactions, said, app, f"{self.name}/{OPEN}")
        newest = judged.newest or 0
        numbers = {
            "seq": begun.numbers["seq"] + count,
            "newest": newest,
            "judged": begun.numbers["judged"] if begun.more else newest,
            "open": judged.open,
            "oldest": judged.oldest or 0,
        }
        return said | {f"{head_of(app, self.name)}{name}": number for name, number in numbers.items()}

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Raises ConfigError for what Spark says of the SQL before it runs, RunFailed for what it says later."""
        try:
            yield
        except PySparkException as error:
            kind = ConfigError if isinstance(error, AnalysisException) else RunFailed
            hint = f"`exporter derive plan {self.name}` shows the SQL"
            raise kind(f"derive {self.name}: {told(error)}", hint) from error


def _says(judged: JudgedTransactions) -> str:
    found = {name: judged.transactions.get(name, 0) for name in (DONE, EXPIRED, LATE, "open")}
    return ", ".join(f"{number} transactions {name}" for name, number in found.items())


def _time(micros: int) -> str:
    at = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(microseconds=micros)
    return at.isoformat(timespec="seconds") if micros else "none"
