"""The rooms of the house: who may import whom, which third parties stand where, and one sentence for each.

A room is a folder of exporter/, or one of the modules that are rooms of their own (entry.py, workbench.py); the other
modules beside them are the ground, and offsets/ is a room too. exporter/README.md shows the same rules as a table.
"""

from __future__ import annotations

import ast
import functools
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

pytestmark = pytest.mark.xdist_group("house")
ROOT = Path(__file__).parents[1]
README = ROOT / "exporter" / "README.md"
FLOORS_MAX = 12

MAY_USE = {
    "entry": "cli ground",
    "cli": "settings task core stores catalog spark workbench derive operate demo drill ground",
    "settings": "column core formats shape stores ground offsets",
    "task": "settings kafka core rounds stores protocol lake wal coordinate announce catalog spark monitor workbench "
    "derive ground offsets",
    "kafka": "settings ground offsets",
    "column": "",
    "core": "column ground offsets",
    "fetch": "core formats arrow ground offsets",
    "rounds": "core fetch executor spark ground offsets",
    "executor": "core formats shape arrow stores ground offsets",
    "formats": "column core arrow ground offsets",
    "shape": "column core arrow ground offsets",
    "arrow": "column offsets",
    "stores": "core arrow ground offsets",
    "protocol": "kafka column core rounds executor arrow stores lake wal ground offsets",
    "lake": "column core arrow stores ground offsets",
    "wal": "kafka core lake ground offsets",
    "coordinate": "core ground offsets",
    "announce": "kafka core stores lake ground offsets",
    "registry": "core formats stores ground offsets",
    "catalog": "column lake ground",
    "spark": "core stores ground",
    "display": "",
    "monitor": "core display ground offsets",
    "workbench": "settings kafka column core formats lake wal registry catalog spark ground offsets",
    "proof": "core ground offsets",
    "derive": "settings kafka column core formats stores lake registry spark workbench proof ground offsets",
    "operate": "settings kafka column core fetch rounds executor formats arrow stores protocol lake wal registry "
    "catalog spark workbench display proof ground offsets",
    "local": "spark ground offsets",
    "demo": "core wal spark operate local ground offsets",
    "drill": "settings kafka core stores lake wal spark workbench operate local display ground offsets",
    "ground": "offsets",
    "offsets": "",
}
"""Room -> the rooms that its modules may import from, in the order in which a record meets them."""

THIRD_PARTIES = {
    "entry": "",
    "cli": "click rich",
    "settings": "apscheduler pydantic pydantic_core tomli",
    "task": "",
    "kafka": "botocore gssapi kafka urllib3",
    "column": "",
    "core": "",
    "fetch": "crc32c kafka lz4 numpy pyarrow snappy zstandard",
    "rounds": "",
    "executor": "numpy pyarrow",
    "formats": "msgspec numpy pyarrow",
    "shape": "duckdb pyarrow",
    "arrow": "pyarrow",
    "stores": "botocore hdfs_native msgspec obstore pyarrow",
    "protocol": "pyarrow pyspark",
    "lake": "delta pyspark",
    "wal": "boto3 botocore pyspark",
    "coordinate": "msgspec",
    "announce": "urllib3",
    "registry": "boto3 botocore urllib3",
    "catalog": "boto3 botocore urllib3",
    "spark": "py4j pyspark",
    "display": "",
    "monitor": "prometheus_client",
    "workbench": "",
    "proof": "duckdb fastavro google pyarrow",
    "derive": "pyarrow pyspark",
    "operate": "duckdb msgspec numpy pyarrow pyspark",
    "local": "kafka moto pyarrow typing_extensions werkzeug",
    "demo": "fastavro kafka pyarrow rich",
    "drill": "click kafka pyarrow pydantic",
    "ground": "apscheduler botocore structlog",
    "offsets": "",
}
"""Room -> what its modules may import beside the standard library and this repository."""

ALONE = {
    "exporter.executor.daemon": "pyspark",
    "exporter.operate.audit.records": "kafka",
}
"""Module -> what it may import beside what its room may: the one's process is Spark's until the workers are forked, the
other reads the topics without what the export reads them by."""

NO_GROUND = {"entry", "workbench"}

TOUCHES_FILES = {
    "stores": "where bytes of tables go",
    "settings": "the settings file, and the files that it names",
    "spark": "jars, classes, and what the JVM is started with",
    "local": "servers on this machine, and what is plainly read of lakes",
    "demo": "what the tour makes",
    "drill": "faults are made from outside, as a disk makes them",
    "exporter.catalog.unity": "the token, which whoever renews it writes",
    "exporter.formats.protobuf.compile": "the texts of .proto files, for the compiler",
    "exporter.memory": "how much memory this process has, in /proc",
    "exporter.operate.prepare": "the archive of classes",
    "exporter.operate.check.check": "who may read the files that hold secrets",
    "exporter.operate.report.facts": "the page that was asked for",
}
"""Room or module that works with files -> which; everything else knows those of tables only, through a store."""

FILE_METHODS = (
    "exists is_dir is_file is_symlink iterdir glob rglob stat lstat mkdir rmdir unlink touch rename symlink_to "
    "hardlink_to read_text read_bytes write_text write_bytes open samefile"
)
"""Of a path. No method of a store has such a name."""
FILE_MODULES = ("shutil", "tempfile", "fcntl", "glob", "os.path", "pyarrow.parquet", "pyarrow.fs", "pyarrow.dataset")
NO_FILES_OF_OS = (
    "PathLike _exit cpu_count environ execv fspath getpid isatty kill pipe read register_at_fork set_blocking strerror "
    "write"
)
"""What may be used of os everywhere: processes, their environment and their pipes."""


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


@functools.cache
def parsed(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text("utf-8"))


@functools.cache
def imported(module: str) -> tuple[tuple[str, bool], ...]:
    """Full names of all that a module imports, and whether only type checkers see it."""
    found: list[tuple[str, bool]] = []
    for node, checked in statements(parsed(module)):
        prefix = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
        found += [(f"{prefix}{alias.name}", checked) for alias in node.names]
    return tuple(found)


def imports_of(module: str) -> list[Import]:
    """What a module imports of this repository."""
    ours = [(name, checked) for name, checked in imported(module) if name.split(".")[0] in ("exporter", "offsets")]
    return [Import(module, target_of(name), checked) for name, checked in ours]


def third_parties_of(module: str) -> set[str]:
    """What a module imports that is neither ours nor of the standard library."""
    roots = {name.split(".")[0] for name, _ in imported(module)}
    return roots - {"exporter", "offsets", "__future__"} - set(sys.stdlib_module_names)


def classes(paths: Iterable[Path]) -> dict[str, list[Path]]:
    """Name of a public class at the top of a module -> where there is one."""
    found: dict[str, list[Path]] = defaultdict(list)
    for path in paths:
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(path)
    return found


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


def file_work(tree: ast.AST) -> Iterator[str]:
    """Whatever in a module's text works with files: by the names of the calls, whoever the path is."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            prefix = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            names = [f"{prefix}{alias.name}" for alias in node.names]
            yield from (name for name in names if f"{name}.".startswith(tuple(f"{one}." for one in FILE_MODULES)))
            if prefix == "os.":
                yield from (name for name in names if name.removeprefix(prefix) not in NO_FILES_OF_OS.split())
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "os":
            if node.attr not in NO_FILES_OF_OS.split():
                yield f"os.{node.attr}"
        elif isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            of_spark = called.startswith("sf.")  # pyspark.sql.functions
            if called == "open" or (isinstance(node.func, ast.Attribute) and node.func.attr in FILE_METHODS.split()):
                yield from () if of_spark else (called,)


def working() -> dict[str, list[str]]:
    """Whoever works with files, and how."""
    return {module: found for module in MODULES if (found := [*file_work(parsed(module))])}


def test_only_a_store_touches_a_table_s_files() -> None:
    """A store is one module then; whatever else works with a path is listed, with the files that it means."""
    listed = TOUCHES_FILES.keys()
    assert {name: found for name, found in working().items() if not {room_of(name), name} & listed} == {}


def test_whoever_may_touch_files_does() -> None:
    """What no longer does is taken out of the list."""
    found = working()
    assert {*map(room_of, found), *found} >= TOUCHES_FILES.keys()


@pytest.mark.parametrize(
    "text",
    ["open('x')", "path.open()", "table.folder.read_text()", "os.stat(path)", "os.path.exists(path)", "import shutil",
     "from os import stat", "import os.path", "from os import path", "from pyarrow import parquet", "import fcntl",
     "import pyarrow.parquet as pq", "[*Path(root).iterdir()]", "(folder / 'x').unlink()", "import tempfile"],
)  # fmt: skip
def test_work_with_files_is_found(text: str) -> None:
    """The rule is one that can fail."""
    assert [*file_work(ast.parse(text))]


@pytest.mark.parametrize(
    "text",
    ["store.read('x')", "store.reader('x')", "os.getpid()", "os.environ['x']", "sf.exists(a, f)", "import os",
     "from os import PathLike", "from pathlib import Path", "import pyarrow as pa", "outages.open", "'open'"],
)  # fmt: skip
def test_what_works_with_no_file_is_let_pass(text: str) -> None:
    """A store, this process, a path that is only named."""
    assert not [*file_work(ast.parse(text))]


def test_a_module_imports_only_from_rooms_that_its_own_may_use() -> None:
    """Also inside functions and for type checkers: a line that is drawn holds for whoever reads."""
    allowed = {room: {room, *users.split()} for room, users in MAY_USE.items()}
    crossing = [
        f"{module} imports {one.target}"
        for module in MODULES
        for one in imports_of(module)
        if room_of(one.target) not in allowed[room_of(module)]
    ]
    assert crossing == []


def test_a_module_imports_only_third_parties_of_its_room() -> None:
    """So what runs in Spark's workers needs no driver, and only one room knows DynamoDB."""
    allowed = {module: f"{THIRD_PARTIES[room_of(module)]} {ALONE.get(module, '')}".split() for module in MODULES}
    unknown = {module: third_parties_of(module) - {*names} for module, names in allowed.items()}
    assert {module: names for module, names in unknown.items() if names} == {}


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


def test_a_public_class_name_means_one_thing() -> None:
    """A stack trace or a search says where one is."""
    assert {name: sorted(places) for name, places in classes(MODULES.values()).items() if len(places) > 1} == {}


def test_a_name_of_two_classes_is_found(tmp_path: Path) -> None:
    """The search is one that can fail."""
    for name, text in (("a.py", "class A: ..."), ("b.py", "class A: ...\nclass _B: ..."), ("c.py", "class _B: ...")):
        (tmp_path / name).write_text(text)
    assert {name: len(places) for name, places in classes(tmp_path.iterdir()).items()} == {"A": 2}


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
