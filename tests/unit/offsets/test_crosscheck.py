"""One verdict per topic partition, branch by branch, named by what a user can rely on."""

from __future__ import annotations

import pytest

from offsets import Invariant
from offsets.crosscheck import (
    Agree,
    FirstStart,
    Stop,
    Superseded,
    Switch,
    TableState,
    Unfinished,
    begins_under,
    replaced_by,
    verdict,
)
from offsets.positions import Position

DEAD = "dead_letters"
OWN, OLD, OLDER = "own", "old", "older"
ACTIVE = (DEAD, "A", "B")


def at(offset: int, epoch: int = 0, named: int = -1) -> TableState:
    return TableState(Position(epoch, offset), named)


ABSENT = TableState(None)


@pytest.mark.parametrize("tables", [{}, {DEAD: ABSENT}, {DEAD: ABSENT, "A": ABSENT}, {"A": ABSENT}], ids=str)
def test_a_partition_that_no_table_knows_is_a_first_start(tables):
    """No position anywhere, with or without tables: the dead letters are anchored first."""
    assert verdict(tables, DEAD, {}, OWN, ACTIVE) == FirstStart()


def test_a_start_continues_at_the_positions_of_the_tables():
    """The tables are the truth: every active type goes on where its own table stands."""
    tables = {DEAD: at(90), "A": at(40), "B": at(-1)}
    assert verdict(tables, DEAD, {0: OWN}, OWN, ACTIVE) == Agree(0, {DEAD: 90, "A": 40, "B": -1}, (), 90)


@pytest.mark.parametrize("absent", [{}, {"B": ABSENT}], ids=["no table", "no anchor"])
def test_a_type_without_an_anchor_is_anchored_where_the_dead_letters_are(absent):
    """ANCHOR: the dead letters never pass an unanchored type, so their position loses nothing (traps 3)."""
    tables = {DEAD: at(90), "A": at(40), **absent}
    assert verdict(tables, DEAD, {0: OWN}, OWN, ACTIVE) == Agree(0, {DEAD: 90, "A": 40}, ("B",), 90)


def test_tables_of_types_that_are_no_longer_active_do_not_hold_the_start_back():
    """A removed type leaves every minimum; its table stays as it is."""
    tables = {DEAD: at(90, 3), "A": at(40, 3), "B": at(50, 3), "gone": at(1, 0)}
    found = verdict(tables, DEAD, {0: OLD, 3: OWN}, OWN, ACTIVE)
    assert found == Agree(3, {DEAD: 90, "A": 40, "B": 50}, (), 90)


@pytest.mark.parametrize("name", [DEAD, "A", "gone"])
def test_a_file_beyond_its_tables_position_stops_the_start(name):
    """MONOTONE: a position that was moved back by hand would double what the file holds."""
    tables = {DEAD: at(90), "A": at(90), "B": at(90), name: at(90, named=91)}
    found = verdict(tables, DEAD, {0: OWN}, OWN, ACTIVE)
    assert isinstance(found, Stop)
    assert found.invariant is Invariant.MONOTONE
    assert "91" in found.reason
    assert "90" in found.reason


def test_a_file_that_ends_at_its_tables_position_is_normal():
    """The last committed file usually ends at the position itself."""
    tables = {DEAD: at(90), "A": at(90, named=90), "B": at(90, named=12)}
    assert isinstance(verdict(tables, DEAD, {0: OWN}, OWN, ACTIVE), Agree)


@pytest.mark.parametrize("tables", [{DEAD: at(90), "A": TableState(None, 41)}, {"A": TableState(None, 41)}])
def test_files_of_ours_without_a_position_stop_the_start(tables):
    """Protocol 5.6: a table that holds our files of this partition but no appId is never anchored anew."""
    assert isinstance(verdict(tables, DEAD, {0: OWN}, OWN, ACTIVE), Stop)


@pytest.mark.parametrize("dead_letters", [{}, {DEAD: ABSENT}], ids=["no table", "no anchor"])
@pytest.mark.parametrize("offset", [-1, 40])
def test_lost_dead_letters_stop_the_start(dead_letters, offset):
    """ANCHOR: another table with a position proves that the dead letters once had one."""
    found = verdict({**dead_letters, "A": at(offset)}, DEAD, {}, OWN, ACTIVE)
    assert isinstance(found, Stop)
    assert found.invariant is Invariant.ANCHOR
    assert "table A" in found.reason


@pytest.mark.parametrize("history", [{}, {1: OWN}, {1: OLD, 2: OWN}])
def test_an_epoch_without_a_recorded_configuration_stops_the_start(history):
    """ROUTE: nobody can tell under which configuration the tables were filled."""
    found = verdict({DEAD: at(9), "A": at(9), "B": at(9)}, DEAD, history, OWN, ACTIVE)
    assert isinstance(found, Stop)
    assert found.invariant is Invariant.ROUTE
    assert "epoch 0" in found.reason


@pytest.mark.parametrize("name", ["A", "B", "gone"])
def test_a_switch_in_progress_is_left_to_its_switcher(name):
    """Protocol 5.3a: our configuration is in force, yet a table is an epoch ahead: step aside."""
    tables = {DEAD: at(9), "A": at(9), "B": at(9), name: at(9, epoch=1)}
    assert verdict(tables, DEAD, {0: OWN}, OWN, ACTIVE) == Unfinished(name)


def test_an_active_table_of_an_older_epoch_stops_the_start():
    """ROUTE: the dead letters are sealed last, so an active table can only be older if it was replaced."""
    found = verdict({DEAD: at(9, 1), "A": at(9, 1), "B": at(9, 0)}, DEAD, {0: OLD, 1: OWN}, OWN, ACTIVE)
    assert isinstance(found, Stop)
    assert found.invariant is Invariant.ROUTE
    assert "table B is at epoch 0" in found.reason


def test_an_older_configuration_never_takes_over_again():
    """Protocol 5.3b: a process with a replaced configuration refuses to start and learns which one is newer."""
    tables = {DEAD: at(9, 1), "A": at(9, 1), "B": at(9, 1)}
    assert verdict(tables, DEAD, {0: OWN, 1: OLD}, OWN, ACTIVE) == Superseded(OLD)


def test_an_older_configuration_stands_back_also_from_an_unfinished_switch():
    """Superseded comes before all looking at epochs: a third configuration's switch is not ours either."""
    tables = {DEAD: at(9, 1), "A": at(9, 2), "B": at(9, 1)}
    assert verdict(tables, DEAD, {0: OWN, 1: OLD}, OWN, ACTIVE) == Superseded(OLD)


@pytest.mark.parametrize(
    ("histories", "replaced"),
    [([], ""), ([{0: OLD}, {0: OWN}], ""), ([{0: OLD, 1: OWN}], ""), ([{0: OLD}, {0: OWN, 2: OLD}], OLD)],
    ids=str,
)
def test_one_that_was_replaced_anywhere_takes_no_partition_over(histories, replaced):
    """Protocol 5.3b: not even one that begins after that, and so has it in no history."""
    assert replaced_by(OWN, histories) == replaced
    found = verdict({DEAD: at(9)}, DEAD, {0: OLD}, OWN, ACTIVE, ACTIVE, replaced)
    assert found == Superseded(OLD) if replaced else isinstance(found, Switch)


@pytest.mark.parametrize(
    ("topic", "others", "begins"),
    [
        ([], [], OWN),
        ([{0: OLD}], [], OLD),
        ([], [{0: OLD}], OWN),
        ([{0: OLD}], [{0: OLD, 1: OWN}], OWN),
        ([{0: OWN, 1: OLD}], [], OWN),
        ([{0: OLDER}, {0: OLDER, 1: OLD}], [], OLD),
    ],
    ids=str,
)
def test_a_new_partition_begins_under_what_is_in_force_in_its_topic(topic, others, begins):
    """Its history then tells what was there before a configuration that nobody has switched to yet."""
    assert begins_under(OWN, topic, [*topic, *others]) == begins


def test_a_new_configuration_drains_to_the_highest_position_of_the_old_one():
    """Protocol 5.3c: all types of the configuration in force are brought to one offset before the seal."""
    tables = {DEAD: at(90), "A": at(40), "B": at(120)}
    found = verdict(tables, DEAD, {0: OLD}, OWN, ACTIVE, ACTIVE)
    positions = {DEAD: Position(0, 90), "A": Position(0, 40), "B": Position(0, 120)}
    assert found == Switch(0, OLD, 120, positions, ACTIVE)
    assert found.next_epoch == 1


def test_a_switch_lists_added_and_removed_types():
    """Types of either configuration are listed; a type that is only added does not raise the drain's end."""
    tables = {DEAD: at(90), "A": at(40), "added": at(700)}
    found = verdict(tables, DEAD, {0: OLD}, OWN, (DEAD, "added", "new"), (DEAD, "A"))
    assert isinstance(found, Switch)
    assert found.through == 90
    assert found.positions == {
        DEAD: Position(0, 90),
        "A": Position(0, 40),
        "added": Position(0, 700),
        "new": None,
    }


def test_a_switch_that_a_crash_interrupted_goes_on_with_the_tables_as_they_are():
    """A table sealed already shows its next epoch; the drain's end stays where all positions met."""
    tables = {DEAD: at(90), "A": at(90, epoch=1), "B": at(90)}
    found = verdict(tables, DEAD, {0: OLD}, OWN, ACTIVE, ACTIVE)
    assert isinstance(found, Switch)
    assert (found.epoch, found.through, found.positions["A"]) == (0, 90, Position(1, 90))


def test_a_switch_from_a_type_without_an_anchor_drains_to_the_others():
    """An absent position of the configuration in force is listed as absent, and raises nothing."""
    found = verdict({DEAD: at(7), "A": at(5)}, DEAD, {3: OLDER, 0: OLD}, OWN, ACTIVE, ACTIVE)
    assert isinstance(found, Switch)
    assert (found.through, found.positions["B"]) == (7, None)


@pytest.mark.parametrize("state", [at(9, named=10), TableState(None, named_offset=4)])
def test_a_stop_tells_what_happened_and_what_to_do(state):
    """Every Stop has a reason and a hint that a person can act on."""
    found = verdict({DEAD: state}, DEAD, {0: OWN}, OWN, ACTIVE)
    assert isinstance(found, Stop)
    assert len(found.reason) > 10
    assert len(found.hint) > 10


def test_an_unused_position_in_a_closed_epoch_counts_as_none():
    """A task met the type while another one switched: anchored again, never a table that was replaced by a copy."""
    late = TableState(Position(0, 40), unused=True)
    tables = {DEAD: at(90, 1), "A": at(90, 1), "met": late}
    active, history = (DEAD, "A", "met"), {0: OLD, 1: OWN}
    assert verdict(tables, DEAD, history, OWN, active) == Agree(1, {DEAD: 90, "A": 90}, ("met",), 90)
    assert isinstance(verdict({**tables, "met": at(40)}, DEAD, history, OWN, active), Stop)


def test_an_unused_position_is_not_drained_but_sealed():
    """It closes the old epoch of the table and holds nothing of the configuration in force back."""
    late = TableState(Position(0, 40), unused=True)
    tables = {DEAD: at(90, 1), "A": at(95, 1), "met": late}
    found = verdict(tables, DEAD, {1: OLD}, OWN, (DEAD, "A", "met"), (DEAD, "A", "met"))
    assert isinstance(found, Switch)
    assert (found.through, found.in_force_active, found.positions["met"]) == (95, (DEAD, "A"), Position(0, 40))


def test_an_unused_position_in_the_live_epoch_is_a_position_like_any_other():
    """Just anchored: the type goes on from there."""
    tables = {DEAD: at(90), "met": TableState(Position(0, 40), unused=True)}
    assert verdict(tables, DEAD, {0: OWN}, OWN, (DEAD, "met")) == Agree(0, {DEAD: 90, "met": 40}, (), 90)
