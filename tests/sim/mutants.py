"""Mutants of the loop and of all that is wired to it: what worlds of a copy of the code must find then.

    python -m tests.sim.mutants                  search what tests/golden/sim_mutants.txt does not have, then write it
    python -m tests.sim.mutants NAME ...         these alone: what was found, and by which seed
    pytest tests/sim -m long                     search all, whatever the file has

mutants.txt is read as that of the model is, and may say `as NAME` of one of its entries. A scope is what features all
worlds have, whatever their seed draws; `within`: how many seeds are tried.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.model import mutants as of_model
from tests.model.mutants import REPOSITORY, Mutant, changes_of, copy, entries_of, mutants_of, searched
from tests.model.proven import Proofs

SOURCE = Path(__file__).with_name("mutants.txt")
PROVEN = REPOSITORY / "tests" / "golden" / "sim_mutants.txt"
WITHIN, WITHIN_HELD = 14, 5
"""Seeds that are tried where an entry does not say how many; of one that another rule holds."""
SECS = 1200.0
"""What one search may take."""
SIMULATOR = tuple(
    f"tests/sim/{file.name}"
    for file in sorted(SOURCE.parent.glob("*.py"))
    if not file.name.startswith(("test_", "mutants", "recorded", "scale", "__"))
)
"""What a world is made of, beside the product."""

MUTANTS = tuple(mutants_of(SOURCE.read_text(), changes_of(entries_of(of_model.SOURCE.read_text()))))


def run(mutant: Mutant) -> dict[str, Any]:
    """violation: what the first world that breaks says, empty if none does; seed: the last one that was tried."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        copy(mutant, ("exporter", "offsets", *SIMULATOR), root)
        scope = dict(mutant.scope)
        within = scope.pop("within", WITHIN if mutant.expected else WITHIN_HELD)
        request = {"within": within, "scope": scope, "root": folder}
        return searched(mutant, "tests.sim.mutant_run", root, request, SECS)


def judge(mutant: Mutant) -> str:
    """Search it; what was found. AssertionError if that is not what is expected of it."""
    found = run(mutant)
    told = f"{mutant.name}: seed {found['seed']}: {found['violation'] or 'nothing is wrong'}"
    broken = {found["violation"].partition(":")[0]} - {""}
    assert bool(broken) == bool(mutant.expected) and broken <= mutant.expected, told
    return told


def read_by(mutant: Mutant) -> list[str]:
    """The modules that it changes and the simulator: a search imports nearly all of the product, and would be due with
    each change of it, though what is seen of a rule depends on little of that.
    """
    return sorted({*(one.file for one in mutant.edits), *SIMULATOR})


PROOFS = Proofs(PROVEN, MUTANTS, read_by, judge)


def main(names: list[str]) -> None:
    """What is not as expected is told, and the next one is searched, if names are given; else it ends all."""
    if not names:
        sys.stdout.write(f"{PROOFS.prove(2)} of {len(MUTANTS)} searched\n")
    for mutant in MUTANTS:
        if mutant.name in names:
            began = time.monotonic()
            try:
                told = judge(mutant)
            except (AssertionError, RuntimeError) as error:
                told = f"UNEXPECTED {error}"
            sys.stdout.write(f"{told} ({time.monotonic() - began:.0f} s)\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
