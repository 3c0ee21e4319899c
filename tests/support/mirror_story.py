"""A random history of a source, of what is done to it and to its mirror meanwhile, and of the mirror's runs.

After each run the mirror is what the oracle makes of all rows that it has taken, as readers see it.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

import pytest

from exporter.derive.mirror import MirrorJob
from exporter.errors import InvariantBroken
from exporter.lake.lake import Lake
from tests.support.mirror_kinds import BEGIN, KINDS, LATER, Kind, Rows
from tests.support.mirror_oracle import NESTED, NULL_KEY, UNFIT_KEY, UNKNOWN, Mirrored, coordinates, mirrored
from tests.support.mirrored import Raw, by_delta_rs, by_duckdb, by_spark, held, mirror_job

ACCIDENTS = ("optimize", "vacuum", "delete", "restore", "clean", "column", "rebuild")
AUDITED = {
    NULL_KEY: "rows with a null key", UNFIT_KEY: "rows whose key its column cannot hold",
    UNKNOWN: "rows with an unknown op", NESTED: "patches of nested fields",
}  # fmt: skip
"""Why a row is in no mirror -> what the audit says of it."""
OF_MIRRORS = ("optimize mirror", "vacuum mirror", "restore mirror")
UNCHECKED = "spark.databricks.delta.retentionDurationCheck.enabled"


class Killed(BaseException):
    """The process ends here."""


class Story:
    """One history. said: what happened in it."""

    def __init__(self, lake: Lake, session: Any, seed: int, keys: int) -> None:
        self.random = random.Random(seed)
        self.name = [*KINDS][seed % len(KINDS)]
        self.kind: Kind = KINDS[self.name]
        self.rows = Rows(seed, keys)
        self.raw = Raw(lake, session, "customer", ddl=self.kind.ddl)
        self.raw.create()
        self.deletion_vectors = self.random.random() < 0.3
        self.readable = self.raw.version
        self.taken: list[Any] = []
        self.known: dict[int, list[Any]] = {}
        self.said: Counter[str] = Counter()
        self.mirror = self.fresh()

    def fresh(self) -> MirrorJob:
        """As a new process has it."""
        return mirror_job(self.raw, self.kind.page, deletion_vectors=self.deletion_vectors)

    @property
    def table(self) -> Any:
        return self.raw.lake.derived("customers")

    @property
    def path(self) -> str:
        return str(self.table.store.uri().removeprefix("file://"))

    def append(self, count: int) -> None:
        self.rows.columns = self.raw.columns
        made = [row for _ in range(count) for row in self.kind.make(self.rows)]
        self.raw.append([{**row, "partition": row["partition"] % self.kind.partitions} for row in made])

    # -- runs

    def run(self, repaired: bool = True) -> None:
        """Run the job, be killed sometimes, do what the job says if it stops, and compare."""
        if self.random.random() < 0.2:
            self.mirror = self.fresh()
        try:
            if self.random.random() < 0.25:
                self.killed()
            ran = self.mirror.run()
        except InvariantBroken as broken:
            if "repair --rewind" in broken.hint:
                assert not repaired
                return
            assert "--rebuild" in broken.hint
            ran = self.mirror.rebuild()
            self.taken = []
            self.said["stopped"] += 1
        assert repaired
        self.said[ran.says.split(":")[0].split(";")[0]] += 1
        self.took(anew="made anew" in ran.says)
        assert self.mirror.run().idle

    def killed(self) -> None:
        """At one of the next moments before or after a commit; what it had taken, it need not have said."""
        before = self.version
        with killing(self.random.randrange(1, 5)) as passed:
            try:
                self.mirror.run()
            except Killed:
                self.said[f"killed {passed[-1]}"] += 1
                self.mirror = self.fresh()
        commits = map(self.table.logged, range(before + 1, self.version + 1))
        if any(one.removed and one.operation != "MERGE" and one.commit_id for one in commits):
            self.taken = []  # all was made anew: what only the mirror had is gone

    @property
    def version(self) -> int:
        """Of the mirror; -1 if there is none."""
        view = self.table.view()
        return -1 if view is None else int(view.version)

    def took(self, anew: bool) -> None:
        """All that the source has, beside what the mirror had before."""
        if anew:
            self.taken = []
        known = {coordinates(row) for row in self.taken}
        self.taken += [row for row in self.raw.rows if coordinates(row) not in known]
        self.known[self.version] = [*self.taken]
        self.compare(by_delta_rs(self.path))

    def compare(self, rows: list[Any]) -> None:
        columns = [name for name in self.raw.columns if name not in ("_kafka", "_event_time", "day")]
        told = [one for one in self.raw.emptied if one["told"]]
        due, there = mirrored(self.kind.page, self.taken, columns, told), held(self.kind.page, rows, columns)
        found, wanted = _plain(there), _plain(due)
        wrong = [key for key in {*found, *wanted} if found.get(key) != wanted.get(key)]
        told = [f"{key}: {found.get(key)} instead of {wanted.get(key)}" for key in wrong[:3]]
        assert not wrong, f"{len(wrong)} keys differ: {told}"

    def end(self) -> None:
        """All that is left is taken; every reader sees it, and the audit has nothing to say against it."""
        self.run()
        self.compare(by_spark(self.raw.session, self.path))
        if not self.deletion_vectors:
            self.compare(by_duckdb(self.path))
        lines = self.mirror.audit()
        assert [line for line in lines if not line.clean] == []
        self.compare_left_out({line.what: line.rows for line in lines})

    def compare_left_out(self, audited: Mapping[str, int]) -> None:
        """Rows that are in no mirror are counted, by the audit and by status."""
        left = mirrored(self.kind.page, self.raw.rows, ()).left_out
        assert {why: audited[what] for why, what in AUDITED.items() if what in audited} == left
        if not self.said["delete"]:
            told = ", ".join(f"{count} of {why}" for why, count in sorted(left.items()))
            assert self.mirror.status().facts.get("left out", "") == told

    # -- accidents

    def accident(self) -> None:
        """Something that people do to tables."""
        some = (*ACCIDENTS, *OF_MIRRORS) if self.known else ACCIDENTS[:-1]
        what = self.random.choice((*some, *["truncate"] * 3) if self.kind.is_emptied else some)
        self.said[what] += 1
        raw, mirror = self.raw, self.table.sql_name
        if what == "optimize":
            raw.sql("OPTIMIZE {t}")
        elif what == "vacuum":
            raw.session.sql(f"VACUUM {raw.sql_name} RETAIN 0 HOURS")
            self.readable = raw.version
        elif what == "delete":
            self.delete()
        elif what == "restore":
            self.restore()
        elif what == "clean":
            self.readable = max(self.readable, raw.clean_log())
        elif what == "column":
            self.column()
        elif what == "truncate":
            self.truncate()
        elif what == "rebuild":
            self.mirror.rebuild()
            self.took(anew=True)
        elif what == "optimize mirror":
            raw.session.sql(f"OPTIMIZE {mirror}")
        elif what == "vacuum mirror":
            raw.session.sql(f"VACUUM {mirror} RETAIN 0 HOURS")
            self.known = {version: rows for version, rows in self.known.items() if version == self.version}
        else:
            version = self.random.choice([*self.known])
            self.taken = [*self.known[version]]
            raw.session.sql(f"RESTORE TABLE {mirror} TO VERSION AS OF {version}")

    def delete(self) -> None:
        """A user takes rows out of the source."""
        offset = self.random.randrange(max(1, *self.raw.ends.values()))
        self.raw.delete(lambda row: row["_kafka"]["offset"] == offset, f"_kafka['offset'] = {offset}")

    def truncate(self) -> None:
        """The source is emptied, now or some time ago; sometimes its dead letters tell it later."""
        partition = self.random.randrange(self.kind.partitions)
        self.raw.truncate(partition, BEGIN + timedelta(seconds=self.rows.late()), told=self.random.random() < 0.8)
        if self.random.random() < 0.5:
            self.append(self.random.randrange(1, 5))
            self.run()
        self.raw.tell()

    def column(self) -> None:
        """The source gains one."""
        name = next((name for name in LATER if name not in self.raw.columns), None)
        if name:
            self.raw.sql(f"ALTER TABLE {{t}} ADD COLUMNS ({name} {LATER[name]})")

    def restore(self) -> None:
        """RESTORE, and its repair, after which the records come again."""
        versions = [one for one in self.raw.history if self.readable <= one]
        version = self.random.choice(versions or [self.raw.version])
        ends = self.raw.history[version][1]
        both = [*self.raw.rows, *self.raw.emptied]
        lost = [row for row in both if row["_kafka"]["offset"] >= ends[row["_kafka"]["partition"]]]
        columns = self.raw.columns
        self.raw.restore(version)
        if lost and self.random.random() < 0.3:
            self.run(repaired=False)
        if back := {tp: end for tp, end in ends.items() if end < self.raw.ends[tp]}:
            self.raw.rewind(back)
        if self.random.random() < 0.5:
            self.run()
        for name in LATER:
            if name in columns and name not in self.raw.columns:
                self.column()
        names = [name for name in columns if name not in ("_kafka", "_event_time", "day")]
        for emptied, some in groupby(sorted(lost, key=lambda row: row["_kafka"]["offset"]), lambda row: "told" in row):
            if emptied:
                for one in some:
                    self.raw.truncate(one["_kafka"]["partition"], one["ts"])
            else:
                self.raw.append([
                    {**{name: row.get(name) for name in names}, "partition": row["_kafka"]["partition"]} for row in some
                ])  # fmt: skip


def _plain(found: Mirrored) -> Mapping[Any, Any]:
    """Key -> its newest row, whether it is deleted, and if not its columns; moments as numbers, for readers give them
    in zones of their own."""

    def plain(value: Any) -> Any:
        if isinstance(value, datetime):
            return value.timestamp()
        if isinstance(value, Mapping):
            return {name: plain(one) for name, one in value.items()}
        return value

    shown = found.shown
    return {key: (newest, key in found.deleted, plain(shown.get(key))) for key, newest in found.newest.items()}


@contextmanager
def killing(nth: int) -> Iterator[list[str]]:
    """The n-th moment at which a job passes a fault point is its last. Gives the names of those that were passed."""
    passed: list[str] = []

    def point(fault: Any, job: str) -> None:
        passed.append(fault.value)
        if len(passed) == nth:
            raise Killed

    with pytest.MonkeyPatch.context() as patch:
        for module in ("target", "mirror_merge"):
            patch.setattr(f"exporter.derive.{module}.point", point)
        yield passed


def tell(lake: Lake, session: Any, seed: int, steps: int = 7, batch: int = 15, keys: int = 8) -> Story:
    """A history of so many steps. Raises AssertionError where it differs from the oracle."""
    session.conf.set(UNCHECKED, "false")
    story = Story(lake, session, seed, keys)
    try:
        for _ in range(steps):
            story.append(story.random.randrange(1, 2 * batch))
            if story.random.random() < 0.6:
                story.accident()
            if story.random.random() < 0.7:
                story.run()
        story.end()
    finally:
        session.conf.unset(UNCHECKED)
        print(f"seed {seed}, {story.name}: {dict(story.said)}")
    return story
