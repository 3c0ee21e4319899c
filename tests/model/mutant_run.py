"""One search of the copy of the code that it is started in; the result as JSON on stdout."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any
from unittest.mock import patch

from tests.model import (
    condemn_world,
    evolve_world,
    met_world,
    pair_world,
    restore_world,
    schema_world,
    sweep_world,
    switch_world,
    world,
)
from tests.model.search import Found, RoleSearch, Search

ROLED: dict[str, Callable[..., Any]] = {
    "switch": lambda **scope: switch_world.SwitchWorld(switch_world.SwitchScope(**scope)),
    "met": lambda **scope: met_world.MetWorld(met_world.MetScope(**scope)),
    "condemn": lambda **scope: condemn_world.CondemnWorld(condemn_world.CondemnScope(**scope)),
    "evolve": lambda **scope: evolve_world.EvolveWorld(evolve_world.EvolveScope(**scope)),
    "schema": lambda **scope: schema_world.SchemaWorld(schema_world.SchemaScope(**scope)),
    "sweep": lambda **scope: sweep_world.SweepWorld(sweep_world.SweepScope(**scope)),
    "restore": lambda **scope: restore_world.RestoreWorld(restore_world.RestoreScope(**scope)),
}
STUBBED = ("wal", "lease", "reading")
"""Worlds that are imported when they are asked for, because they need the commit path or third parties' modules."""


def search(kind: str, scope: dict[str, Any], states_max: int, stops_count: bool = True) -> Found:
    """kind: two (processes), one (against all others), pair (of partitions), or the name of another world."""
    if kind in ROLED:
        roled = ROLED[kind](**scope)
        roles, names = roled.roles()
        tables, processes = roled.first_state()
        return RoleSearch(roled, roles, names, stops_count=stops_count).run(tables, processes, states_max)
    if kind in STUBBED:
        module = importlib.import_module(f"tests.model.{kind}_world")
        stubbed = getattr(module, f"{kind.title()}World")(getattr(module, f"{kind.title()}Scope")(**scope))
        with ExitStack() as stubs:
            for stub in module.STUBS:
                stubs.enter_context(patch.object(*stub))
            return RoleSearch(stubbed, *stubbed.roles(), stops_count=stops_count).run(
                *stubbed.first_state(), states_max
            )
    if kind == "pair":
        pair = pair_world.PairWorld(pair_world.PairScope(**scope))
        tables, process = pair.first_state()
        return Search(pair, stops_count).run(tables, (process, process), states_max)
    if kind == "one":
        others = world.Others(world.Scope(**scope))
        tables, process = others.first_state()
        one = RoleSearch(others, (0, 1), ("P", "others"), stops_count=stops_count)
        return one.run(tables, (process, world.OTHERS), states_max)
    two = world.World(world.Scope(**scope))
    tables, process = two.first_state()
    return Search(two, stops_count).run(tables, (process, process), states_max)


def property_test(test: str) -> dict[str, Any]:
    """One property test of the stored names, run on the copy; its falsifying example stands for a history."""
    from hypothesis import settings

    settings.register_profile("mutant", derandomize=True, database=None, report_multiple_bugs=False)
    settings.load_profile("mutant")
    import test_names

    try:
        getattr(test_names, test)()
    except (AssertionError, ValueError) as error:
        example = "\n".join([str(error), *getattr(error, "__notes__", [])])
        return {"violation": f"NAMES: {test}", "complete": True, "text": f"NAMES: {test}\n{example}"}
    return {"violation": "", "complete": True, "text": "no violation"}


def main(request: dict[str, Any]) -> None:
    """A process that stops itself is no violation here: what matters is what becomes of the records."""
    if request["world"] == "names":
        print(json.dumps(property_test(**request["scope"])))
        return
    if not str(world.freeze.__code__.co_filename).startswith(request["root"]):
        raise RuntimeError(f"the code searched is not the copy: {world.freeze.__code__.co_filename}")
    found = search(request["world"], request["scope"], request["states_max"], stops_count=False)
    print(json.dumps({**asdict(found), "text": str(found)}))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
