"""Changes of the code by what it says: an expression or a statement of a named function, and what takes its place.

Line breaks, brackets, quotes, comments and all that stands around it may change. In its function it has to be exactly
once, so that a rule that was rewritten makes its test fail loudly. `if CONDITION` is that of an `if` statement, `last
STATEMENT` the last one of several.

    never CONDITION         it is False                 drop NODE           a term of `and`, an argument, a statement
    always CONDITION        it is True                  after STATEMENT     the block below is put behind it
    OLD => NEW              the one for the other       before STATEMENT    the block below is put in front of it
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
CONSTANTS = {"never": "False", "always": "True"}
BESIDE = {"before": 0, "after": 1}
KINDS = (*CONSTANTS, *BESIDE, "drop")
REPLACED = ""
"""The kind of a change that says what takes the place."""


@dataclass(frozen=True)
class Slot:
    """Where a node of a tree stands: in a field of its parent, at an index if that is a list."""

    parent: ast.AST
    field: str
    index: int | None
    node: ast.AST

    @property
    def nodes(self) -> list[ast.AST]:
        """The list that it is in."""
        if self.index is None:
            raise ValueError(f"nothing can be beside {ast.unparse(self.node)}, and something has to be there")
        return list(getattr(self.parent, self.field))

    def put(self, *nodes: ast.AST) -> None:
        """Nodes take the place of the one that is there; a body that none is left in passes."""
        if self.index is None:
            setattr(self.parent, self.field, *nodes)
            return
        filled = [*self.nodes[: self.index], *nodes, *self.nodes[self.index + 1 :]]
        passes = [ast.Pass()] if isinstance(self.node, ast.stmt) else []
        setattr(self.parent, self.field, filled or passes)


@dataclass(frozen=True)
class Edit:
    """where: the dotted name of a function, a class or a constant. new: what takes its place, or is put beside it."""

    where: str
    kind: str
    old: str
    new: str = ""

    @property
    def file(self) -> str:
        """The module's, from the root of the repository."""
        parts = self.where.split(".")
        files = ["/".join(parts[:count]) + ".py" for count in range(len(parts), 0, -1)]
        found = [file for file in files if (REPOSITORY / file).is_file()]
        if not found:
            raise ValueError(f"{self.where} is in no module")
        return found[0]

    def applied(self, text: str) -> str:
        """The module's text with the change. ValueError if what it changes is not there exactly once."""
        tree = ast.parse(text)
        scope: ast.AST = tree
        for name in self.where.split(".")[self.file.count("/") + 1 :]:
            scope = self._one([node for node in getattr(scope, "body", ()) if name in _names(node)], name)
        found = [*_slots(scope, self.old.removeprefix("last "))]
        self._change(self._one(found[-1:] if self.old.startswith("last ") else found, self.old))
        return ast.unparse(ast.fix_missing_locations(tree))

    def _one(self, found: list[Any], text: str) -> Any:
        if len(found) != 1:
            raise ValueError(f"{self.where} holds {len(found)} times, not once: {text!r}")
        return found[0]

    def _change(self, slot: Slot) -> None:
        if self.kind in BESIDE:
            block = ast.parse(self.new).body
            slot.put(*((*block, slot.node) if self.kind == "before" else (slot.node, *block)))
        elif self.kind == "drop":
            slot.put()
        elif isinstance(slot.node, ast.stmt):
            slot.put(*ast.parse(self.new).body)
        else:
            slot.put(_in_place(slot.node, self.old, CONSTANTS.get(self.kind, self.new)))


def read(text: str) -> list[ast.AST]:
    """What a text may stand for: an expression, `for` and `if` of a comprehension, a statement, an argument by name."""
    if text.startswith("for ") and "\n" not in text and not text.endswith(":"):
        return list(ast.parse(f"[_ {text}]", mode="eval").body.generators)  # type: ignore[attr-defined]
    if text.startswith("*"):
        return list(ast.parse(f"({text},)", mode="eval").body.elts)  # type: ignore[attr-defined]
    (statement,) = ast.parse(text).body
    if isinstance(statement, ast.Expr):
        return [statement, statement.value]
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
        return [statement, ast.keyword(statement.targets[0].id, statement.value)]
    return [statement]


def _in_place(node: ast.AST, old: str, text: str) -> ast.AST:
    """The text as what can be where the node is; conditions of a comprehension that `old` does not say stay."""
    kinds = (ast.expr, ast.keyword, ast.comprehension)
    new = next(one for one in read(text) for kind in kinds if isinstance(one, kind) and isinstance(node, kind))
    if isinstance(new, ast.comprehension) and isinstance(node, ast.comprehension) and " if " not in old:
        new.ifs = node.ifs
    return new


def _slots(scope: ast.AST, text: str) -> Iterator[Slot]:
    """Where what the text stands for is, from the outside in; an expression that is a statement is there once."""
    is_condition = text.startswith("if ") and ":" not in text
    wanted = {ast.dump(node) for node in read(text.removeprefix("if ") if is_condition else text)}
    for parent in ast.walk(scope):
        for field, value in ast.iter_fields(parent):
            for index, node in enumerate(value) if isinstance(value, list) else ((None, value),):
                if not isinstance(node, ast.AST) or isinstance(parent, ast.Expr) or not wanted & _said(node):
                    continue
                if not is_condition or (isinstance(parent, ast.If) and field == "test"):
                    yield Slot(parent, field, index, node)


def _said(node: ast.AST) -> set[str]:
    """Texts that are the same for nodes that say the same; of a comprehension without its conditions, too."""
    said = {ast.dump(node)}
    if isinstance(node, ast.comprehension):
        said.add(ast.dump(ast.comprehension(node.target, node.iter, [], node.is_async)))
    return said


def _names(node: ast.AST) -> list[str]:
    """What a statement of a module or a class gives a name to."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return [one.id for one in targets if isinstance(one, ast.Name)]
