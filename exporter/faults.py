"""Named fault points in the production code, inert unless armed for a drill.

EXPORTER_FAULTS="<point>[@<event type>]:<action>[:<when>],..." arms some. action: kill or stop the task (SIGKILL,
SIGSTOP: somebody else decides), raise (InjectedFault), fail or full (OSError: EIO, ENOSPC), delay=SECS. when: n, the
n-th hit (default 1); n+, from there on; /n, each n-th. Each process of a task counts its own hits.
"""

from __future__ import annotations

import errno
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache


class Fault(str, Enum):
    """Where a drill may strike, in the order in which a task comes by."""

    BEFORE_SPARK = "before_spark"
    AFTER_SPARK = "after_spark"
    AFTER_JOIN = "after_join"
    IN_REBALANCE = "in_rebalance"
    IN_LEASE_RENEWAL = "in_lease_renewal"
    BEFORE_POSITIONS = "before_positions"
    AFTER_WAL_READ = "after_wal_read"
    AFTER_ANCHOR = "after_anchor"
    AFTER_SEAL = "after_seal"
    AFTER_GAP_ROW = "after_gap_row"
    AFTER_GAP_MOVE = "after_gap_move"
    AFTER_POSITIONS = "after_positions"
    AFTER_PLAN = "after_plan"
    BEFORE_STAGED_FILE = "before_staged_file"
    AFTER_READ = "after_read"
    AFTER_INTEGRATE = "after_integrate"
    BEFORE_WAL_STARTED = "before_wal_started"
    AFTER_WAL_STARTED = "after_wal_started"
    BEFORE_DELTA_COMMIT = "before_delta_commit"
    AFTER_DELTA_COMMIT = "after_delta_commit"
    BEFORE_OFFER = "before_offer"
    AFTER_OFFER = "after_offer"
    BEFORE_BEGIN = "before_begin"
    AFTER_BEGIN = "after_begin"
    BEFORE_MERGED_COMMIT = "before_merged_commit"
    AFTER_MERGED_COMMIT = "after_merged_commit"
    BEFORE_OUTCOME = "before_outcome"
    AFTER_OUTCOME = "after_outcome"
    BEFORE_FALL_BACK = "before_fall_back"
    BEFORE_WAL_COMPLETED = "before_wal_completed"
    AFTER_WAL_COMPLETED = "after_wal_completed"
    BEFORE_GROUP_OFFSET = "before_group_offset"
    AFTER_GROUP_OFFSET = "after_group_offset"
    AFTER_REPAIR = "after_repair"
    AFTER_AGED_BOUND = "after_aged_bound"
    AFTER_AGED_DELETE = "after_aged_delete"
    AFTER_ERASURE = "after_erasure"
    AFTER_ERASING = "after_erasing"
    AFTER_ERASED = "after_erased"
    AFTER_REWRITE = "after_rewrite"
    AFTER_BACKFILL = "after_backfill"
    AFTER_REPLAY_STAGE = "after_replay_stage"
    AFTER_REPLAY_COMMIT = "after_replay_commit"
    AFTER_REPLAY_DELETE = "after_replay_delete"
    AFTER_DERIVE_FENCE = "after_derive_fence"
    AFTER_DERIVE_SEND = "after_derive_send"
    BEFORE_DERIVE_COMMIT = "before_derive_commit"
    AFTER_DERIVE_COMMIT = "after_derive_commit"


class InjectedFault(RuntimeError):
    """Raised by an armed point with the action `raise`. After a commit: its answer is lost."""


VARIABLE = "EXPORTER_FAULTS"
TASK_VARIABLE = "EXPORTER_FAULTS_TASK"
"""Process id of the driver, for its Python workers: a fault there strikes the whole task."""
_passed: Counter[Armed] = Counter()
_counting = threading.Lock()


@dataclass(frozen=True)
class Armed:
    """One armed point. what: an event type, or empty for all. From the `first` hit on, each `step`-th; 0: once."""

    name: str
    what: str
    action: str
    first: int
    step: int

    def strikes(self, hit: int) -> bool:
        """Whether it does at this hit, counted from 1."""
        beyond = hit - self.first
        return beyond == 0 or (beyond > 0 and self.step > 0 and beyond % self.step == 0)


def as_armed(fault: Fault, what: str) -> None:
    """Strike where the environment says so; a dictionary look-up when nothing is armed."""
    text = os.environ.get(VARIABLE)
    if not text:
        return
    os.environ.setdefault(TASK_VARIABLE, str(os.getpid()))  # BEFORE_SPARK is passed before any other process is there
    for armed in parse(text):
        if armed.name != fault.value or armed.what not in ("", what):
            continue
        with _counting:
            _passed[armed] += 1
            hit = _passed[armed]
        if armed.strikes(hit):
            _strike(armed)


on_hit: Callable[[Fault, str], None] = as_armed
"""What happens at a point; tests/sim puts something else in its place."""


def point(fault: Fault, what: str = "") -> None:
    """Pass a fault point. what: the event type, where there is one."""
    on_hit(fault, what)


@cache
def parse(text: str) -> Sequence[Armed]:
    """What the variable arms. Raises ValueError for what cannot be read."""
    return tuple(map(_parse_one, text.split(",")))


def _parse_one(text: str) -> Armed:
    place, _, rest = text.partition(":")
    action, _, when = rest.partition(":")
    name, _, what = place.partition("@")
    number = int(when.strip("+/") or 1)
    if name not in set(Fault) or action.partition("=")[0] not in ("kill", "stop", "raise", "fail", "full", "delay"):
        raise ValueError(f"{VARIABLE}: cannot read {text!r}")
    return Armed(name, what, action, number, number if when.startswith("/") else int(when.endswith("+")))


def _strike(armed: Armed) -> None:
    action, _, secs = armed.action.partition("=")
    if action in ("kill", "stop"):
        task, number = int(os.environ[TASK_VARIABLE]), signal.SIGKILL if action == "kill" else signal.SIGSTOP
        if task == os.getpid():
            signal.pthread_kill(threading.get_ident(), number)  # else this thread runs on until another one takes it
        else:
            os.kill(task, number)
    elif action == "raise":
        raise InjectedFault(armed.name)
    elif action == "delay":
        time.sleep(float(secs))
    else:
        code = errno.ENOSPC if action == "full" else errno.EIO
        raise OSError(code, f"{os.strerror(code)} (injected at {armed.name})")
