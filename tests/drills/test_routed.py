"""Records of three tables each, filters and computed columns, through crashes: places and counts stay exact."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from exporter.core.outcome import Report
from exporter.drill import routes
from exporter.drill.settings_file import settings_text
from exporter.local.plain import PlainLake, PlainTopic, problems
from exporter.protocol.commit import DeltaCommitter
from tests.support.lakes import Crash, Exports
from tests.support.services import Record

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.drill]

CRASHES = (1, 2, 3, 1, 2)
"""The commit of each life in which it ends: the odd ones before it lands, the others when it has.

At least three say something of filters, one of each table that has any."""
RECORDS = 60


def crash_in(patch: pytest.MonkeyPatch, commit: int) -> None:
    """The process is gone in its n-th commit that has something to say of filters."""
    real, made = DeltaCommitter.commit, [0]

    def offer(self: DeltaCommitter, event_type: str, claims: Any) -> Report:
        made[0] += any(claim.filtered for claim in claims)
        if made[0] >= commit and commit % 2:
            raise Crash(event_type)
        report = real(self, event_type, claims)
        if made[0] >= commit:
            raise Crash(event_type)
        return report

    patch.setattr(DeltaCommitter, "commit", offer)


def test_counts_of_what_filters_leave_out_are_exact_wherever_a_task_ends(
    kafka: str, exports: Exports, tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ONCE, for each table of a record: life after life ends in a commit, before it lands or after."""
    settings = {"unrouted": "count", "assignment": "static", "partitions": "0/1", "round_records_max": 25,
                "roll_age_max_secs": 0.2, "heartbeat_secs": 0.2, "roll_records_max": 20}  # fmt: skip
    own = {name: routes.SECTIONS[f"types.{name}"] for name in routes.TYPES}
    rest = {name: told for name, told in routes.SECTIONS.items() if name.removeprefix("types.") not in own}
    e = exports(
        types=routes.TYPES, **settings, cuts={name: settings_text(told, {}) for name, told in own.items()},
        more=settings_text({}, rest),
    )  # fmt: skip
    lake, sent = PlainLake(tmp_path / "lake"), PlainTopic({"bootstrap_servers": kafka}, e.topic)

    def wrong(through: bool = False) -> list[str]:
        lake.look()
        return list(problems(dict(sent.read()), lake, e.app, e.topic, through))

    for life, commit in enumerate(CRASHES):
        made = (routes.record(RECORDS * life + number) for number in range(RECORDS))
        e.send({0: [Record(one.key, one.value, (), one.timestamp_ms) for one in made]})
        with monkeypatch.context() as patch, pytest.raises(Crash):
            crash_in(patch, commit)
            e.run(spark)
        assert wrong() == [], f"life {life}"
    e.run(spark)
    assert wrong(through=True) == []
    assert all(lake.tables[name].filtered for name in ("large", "thirds", "dead_letters"))
    e.proven(spark)
