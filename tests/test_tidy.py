"""The rules of the repository, as tests: imports, length, docstrings, errors, paths, layout."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Set
from pathlib import Path
from typing import NamedTuple, get_args

import pytest
from pydantic import BaseModel

from tests.support.sql_taint import Taint

ROOT = Path(__file__).parents[1]
FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 400
CLASS_LINES_MAX = 300
ARGUMENTS_MAX = 8
DOCSTRING_WORDS_MIN = 5
TOP_LEVEL = {"setup.cfg", "pyproject.toml", "README.md", "exporter", "offsets", "tests", "deploy"}

PURE = ("exporter/column", "exporter/core", "exporter/lake/fillable.py", "exporter/lake/retention.py")
OF_THE_LOOP = (
    *(f"exporter/{room}" for room in ["task", "protocol", "lake", "coordinate", "announce", "rounds", "core"]),
    *(f"exporter/wal/{one}.py" for one in ["check", "journal", "keeper", "leading", "lease_keeper", "leased"]),
    *("exporter/monitor/watch.py", "exporter/stores/many.py", "exporter/kafka/static.py", "exporter/aside.py"),
)
OF_THE_SEAMS = {
    *(f"time.{one}" for one in ["time", "sleep", "monotonic", "thread_time"]),
    *(f"threading.{one}" for one in ["Thread", "Lock", "RLock", "Timer", "Condition"]),
}
"""What only exporter/clock.py and exporter/threads.py take from Python. An event's type may be named."""
NOT_ON_EXECUTORS = {"pyspark", "kafka", "click", "boto3"}
NOT_IN_OFFSETS = {"pyspark", "delta", "py4j", "kafka", "click", "boto3", "botocore", "exporter"}

MACHINE_PATH = re.compile(
    "(?<![A-Za-z0-9_.}])/(?:" + "|".join(["root", "work", "home/[a-z]+", "Users/[A-Za-z]+"]) + ")/"
)
REGISTRY = re.compile(
    r"pypi\.org|pythonhosted\.org|maven\.org|maven\.apache\.org|docker\.io|gcr\.io|ghcr\.io|quay\.io|npmjs\.(?:org|com)"
    r"|conda\.anaconda\.org|crates\.io|amazonaws\.com/maven",
    re.IGNORECASE,
)


def sources(*folders: str) -> list[Path]:
    """Every Python file below the folders; a file stands for itself."""
    found = [[ROOT / one] if one.endswith(".py") else (ROOT / one).rglob("*.py") for one in folders]
    return sorted(path for paths in found for path in paths)


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


class Source(NamedTuple):
    """A Python file: its text and every node of its tree, the module first."""

    path: Path
    text: str
    nodes: list[ast.AST]

    def all(self, *kinds: type[ast.AST]) -> Iterator[ast.AST]:
        """Its nodes of these kinds."""
        return (node for node in self.nodes if isinstance(node, kinds))


def git_files() -> list[str]:
    """What is tracked or would be added: no ignored files."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if found.returncode:
        pytest.skip(f"not a git checkout: {found.stderr.strip()}")
    return [line for line in found.stdout.splitlines() if (ROOT / line).exists()]


@functools.cache
def imports_of(path: Path) -> frozenset[str]:
    """Every imported module or name with its full path, wherever in the file the import stands."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(found)


def file_of(module: str) -> Path:
    return ROOT / f"{module.replace('.', '/')}.py"


def exporter_modules(names: Set[str]) -> set[str]:
    """exporter.errors.Fenced -> exporter.errors: what each of our names is, or stands in."""
    ours = {name for name in names if name.split(".")[0] == "exporter"}
    return {module for name in ours for module in (name, name.rpartition(".")[0]) if file_of(module).exists()}


def roots(names: Set[str]) -> set[str]:
    return {name.split(".")[0] for name in names}


OUR_CODE = ("exporter", "offsets")
ALL_CODE = (*OUR_CODE, "tests")


def no_import_is_relative(source: Source) -> Iterator[object]:
    """An import names its module from the root, so that the rules on imports can be read from the text."""
    return (node.lineno for node in source.all(ast.ImportFrom) if node.level)


def functions_are_at_most_70_lines(source: Source) -> Iterator[object]:
    """A function fits on a screen."""
    for node in source.all(ast.FunctionDef, ast.AsyncFunctionDef):
        if (lines := node.end_lineno - node.lineno + 1) > FUNCTION_LINES_MAX:
            yield f"{node.name}: {lines} lines"


def files_and_classes_can_be_taken_in_at_once(source: Source) -> Iterator[object]:
    """Up to 400 lines a file, 300 a class."""
    if (lines := len(source.text.splitlines())) > FILE_LINES_MAX:
        yield lines
    for node in source.all(ast.ClassDef):
        if (lines := node.end_lineno - node.lineno + 1) > CLASS_LINES_MAX:
            yield f"{node.name}: {lines} lines"


def a_constructor_takes_few_arguments(source: Source) -> Iterator[object]:
    """Up to 8; what needs more gets them by name in one frozen value."""
    for node in source.all(ast.ClassDef):
        for one in node.body:
            if isinstance(one, ast.FunctionDef) and one.name == "__init__":
                taken = len([*one.args.posonlyargs, *one.args.args, *one.args.kwonlyargs]) - 1  # self is one
                if taken > ARGUMENTS_MAX:
                    yield f"{node.name}: {taken} arguments"


def every_module_opens_with_what_it_is_for(source: Source) -> Iterator[object]:
    """A module has a docstring."""
    if not ast.get_docstring(source.nodes[0]):
        yield "no docstring"


def every_test_states_its_fact(source: Source) -> Iterator[object]:
    """Every test function has a docstring, inside classes as well."""
    for node in source.all(ast.FunctionDef, ast.AsyncFunctionDef):
        if node.name.startswith("test_") and not ast.get_docstring(node):
            yield node.name


def a_docstring_says_what_a_caller_must_know(source: Source) -> Iterator[object]:
    """At least five words, outside of properties; a table of the settings is called by its head alone."""
    for node in source.all(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef):
        told = ast.get_docstring(node)
        is_property = any("property" in ast.unparse(one) for one in node.decorator_list)
        if told and len(told.split()) < DOCSTRING_WORDS_MIN and not is_property and not told.startswith("["):
            yield f"{node.name}: {told}"


def a_mark_stands_on_a_test(source: Source) -> Iterator[object]:
    """On a helper it does nothing: one that was put between a mark and its test takes the mark away."""
    for node in source.all(ast.FunctionDef, ast.AsyncFunctionDef):
        marks = [ast.unparse(one) for one in node.decorator_list if ast.unparse(one).startswith("pytest.mark.")]
        if marks and not node.name.startswith("test_"):
            yield f"{node.name}: {marks}"


def is_broad(kind: ast.expr | None) -> bool:
    """True for nothing, Exception, BaseException, and tuples that hold one of them."""
    parts = kind.elts if isinstance(kind, ast.Tuple) else [kind]
    return any(
        part is None or (isinstance(part, ast.Name) and part.id in {"Exception", "BaseException"}) for part in parts
    )


def does_nothing(body: list[ast.stmt]) -> bool:
    return all(
        isinstance(statement, ast.Pass | ast.Continue)
        or (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))
        for statement in body
    )


def no_error_is_swallowed(source: Source) -> Iterator[object]:
    """No bare except; no broad except that does nothing; no suppress(Exception)."""
    for node in source.all(ast.ExceptHandler):
        if node.type is None or (is_broad(node.type) and does_nothing(node.body)):
            yield node.lineno
    for node in source.all(ast.Call):
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if called.endswith("suppress") and any(map(is_broad, node.args)):
            yield node.lineno


def nothing_that_guards_data_is_an_assert(source: Source) -> Iterator[object]:
    """python -O drops assert statements; guards raise."""
    return (node.lineno for node in source.all(ast.Assert))


def no_text_of_the_package_names_a_file_that_is_not_installed(source: Source) -> Iterator[object]:
    """The folder deploy/ stands in the repository only: a hint that sends there sends nowhere."""
    for node in source.all(ast.Constant):
        if isinstance(node.value, str) and re.search(r"\bdeploy/", node.value):
            yield node.value


def time_and_threads_come_from_one_place(source: Source) -> Iterator[object]:
    """What a task's loop reaches can be run by tests/sim: on simulated time, in one thread."""
    for node in source.all(ast.Attribute):
        whole = ast.unparse(node)
        if whole in OF_THE_SEAMS:
            yield whole
    for node in source.all(ast.ImportFrom):
        if node.module == "concurrent.futures":
            yield from (one.name for one in node.names if one.name in ("ThreadPoolExecutor", "wait"))


Rule = Callable[[Source], Iterator[object]]
RULES: Mapping[Rule, tuple[str, ...]] = {
    no_import_is_relative: ALL_CODE,
    functions_are_at_most_70_lines: ALL_CODE,
    every_module_opens_with_what_it_is_for: ALL_CODE,
    no_error_is_swallowed: ALL_CODE,
    files_and_classes_can_be_taken_in_at_once: OUR_CODE,
    a_constructor_takes_few_arguments: OUR_CODE,
    nothing_that_guards_data_is_an_assert: OUR_CODE,
    no_text_of_the_package_names_a_file_that_is_not_installed: OUR_CODE,
    a_docstring_says_what_a_caller_must_know: OUR_CODE,
    time_and_threads_come_from_one_place: OF_THE_LOOP,
    every_test_states_its_fact: ("tests",),
    a_mark_stands_on_a_test: ("tests",),
}
"""What each file keeps by itself, and the folders in which it does."""


def said(rule: Rule, text: str) -> list[object]:
    """What a rule says of a file with this text."""
    return [*rule(Source(ROOT / "one.py", text, [*ast.walk(ast.parse(text))]))]


@functools.cache
def broken() -> Mapping[Rule, list[str]]:
    """Rule -> where it is broken, and how. A file is read once, for all rules."""
    found: dict[Rule, list[str]] = defaultdict(list)
    for path in sources(*ALL_CODE):
        text, name = path.read_text(), relative(path)
        source = Source(path, text, [*ast.walk(ast.parse(text, filename=str(path)))])
        for rule, folders in RULES.items():
            if any(name == one or name.startswith(f"{one}/") for one in folders):
                found[rule] += [f"{name}: {told}" for told in rule(source)]
    return found


@pytest.mark.xdist_group("tidy")
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_each_file_keeps_the_rule(rule):
    """The rule is the function's name."""
    assert broken()[rule] == []


@pytest.mark.xdist_group("tidy")
def test_tests_of_a_group_are_run_by_one_process(request):
    """Its name is part of the id by which tests are handed out; without it each process makes servers of its own."""
    assert not getattr(request.config.option, "loadgroup", False) or request.node.nodeid.endswith("@tidy")


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (no_import_is_relative, "from .a import b"),
        (functions_are_at_most_70_lines, "def f():\n" + "    x = 1\n" * 70),
        (files_and_classes_can_be_taken_in_at_once, "x = 1\n" * 401),
        (files_and_classes_can_be_taken_in_at_once, "class A:\n" + "    x = 1\n" * 300),
        (a_constructor_takes_few_arguments, "class A:\n    def __init__(self, a, b, c, d, e, f, g, *, h, i): ..."),
        (every_module_opens_with_what_it_is_for, "x = 1"),
        (every_test_states_its_fact, "class A:\n    def test_a(): ..."),
        (a_docstring_says_what_a_caller_must_know, "def f():\n    'Of one task.'"),
        (time_and_threads_come_from_one_place, "import time\ndef f():\n    return time.monotonic()"),
        (time_and_threads_come_from_one_place, "from concurrent.futures import ThreadPoolExecutor"),
        (a_mark_stands_on_a_test, "@pytest.mark.long\ndef helper(): ..."),
        (no_error_is_swallowed, "try:\n    f()\nexcept:\n    raise"),
        (no_error_is_swallowed, "try:\n    f()\nexcept (OSError, Exception):\n    pass"),
        (no_error_is_swallowed, "with contextlib.suppress(Exception): f()"),
        (nothing_that_guards_data_is_an_assert, "assert x"),
        (no_text_of_the_package_names_a_file_that_is_not_installed, "x = 'see deploy/handbook'"),
    ],
)
def test_each_rule_can_fail(rule, text):
    """It finds what it is for."""
    assert said(rule, text)


NOT_SPARKS = tuple(f"exporter/{room}/" for room in ("shape", "stores", "proof/rules", "drill", "demo"))
"""Where SQL is DuckDB's, or a `delete` one of files, or the data our own."""


def test_no_value_becomes_part_of_sql_text():
    """What Spark is given as SQL has constants, quoted names and users' own SQL: no value, no other name or setting."""
    paths = [path for path in sources("exporter") if not relative(path).startswith(NOT_SPARKS)]
    assert [*Taint({relative(path): ast.parse(path.read_text()) for path in paths}).findings()] == []


@pytest.mark.parametrize(
    ("text", "finds"),
    [
        ("def f(x: str):\n    s.sql(f'SELECT {x}')", True),
        ("def f(x: int):\n    s.sql(f'SELECT {x}')", False),
        ("def f(x):\n    s.sql(f'SELECT {literal(x)}')", False),
        ("def f(x):\n    frame.where(f'a = {x}')", True),
        ("def f(x):\n    frame.where(sf.col('a') == x)", False),
        ("def f(x):\n    t = ' AND '.join(f'a = {y}' for y in x)\n    frame.where(t)", True),
        ("def g(y):\n    return 'a = ' + y\ndef f(x):\n    s.expr(g(x))", True),
        ("def g(y):\n    return 'a = ' + y\ndef f(x):\n    s.expr(g(quoted(x)))", False),
        ("def f(x):\n    s.sql('SELECT {}'.format(x))", True),
        ("def f(x):\n    s.sql('SELECT %s' % x)", True),
        ("def f(row):\n    n = row.collect()[0]\n    s.sql(f'DELETE FROM t WHERE a < {n}')", True),
    ],
)
def test_the_rule_on_sql_can_fail(text, finds):
    """It finds a value however it comes there, and lets what is quoted pass."""
    assert bool([*Taint({"one.py": ast.parse(text)}).findings()]) == finds


@pytest.mark.parametrize("path", sources("offsets"), ids=relative)
def test_offsets_knows_no_engine(path):
    """offsets/ imports neither pyspark nor kafka nor click nor boto3 nor the exporter."""
    assert not roots(imports_of(path)) & NOT_IN_OFFSETS


@pytest.mark.parametrize("path", sources(*PURE), ids=relative)
def test_decisions_import_only_decisions(path):
    """The pure modules import the standard library, offsets and each other's values, and nothing that has effects."""
    found = imports_of(path)
    assert roots(found) <= {*sys.stdlib_module_names, "offsets", "exporter"} - {"time", "pathlib", "os"}
    pure = ("exporter.errors", "exporter.core.", "exporter.column.")
    assert all(name.startswith(pure) for name in exporter_modules(found))


EXECUTOR_SIDE = sources(*(f"exporter/{room}" for room in ("column", "core", "arrow", "stores", "formats", "executor")))
"""With daemon.py, which is Spark's own process until it has loaded what the workers need."""


def test_what_runs_on_executors_imports_no_driver():
    """What runs on executors, with every exporter module that it reaches, knows no pyspark, kafka, click or boto3."""
    waiting, seen = {path for path in EXECUTOR_SIDE if path.name != "daemon.py"}, set()
    while waiting:
        at = waiting.pop()
        seen.add(at)
        found = imports_of(at)
        assert not roots(found) & NOT_ON_EXECUTORS, at
        waiting |= {file_of(module) for module in exporter_modules(found)} - seen


def test_the_rule_on_executors_reaches_what_they_import():
    """A name leads to the module that it stands in, however deep."""
    found = exporter_modules(imports_of(ROOT / "exporter" / "executor" / "stage.py"))
    assert {"exporter.executor.readers", "exporter.stores.parquet", "exporter.core.routing"} <= found


def matches(pattern: re.Pattern[str]) -> list[str]:
    """file:line of every match in text files of the repository."""
    found = []
    for name in git_files():
        try:
            lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            continue
        found += [f"{name}:{number}" for number, line in enumerate(lines, 1) if pattern.search(line)]
    return found


def test_no_path_of_a_machine_is_in_the_repository():
    """What works here only because of where it was written works nowhere else."""
    assert matches(MACHINE_PATH) == []


def test_no_registry_is_named_in_the_repository():
    """Where packages, jars and images come from is for the tools' own configuration."""
    assert matches(REGISTRY) == []


@pytest.mark.parametrize(
    "text", ["/ro" + "ot/x", "see /wo" + "rk/main", "file:///ho" + "me/alice/x", "'/Us" + "ers/bob/'"]
)
def test_the_rule_on_paths_can_fail(text):
    """The pattern finds what it is for."""
    assert MACHINE_PATH.search(text)


@pytest.mark.parametrize(
    "text", ["https://repo1.ma" + "ven.org/maven2", "https://py" + "pi.org/simple", "gh" + "cr.io/a/b"]
)
def test_the_rule_on_registries_can_fail(text):
    """The pattern finds what it is for."""
    assert REGISTRY.search(text)


def test_the_top_level_holds_only_what_it_may():
    """setup.cfg, pyproject.toml, README.md, four folders, hidden files; nothing else."""
    top = {name.split("/")[0] for name in git_files()}
    assert {name for name in top if not name.startswith(".")} <= TOP_LEVEL


def models_in(annotation: object) -> Iterator[type[BaseModel]]:
    """The models that an annotation holds, below Optional, dict, list and Annotated."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from models_in(part)


CITED = re.compile(r"[Pp]rotocol(?:\.md)?,? (?:section )?(\d+(?:\.\d+)?)([a-c]?)\b")


def test_every_rule_that_is_cited_stands_in_the_protocol() -> None:
    """"protocol 4.4" in code, errors and tests is a heading of offsets/PROTOCOL.md, "5.3c" a point of one."""
    protocol = (ROOT / "offsets" / "PROTOCOL.md").read_text("utf-8")
    sections = dict(re.findall(r"^#{2,3} (\d+(?:\.\d+)?)\.? .*\n((?:(?!^#{2,3} ).*\n?)*)", protocol, re.M))
    cited = 0
    for name in git_files():
        if name.endswith((".py", ".java", ".md", ".toml", ".yml")):
            for number, point in CITED.findall((ROOT / name).read_text("utf-8")):
                assert number in sections, f"{name} cites protocol {number}"
                assert not point or f"- ({point}) " in sections[number], f"{name} cites protocol {number}{point}"
                cited += 1
    assert cited > 50


def test_what_holds_a_rule_is_there_and_each_mutant_stands_at_a_rule() -> None:
    """Files and mutants after "HELD BY" in offsets/PROTOCOL.md exist; each mutant that is searched is named there."""
    protocol = (ROOT / "offsets" / "PROTOCOL.md").read_text("utf-8")
    passages = re.findall(r"^(?:HELD BY|- [A-Z]+ is held by):((?:.+\n)+?)(?=\n|- |\Z)", protocol, re.M)
    mutants = dict(re.findall(r"^(\w+): (.*)$", (ROOT / "tests" / "model" / "mutants.txt").read_text("utf-8"), re.M))
    named = {name for passage in passages for name in re.findall(r"`([^`]+)`", passage)}
    files = {name for name in named if "/" in name}
    assert len(passages) > 30 and len(files) > 50
    assert not {name for name in files if not any((ROOT / room / name).exists() for room in ("", "exporter"))}
    searched = {name for name, kind in mutants.items() if kind != "part" and not name.startswith("control_")}
    assert named - files == searched
