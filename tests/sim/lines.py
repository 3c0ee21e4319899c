"""Which lines of the commit path worlds have met. Watching costs a call each, so only some worlds are watched.

A line counts once something of a function stands on it that runs: what runs at the import does not.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.sim.kernel import Kernel

ROOT = Path(__file__).parents[2]
COMMIT_PATH = (
    "exporter/core/writers.py", "exporter/core/due.py", "exporter/task/offers.py", "exporter/task/settling.py",
    "exporter/protocol/ready.py", "exporter/protocol/commit.py", "exporter/protocol/merged.py",
    "exporter/lake/settling.py", "exporter/coordinate/member.py", "exporter/coordinate/leader.py",
    "exporter/wal/journal.py",
)  # fmt: skip
_OF_FUNCTIONS = 1
"""CO_OPTIMIZED: set in the code of functions, not in that of modules and classes."""


class Lines:
    """left: file -> its lines that nobody has met yet. of: how many each has."""

    def __init__(self, files: Collection[str] = COMMIT_PATH) -> None:
        self.left: dict[str, set[int]] = {}
        self._codes: dict[str, dict[tuple[str, int], set[int]]] = {}
        for file in files:
            source, name = (ROOT / file).read_text(), str(ROOT / file)
            defined = {node.lineno for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)}
            codes = self._codes[name] = {}
            for code in _functions(compile(source, name, "exec")):
                codes[code.co_qualname, code.co_firstlineno] = {
                    line for *_, line in code.co_lines() if line and line not in {*defined, code.co_firstlineno}
                } or ({code.co_firstlineno} if code.co_name == "<lambda>" else set())
            self.left[file] = set().union(*codes.values())
        self.of = {file: len(lines) for file, lines in self.left.items()}

    @contextmanager
    def watched(self, kernel: Kernel) -> Iterator[None]:
        """What runs in this world meanwhile has met its lines."""
        kernel.trace = self._called
        try:
            yield
        finally:
            sys.settrace(None)
        for file in self.left:
            self.left[file] = set().union(*self._codes[str(ROOT / file)].values())

    def _called(self, frame: FrameType, event: str, told: Any) -> Any:
        codes = self._codes.get(frame.f_code.co_filename)
        if not codes or not codes.get((frame.f_code.co_qualname, frame.f_code.co_firstlineno)):
            return None
        return self._passed

    def _passed(self, frame: FrameType, event: str, told: Any) -> Any:
        if event == "line":
            code = frame.f_code
            self._codes[code.co_filename][code.co_qualname, code.co_firstlineno].discard(frame.f_lineno)
        return self._passed


def _functions(code: CodeType) -> Iterator[CodeType]:
    """All code of functions in it."""
    if code.co_flags & _OF_FUNCTIONS:
        yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _functions(inner)


def ranges(lines: Collection[int]) -> str:
    """3-5, 9: as a person reads them."""
    found: list[list[int]] = []
    for line in sorted(lines):
        if found and line == found[-1][1] + 1:
            found[-1][1] = line
        else:
            found.append([line, line])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in found)
