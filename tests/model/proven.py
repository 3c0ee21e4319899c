"""Which mutants have been searched as they are: nothing that a search of them reads has changed since.

tests/golden/mutants.txt holds a digest for each: of the mutant, and of every module of ours that its search imports.
What is not there is searched, so a file that lags behind costs time, and nothing else.

    python -m tests.model.proven     search what the file does not have, then write it
    pytest tests/model -m long       search all, whatever the file has
"""

from __future__ import annotations

import ast
import functools
import hashlib
import sys
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from os import cpu_count
from pathlib import Path

from tests.model.mutant_run import names_of
from tests.model.mutants import MUTANTS, NAMES_TESTS, REPOSITORY, STATES_MAX, Mutant, run

PROVEN = REPOSITORY / "tests" / "golden" / "mutants.txt"
RUN = "tests/model/mutant_run.py"


def begin_of(kind: str) -> str:
    """The module that a search of this kind of world begins with, beside RUN."""
    if kind == "names":
        return str(NAMES_TESTS)
    return f"tests/model/{names_of(kind)[0]}.py"


@functools.cache
def text_of(file: str) -> bytes:
    return (REPOSITORY / file).read_bytes()


def files_of(module: str) -> Iterator[str]:
    """The file of a dotted name, if it is one of ours, and those of the packages around it."""
    parts = module.split(".")
    for count in range(1, len(parts) + 1):
        path = "/".join(parts[:count])
        yield from (file for file in (f"{path}.py", f"{path}/__init__.py") if (REPOSITORY / file).is_file())


@functools.cache
def imports_of(file: str) -> frozenset[str]:
    """Files of ours that a file imports, wherever in it."""
    names: list[str] = []
    for node in ast.walk(ast.parse(text_of(file))):
        if isinstance(node, ast.ImportFrom):
            names += [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
    return frozenset(found for name in names for found in files_of(name))


@functools.cache
def read_by(kind: str) -> tuple[str, ...]:
    """Every file of ours that a search of such a world imports, directly or not."""
    seen, waiting = set[str](), [RUN, begin_of(kind)]
    while waiting:
        file = waiting.pop()
        if file not in seen:
            seen.add(file)
            waiting += imports_of(file)
    return tuple(sorted(seen))


@dataclass(frozen=True, eq=False)
class Proofs:
    """A file of digests, a line for each mutant. read: the files that its search depends on. more: what else it does.

    judge: searches one; AssertionError if that is not what is expected of it.
    """

    file: Path
    mutants: Collection[Mutant]
    read: Callable[[Mutant], Collection[str]]
    judge: Callable[[Mutant], object]
    more: object = ""

    def digest(self, mutant: Mutant) -> str:
        """Of all that the outcome of its search depends on."""
        whole = hashlib.sha256(repr((mutant.edits, sorted(mutant.expected), mutant.scope, self.more)).encode())
        for file in self.read(mutant):
            whole.update(f"\0{file}\0".encode() + text_of(file))
        return f"{mutant.name} {whole.hexdigest()}"

    @functools.cached_property
    def proven(self) -> frozenset[str]:
        return frozenset(self.file.read_text().splitlines() if self.file.exists() else ())

    def left(self) -> list[Mutant]:
        """Those that the file does not have as they are."""
        return [mutant for mutant in self.mutants if self.digest(mutant) not in self.proven]

    def prove(self, at_a_time: int) -> int:
        """Search what is left, then write the file; how many that were.

        Raises AssertionError for those that are not what is expected of them; the file has all others then.
        """
        left, odd = self.left(), dict[str, str]()
        with ThreadPoolExecutor(at_a_time) as pool:
            for mutant, wrong in zip(left, pool.map(self._wrong, left), strict=True):
                odd |= {mutant.name: wrong} if wrong else {}
        good = sorted((one for one in self.mutants if one.name not in odd), key=lambda one: one.name)
        self.file.write_text("".join(f"{self.digest(one)}\n" for one in good))
        assert not odd, "\n".join(odd.values())
        return len(left)

    def _wrong(self, mutant: Mutant) -> str:
        """What is not as expected of one; empty if all is."""
        try:
            self.judge(mutant)
        except AssertionError as error:
            return str(error)
        return ""


def judge(mutant: Mutant) -> str:
    """Search it; the history that was found. AssertionError if that is not what is expected of it."""
    found = run(mutant)
    beside = {*found.get("read", ())} - {*read_by(mutant.world)}
    assert not beside, f"{mutant.name}: its search reads what its digest leaves out: {sorted(beside)}"
    if mutant.expected:
        assert found["violation"].partition(":")[0] in mutant.expected, f"{mutant.name}: {found['text']}"
    else:
        assert not found["violation"] and found["complete"], f"{mutant.name}: {found['text']}"
    return str(found["text"])


PROOFS = Proofs(PROVEN, MUTANTS, lambda mutant: read_by(mutant.world), judge, STATES_MAX)


def main() -> None:
    """As Proofs.prove."""
    left = PROOFS.prove(cpu_count() or 1)
    sys.stdout.write(f"{left} of {len(MUTANTS)} searched\n")


if __name__ == "__main__":
    main()
