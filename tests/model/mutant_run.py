"""One search of the copy of the code that it is started in; the result as JSON on stdout."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from typing import Any

from tests.model import world
from tests.model.search import Found, RoleSearch, Search

ONE_PARTITION = {
    "two": ("world", "World", "Scope"),
    "one": ("world", "Others", "Scope"),
    "fan": ("fan_world", "FanWorld", "FanScope"),
    "fan_one": ("fan_world", "FanWorld", "FanScope"),
}
"""Kind of a world of one partition -> its module, class and scope: two processes, or one against all others."""


def names_of(kind: str) -> tuple[str, str, str]:
    """Module, class and scope of a kind of world: one of the above, or what its name says."""
    return ONE_PARTITION.get(kind) or (f"{kind}_world", f"{kind.title()}World", f"{kind.title()}Scope")


def world_of(kind: str, scope: dict[str, Any]) -> Any:
    """A world, imported when it is asked for: a search is often shorter than the imports of the others."""
    file, name, its_scope = names_of(kind)
    module = importlib.import_module(f"tests.model.{file}")
    return getattr(module, name)(getattr(module, its_scope)(**scope))


@contextmanager
def stubbed(kind: str) -> Iterator[None]:
    """What such a world has to have in place while it is looked at."""
    with ExitStack() as stubs:
        module = importlib.import_module(f"tests.model.{names_of(kind)[0]}")
        for target, name, stub in getattr(module, "STUBS", ()):
            stubs.callback(setattr, target, name, getattr(target, name))
            setattr(target, name, stub)
        yield


def begun(made: Any, kind: str = "", stops_count: bool = True) -> tuple[Search, Any, tuple[Any, ...]]:
    """A search of a world, the tables that it begins with, and the processes."""
    tables, processes = made.first_state()
    if hasattr(made, "roles"):
        return RoleSearch(made, *made.roles(), stops_count=stops_count), tables, processes
    if kind in ("one", "fan_one"):
        others = RoleSearch(made, (0, 1), ("P", "others"), stops_count=stops_count)
        return others, tables, (processes, world.OTHERS)
    return Search(made, stops_count), tables, (processes, processes)


def search(kind: str, scope: dict[str, Any], states_max: int, stops_count: bool = True) -> Found:
    """kind: one of one partition, or the name of another world."""
    with stubbed(kind):
        searched, tables, processes = begun(world_of(kind, scope), kind, stops_count)
        return searched.run(tables, processes, states_max)


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
