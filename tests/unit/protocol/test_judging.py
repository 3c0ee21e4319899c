"""What one reading means for each partition. No table."""

from __future__ import annotations

from dataclasses import replace

import pytest

from exporter.core.routing import DEAD_LETTERS, EventTime, Routing, TypeFrom
from exporter.errors import Fenced, InvariantBroken
from exporter.protocol.judging import ToDo, in_force, recorded, refusal, to_do, verdicts
from exporter.protocol.reading import Reading
from offsets import Invariant
from offsets.crosscheck import Agree, FirstStart, Stop, Superseded, Switch, TableState, Unfinished, Verdict
from offsets.names import AppId
from offsets.positions import Position
from offsets.table_log import CONFIG_PROPERTY, ROUTING_PROPERTY, TableView
from tests.support.snapshots import P0, P1

APP = "app"
OURS = Routing(TypeFrom("json", "type"), EventTime("record"), (("order", "{}"),))
OLD = Routing(TypeFrom("json", "t"), EventTime("record"), ())


def dead_letters(*configurations: Routing, text: str | None = None) -> TableView:
    """The dead letters, where P0 is at offset 9 of the epoch of the last of these configurations."""
    history = ", ".join(f'"{epoch}": "{one.fingerprint()}"' for epoch, one in enumerate(configurations))
    properties = {f"{ROUTING_PROPERTY}{P0}": f"{{{history}}}"}
    for one in configurations:
        properties[f"{CONFIG_PROPERTY}{one.fingerprint()}"] = one.to_json() if text is None else text
    return TableView(3, "id", "f", {str(AppId(APP, P0, len(configurations) - 1)): 9}, properties)


def reading(view: TableView, order: Position | None = None) -> Reading:
    position = view.position(APP, P0)
    states = {DEAD_LETTERS: TableState(position), "order": TableState(order)}
    return Reading({DEAD_LETTERS: view, "order": replace(view, properties={})}, {P0: states})


def test_a_configuration_that_is_in_force_runs() -> None:
    """What has no position yet is anchored at the dead letters' one (protocol 5.2)."""
    (found,) = verdicts(reading(dead_letters(OURS)), OURS, APP).values()
    assert found == Agree(0, {DEAD_LETTERS: 9}, ("order",), 9)
    do = to_do({P0: found})
    assert do.unanchored == {"order": {P0: Position(0, 9)}} and do.positions == {P0: {DEAD_LETTERS: Position(0, 9)}}


def test_a_new_one_drains_what_is_in_force() -> None:
    """Under the configuration that the dead letters record (protocol 5.3c)."""
    found = reading(dead_letters(OLD))
    (switch,) = verdicts(found, OURS, APP).values()
    assert isinstance(switch, Switch) and switch.in_force == OLD.fingerprint()
    do = to_do({P0: switch})
    assert do.drained == {P0: {DEAD_LETTERS: Position(0, 9)}} and do.agreed == {} and do.new == ()
    assert in_force(found, do.switches) == {OLD.fingerprint(): OLD}


def test_an_older_one_has_been_replaced() -> None:
    """It does not come back by itself (protocol 5.3b)."""
    (found,) = verdicts(reading(dead_letters(OURS, OLD)), OURS, APP).values()
    assert found == Superseded(OLD.fingerprint())


def test_an_older_one_has_been_replaced_for_a_partition_that_came_later_too() -> None:
    """Where it has never been in force: what the history of another partition says counts (protocol 5.3b)."""
    view = dead_letters(OURS, OLD)
    properties = {**view.properties, f"{ROUTING_PROPERTY}{P1}": f'{{"0": "{OLD.fingerprint()}"}}'}
    later = replace(view, transactions={**view.transactions, str(AppId(APP, P1, 0)): 9}, properties=properties)
    states = {DEAD_LETTERS: TableState(later.position(APP, P1))}
    found = verdicts(Reading({DEAD_LETTERS: later}, {P1: states}), OURS, APP)
    assert found == {P1: Superseded(OLD.fingerprint())}


@pytest.mark.parametrize(("ours", "in_force", "starts"), [(0, 0, True), (0, 1, False), (1, 1, True), (2, 1, True)])
def test_one_of_a_lower_generation_replaces_nothing(ours: int, in_force: int, starts: bool) -> None:
    """Though no history has it: it was given up before any task of it had begun (protocol 5.3)."""
    newer = replace(OLD, generation=in_force)
    (found,) = verdicts(reading(dead_letters(newer)), replace(OURS, generation=ours), APP).values()
    assert isinstance(found, Switch) if starts else found == Superseded(newer.fingerprint())


@pytest.mark.parametrize("text", ["{", "{}", "[]", '{"generation": 1}'])
def test_a_configuration_that_this_version_cannot_read_stops(text: str) -> None:
    """Nothing is drained by guess."""
    with pytest.raises(InvariantBroken, match="cannot be read by this version"):
        verdicts(reading(dead_letters(OLD, text=text)), OURS, APP)
    with pytest.raises(InvariantBroken, match="is not recorded"):
        recorded(replace(dead_letters(OLD), properties={}), OLD.fingerprint())


@pytest.mark.parametrize(
    ("found", "error"),
    [
        (FirstStart(), None),
        (Agree(0, {}, (), 0), None),
        (Switch(0, "f", 9, {}), None),
        (Stop(Invariant.MONOTONE, "it went back", "restore it"), InvariantBroken),
        (Superseded("f"), InvariantBroken),
        (Unfinished("order"), Fenced),
    ],
)
def test_each_verdict_runs_or_ends_the_task_with_its_error(found: Verdict, error: type[Exception] | None) -> None:
    """An unfinished switch is left to its switcher; whoever replaced us is named."""
    said = refusal(P0, found, "own")
    assert type(said) is (type(None) if error is None else error)


def test_every_verdict_that_runs_has_something_to_do() -> None:
    """Sorted by what it asks for."""
    agreed, switch = Agree(0, {"order": 4}, (), 4), Switch(0, "f", 9, {"order": None}, ("order",))
    assert to_do({P0: FirstStart(), P1: agreed}) == ToDo((P0,), {}, {P1: agreed})
    assert to_do({P0: switch}).drained == {P0: {"order": None}}
