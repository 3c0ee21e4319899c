"""One search of the copy of the code that it is started in; the result as JSON on stdout."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Any

from tests.model import switch_world, world
from tests.model.search import Found, RoleSearch, Search


def search(kind: str, scope: dict[str, Any], states_max: int, stops_count: bool = True) -> Found:
    """kind: two (processes), one (against all others), switch (configurations)."""
    if kind == "switch":
        switch = switch_world.SwitchWorld(switch_world.SwitchScope(**scope))
        roles, names = switch.roles()
        tables, processes = switch.first_state()
        return RoleSearch(switch, roles, names, stops_count=stops_count).run(tables, processes, states_max)
    if kind == "one":
        others = world.Others(world.Scope(**scope))
        tables, process = others.first_state()
        one = RoleSearch(others, (0, 1), ("P", "others"), stops_count=stops_count)
        return one.run(tables, (process, world.OTHERS), states_max)
    two = world.World(world.Scope(**scope))
    tables, process = two.first_state()
    return Search(two, stops_count).run(tables, (process, process), states_max)


def main(request: dict[str, Any]) -> None:
    """A process that stops itself is no violation here: what matters is what becomes of the records."""
    if not str(world.freeze.__code__.co_filename).startswith(request["root"]):
        raise RuntimeError(f"the code searched is not the copy: {world.freeze.__code__.co_filename}")
    found = search(request["world"], request["scope"], request["states_max"], stops_count=False)
    print(json.dumps({**asdict(found), "text": str(found)}))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
