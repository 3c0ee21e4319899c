"""The settings that the loop itself needs."""

from __future__ import annotations

from dataclasses import dataclass

from exporter.core.roll import RollLimits
from exporter.core.valid_through import Basis


@dataclass(frozen=True)
class LoopLimits:
    """Names as in the settings model.

    times: of which times the tasks of a round of reading tell the greatest.
    """

    roll: RollLimits
    heartbeat_secs: float
    stage_age_max_secs: float
    stop_budget_secs: float
    poll_secs: float
    new_types_max: int
    carried_bytes_max: int
    wal_verify_secs: float
    times: Basis = ""
