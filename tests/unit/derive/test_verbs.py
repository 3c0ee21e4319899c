"""What `derive plan`, `status` and `audit` say of a job that cannot run: the others are told all the same."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from exporter.derive import verbs
from exporter.derive.source import NoSource
from exporter.errors import ConfigError, InvariantBroken, StorageSilent
from offsets import Invariant


class Failing:
    """A job whose every method raises."""

    name, kind = "a", "sql"

    def __init__(self, error: Exception) -> None:
        self.error = error

    def plan(self) -> Any:
        raise self.error

    status = audit = plan


@pytest.mark.parametrize(
    ("error", "waits"),
    [
        (NoSource("there is no table yet"), True),
        (InvariantBroken(Invariant.ONCE, "rows were taken back", "--rebuild"), False),
        (ConfigError("no column `x`"), False),
    ],
    ids=["no source", "taken back", "wrong"],
)
def test_a_job_that_cannot_run_is_told_beside_the_others(
    error: Exception, waits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One whose source is not there yet has nothing wrong; one that would end is no clean audit."""
    told = error.message  # type: ignore[attr-defined]
    lake = SimpleNamespace(__enter__=None)
    monkeypatch.setattr(verbs, "jobs_of", lambda settings, lake, only: [Failing(error)])

    class Open:
        def __enter__(self) -> Any:
            return lake

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(verbs, "open_lake", lambda settings: Open())
    settings: Any = None
    assert told in verbs.plans(settings, ())[0].says
    assert told in verbs.statuses(settings, ())[0].facts.values()
    (line,) = verbs.audits(settings, ())
    assert (line.clean, line.says) == (waits, told)
    monkeypatch.setattr(verbs, "jobs_of", lambda settings, lake, only: [Failing(StorageSilent("out"))])
    with pytest.raises(StorageSilent):
        verbs.plans(settings, ())
