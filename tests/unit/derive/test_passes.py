"""Which job runs when, and what its failures do to the others: with jobs that do as they are told."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from pyspark.errors import AnalysisException

from exporter.derive.job import AuditLine, JobStatus, Planned, Ran
from exporter.derive.passes import Passes
from exporter.derive.source import NoSource
from exporter.errors import (
    ConfigError,
    DependencyUnreachable,
    ExporterError,
    Fenced,
    InvariantBroken,
    JvmEnded,
    LogCleaned,
    StorageSilent,
)
from offsets import Invariant

OUT = StorageSilent("the storage is silent")


class Clock:
    """Time that passes only where somebody rests; it is a stop as well, for the passes and for the test."""

    def __init__(self, ends_at: float = float("inf")) -> None:
        self.now = 0.0
        self.ends_at = ends_at
        self.rests: list[float] = []

    def __call__(self) -> float:
        return self.now

    def asked(self) -> bool:
        return self.now >= self.ends_at

    def pause(self, secs: float) -> None:
        self.now += secs

    def rest(self, secs: float) -> None:
        assert secs > 0
        self.rests.append(secs)
        self.now += secs


class Fake:
    """A job whose runs do one after the other what `does` says, the last of it for ever after.

    A number: rows of a commit; -number: as many, and there is more; 0: nothing to do; an error: is raised.
    """

    kind = "fake"

    def __init__(self, name: str, *does: int | Exception, ran: list[str] | None = None, clock: Clock | None = None):
        self.name = name
        self._does = list(does)
        self.ran = [] if ran is None else ran
        self._clock = clock
        self.times: list[float] = []

    def run(self) -> Ran:
        self.ran.append(self.name)
        self.times.append(self._clock.now if self._clock else 0.0)
        does = self._does.pop(0) if len(self._does) > 1 else self._does[0]
        if isinstance(does, Exception):
            raise does
        return Ran(self.name, abs(does), len(self.ran) if does else None, more=does < 0)

    def rebuild(self) -> Ran:
        self.ran.append(f"rebuild {self.name}")
        return Ran(self.name, 7, 7)

    def plan(self) -> Planned:
        raise NotImplementedError

    def status(self) -> JobStatus:
        raise NotImplementedError

    def audit(self) -> Sequence[AuditLine]:
        raise NotImplementedError


def passes(
    *jobs: Fake, clock: Clock | None = None, give_up_secs: float = 100.0, made_of: Mapping[str, set[str]] | None = None,
    told: Callable[[Ran], None] = lambda ran: None, jvm_ended: Callable[[BaseException], bool] = lambda error: False,
    pace: float = 0.0,
) -> Passes:  # fmt: skip
    time = clock or Clock()
    return Passes(jobs, told, time, give_up_secs, made_of=made_of, jvm_ended=jvm_ended, pace=pace, clock=time)


def test_caught_up_is_when_no_job_has_more() -> None:
    """Jobs take turns; one that is done is not asked again; what did something is told, in its order."""
    ran: list[str] = []
    told: list[tuple[str, int]] = []
    made = passes(Fake("a", -5, -4, 0, ran=ran), Fake("b", 3, 9, ran=ran), Fake("c", 0, ran=ran),
                  told=lambda run: told.append((run.job, run.rows)))  # fmt: skip
    made.catch_up()
    made.require_well()
    assert ran == ["a", "b", "c", "a", "a"]
    assert told == [("a", 5), ("b", 3), ("a", 4)]
    state = made.states["a"]
    assert (state.runs, state.rows, state.failures, state.ended, state.error) == (2, 9, 0, False, "")


def test_what_a_run_leaves_in_cycles_is_let_go_at_once() -> None:
    """py4j's objects are in such: Python would collect them by their number, and the JVM keeps all of a query for one.

    A run that did nothing has left next to nothing, and costs no collection.
    """
    left: list[weakref.ref[Fake]] = []

    class Leaving(Fake):
        def run(self) -> Ran:
            cycle = Fake("cycle", 0)
            cycle.itself = cycle  # type: ignore[attr-defined]
            left.append(weakref.ref(cycle))
            return super().run()

    gc.disable()
    try:
        passes(Leaving("a", -5, 0)).catch_up()
        assert [ref() is None for ref in left] == [True, False]
    finally:
        gc.enable()


def test_a_job_that_is_made_of_another_comes_to_its_end_after_it() -> None:
    """What the last run of its source made is taken too."""
    ran: list[str] = []
    passes(
        Fake("source", -1, -1, 1, ran=ran), Fake("made", 0, ran=ran), made_of={"made": {"source"}, "source": set()}
    ).catch_up()  # fmt: skip
    assert ran == ["source", "made"] * 3


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Fenced("another process runs it"), 75),
        (InvariantBroken(Invariant.ONCE, "rows were taken back"), 70),
        (ConfigError("no such column"), 2),
        (LogCleaned("version 3 is gone"), 70),
        (AnalysisException("UNRESOLVED_COLUMN `x`"), 2),
    ],
    ids=lambda one: type(one).__name__,
)
def test_what_no_second_try_mends_ends_one_job_alone(error: Exception, code: int) -> None:
    """The others go on; the process ends with that code once all have run, and the error names the job."""
    bad, good = Fake("bad", error), Fake("good", -1, -1, 1)
    made = passes(bad, good)
    made.catch_up()
    assert len(bad.ran) == 1 and len(good.ran) == 3
    with pytest.raises(ExporterError, match="derive bad: ") as raised:
        made.require_well()
    assert raised.value.exit_code == code
    assert made.states["bad"].ended and not made.states["good"].ended


@pytest.mark.parametrize(
    "error",
    [OUT, DependencyUnreachable("no broker"), RuntimeError("a Spark job failed")],
    ids=lambda one: type(one).__name__,
)
def test_what_may_go_the_next_time_is_tried_again_after_a_pause_that_grows(error: Exception) -> None:
    """1, 2, 4 s; meanwhile the others are done, and nothing spins."""
    clock = Clock()
    bad, good = Fake("bad", error, error, error, 5, clock=clock), Fake("good", 1, clock=clock)
    made = passes(bad, good, clock=clock)
    made.catch_up()
    made.require_well()
    assert bad.times == [0, 1, 3, 7] and good.times == [0]
    state = made.states["bad"]
    assert (state.failures, state.in_a_row, state.error, state.rows) == (3, 0, "", 5)


@pytest.mark.parametrize(("error", "code"), [(OUT, 69), (RuntimeError("a Spark job failed"), 1)], ids=["outage", "job"])
def test_a_job_that_fails_for_give_up_secs_is_given_up(error: Exception, code: int) -> None:
    """It ends alone, and says for how long it has failed."""
    clock = Clock()
    made = passes(Fake("bad", error, clock=clock), Fake("good", 1), clock=clock, give_up_secs=20)
    made.catch_up()
    with pytest.raises(ExporterError, match="failed for 31 s") as raised:
        made.require_well()
    assert raised.value.exit_code == code
    assert made.states["bad"].failures == 6


def test_a_following_process_looks_every_so_often_and_ends_when_no_job_is_left() -> None:
    """As long as one job goes on, so does the process; then it ends with what came first."""
    clock = Clock()
    first, second = Fake("a", Fenced("another")), Fake("b", 1, -2, 0, ConfigError("gone"), clock=clock)
    made = passes(first, second, clock=clock)
    made.follow(10)
    with pytest.raises(Fenced):
        made.require_a_job()
    assert second.times == [0, 10, 10, 20]
    assert len(first.ran) == 1


def test_all_jobs_that_ended_are_named() -> None:
    """The error is the first one's kind and exit code; it says of each job why it ended, and what to do."""
    jobs = [Fake("a", ConfigError("no column x", "correct a")), Fake("b", 1, 0), Fake("c", StorageSilent("silent")),
            Fake("d", InvariantBroken(Invariant.ONCE, "taken back", "begin d anew"))]  # fmt: skip
    made = passes(*jobs, give_up_secs=2)
    made.catch_up()
    with pytest.raises(ConfigError) as ended:
        made.require_well()
    told = ended.value.message
    assert all(part in told for part in ("derive a: no column x", "derive c: silent", "derive d: ONCE: taken back"))
    assert "derive b" not in told
    assert ended.value.exit_code == 2 and "correct a; begin d anew" in ended.value.hint


def test_a_stop_ends_the_following_without_an_error() -> None:
    """Also if a job had ended before, which was told then."""
    clock = Clock(ends_at=25)
    job = Fake("b", 0, clock=clock)
    made = passes(Fake("a", Fenced("another")), job, clock=clock)
    made.follow(10)
    made.require_a_job()
    assert job.times == [0, 10, 20]


def test_a_job_that_was_cut_short_by_a_stop_has_not_failed() -> None:
    """Its Spark job was cancelled: that says nothing of it."""
    clock = Clock(ends_at=5)

    class Cut(Fake):
        def run(self) -> Ran:
            clock.now = 6
            raise RuntimeError("Job 7 cancelled part of cancelled job group")

    made = passes(Cut("a", 0), clock=clock)
    made.follow(10)
    assert (made.states["a"].failures, made.states["a"].error) == (0, "")


def test_a_failing_job_is_tried_again_sooner_than_the_next_look_and_holds_nobody_up() -> None:
    """The others keep their pace, or are asked a little sooner."""
    clock = Clock(ends_at=29)
    bad = Fake("bad", OUT, OUT, 0, clock=clock)
    passes(bad, Fake("good", 0, clock=clock), clock=clock).follow(10)
    assert bad.times[:3] == [0, 1, 3]
    assert clock.rests == [1, 2, 10, 10, 10]


def test_a_source_that_is_not_there_yet_is_waited_for(caplog: Any, capsys: Any) -> None:
    """It is no failure, and told once; with an end, nothing is all that there was."""
    clock = Clock(ends_at=45)
    missing = NoSource("there is no table of the event type 'x' yet")
    job = Fake("a", missing, missing, missing, 4, 0, clock=clock)
    made = passes(job, clock=clock)
    made.follow(10)
    assert job.times == [0, 10, 20, 30, 40]
    assert (made.states["a"].failures, made.states["a"].rows, made.states["a"].waits) == (0, 4, False)
    late = passes(Fake("a", missing))
    late.catch_up()
    late.require_well()
    assert late.states["a"].waits and late.states["a"].error == missing.message


def test_a_rebuild_begins_anew_once_and_catches_up() -> None:
    """What came meanwhile is taken too."""
    job = Fake("a", 1, 0)
    passes(job).rebuild()
    assert job.ran == ["rebuild a"]


def test_a_jvm_that_is_gone_ends_the_process() -> None:
    """It runs no other job; whichever error it is that tells."""
    for error in (JvmEnded(), ConnectionError("refused")):
        other = Fake("b", 0)
        with pytest.raises(JvmEnded):
            passes(Fake("a", error), other, jvm_ended=lambda one: isinstance(one, ConnectionError)).catch_up()
        assert other.ran == []


def test_beside_something_else_a_pass_is_followed_by_as_long_a_rest() -> None:
    """Also if there is more to do; what has nothing to do rests until the next look."""
    clock = Clock(ends_at=26)

    class Slow(Fake):
        def run(self) -> Ran:
            ran = super().run()
            clock.now += 4 * bool(ran.rows)
            return ran

    job = Slow("a", -1, 1, 0, clock=clock)
    passes(job, clock=clock, pace=1.0).follow(10)
    assert job.times == [0, 8]


def test_seconds_behind_count_from_the_last_run_that_left_nothing() -> None:
    """A run that has more, fails or waits leaves the job behind."""
    clock = Clock(ends_at=35)
    made = passes(Fake("a", 3, OUT, clock=clock), clock=clock)
    made.follow(10)
    assert made.states["a"].behind_secs(clock.now, 0.0) == clock.now
    assert passes(Fake("b", 1)).states["b"].behind_secs(50.0, 20.0) == 30.0
