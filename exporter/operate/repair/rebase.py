"""`exporter repair --rebase`: the topic was deleted and created again (protocol 5.4 and 7).

The tables keep their rows; the next epoch begins at the new topic's first record. Plans only: applying.py does it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from exporter.core.routing import DEAD_LETTERS, dead_letters_last
from exporter.lake.lake import Lake
from exporter.operate.repair.reading import RepairReading
from exporter.operate.repair.steps import RepairRow, TableRepair, histories
from offsets.ranges import TopicIdentity, TopicPartition
from offsets.rewind import Move, move_transactions, moves
from offsets.table_log import CLUSTER_PROPERTY, TOPIC_PROPERTY, identity_properties


@dataclass(frozen=True)
class Rebase:
    """One lake, one app. Every plan reads the tables afresh and writes nothing.

    identities: the topics as they are now. starts: the offsets at which a new topic is to be begun.
    """

    lake: Lake
    identities: Mapping[str, TopicIdentity]
    starts: Callable[[Collection[TopicPartition]], Mapping[TopicPartition, int]]

    def plan(self) -> list[TableRepair]:
        """Protocol 5.4 and 7: the tables keep their rows, the next epoch is that of the new topic."""
        reading = RepairReading(self.lake, self.lake.app)
        reading.refuse_accidents("re-based")
        recorded = reading.dead_letters.properties
        changed = {
            topic: identity
            for topic, identity in self.identities.items()
            if f"{TOPIC_PROPERTY}{topic}" in recorded
            and (recorded[f"{TOPIC_PROPERTY}{topic}"], recorded.get(CLUSTER_PROPERTY))
            != (identity.topic_id, identity.cluster_id)
        }
        by_table: dict[str, dict[TopicPartition, Move]] = {}
        tps = [tp for tp in reading.partitions() if tp.topic in changed]
        here = [tp for tp in tps if tp.partition in changed[tp.topic].partitions]
        starts = dict(self.starts(here)) if here else {}
        for tp in tps:
            reading.in_force(tp)
            wanted = identity_properties({tp.topic: changed[tp.topic]})
            todo = {
                name: starts.get(tp, 0) - 1
                for name in reading.positions(tp)
                if any(reading.views[name].properties.get(prop) != text for prop, text in wanted.items())
            }
            for name, move in moves(DEAD_LETTERS, reading.positions(tp), todo, reading.views).items():
                by_table.setdefault(name, {})[tp] = move
        steps = []
        for name in dead_letters_last(by_table):
            extra = identity_properties(changed)
            if name == DEAD_LETTERS:
                extra |= histories(reading, reading.dead_letters.properties, by_table[name])
            steps.append(self._step(reading, name, by_table[name], extra))
        return steps

    def _step(
        self, reading: RepairReading, name: str, table_moves: Mapping[TopicPartition, Move], extra: Mapping[str, str]
    ) -> TableRepair:
        view = reading.views[name]
        versions: dict[str, int] = {}
        for tp, move in table_moves.items():
            versions |= move_transactions(view.transactions, self.lake.app, tp, move, rebased=move.cuts)
        rows = tuple(
            RepairRow(name, tp, move.old, move.new, 0, "begins with the new topic; its rows stay")
            for tp, move in table_moves.items()
        )
        return TableRepair(name, view, versions, rows, extra, routing=reading.fingerprint())
