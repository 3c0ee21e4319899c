"""Worlds of seeds in the copy of the code that it is started in, until one breaks; the result as JSON on stdout."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import Any

from tests.sim import world
from tests.sim.features import Features
from tests.sim.runs import breaks

PLAIN = dict.fromkeys(("restored", "grows", "swept", "announced", "filtered", "fans_out", "evolves"), False)
"""What none has that is not asked for: it covers up much of what a task does wrong, or is seldom what a rule is about.
"""


def search(scope: dict[str, Any], within: int) -> dict[str, Any]:
    """Seeds from 1 on. scope: features that all of the worlds have, whatever their seed draws, beside PLAIN."""
    for seed in range(1, within + 1):
        features = replace(Features.drawn(seed), **{**PLAIN, **scope})
        if broken := breaks(seed, features).removeprefix("Broken: "):
            return {"violation": broken, "seed": seed}
    return {"violation": "", "seed": within}


def main(request: dict[str, Any]) -> None:
    """The request: scope, within, and where the copy is."""
    if not str(world.__file__).startswith(request["root"]):
        raise RuntimeError(f"the code searched is not the copy: {world.__file__}")
    print(json.dumps(search(request["scope"], request["within"])))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
