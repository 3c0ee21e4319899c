"""Members of a drill that are stopped, without any service."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from exporter.drill.coordinated import _stop_all


def test_a_member_is_stopped_once_it_hears_a_stop() -> None:
    """Before that SIGTERM ends it, as it ends whatever has no handler: nothing is wrong with it."""
    done: list[tuple[str, str]] = []
    members: Any = [SimpleNamespace(name=name, ended=lambda: None) for name in ("old", "new")]
    run: Any = SimpleNamespace(
        wait_event=lambda task, event: done.append((event, task.name)),
        stop=lambda task: done.append(("stop", task.name)),
    )
    _stop_all(run, members)
    for name in ("old", "new"):
        assert done.index(("task_started", name)) < done.index(("stop", name))
