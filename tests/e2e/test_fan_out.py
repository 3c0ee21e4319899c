"""A topic whose records are of several tables, of one, or of none: each is in every table that takes it, once."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from exporter.core.routing import DEAD_LETTERS
from exporter.faults import Fault
from exporter.operate.dead_letters.listing import Chosen
from exporter.operate.dead_letters.replay import Replay
from tests.support.lakes import Export, Exports, bad, event

pytestmark = [pytest.mark.broker, pytest.mark.spark]

RENAME = '\n[[type_from.rename]]\nmatch = "old-(.*)"\nto = "$1"'
WHERE = '\nwhere = "page <> \'/hidden\'"'
FIRST = {"click": f'match = "click|both.*"{WHERE}', "order": 'match = "order|both.*"'}
LATER = {"click": f'match = "click|both.*|wide"{WHERE}', "order": 'match = "order|both.*|wide"'}
TYPES = {"click": "id BIGINT, page STRING", "order": "id BIGINT, amount DECIMAL(12,2)"}
FIXED = {"click": "id BIGINT, page STRING", "order": "id BIGINT"}
RECORDS = [
    (event("order", 0), ["order"]),
    (event("click", 1), ["click"]),
    (event("both.1", 2, amount="2.25", page="/"), ["click", "order"]),
    (event("both.2", 3, amount="much", page="/"), ["click", DEAD_LETTERS]),
    (event("old-order", 4), ["order"]),
    (event("old-both", 5, page="/"), ["click", "order"]),
    (bad(b"{"), [DEAD_LETTERS]),
    (event("both", 7, id="seven"), [DEAD_LETTERS, DEAD_LETTERS]),
    (event("wide", 8, page="/"), [DEAD_LETTERS]),
    (event("both", 9, page="/hidden"), ["order"]),
    (event("click", 10, page=None), []),
]


class Ended(Exception):
    """The process is gone."""


def ended_between_tables(fault: Fault) -> None:
    """One table has what is replayed, the next one does not."""
    if fault is Fault.AFTER_REPLAY_COMMIT:
        raise Ended


def counted(e: Export, table: str) -> int:
    """What the commits of a table say of records that are in none by a filter."""
    found: Counter[str] = Counter()
    for file in e.log(table):
        for line in e.place.read(file).decode().splitlines():
            said = json.loads(json.loads(line).get("commitInfo", {}).get("userMetadata") or "{}")
            found.update({tp: one.get("filtered", 0) for tp, one in said.get("partitions", {}).items()})
    return sum(found.values())


def replayed(e: Export, spark: Any) -> dict[tuple[str, str], int]:
    with e.bench(spark) as bench:
        done = Replay(bench.lake, bench.routing, Chosen()).run(apply=True)
    return {(row.outcome, row.name): row.rows for row in done}


@pytest.mark.long
def test_a_record_is_once_in_each_table_that_takes_it(
    exports: Exports, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dead letters are of one table or of the record; a replay that ended between two tables feeds what each lacks."""
    e = exports(types=TYPES, cuts=FIRST, type_from=f'kind = "json"\nname = "type"{RENAME}')
    e.send({0: [record for record, _ in RECORDS]})
    e.run(spark)
    places = {(0, at): names for at, (_, names) in enumerate(RECORDS) if names}
    assert sorted_places(e) == places
    stages = Counter((row["_kafka"]["offset"], row["stage"], row["event_type"]) for row in e.rows(DEAD_LETTERS))
    assert stages == {
        (3, "decode", "order"): 1, (6, "route", None): 1, (7, "decode", "click"): 1, (7, "decode", "order"): 1,
        (8, "route", "wide"): 1,
    }  # fmt: skip
    assert counted(e, "click") == 2
    later = replace(e.with_(FIXED, unrouted="count"), cuts=LATER)
    e.send({0: [event("nobody", 11), event("nobody", 12), event("order", 13)]})
    service = later.run(spark)
    places[0, 13] = ["order"]
    assert sorted_places(later) == places
    assert counted(later, DEAD_LETTERS) == service.totals.filtered[DEAD_LETTERS] == 2
    assert service.totals.skipped == 0
    with monkeypatch.context() as patch, pytest.raises(Ended):
        patch.setattr("exporter.operate.dead_letters.feed.point", ended_between_tables)
        replayed(later, spark)
    assert sorted_places(later) == {**places, (0, 8): ["click", DEAD_LETTERS]}, "the first of two tables has it"
    bad_ones = {("still bad", "not_json"): 1, ("still bad", "type_mismatch"): 2}
    assert replayed(later, spark) == {("fed", "order"): 2, ("finished", "click"): 1, **bad_ones}
    places |= {(0, 3): ["click", "order"], (0, 8): ["click", "order"]}
    assert sorted_places(later) == places
    later.proven(spark)


def sorted_places(e: Export) -> dict[tuple[int, int], list[str]]:
    return {at: sorted(names) for at, names in e.placed().items()}
