"""The simulator's own proof: each rule that is taken out breaks a world, or another one holds it."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from tests.model.mutants import REPOSITORY, Mutant
from tests.sim.mutants import MUTANTS, PROOFS, SIMULATOR, judge, read_by

SEARCHED_SECS = 60.0
"""For so long those that are not proven are searched, in each run of the tests others first."""


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_each_rule_can_be_taken_out(mutant: Mutant) -> None:
    """One that was rewritten is not silently left untested."""
    texts: dict[str, str] = {}
    for edit in mutant.edits:
        texts[edit.file] = edit.applied(texts.get(edit.file) or (REPOSITORY / edit.file).read_text())


@pytest.mark.timeout(1800)
def test_rules_taken_out_that_are_not_proven_break_a_world() -> None:
    """As many as there is time for."""
    left = PROOFS.left()
    first, until = int(time.time()) % max(1, len(left)), time.monotonic() + SEARCHED_SECS
    for mutant in (*left[first:], *left[:first]):
        if time.monotonic() < until:
            print(judge(mutant))


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_each_rule_taken_out_breaks_a_world_whatever_is_proven(mutant: Mutant) -> None:
    """Of all of them, so that what was proven is true."""
    print(f"\n{mutant.rule}\n{judge(mutant)}")


def test_a_mutant_is_proven_no_more_once_what_it_changes_or_the_simulator_has_changed() -> None:
    """Its scope and what is expected of it among that."""
    mutant = MUTANTS[0]
    assert {mutant.edits[0].file, *SIMULATOR} == {*read_by(mutant)}
    others = replace(mutant, scope={"late": 0.5}), replace(mutant, expected=frozenset()), replace(mutant, edits=())
    assert len({PROOFS.digest(one) for one in (mutant, *others)}) == 4
