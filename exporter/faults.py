"""Named fault points in the production code, inert unless armed for a drill.

EXPORTER_FAULTS="<point>:<action>[:<n>]" arms one point: on its n-th passing (default 1) the
process kills itself (kill), stops itself (stop: SIGSTOP, somebody else decides) or raises (raise).
"""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from enum import Enum


class Fault(str, Enum):
    """Where a drill may strike."""

    AFTER_PLAN = "after_plan"
    AFTER_READ = "after_read"
    AFTER_INTEGRATE = "after_integrate"
    BEFORE_WAL_STARTED = "before_wal_started"
    AFTER_WAL_STARTED = "after_wal_started"
    BEFORE_DELTA_COMMIT = "before_delta_commit"
    AFTER_DELTA_COMMIT = "after_delta_commit"
    BEFORE_WAL_COMPLETED = "before_wal_completed"
    AFTER_WAL_COMPLETED = "after_wal_completed"
    BEFORE_GROUP_OFFSET = "before_group_offset"
    AFTER_ANCHOR = "after_anchor"
    AFTER_SEAL = "after_seal"
    AFTER_REPAIR = "after_repair"
    AFTER_GAP_ROW = "after_gap_row"
    AFTER_GAP_MOVE = "after_gap_move"
    AFTER_REPLAY_STAGE = "after_replay_stage"
    AFTER_REPLAY_COMMIT = "after_replay_commit"
    AFTER_REPLAY_DELETE = "after_replay_delete"


class InjectedFault(RuntimeError):
    """Raised by an armed point with the action `raise`."""


VARIABLE = "EXPORTER_FAULTS"
_passed: Counter[str] = Counter()
_counting = threading.Lock()


def point(fault: Fault) -> None:
    """Pass a fault point. Costs a dictionary look-up when nothing is armed."""
    armed = os.environ.get(VARIABLE)
    if not armed:
        return
    name, _, rest = armed.partition(":")
    if name != fault.value:
        return
    action, _, count = rest.partition(":")
    with _counting:
        _passed[name] += 1
        passed = _passed[name]
    if passed == int(count or 1):
        _strike(action, name)


def _strike(action: str, name: str) -> None:
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif action == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif action == "raise":
        raise InjectedFault(name)
    else:
        raise ValueError(f"{VARIABLE}: unknown action {action!r}")
