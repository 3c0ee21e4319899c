"""What one reading means for each partition: a verdict, the error it ends a task with, what is to be done. Pure.

The verdicts themselves are offsets/crosscheck.py's; here they are asked for as the configuration stands.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from exporter.core.routing import DEAD_LETTERS, Routing
from exporter.errors import ExporterError, Fenced, InvariantBroken
from exporter.never import assert_never
from exporter.protocol.reading import Reading
from offsets import Invariant
from offsets.crosscheck import (
    Agree,
    FirstStart,
    Stop,
    Superseded,
    Switch,
    Unfinished,
    Verdict,
    replaced_by,
    verdict,
)
from offsets.positions import Position
from offsets.ranges import TopicPartition
from offsets.table_log import CONFIG_PROPERTY, TableView

OLDER_VERSION = "let the version that wrote it run once more and stop it with SIGTERM, then start this one"


@dataclass(frozen=True)
class ToDo:
    """The verdicts of one reading by what they ask for. new: partitions that no table knows."""

    new: tuple[TopicPartition, ...]
    switches: Mapping[TopicPartition, Switch]
    agreed: Mapping[TopicPartition, Agree]

    @property
    def drained(self) -> dict[TopicPartition, dict[str, Position | None]]:
        """Partition -> positions of the types that a switch has to drain."""
        return {tp: {name: one.positions[name] for name in one.in_force_active} for tp, one in self.switches.items()}

    @property
    def unanchored(self) -> dict[str, dict[TopicPartition, Position]]:
        """Event type -> where it is to be anchored, by partition (protocol 5.2)."""
        missing: dict[str, dict[TopicPartition, Position]] = {}
        for tp, found in self.agreed.items():
            for name in found.unanchored:
                missing.setdefault(name, {})[tp] = Position(found.epoch, found.anchor_at)
        return missing

    @property
    def positions(self) -> dict[TopicPartition, dict[str, Position]]:
        """Partition -> positions of the types that run."""
        return {
            tp: {name: Position(found.epoch, offset) for name, offset in found.positions.items()}
            for tp, found in self.agreed.items()
        }


def verdicts(reading: Reading, routing: Routing, app: str) -> dict[TopicPartition, Verdict]:
    """One verdict per partition, from one reading. Raises InvariantBroken for a configuration that cannot be read."""
    own, active = routing.fingerprint(), routing.active_with(reading.views)
    replaced = replaced_by(own, reading.dead_letters.routing_histories().values()) if reading.dead_letters else ""
    switching: dict[str, tuple[tuple[str, ...], bool]] = {}
    found: dict[TopicPartition, Verdict] = {}
    for tp, states in reading.states.items():
        history, in_force = _history(tp, reading.dead_letters, app)
        switches = in_force and own not in history.values() and not replaced
        if reading.dead_letters and switches and in_force not in switching:
            other = recorded(reading.dead_letters, in_force)
            switching[in_force] = other.active_with(reading.views), other.generation > routing.generation
        drained, outranked = switching.get(in_force, ((), False))
        found[tp] = verdict(states, DEAD_LETTERS, history, own, active, drained, replaced, outranked)
    return found


def to_do(found: Mapping[TopicPartition, Verdict]) -> ToDo:
    """What the verdicts ask for; none of them refuses to run."""
    new: list[TopicPartition] = []
    switches: dict[TopicPartition, Switch] = {}
    agreed: dict[TopicPartition, Agree] = {}
    for tp, one in found.items():
        match one:
            case FirstStart():
                new.append(tp)
            case Switch():
                switches[tp] = one
            case Agree():
                agreed[tp] = one
            case Stop() | Superseded() | Unfinished():
                pass
            case _:
                assert_never(one)
    return ToDo(tuple(new), switches, agreed)


def refusal(tp: TopicPartition, found: Verdict, own: str) -> ExporterError | None:  # noqa: RET503 - the match is whole
    """The error that a verdict ends a task with; None if it may run. own: fingerprint of our configuration."""
    match found:
        case Stop():
            return InvariantBroken(found.invariant, f"{tp}: {found.reason}", found.hint)
        case Superseded():
            return InvariantBroken(
                Invariant.ROUTE,
                f"{tp}: configuration {own} has been replaced by {found.in_force}",
                "start with the newer configuration (while it is rolled out, tasks with this one end so), "
                "or raise `generation` above the newer one's to return to this one",
            )
        case Unfinished():
            return Fenced(
                f"{tp}: another task is switching table {found.event_type} to a new configuration",
                "start the task with the new configuration and let it finish",
            )
        case FirstStart() | Agree() | Switch():
            return None
        case _:
            assert_never(found)


def recorded(dead_letters: TableView, fingerprint: str) -> Routing:
    """The configuration that the dead letters record. Raises InvariantBroken if this version cannot run it."""
    text = dead_letters.properties.get(f"{CONFIG_PROPERTY}{fingerprint}")
    if text is None:
        says = f"routing configuration {fingerprint} is not recorded"
        raise InvariantBroken(Invariant.ROUTE, says, OLDER_VERSION)
    try:
        return Routing.from_json(text)
    except (ValueError, TypeError, KeyError) as error:
        says = f"routing configuration {fingerprint} cannot be read by this version: {error}"
        raise InvariantBroken(Invariant.ROUTE, says, OLDER_VERSION) from error


def in_force(reading: Reading, switches: Mapping[TopicPartition, Switch]) -> dict[str, Routing]:
    """Routing fingerprint -> recorded configuration, for what has to be drained."""
    dead_letters = reading.views[DEAD_LETTERS]
    return {switch.in_force: recorded(dead_letters, switch.in_force) for switch in switches.values()}


def _history(tp: TopicPartition, dead_letters: TableView | None, app: str) -> tuple[Mapping[int, str], str]:
    """Epoch -> routing fingerprint, and the one in force; empty where there is none."""
    position = dead_letters.position(app, tp) if dead_letters else None
    history = dead_letters.routing_history(tp) if dead_letters else {}
    return history, history.get(position.epoch, "") if position else ""
