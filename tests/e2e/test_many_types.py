"""Hundreds of event types: a table each, started and restarted within seconds rather than minutes."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.support.lakes import Exports, event, wrong_places

pytestmark = [pytest.mark.broker, pytest.mark.spark]

TYPES = 300
SECS_MAX = 600.0
"""For one run, so that a hanging one ends."""


@pytest.mark.long
@pytest.mark.timeout(2000)
def test_three_hundred_types_are_exported_restarted_and_audited(exports: Exports, spark: Any) -> None:
    """Half of them declared, half met at run time; a restart reads 301 tables, and the audit is clean."""
    names = [f"type{number:03}" for number in range(TYPES)]
    declared = dict.fromkeys(names[: TYPES // 2], "id BIGINT")
    e = exports(types=declared, new_type="table", new_types_max=TYPES)
    took = {}
    for step in ("first", "second"):
        e.send({0: [event(name, number) for number, name in enumerate(names * 2)]})
        started = time.monotonic()
        with e.service(spark, secs_max=SECS_MAX) as service:
            service.run()
        took[step] = time.monotonic() - started
    assert wrong_places(e) == {}
    assert len(e.tables()) == TYPES + 1
    started = time.monotonic()
    report = e.audit(spark)
    took["audit"] = time.monotonic() - started
    assert report.clean, report
    print(took)
