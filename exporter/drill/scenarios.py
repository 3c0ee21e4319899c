"""What can happen, as stories: each is a function of a Run, begins on an empty lake and ends with an audit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from exporter.drill import schedule
from exporter.drill.run import Run


@dataclass(frozen=True)
class Scenario:
    """name: as it is asked for. what: one line. own: needs services that it may kill."""

    name: str
    what: str
    play: Callable[[Run], None]
    own: bool = False


def random_kills(run: Run) -> None:
    """kill -9 at random moments of start, recovery and work, under load."""
    drawn = schedule.kills(run.rng, run.kills)
    run.record.schedule = [str(kill) for kill in drawn]
    run.load()
    for kill in drawn:
        task = run.start()
        if kill.after_commit:
            run.wait_commit(task)
        run.nap(kill.secs)
        run.kill(task, kill.whole)
        run.check()
    run.finish()
    for task in run.tasks:
        run.no_survivors(task)


SCENARIOS = {
    one.name: one
    for one in (
        Scenario("random-kills", f"{schedule.KILLS} kill -9 at random moments, also during recovery", random_kills),
    )
}
