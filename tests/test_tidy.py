"""The rules of the repository, as tests: imports, length, docstrings, errors, paths, layout."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from pydantic import BaseModel

ROOT = Path(__file__).parents[1]
FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 400
CLASS_LINES_MAX = 300
ARGUMENTS_MAX = 8
TOO_LARGE: frozenset[str] = frozenset()
"""What is above these, by file, class or constructor."""
TOP_LEVEL = {"setup.cfg", "pyproject.toml", "README.md", "exporter", "offsets", "tests", "deploy"}

PURE = ("exporter/core", "exporter/lake/fillable.py", "exporter/lake/retention.py")
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


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), filename=str(path))


def git_files() -> list[str]:
    """What is tracked or would be added: no ignored files."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if found.returncode:
        pytest.skip(f"not a git checkout: {found.stderr.strip()}")
    return [line for line in found.stdout.splitlines() if (ROOT / line).exists()]


def imports_of(tree: ast.AST) -> Iterator[str]:
    """Every imported module or name with its full path, wherever in the file the import stands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def file_of(module: str) -> Path:
    return ROOT / f"{module.replace('.', '/')}.py"


def exporter_modules(names: set[str]) -> set[str]:
    """exporter.errors.Fenced -> exporter.errors: what each of our names is, or stands in."""
    ours = {name for name in names if name.split(".")[0] == "exporter"}
    return {module for name in ours for module in (name, name.rpartition(".")[0]) if file_of(module).exists()}


def roots(names: set[str]) -> set[str]:
    return {name.split(".")[0] for name in names}


all_code = pytest.mark.parametrize("path", sources("exporter", "offsets", "tests"), ids=relative)
our_code = pytest.mark.parametrize("path", sources("exporter", "offsets"), ids=relative)


@all_code
def test_no_import_is_relative(path):
    """An import names its module from the root, so that the rules on imports can be read from the text."""
    assert not [node.lineno for node in ast.walk(tree_of(path)) if isinstance(node, ast.ImportFrom) and node.level]


@pytest.mark.parametrize("path", sources("offsets"), ids=relative)
def test_offsets_knows_no_engine(path):
    """offsets/ imports neither pyspark nor kafka nor click nor boto3 nor the exporter."""
    assert not roots(set(imports_of(tree_of(path)))) & NOT_IN_OFFSETS


@pytest.mark.parametrize("path", sources(*PURE), ids=relative)
def test_decisions_import_only_decisions(path):
    """The pure modules import the standard library, offsets and each other's values, and nothing that has effects."""
    found = set(imports_of(tree_of(path)))
    assert roots(found) <= {*sys.stdlib_module_names, "offsets", "exporter"} - {"time", "pathlib", "os"}
    assert all(name == "exporter.errors" or name.startswith("exporter.core.") for name in exporter_modules(found))


EXECUTOR_SIDE = sources(*(f"exporter/{room}" for room in ("core", "arrow", "stores", "formats", "executor")))
"""With daemon.py, which is Spark's own process until it has loaded what the workers need."""


@pytest.mark.parametrize("path", [path for path in EXECUTOR_SIDE if path.name != "daemon.py"], ids=relative)
def test_what_runs_on_executors_imports_no_driver(path):
    """What runs on executors, with every exporter module that it reaches, knows no pyspark, kafka, click or boto3."""
    waiting, seen = {path}, set()
    while waiting:
        at = waiting.pop()
        seen.add(at)
        found = set(imports_of(tree_of(at)))
        assert not roots(found) & NOT_ON_EXECUTORS, at
        waiting |= {file_of(module) for module in exporter_modules(found)} - seen


def test_the_rule_on_executors_reaches_what_they_import():
    """A name leads to the module that it stands in, however deep."""
    found = exporter_modules(set(imports_of(tree_of(ROOT / "exporter" / "executor" / "stage.py"))))
    assert {"exporter.executor.readers", "exporter.stores.parquet", "exporter.core.routing"} <= found


@all_code
def test_functions_are_at_most_70_lines(path):
    """A function fits on a screen."""
    long = {
        f"{node.name}: {node.end_lineno - node.lineno + 1} lines"
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno - node.lineno + 1 > FUNCTION_LINES_MAX
    }
    assert not long


@pytest.mark.parametrize("path", sources("exporter", "offsets"), ids=relative)
def test_files_and_classes_can_be_taken_in_at_once(path):
    """Up to 400 lines a file, 300 a class."""
    text = path.read_text()
    large = {relative(path): lines} if (lines := len(text.splitlines())) > FILE_LINES_MAX else {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef) and node.end_lineno - node.lineno + 1 > CLASS_LINES_MAX:
            large[f"{relative(path)}:{node.name}"] = node.end_lineno - node.lineno + 1
    assert not large.keys() - TOO_LARGE


@pytest.mark.parametrize("path", sources("exporter", "offsets"), ids=relative)
def test_a_constructor_takes_few_arguments(path):
    """Up to 8; what needs more gets them by name in one frozen value."""
    constructors = {
        node.name: one.args
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ClassDef)
        for one in node.body
        if isinstance(one, ast.FunctionDef) and one.name == "__init__"
    }
    many = [
        name
        for name, args in constructors.items()
        if len([*args.posonlyargs, *args.args, *args.kwonlyargs]) > 1 + ARGUMENTS_MAX  # self is one
    ]
    assert not {f"{relative(path)}:{name}.__init__" for name in many} - TOO_LARGE


@all_code
def test_every_module_opens_with_what_it_is_for(path):
    """A module has a docstring."""
    assert ast.get_docstring(tree_of(path))


@pytest.mark.parametrize("path", sources("tests"), ids=relative)
def test_every_test_states_its_fact(path):
    """Every test function has a docstring, inside classes as well."""
    silent = [
        node.name
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
        and not ast.get_docstring(node)
    ]
    assert not silent


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


@all_code
def test_no_error_is_swallowed(path):
    """No bare except; no broad except that does nothing; no suppress(Exception)."""
    swallowed = []
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.ExceptHandler) and (
            node.type is None or (is_broad(node.type) and does_nothing(node.body))
        ):
            swallowed.append(node.lineno)
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("suppress") and any(map(is_broad, node.args)):
            swallowed.append(node.lineno)
    assert not swallowed


@our_code
def test_nothing_that_guards_data_is_an_assert(path):
    """python -O drops assert statements; guards raise."""
    assert not [node.lineno for node in ast.walk(tree_of(path)) if isinstance(node, ast.Assert)]


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


@our_code
def test_no_text_of_the_package_names_a_file_that_is_not_installed(path):
    """The folder deploy/ stands in the repository only: a hint that sends there sends nowhere."""
    texts = (node.value for node in ast.walk(tree_of(path)) if isinstance(node, ast.Constant))
    assert not [text for text in texts if isinstance(text, str) and re.search(r"\bdeploy/", text)]


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
