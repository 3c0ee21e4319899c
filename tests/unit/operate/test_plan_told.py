"""What `exporter plan` says to a person: first starts, restarts and changed settings, in few lines."""

from __future__ import annotations

import json

from exporter.operate.plan_told import plan_lines
from exporter.operate.start_plan import PartitionStart, Refusal, StartPlan
from offsets.ranges import TopicPartition

TYPES = ("click", "dead_letters", "order")


def start(partition: int, verdict: str, floor: int, end: int, **more: object) -> PartitionStart:
    return PartitionStart(TopicPartition("t", partition), verdict, end, floor, **more)  # type: ignore[arg-type]


def test_a_first_start_tells_where_it_begins_and_what_it_makes() -> None:
    """No word of anchors and floors."""
    some = [start(0, "firststart", 0, 12_000, begins=TYPES), start(1, "firststart", 0, 8_000, begins=TYPES)]
    assert [*plan_lines(StartPlan(tuple(some)))] == [
        "2 partitions: nothing is exported yet. 3 tables will be there, reading begins at offset 0: "
        "20,000 records to read"
    ]


def test_a_restart_tells_where_it_goes_on_and_who_is_behind() -> None:
    """And which types are new."""
    one = start(3, "agree", 20, 21, begins=("refund",), held_back_by=("order",))
    assert [*plan_lines(StartPlan((one,)))] == [
        "t-3: goes on where the tables are, at offset 20: 1 record to read",
        "  1 table will begin: refund",
        "  behind the others: order",
    ]


def test_changed_settings_are_told_and_what_stops_a_start_is_not_told_twice() -> None:
    """A partition that is refused has its line below."""
    refused = start(2, "agree", 5, 9, refusal=Refusal("COVER: gone", "put it back", 70))
    told = [*plan_lines(StartPlan((start(0, "switch", 20, 100), start(1, "switch", 30, 50), refused)))]
    assert told == [
        "2 partitions: the settings have changed. All tables are brought to one position under the former ones first, "
        "from offsets 20 to 30 on, then it goes on under these: 100 records to read"
    ]


def test_programs_read_a_plan_under_these_keys() -> None:
    """In this order; what stops a start is told of each partition and of all."""
    refused = Refusal("COVER: gone", "put it back", 70, "COVER")
    one = start(0, "agree", 5, 9, held_back_by=("order",), steps=("park click",), begins=("refund",), refusal=refused)
    told = json.dumps(StartPlan((one,), rules={"order": ["drop x"]}).as_dict())
    assert told == (
        '{"runs": false, "refusal": null, "partitions": [{"topic": "t", "partition": 0, "verdict": "agree", '
        '"floor": 5, "held_back_by": ["order"], "end": 9, "lag": 4, "steps": ["park click"], "begins": '
        '["refund"], "refusal": {"reason": "COVER: gone", "hint": "put it back", "exit_code": 70, '
        '"invariant": "COVER"}}], "rules": {"order": ["drop x"]}}'
    )
