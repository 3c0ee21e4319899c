"""Mutants: the code with a rule taken out, as mutants.txt says, and what the search of a copy of it must find then."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.model.edits import KINDS, REPLACED, REPOSITORY, Edit

STATES_MAX = 60_000
DAYS = Path("tests/support/days.py")
"""What the worlds need of the tests beside them."""
NAMES_TESTS = Path("tests/unit/offsets/test_names.py")
"""The property tests that stand for a search where a name is all that there is."""
SOURCE = Path(__file__).with_name("mutants.txt")

PACKAGES = [path for path in sys.path if path.endswith("-packages")]
"""Where third-party modules are; `site`, which knows, costs more than most searches."""

HEAD = re.compile(r"(\w+): (?:part|(\w+)(\(.*\)) (?:holds|breaks (.+)))")
NOTHING: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Mutant:
    """rule: section and what was taken out. scope: of the world searched. expected: which invariants may break."""

    name: str
    rule: str
    edits: tuple[Edit, ...]
    expected: frozenset[str]
    scope: dict[str, Any] = field(default_factory=dict)
    world: str = "two"


def edit_of(where: str, change: str, block: str) -> Edit:
    """change: what mutants.txt says behind `where`. block: what stands below it, without its margin."""
    kind, _, rest = change.partition(" ")
    if kind in KINDS:
        return Edit(where, kind, rest, block)
    old, arrow, new = f"{change} ".partition(" => ")
    if not arrow:
        raise ValueError(f"{where}: neither a kind of change nor a => : {change}")
    return Edit(where, REPLACED, old, new.strip() or block)


def edits_of(lines: list[str], of: Mapping[str, tuple[Edit, ...]]) -> Iterator[Edit]:
    """The changes of an entry. lines: without the margin of the entry. of: those of all entries above and below."""
    for at, line in enumerate(lines):
        block = []
        while lines[at + 1 + len(block) :] and lines[at + 1 + len(block)].startswith(" "):
            block.append(lines[at + 1 + len(block)].removeprefix("    "))
        where, _, change = line.partition(":")
        if line.startswith("as "):
            yield from of[line.removeprefix("as ")]
        elif not line.startswith(" "):
            change = change.strip() or block.pop(0)
            yield edit_of(where, change, "\n".join(block))


class Changes(dict[str, tuple[Edit, ...]]):
    """Entry -> its changes, each made when it is first asked for, whatever the order of the entries.

    beside: those of another file, which an entry may be like.
    """

    def __init__(self, entries: Mapping[str, list[str]], beside: Changes | None) -> None:
        super().__init__()
        self.entries = entries
        self.beside = beside

    def __missing__(self, name: str) -> tuple[Edit, ...]:
        if name not in self.entries and self.beside is not None:
            return self.beside[name]
        self[name] = made = tuple(edits_of(self.entries[name], self))
        return made


def scope_of(text: str) -> dict[str, Any]:
    """`(log="A", drops=False)` as a dict."""
    call = ast.parse(f"f{text}", mode="eval").body
    keywords = call.keywords if isinstance(call, ast.Call) else []
    return {str(one.arg): ast.literal_eval(one.value) for one in keywords}


def entries_of(text: str) -> list[list[str]]:
    """The lines of each entry of a text like mutants.txt."""
    return [one.splitlines() for one in text.split("\n\n") if not one.startswith("#")]


def changes_of(entries: Iterable[list[str]], beside: Changes | None = None) -> Changes:
    """Of all entries, by their names. beside: of those of another text, which they may be like."""
    return Changes({head.partition(":")[0]: [line[4:] for line in lines] for head, _, *lines in entries}, beside)


def mutants_of(text: str, beside: Changes | None = None) -> Iterator[Mutant]:
    """The mutants of a text like mutants.txt. ValueError if an entry cannot be read, or a name is there twice.

    beside: as in changes_of().
    """
    entries = entries_of(text)
    changes = changes_of(entries, beside)
    known = () if beside is None else beside.entries.keys()
    if len(changes.entries) < len(entries) or changes.entries.keys() & {*known}:
        raise ValueError("a name is there twice")
    for head, rule, *_ in entries:
        read = HEAD.fullmatch(head)
        if read is None:
            raise ValueError(f"no name, world and what is expected: {head}")
        name, world, scope, broken = read.groups()
        if world:
            expected = frozenset((broken or "").split(" or ")) - {""}
            yield Mutant(name, rule.strip(), changes[name], expected, scope_of(scope), world)


MUTANTS = tuple(mutants_of(SOURCE.read_text()))


def run(mutant: Mutant, states_max: int = STATES_MAX) -> dict[str, Any]:
    """Search the mutant in a process of its own. Raises ValueError if what it changes is not there exactly once."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        copy(mutant, ("exporter", "offsets", "tests/model", str(DAYS)), root)
        shutil.copy(REPOSITORY / NAMES_TESTS, root / NAMES_TESTS.name)
        request = {"world": mutant.world, "scope": mutant.scope, "states_max": states_max, "root": folder}
        return searched(mutant, "tests.model.mutant_run", root, request, 200)


def copy(mutant: Mutant, paths: Iterable[str], root: Path) -> None:
    """Put paths of the repository below root as the mutant has them. Raises ValueError as `run`."""
    edited = {Path(one.file) for one in mutant.edits}
    for path in map(Path, paths):
        (root / path).parent.mkdir(exist_ok=True, parents=True)
        link(path, root, edited)
    for one in mutant.edits:
        change(one, root / one.file)


def searched(mutant: Mutant, module: str, root: Path, request: Mapping[str, Any], secs: float) -> dict[str, Any]:
    """What a module of the copy says of the request, in a process that gets so many seconds."""
    done = subprocess.run(
        [sys.executable, "-S", "-m", module, json.dumps(request)],
        cwd=root,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(root), *PACKAGES]),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONHASHSEED": "0",
        },
        capture_output=True,
        text=True,
        timeout=secs,
    )
    if done.returncode:
        raise RuntimeError(f"{mutant.name}: {done.stderr}")
    return dict(json.loads(done.stdout))


def link(path: Path, root: Path, edited: Set[Path]) -> None:
    """Put what is at a path of the repository below root, compiled modules too; nothing that is edited is shared."""
    if any(path in file.parents for file in edited):
        (root / path).mkdir()
        for inner in (REPOSITORY / path).iterdir():
            link(path / inner.name, root, edited)
    elif path.name == "__pycache__":  # of what is edited none may be believed
        shutil.copytree(REPOSITORY / path, root / path, copy_function=os.symlink)
    else:
        (root / path).symlink_to(REPOSITORY / path)


def change(edit: Edit, file: Path) -> None:
    """Change a module of the copy, and of the copy only. Raises ValueError if what is changed is not there once."""
    text = edit.applied(file.read_text())
    file.unlink()
    file.write_text(text)
    for compiled in (file.parent / "__pycache__").glob(f"{file.stem}.*"):
        compiled.unlink()
