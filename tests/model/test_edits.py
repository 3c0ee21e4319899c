"""What takes a rule out of the code: it finds the rule by what it says, and nothing else is changed."""

from __future__ import annotations

import pytest

from tests.model.edits import Edit
from tests.model.mutants import mutants_of

WHERE = "exporter.core.writers.drop"
"""A module that is there; its text is each test's own."""

CODE = """
def drop(one, two):
    # a comment
    if one is None and (
        two or not  one
    ):
        return put('a', staged=(), many=[
            1, 2])
    self.log(one)
    if two:
        return [n for n in one if n]
    return two
"""


@pytest.mark.parametrize(
    ("kind", "old", "new", "gone", "there"),
    (
        ("never", "one is None and (two or not one)", "", "one is None", "if False:"),
        ("always", "one is None", "", "one is None", "if True and (two or not one):"),
        ("drop", "two or not one", "", "not one", "if one is None:"),
        ("drop", "staged=()", "", "staged", "put('a', many=[1, 2])"),
        ("drop", "self.log(one)", "", "self.log", "if two:"),
        ("drop", "2", "", "2", "many=[1]"),
        ("never", "if two", "", "if two", "if False:"),
        ("", "many=[1, 2]", "many=one", "[1, 2]", "many=one"),
        ("", "for n in one", "for n in two", "in one", "[n for n in two if n]"),
        ("", "for n in one if n", "for n in one", "one if", "[n for n in one]"),
        ("", 'put("a", staged=(), many=[1, 2])', "two", "put", "return two"),
        ("", "return two", "one = two\nreturn one", "return two", "one = two\n    return one"),
        ("before", "self.log(one)", "one = two", "", "one = two\n    self.log(one)"),
        ("after", "self.log(one)", "one = two", "", "self.log(one)\n    one = two"),
    ),
)
def test_what_is_changed_is_found_by_what_it_says(kind: str, old: str, new: str, gone: str, there: str) -> None:
    """However it is broken into lines, quoted, bracketed and spaced; the rest of the function stays."""
    changed = Edit(WHERE, kind, old, new).applied(CODE)
    assert there in changed
    assert not gone or gone not in changed


def test_a_body_that_nothing_is_left_of_passes() -> None:
    """It can be compiled."""
    changed = Edit(WHERE, "drop", "return [n for n in one if n]").applied(CODE)
    assert "if two:\n        pass" in changed


@pytest.mark.parametrize(
    ("where", "old", "times"),
    ((WHERE, "one is not None", 0), (WHERE, "one", 4), ("exporter.core.writers.stay", "one", 0)),
)
def test_what_is_not_there_exactly_once_is_refused(where: str, old: str, times: int) -> None:
    """Neither another guard nor all of them are taken out in its place."""
    with pytest.raises(ValueError, match=f"{where} holds {times} times"):
        Edit(where, "never", old).applied(CODE)


def test_the_last_of_several_is_found() -> None:
    """By its place, for a rule that is looked at twice in one function."""
    changed = Edit(WHERE, "drop", "last return two").applied(CODE.replace("self.log(one)", "return two"))
    assert changed.count("return two") == 1


MUTANTS = """one: two(log="A", drops=False) breaks ONCE or COVER
    3.1 a rule
    as shared
    exporter.core.writers.drop: never one is None

shared: part
    3.2 what two of them take out
    exporter.core.writers.drop: after self.log(one)
        if two:
            return

other: switch() holds
    3.3 another rule
    exporter.core.writers.drop:
        two or not one =>
        one
"""


def test_an_entry_of_three_lines_is_a_mutant() -> None:
    """Its world, its scope, what breaks, its rule and its changes; a part is in those that say so only."""
    one, other = mutants_of(MUTANTS)
    assert (one.world, one.scope, one.expected) == ("two", {"log": "A", "drops": False}, {"ONCE", "COVER"})
    assert one.rule == "3.1 a rule" and other.expected == frozenset()
    assert one.edits == (
        Edit(WHERE, "after", "self.log(one)", "if two:\n    return"),
        Edit(WHERE, "never", "one is None"),
    )
    assert other.edits == (Edit(WHERE, "", "two or not one", "one"),)


@pytest.mark.parametrize(
    "wrong",
    (
        MUTANTS.replace("other:", "one:"),
        MUTANTS.replace("breaks ONCE", "ONCE"),
        MUTANTS.replace("never one is None", "one is None"),
    ),
)
def test_an_entry_that_cannot_be_read_is_refused(wrong: str) -> None:
    """A name that is there twice, no word of what is expected, no kind of change."""
    with pytest.raises(ValueError):
        [*mutants_of(wrong)]
