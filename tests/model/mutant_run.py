"""One search of the copy of the code that it is started in; the result as JSON on stdout."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any

from tests.model import world
from tests.model.search import Found, RoleSearch, Search

ROLED = (
    "switch", "met", "condemn", "evolve", "schema", "sweep", "restore", "wal", "lease", "reading",
    "derive", "mirror", "sent", "coordinate", "through", "announce",
)  # fmt: skip
"""Worlds of their own, each imported when it is asked for: a search is often shorter than the imports of the others."""


def search(kind: str, scope: dict[str, Any], states_max: int, stops_count: bool = True) -> Found:
    """kind: two (processes), one (against all others), fan and fan_one (the same, with records of several tables), pair
    (of partitions), or the name of another world."""
    if kind in ROLED:
        module = importlib.import_module(f"tests.model.{kind}_world")
        roled = getattr(module, f"{kind.title()}World")(getattr(module, f"{kind.title()}Scope")(**scope))
        with ExitStack() as stubs:
            for target, name, stub in getattr(module, "STUBS", ()):
                stubs.callback(setattr, target, name, getattr(target, name))
                setattr(target, name, stub)
            return RoleSearch(roled, *roled.roles(), stops_count=stops_count).run(*roled.first_state(), states_max)
    if kind == "pair":
        from tests.model import pair_world

        pair = pair_world.PairWorld(pair_world.PairScope(**scope))
        tables, process = pair.first_state()
        return Search(pair, stops_count).run(tables, (process, process), states_max)
    if kind in ("fan", "fan_one"):
        from tests.model import fan_world

        one_partition: world.World = fan_world.FanWorld(fan_world.FanScope(**scope))
    else:
        one_partition = (world.Others if kind == "one" else world.World)(world.Scope(**scope))
    tables, process = one_partition.first_state()
    if kind in ("one", "fan_one"):
        roles = RoleSearch(one_partition, (0, 1), ("P", "others"), stops_count=stops_count)
        return roles.run(tables, (process, world.OTHERS), states_max)
    return Search(one_partition, stops_count).run(tables, (process, process), states_max)


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
    print(json.dumps({**asdict(found), "text": str(found), "read": [*read(request["root"])]}))


def read(root: str) -> Iterator[str]:
    """The modules of the copy that have been imported, by their files."""
    for module in [*sys.modules.values()]:
        file = getattr(module, "__file__", None) or ""
        if file.startswith(f"{root}/"):
            yield file.removeprefix(f"{root}/")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
