"""The rooms of the house: who may import whom, which third parties stand where, and one sentence for each.

A room is a folder of exporter/, or one of the modules that are rooms of their own (entry.py, workbench.py); the other
modules beside them are the ground, and offsets/ is a room too. exporter/README.md shows the same rules as a table.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
README = ROOT / "exporter" / "README.md"
FLOORS_MAX = 12

MAY_USE = {
    "entry": "cli ground",
    "cli": "settings task kafka core stores spark workbench operate demo drill ground",
    "settings": "core ground offsets",
    "task": "settings kafka core rounds stores protocol lake wal spark monitor workbench ground offsets",
    "kafka": "settings arrow ground offsets",
    "core": "ground offsets",
    "rounds": "kafka core executor spark ground offsets",
    "executor": "core formats arrow stores ground offsets",
    "formats": "core arrow ground",
    "arrow": "",
    "stores": "core arrow ground offsets",
    "protocol": "kafka core rounds executor arrow stores lake wal ground offsets",
    "lake": "core arrow stores ground offsets",
    "wal": "kafka core lake ground offsets",
    "spark": "stores ground offsets",
    "monitor": "core ground offsets",
    "workbench": "settings kafka core formats lake wal spark ground offsets",
    "operate": "settings kafka core rounds executor arrow stores protocol lake wal spark workbench ground offsets",
    "local": "spark ground",
    "demo": "core wal spark operate local ground offsets",
    "drill": "settings kafka core lake wal spark workbench operate local ground offsets",
    "ground": "offsets",
    "offsets": "",
}
"""Room -> the rooms that its modules may import from, in the order in which a record meets them."""

THIRD_PARTIES = {
    "entry": "",
    "cli": "click rich",
    "settings": "apscheduler pydantic pydantic_core tomli",
    "task": "",
    "kafka": "kafka pyarrow",
    "core": "",
    "rounds": "pyspark",
    "executor": "pyarrow",
    "formats": "msgspec pyarrow",
    "arrow": "pyarrow",
    "stores": "msgspec pyarrow",
    "protocol": "pyarrow pyspark",
    "lake": "pyspark",
    "wal": "apscheduler boto3 botocore pyspark",
    "spark": "py4j pyspark",
    "monitor": "prometheus_client",
    "workbench": "pyspark",
    "operate": "apscheduler py4j pyarrow pyspark",
    "local": "kafka typing_extensions",
    "demo": "confluent_kafka kafka rich",
    "drill": "click kafka pyarrow pydantic",
    "ground": "structlog",
    "offsets": "",
}
"""Room -> what its modules may import beside the standard library and this repository."""

ALONE = {
    "exporter.executor.daemon": "pyspark",
}
"""Module -> what it may import beside what its room may: this one's process is Spark's until the workers are forked."""

NO_GROUND = {"entry", "workbench"}


class Import(NamedTuple):
    """An import of ours. checked: only for type checkers."""

    source: str
    target: str
    checked: bool


def name_of(path: Path) -> str:
    """exporter/core/plan.py -> exporter.core.plan; a package is called by its folder."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for top in ("exporter", "offsets") for path in sorted((ROOT / top).rglob("*.py"))}
every_module = pytest.mark.parametrize("module", MODULES)


def room_of(module: str) -> str:
    """The room in which a module stands."""
    top, *rest = module.split(".")
    if top == "offsets":
        return top
    is_room = bool(rest) and (rest[0] in NO_GROUND or MODULES[f"{top}.{rest[0]}"].name == "__init__.py")
    return rest[0] if is_room else "ground"


def statements(node: ast.AST, checked: bool = False) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    """Every import wherever it stands, and whether only type checkers see it."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield node, checked
    for child in ast.iter_child_nodes(node):
        hidden = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test) and child in node.body
        yield from statements(child, checked or hidden)


def target_of(name: str) -> str:
    """exporter.errors.Fenced -> exporter.errors: the module that an imported name is, or stands in."""
    return name if name in MODULES else name.rpartition(".")[0]


def imported(module: str) -> Iterator[tuple[str, bool]]:
    """Full names of all that a module imports, and whether only type checkers see it."""
    for node, checked in statements(ast.parse(MODULES[module].read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, checked) for alias in node.names)
        else:
            yield from ((f"{node.module}.{alias.name}", checked) for alias in node.names)


def imports_of(module: str) -> list[Import]:
    """What a module imports of this repository."""
    ours = [(name, checked) for name, checked in imported(module) if name.split(".")[0] in ("exporter", "offsets")]
    return [Import(module, target_of(name), checked) for name, checked in ours]


def third_parties_of(module: str) -> set[str]:
    """What a module imports that is neither ours nor of the standard library."""
    roots = {name.split(".")[0] for name, _ in imported(module)}
    return roots - {"exporter", "offsets", "__future__"} - set(sys.stdlib_module_names)


def on_a_circle(graph: Mapping[str, set[str]]) -> list[str]:
    """Who can be reached from itself."""
    return sorted(name for name in graph if name in reached(graph, graph[name]))


def reached(graph: Mapping[str, set[str]], begin: set[str]) -> set[str]:
    """All that can be reached, the beginning with it."""
    waiting, seen = [*begin], set(begin)
    while waiting:
        new = graph.get(waiting.pop(), set()) - seen
        seen |= new
        waiting += new
    return seen


def edges() -> dict[str, set[str]]:
    """Room -> the rooms that it imports from."""
    found: dict[str, set[str]] = {room: set() for room in MAY_USE}
    for module in MODULES:
        found[room_of(module)] |= {room_of(one.target) for one in imports_of(module)} - {room_of(module)}
    return found


def sentence_of(path: Path) -> str:
    """The first line of a file's docstring; empty if it has none."""
    return (ast.get_docstring(ast.parse(path.read_text("utf-8"))) or "").partition("\n")[0]


def sentences() -> dict[str, str]:
    """Room -> what its package or module says of itself."""
    tops = {room_of(name): name for name in MODULES if name == "offsets" or re.fullmatch(r"exporter\.\w+", name)}
    return {room: sentence_of(MODULES[name]) for room, name in tops.items() if room != "ground"}


def rooms_told() -> dict[str, str]:
    """Room -> its sentence in the docstring of exporter/__init__.py."""
    text = ast.get_docstring(ast.parse(MODULES["exporter"].read_text("utf-8"))) or ""
    return {room_named(name): says for name, says in re.findall(r"^    (\S+) +(\S.*)$", text, re.M)}


def rooms_shown() -> dict[str, tuple[str, str, str]]:
    """Room -> its job, whom it may use and its third parties, in the table of exporter/README.md."""
    rows = re.findall(r"^\| `(\S+)` \| (.+) \| (.+) \| (.+) \|$", README.read_text("utf-8"), re.M)
    return {room_named(name): (job, users, parties) for name, job, users, parties in rows}


def room_named(shown: str) -> str:
    """`core/` -> core; what is shown as all files beside the folders is the ground."""
    return "ground" if "*" in shown else shown.removesuffix(".py").removesuffix("/")


@every_module
def test_a_module_imports_only_from_rooms_that_its_own_may_use(module: str) -> None:
    """Also inside functions and for type checkers: a line that is drawn holds for whoever reads."""
    here = room_of(module)
    allowed = {here, *MAY_USE[here].split()}
    assert not [one.target for one in imports_of(module) if room_of(one.target) not in allowed]


@every_module
def test_a_module_imports_only_third_parties_of_its_room(module: str) -> None:
    """So what runs in Spark's workers needs no driver, and only one room knows DynamoDB."""
    allowed = {*THIRD_PARTIES[room_of(module)].split(), *ALONE.get(module, "").split()}
    assert third_parties_of(module) <= allowed


def test_every_rule_is_needed() -> None:
    """What no module uses any more is taken out of the rules."""
    needed = {room: set(users.split()) for room, users in MAY_USE.items()}
    assert edges() == needed
    parties: dict[str, set[str]] = {room: set() for room in THIRD_PARTIES}
    for module in MODULES:
        parties[room_of(module)] |= third_parties_of(module) - {*ALONE.get(module, "").split()}
    assert parties == {room: set(names.split()) for room, names in THIRD_PARTIES.items()}
    assert all(third_parties_of(module) >= {*names.split()} for module, names in ALONE.items())


def test_no_room_is_on_a_circle_and_none_stands_too_high() -> None:
    """The rooms have floors, few enough to be drawn."""
    graph = edges()
    assert on_a_circle(graph) == []
    floors: dict[str, int] = {}
    while len(floors) < len(graph):
        floors |= {room: 1 + max(map(floors.__getitem__, users), default=0)
                   for room, users in graph.items() if users <= floors.keys()}  # fmt: skip
    assert max(floors.values()) <= FLOORS_MAX


def test_no_module_is_on_a_circle() -> None:
    """Imports for type checkers alone may point back."""
    graph: dict[str, set[str]] = defaultdict(set)
    for module in MODULES:
        graph[module] |= {one.target for one in imports_of(module) if not one.checked}
    assert on_a_circle(graph) == []


def test_a_circle_is_found() -> None:
    """The search is one that can fail."""
    assert on_a_circle({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == ["b", "c"]


def test_no_package_imports_anything() -> None:
    """To import a module loads what it needs and nothing else: signals come first, and workers are to be light."""
    packages = [name for name, path in MODULES.items() if path.name == "__init__.py" and name != "offsets"]
    assert [name for name in packages if {*imported(name)} - {("__future__.annotations", False)}] == []
    assert {name for name, _ in imported("offsets")} == {"__future__.annotations", "enum.Enum"}


def test_every_folder_has_a_sentence() -> None:
    """One that ends with a full stop, in the docstring of its package."""
    folders = {path.parent for path in MODULES.values()}
    silent = [folder for folder in sorted(folders) if not (folder / "__init__.py").exists()]
    silent += [folder for folder in sorted(folders - {*silent}) if not sentence_of(folder / "__init__.py").strip()]
    assert [folder.relative_to(ROOT).as_posix() for folder in silent] == []


def test_the_map_of_the_house_is_what_the_rooms_say_of_themselves() -> None:
    """exporter/__init__.py and the table of exporter/README.md have each room, with the sentence that it opens with."""
    told, shown = rooms_told(), rooms_shown()
    assert list(told) == list(MAY_USE) == list(shown)
    assert told == sentences() | {"ground": told["ground"]}
    assert told == {room: job for room, (job, _, _) in shown.items()}


def test_the_table_of_the_rooms_shows_the_rules() -> None:
    """Whom each may use, and its third parties."""
    for room, (_, users, parties) in rooms_shown().items():
        assert users == (MAY_USE[room] or "nothing")
        assert parties == (THIRD_PARTIES[room].replace(" ", ", ") or "none")


def test_every_file_that_the_page_names_is_there() -> None:
    """From exporter/ or from the top of the repository: who follows it to a place finds the place."""
    named = re.findall(r"`([\w/]+(?:/|\.py|\.java|\.md))`", README.read_text("utf-8"))
    assert len(named) > 50
    assert [name for name in named if not (ROOT / "exporter" / name).exists() and not (ROOT / name).exists()] == []
