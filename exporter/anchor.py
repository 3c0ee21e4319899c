"""The commits of start-up that create tables and anchor positions (ANCHOR). No data file is named here.

Each is a compare-and-set of its own; whatever goes wrong, everything is read again (Moved).
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from exporter.errors import InvariantBroken
from exporter.faults import Fault, point
from exporter.log import get_logger
from exporter.routing import DEAD_LETTERS, Routing
from exporter.tables import Change, Lake, first_line, table_schema
from exporter.topic import TopicIdentity, TopicReader
from offsets.names import AppId, table_folder
from offsets.positions import Position
from offsets.ranges import TopicPartition
from offsets.table_log import (
    CLUSTER_PROPERTY,
    CONFIG_PROPERTY,
    ROUTING_PROPERTY,
    TABLE_PROPERTY,
    TOPIC_PROPERTY,
    TableView,
)

log = get_logger(__name__)


class Moved(Exception):
    """Another task was faster; read everything again."""


class Anchors:
    """Creates and anchors tables for one routing configuration."""

    def __init__(self, lake: Lake, topic: TopicReader, routing: Routing, first_position: str | int) -> None:
        """first_position: earliest, latest, or milliseconds since 1970 UTC."""
        self.lake = lake
        self.topic = topic
        self.routing = routing
        self.own = routing.fingerprint()
        self._first_position = first_position

    def identity_properties(self, identity: TopicIdentity) -> dict[str, str]:
        """Table properties that say which cluster and topic the offsets belong to (protocol 5.4)."""
        return {
            CLUSTER_PROPERTY: identity.cluster_id,
            f"{TOPIC_PROPERTY}{self.topic.topic}": identity.topic_id,
        }

    def anchor_dead_letters(
        self, letters: TableView | None, new: Sequence[TopicPartition], identity: TopicIdentity
    ) -> None:
        """All partitions of the topic at once where the topic is new, else the new partitions at their earliest."""
        topic_known = letters is not None and f"{TOPIC_PROPERTY}{self.topic.topic}" in letters.properties
        tps = list(new) if topic_known else [TopicPartition(self.topic.topic, p) for p in identity.partitions]
        starts = self.topic.first_offsets(tps) if topic_known else self._first_offsets(tps)
        anchors = {tp: Position(0, starts[tp] - 1) for tp in tps}
        properties = {
            **self.identity_properties(identity),
            f"{CONFIG_PROPERTY}{self.own}": self.routing.to_json(),
            **{f"{ROUTING_PROPERTY}{tp}": json.dumps({0: self.own}) for tp in tps},
        }
        self._commit_anchors(DEAD_LETTERS, letters, anchors, properties)

    def _first_offsets(self, tps: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        if self._first_position == "earliest":
            return self.topic.first_offsets(tps)
        if self._first_position == "latest":
            return self.topic.end_offsets(tps)
        return self.topic.offsets_at(tps, int(self._first_position))

    def anchor_type(
        self,
        name: str,
        view: TableView | None,
        anchors: Mapping[TopicPartition, Position],
        identity: TopicIdentity,
    ) -> None:
        """Protocol 5.2: at the dead letters' position, by compare-and-set; creating and anchoring is one commit."""
        self._commit_anchors(name, view, anchors, self.identity_properties(identity) if view is None else {})

    def _commit_anchors(
        self,
        name: str,
        view: TableView | None,
        anchors: Mapping[TopicPartition, Position],
        properties: Mapping[str, str],
    ) -> None:
        """An anchor is never laid over an existing one (protocol 4.7)."""
        app = self.lake.app

        def check(now: TableView | None) -> None:
            if (now is None) != (view is None):
                raise Moved(f"table {name} was created or removed meanwhile")
            if now is not None and any(now.position(app, tp) is not None for tp in anchors):
                raise Moved(f"table {name} was anchored meanwhile")

        versions: dict[str, int] = {}
        for tp, anchor in anchors.items():
            versions[str(AppId(app, tp, anchor.epoch))] = anchor.offset
            versions[str(AppId(app, tp, anchor.epoch, "anchor"))] = anchor.offset
        self.write(
            name,
            Change(
                expected=tuple(str(AppId(app, tp, anchor.epoch)) for tp, anchor in anchors.items()),
                positions=versions,
                user_metadata=self.metadata("anchor", view, anchors),
                properties=properties,
                create=self.declared_schema(name) if view is None else None,
            ),
            check,
        )
        log.info("positions_anchored", table=name, partitions=len(anchors), created=view is None)
        point(Fault.AFTER_ANCHOR)

    def declared_schema(self, name: str) -> str | None:
        """Spark schema JSON of a table as our configuration wants it; None for a type that it does not declare."""
        if name == DEAD_LETTERS:
            return table_schema(None)
        declared = self.routing.schemas.get(name)
        return None if declared is None else table_schema(declared)

    def write(self, name: str, change: Change, check: Callable[[TableView | None], None]) -> None:
        """One commit of start-up; any exception means: read everything again and see."""
        try:
            self.lake.table(name).commit(change, check)
        except (Moved, InvariantBroken):
            raise
        except Exception as error:
            time.sleep(0.05)
            raise Moved(f"table {name}: {first_line(error)}") from error

    def metadata(
        self, action: str, view: TableView | None, positions: Mapping[TopicPartition, Position]
    ) -> dict[str, Any]:
        return {
            "commit_id": uuid.uuid4().hex,
            "action": action,
            "app": self.lake.app,
            "routing": self.own,
            "checked_through": view.version if view is not None else -1,
            "partitions": {str(tp): {"epoch": p.epoch, "new": p.offset} for tp, p in positions.items()},
        }

    def register(self, views: Mapping[str, TableView]) -> bool:
        """Let the dead letters list the id of every table; False if they do already."""
        letters = views.get(DEAD_LETTERS)
        if letters is None:
            return False
        ids = {f"{TABLE_PROPERTY}{table_folder(name)}": view.table_id for name, view in views.items()}
        new = {prop: table_id for prop, table_id in ids.items() if prop not in letters.properties}
        if not new:
            return False

        def check(now: TableView | None) -> None:
            if now is None or now.table_id != letters.table_id:
                raise Moved(f"table {DEAD_LETTERS} was replaced meanwhile")

        metadata = self.metadata("register", letters, {})
        self.write(DEAD_LETTERS, Change((), {}, metadata, properties=new), check)
        return True
