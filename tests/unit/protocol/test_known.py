"""What a task knows of its tables between two readings. No table, no broker."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest

from exporter.core.memory_committer import MemoryCommitter
from exporter.core.routing import DEAD_LETTERS, EventTime, Routing, TypeFrom
from exporter.core.seen import Seen
from exporter.core.specs import Specs
from exporter.core.writers import PartitionPlan, WriterKey
from exporter.errors import Fenced, InvariantBroken
from exporter.kafka.topics import TopicIdentity
from exporter.lake.schema import table_schema
from exporter.protocol.known import KnownTables
from exporter.protocol.recover import Recovered
from offsets.crosscheck import Agree
from offsets.erased import Erased
from offsets.partitions import DAY, Spec
from offsets.table_log import APP_PROPERTY, TableView
from tests.support.snapshots import P0, P1

ORDER = '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}'
ROUTING = Routing(TypeFrom("json", "type"), EventTime("record"), (("order", ORDER),), new_type="table")
DEAD = TableView(3, "letters-id", "f-letters", {"app/skipped/events/0/7": 0}, schema_json=table_schema(None))
VIEW = TableView(5, "order-id", "f-order", {}, schema_json=table_schema(ORDER), partition_columns=("day",))
TOPIC = TopicIdentity("c", "t1", (0, 1))


class Topics:
    """Says what the topic is now."""

    def __init__(self) -> None:
        self.now = TOPIC

    def identities_of(self, names: Collection[str]) -> dict[str, TopicIdentity]:
        return dict.fromkeys(names, self.now)


def known(specs: Specs | None = None) -> tuple[KnownTables, MemoryCommitter, Topics]:
    committer, topics = MemoryCommitter(), Topics()
    given: Any = topics
    made = KnownTables(app="app", routing=ROUTING, topics=given, committer=committer, clock=lambda: 5.0, specs=specs)
    return made, committer, topics


def found(epoch: int = 0, view: TableView = VIEW) -> Recovered:
    agreed = {tp: Agree(epoch, {DEAD_LETTERS: 9, "order": 4}, (), 9) for tp in (P0, P1)}
    return Recovered(agreed, {DEAD_LETTERS: DEAD, "order": view}, {"events": TOPIC}, frozenset({"old"}))


def test_a_recovery_becomes_writers_and_what_is_known() -> None:
    """Positions, poison records, fingerprints; and the tables and topics that commits trust from then on."""
    one, committer, _ = known()
    writers = one.take(found(), {P0: 6})
    assert {key: (w.covered, w.frontier, w.ownership, w.behind_at) for key, w in writers.items()} == {
        WriterKey(DEAD_LETTERS, P0): (9, 9, 6, 5.0),
        WriterKey("order", P0): (4, 4, 6, 5.0),
    }
    assert {name: table.fingerprint for name, table in one.tables.items()} == {
        DEAD_LETTERS: "f-letters", "order": "f-order",
    }  # fmt: skip
    assert one.poison_offsets == {P0: {7}} and one.unchanged == {"old"}
    assert committer.checked_through("order") == 5 and committer.footer(P0) == {"topic_id": "t1"}


def test_a_table_is_staged_for_as_it_is_cut() -> None:
    """Whatever this task would have made: what it has staged for a table that another one made does not fit then."""
    hour = Spec("hour")
    for made, plain in ((hour, True), (DAY, False)):
        one, _, _ = known(Specs({"order": made}))
        cut = replace(VIEW, schema_json=table_schema(ORDER, hour), partition_columns=("day", "hour"))
        assert one.accept("order", cut) == ""
        assert (one.tables["order"].spec, bool(one.tables["order"].plain)) == (hour, plain)


def test_of_what_does_not_count_nothing_is_known() -> None:
    """But that a table could not be changed, which is true whoever owns the partitions."""
    one, committer, _ = known()
    assert one.take(found(), {}) == {}
    assert one.tables == {} and one.unchanged == {"old"} and committer.checked_through("order") == -1


def test_a_table_that_cannot_be_filled_parks_its_type() -> None:
    """Its writers are there, out of the common plan."""
    one, _, _ = known()
    fields = [*json.loads(VIEW.schema_json)["fields"], {"name": "n", "type": "long", "nullable": False, "metadata": {}}]
    writers = one.take(found(view=replace(VIEW, schema_json=json.dumps({"type": "struct", "fields": fields}))), {P0: 6})
    parked = {key.event_type: w.parked is not None for key, w in writers.items()}
    assert parked == {DEAD_LETTERS: False, "order": True}


def test_a_task_whose_epoch_a_repair_has_closed_ends() -> None:
    """It may hold what is no longer true; a partition that it never worked on is no reason."""
    one, _, _ = known()
    one.take(found(0), {P0: 1})
    one.take(found(1), {P1: 1})
    with pytest.raises(Fenced, match="closed by a repair"):
        one.take(found(1), {P0: 2})


def test_another_topic_of_the_same_name_stops() -> None:
    """Once the tables have told which one it is (protocol 5.4)."""
    one, _, topics = known()
    one.take(found(), {P0: 1})
    one.check_topics({P0: 9})
    topics.now = replace(TOPIC, topic_id="t2")
    with pytest.raises(InvariantBroken):
        one.check_topics({P0: 9})


def test_a_record_that_is_poison_is_skipped_by_every_plan() -> None:
    """Of its own partition."""
    one, _, _ = known()
    one.take(found(), {P0: 1})
    one.add_poison(P0, 12)
    one.add_poison(P1, 3)
    assert one.poison_offsets == {P0: {7, 12}, P1: {3}}


def test_a_table_is_staged_for_with_all_erasures_that_it_knows() -> None:
    """Read once for each new one; of them those count that are of the topic of today (ERASED)."""
    one, _, _ = known()
    read: list[Erased] = [Erased.of(2, [("events", 0, 0, 4), ("events", 0, 1, 5), ("events", 1, 1, 6)])]
    asked: list[TableView] = []
    one.erasures = lambda views: asked.extend(views) or read[-1]  # type: ignore[func-returns-value]
    letters = replace(DEAD, transactions={"app/rebased/events/0/1": -1})
    told = replace(VIEW, properties={APP_PROPERTY: "app"}, transactions={"app/erased": 2})
    at_first = replace(found(view=told), views={DEAD_LETTERS: letters, "order": told})
    one.take(at_first, {P0: 1, P1: 1})
    plan = PartitionPlan(P0, 1, 0, 0, 10, {"order": -1})
    assert one.erased_in(plan) == {5} and one.erased_in(replace(plan, start=6)) == frozenset()
    assert one.erased_in(replace(plan, tp=P1)) == {6}
    one.accept("order", told)
    assert asked == [told]
    read.append(Erased.of(3, [("events", 0, 1, 7)]))
    later = replace(told, transactions={"app/erased": 3})
    one.grow("order", later, Seen())
    assert asked == [told, later] and one.erased_in(plan) == {7}


def test_undeclared_types_with_a_table_are_counted() -> None:
    """The declared ones and the dead letters are not new."""
    one, _, _ = known()
    for name in (DEAD_LETTERS, "order", "click"):
        one.accept(name, VIEW)
    assert one.new_types == {"click"}
