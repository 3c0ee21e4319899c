"""The commits of start-up that create tables and anchor positions (ANCHOR). No data file is named here.

Each is a compare-and-set of its own; whatever goes wrong, everything is read again: another task was faster (Moved),
or nobody was and the table cannot be written (Failed), which ends with its cause when it lasts (Patience).
"""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from exporter.clock import sleep
from exporter.core.routing import DEAD_LETTERS, Routing
from exporter.core.user_metadata import moved_to, user_metadata
from exporter.faults import Fault, point
from exporter.kafka.topics import FirstPosition, TopicReader, partitions_of
from exporter.lake.change import Change
from exporter.lake.lake import Lake
from exporter.lake.schema import table_schema, with_event_time
from exporter.lake.settling import Expect, Failed, Moved, commit_or_moved
from exporter.lake.widening import ENABLED
from exporter.log import get_logger
from exporter.log_events import Event
from offsets.crosscheck import begins_under
from offsets.names import AppId, table_folder
from offsets.partitions import Spec
from offsets.positions import Position
from offsets.ranges import TopicIdentity, TopicPartition
from offsets.table_log import (
    CONFIG_PROPERTY,
    ROUTING_PROPERTY,
    TABLE_PROPERTY,
    TOPIC_PROPERTY,
    TableView,
    identity_properties,
)

log = get_logger(__name__)

ATTEMPTS_MAX = 20
"""Full readings before giving up: each one may meet another task that is anchoring or switching too."""
FAILURES_MAX = 3
"""Commits to one table that fail though nobody else has written it: what lasts so long is told as what it is."""
FAILURE_SECS = 1.0


class Patience:
    """How long readings are begun again: as long as others are at work, not where a table cannot be written."""

    def __init__(self) -> None:
        self._failures: Counter[str] = Counter()

    def restart(self, moved: Moved) -> None:
        """Pause before the next reading. Raises the cause of a failure that lasts."""
        log.info(Event.READING_RESTARTED, reason=str(moved))
        if not isinstance(moved, Failed):
            return
        self._failures[moved.table.event_type] += 1
        if self._failures[moved.table.event_type] >= FAILURES_MAX:
            raise moved.cause() from moved
        sleep(FAILURE_SECS)


class Switched(Moved):
    """The partition's dead letters are not where this task thought: what it has read may be out of date."""


class Anchors:
    """Creates and anchors tables for one routing configuration."""

    def __init__(self, lake: Lake, topics: TopicReader, routing: Routing, first_position: FirstPosition) -> None:
        """first_position: where a topic begins that is new to the tables."""
        self.lake = lake
        self.topics = topics
        self.routing = routing
        self.own = routing.fingerprint()
        self._first_position = first_position

    def anchor_dead_letters(
        self, dead_letters: TableView | None, new: Sequence[TopicPartition], identities: Mapping[str, TopicIdentity]
    ) -> None:
        """All partitions at once of a topic that is new to the tables; of a known one the new, at their earliest."""
        known = dead_letters.properties if dead_letters is not None else {}
        topics = {topic: identities[topic] for topic in {tp.topic for tp in new}}
        first_time = {topic: one for topic, one in topics.items() if f"{TOPIC_PROPERTY}{topic}" not in known}
        starts = {
            **self.topics.first_offsets([tp for tp in new if tp.topic not in first_time]),
            **self._first_position.offsets(self.topics, partitions_of(first_time)),
        }
        anchors = {tp: Position(0, start - 1) for tp, start in sorted(starts.items())}
        under = {topic: self._begins_under(topic, dead_letters) for topic in topics}
        properties = {
            **identity_properties(topics),
            f"{CONFIG_PROPERTY}{self.own}": self.routing.to_json(),
            **{f"{ROUTING_PROPERTY}{tp}": json.dumps({0: under[tp.topic]}) for tp in anchors},
        }
        self._commit_anchors(DEAD_LETTERS, dead_letters, anchors, properties)

    def _begins_under(self, topic: str, dead_letters: TableView | None) -> str:
        """What is recorded as in force for a topic's new partitions."""
        told = dead_letters.routing_histories() if dead_letters is not None else {}
        of_topic = [history for one, history in told.items() if one.rpartition("-")[0] == topic]
        return begins_under(self.own, of_topic, told.values())

    def anchor_type(
        self,
        name: str,
        view: TableView | None,
        anchors: Mapping[TopicPartition, Position],
        identities: Mapping[str, TopicIdentity],
        schema: str | None = None,
    ) -> None:
        """Anchor a type at the dead letters' position, by compare-and-set; one commit creates it too (protocol 5.2).

        schema: of a table that is made with more columns than the configuration declares.
        """
        known = view.properties if view is not None else {}
        anchored = {topic: identities[topic] for topic in {tp.topic for tp in anchors}}
        properties = {prop: text for prop, text in identity_properties(anchored).items() if prop not in known}
        self._commit_anchors(name, view, anchors, properties, schema)

    def _commit_anchors(
        self,
        name: str,
        view: TableView | None,
        anchors: Mapping[TopicPartition, Position],
        properties: Mapping[str, str],
        schema: str | None = None,
    ) -> None:
        """An anchor is never laid over an existing one (protocol 4.7)."""
        app = self.lake.app

        def check(now: TableView) -> None:
            for tp, anchor in anchors.items():
                position = now.position(app, tp)
                if position is not None and position.epoch >= anchor.epoch:
                    raise Moved(f"table {name} was anchored meanwhile")

        versions: dict[str, int] = {}
        for tp, anchor in anchors.items():
            versions[str(AppId(app, tp, anchor.epoch))] = anchor.offset
            versions[str(AppId(app, tp, anchor.epoch, "anchor"))] = anchor.offset
        spec = self.lake.spec_of(name, view)
        self.write(
            name,
            Change(
                expected=tuple(str(AppId(app, tp, anchor.epoch)) for tp, anchor in anchors.items()),
                positions=versions,
                user_metadata=self.metadata("anchor", view, anchors),
                properties=properties,
                create=(schema or declared_schema(self.routing, name, spec)) if view is None else None,
                spec=spec,
            ),
            Expect(view),
            check,
        )
        log.info(Event.POSITIONS_ANCHORED, table=name, partitions=len(anchors), created=view is None)
        point(Fault.AFTER_ANCHOR)

    def add_event_time(self, name: str, view: TableView) -> None:
        """Give a table of an earlier version the column `_event_time`, if it is still as in the view. Raises Moved."""
        metadata = self.metadata("event_time", view, {})
        change = Change((), {}, metadata, evolve=with_event_time(view.schema_json))
        self.write(name, change, Expect(view, columns=True))
        log.info(Event.EVENT_TIME_ADDED, table=name)

    def widen(self, name: str, view: TableView, schema: str, looked_through: int) -> None:
        """Give a table the wider types of a schema, if it is still as in the view (protocol 4.10). Raises Moved.

        looked_through: the newest version whose operations this process has looked at.
        """
        metadata = self.metadata("widened", view, {}) | {"checked_through": looked_through}
        change = Change((), {}, metadata, properties={ENABLED: "true"}, evolve=schema)
        self.write(name, change, Expect(view, columns=True))

    def write(
        self, name: str, change: Change, expect: Expect, also: Callable[[TableView], None] | None = None
    ) -> None:
        """One commit of start-up; any exception means: read everything again and see."""
        commit_or_moved(self.lake.table(name), change, expect, also)

    def metadata(
        self, action: str, view: TableView | None, positions: Mapping[TopicPartition, Position]
    ) -> dict[str, Any]:
        return user_metadata(
            uuid.uuid4().hex,
            action=action,
            app=self.lake.app,
            checked_through=view.version if view is not None else -1,
            partitions={tp: moved_to(position) for tp, position in positions.items()},
            more={"routing": self.own},
        )

    def register(self, views: Mapping[str, TableView], at: Mapping[TopicPartition, Position] | None = None) -> bool:
        """Let the dead letters list the id of every table; False if they do already.

        at: where the dead letters must be. Raises Moved.
        """
        dead_letters = views.get(DEAD_LETTERS)
        if dead_letters is None:
            return False
        ids = {f"{TABLE_PROPERTY}{table_folder(name)}": view.table_id for name, view in views.items()}
        new = {prop: table_id for prop, table_id in ids.items() if prop not in dead_letters.properties}
        if not new:
            return False

        metadata = self.metadata("register", dead_letters, {})
        change = Change((), {}, metadata, properties=new)
        self.write(DEAD_LETTERS, change, Expect(dead_letters), lambda now: self.require_dead_letters(now, at or {}))
        return True

    def require_dead_letters(self, dead_letters: TableView, at: Mapping[TopicPartition, Position]) -> None:
        """Raises Switched if the dead letters are elsewhere (protocol 4.7)."""
        for tp, position in at.items():
            if (now := dead_letters.position(self.lake.app, tp)) != position:
                raise Switched(f"{tp}: the dead letters are at {now}, not at {position}")


def declared_schema(routing: Routing, name: str, spec: Spec) -> str | None:
    """Spark schema JSON of a table, cut so, as a configuration wants it; None for a type that gets none from it."""
    if name == DEAD_LETTERS:
        return table_schema(None)
    declared = routing.schemas.get(name)
    if declared is None and routing.takes_new(name):
        declared = routing.columns_of(name)
    return None if declared is None else table_schema(declared, spec)
