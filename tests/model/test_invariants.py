"""The table of README.md: each of the ten invariants is taken out of a real module, and each name in it exists."""

from __future__ import annotations

import re
from pathlib import Path

from offsets import Invariant
from tests.model.mutants import MUTANTS

ROOT = Path(__file__).resolve().parents[2]
ROW = re.compile(r"\| ([A-Z]+) \| [^|]+ \| (\S+) \| (\S+) \| (tests/\S+)::(test_\w+) \|")


def rows() -> list[tuple[str, str, str, str, str]]:
    """Invariant, module, mutant, file and name of a test, as README.md has them."""
    return ROW.findall((ROOT / "tests" / "model" / "README.md").read_text())


def test_every_invariant_has_a_mutant_of_the_real_code_that_the_model_finds() -> None:
    """None is enforced by the model's own text, and each mutant is expected to be found."""
    known = {mutant.name: mutant for mutant in MUTANTS}
    assert {row[0] for row in rows()} == {one.name for one in Invariant}
    for invariant, module, name, _, _ in rows():
        mutant = known[name]
        assert mutant.expected, f"{name} is held by something else"
        files = {one.file for one in mutant.edits}
        assert module in files and not any(file.startswith("tests/") for file in files), f"{invariant}: {files}"


def test_every_invariant_names_a_test_that_would_see_it_for_real() -> None:
    """The tests of the right column are there, by their names."""
    for invariant, _, _, file, name in rows():
        assert re.search(rf"^def {name}\(", (ROOT / file).read_text(), re.M), f"{invariant}: {file}::{name}"
