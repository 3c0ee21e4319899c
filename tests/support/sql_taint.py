"""What of the SQL that Spark is given is no constant and no quoted name: by the syntax trees of the package alone.

    sinks ── `.sql(x)`, `.expr(x)`, `.selectExpr(x)`, a text in `.where(x)`, `.filter(x)`, `.delete(x)`
      └─ x is told back to where it comes from: assignments, loops, properties, functions, arguments of all calls

Safe are constants, numbers, what a quoting function returns, and SQL that a user wrote as such in the settings. All
else in a text is a finding. A name that several functions share stands for all of them.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

QUOTING = {"column", "quoted", "literal", "literals", "_tick", "_ticked"}
NUMBERS = {"int", "len"}
KEEPING = {"items", "values", "keys", "join", "upper", "lower", "get", "rstrip"}
"""Methods whose result holds nothing but what they are called on, and their arguments."""
GATHERING = {"str", "map", "filter", "sorted", "tuple", "list", "zip", "fromkeys", "dict", "reversed", "next"}
GIVEN = {"transaction", "done", "time", "complete", "rescue", "where", "select", "left_key", "right_key", "query",
         "outputs", "value", "key", "headers", "delete", "text"}  # fmt: skip
"""Settings that are SQL."""
SINKS = {"sql", "expr", "selectExpr", "parsePlan"}
CONDITIONS = {"where", "filter", "delete"}
Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


class Taint:
    """Of some modules. trees: name -> tree."""

    def __init__(self, trees: Mapping[str, ast.Module]) -> None:
        self._trees = trees
        self._functions: dict[str, list[ast.FunctionDef]] = defaultdict(list)
        self._calls: dict[str, list[tuple[ast.Call, Any]]] = defaultdict(list)
        self._known: dict[Any, bool] = {}
        self._scopes: dict[Any, list[ast.AST]] = {}
        for tree in trees.values():
            for node in ast.walk(tree):
                for child in ast.iter_child_nodes(node):
                    child._parent = node  # type: ignore[attr-defined]
                if isinstance(node, ast.FunctionDef):
                    self._functions[node.name].append(node)
                elif isinstance(node, ast.Call):
                    self._calls[_called(node.func)].append((node, tree))

    def findings(self) -> Iterator[str]:
        """Where it is given to Spark, and what."""
        for name, tree in self._trees.items():
            for node in ast.walk(tree):
                if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                    continue
                if node.func.attr in SINKS | CONDITIONS:
                    for one in node.args:
                        if (node.func.attr in SINKS or self._is_text(one)) and not self.safe(one):
                            yield f"{name}:{node.lineno}: {ast.unparse(one)[:100]}"

    def _is_text(self, node: Any, names: int = 4) -> bool:
        """Whether it is a text, and no Column. names: through how many of them it is looked for."""
        if isinstance(node, ast.Name):
            return names > 0 and any(self._is_text(one, names - 1) for one in self._assigned(node))
        if isinstance(node, ast.BinOp):
            return self._is_text(node.left, names) or self._is_text(node.right, names)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            return node.func.attr in ("join", "format") and self._is_text(node.func.value, names)
        return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))

    def safe(self, node: Any) -> bool:
        """Whether nothing of data is in it. What is asked while it is being answered is taken to be safe."""
        if node not in self._known:
            self._known[node] = True
            self._known[node] = self._safe(node)
        return self._known[node]

    def _all(self, nodes: Any) -> bool:
        return all(self.safe(one) for one in nodes if one is not None)

    def _safe(self, node: Any) -> bool:
        if isinstance(node, ast.Constant):
            return True
        if isinstance(node, ast.Name):
            return self._safe_name(node)
        if isinstance(node, ast.Call):
            return self._safe_call(node)
        if isinstance(node, ast.Attribute):
            known = self._named(node, properties=True)
            return node.attr.isupper() or node.attr in GIVEN or (bool(known) and all(map(self._returns_safe, known)))
        if isinstance(node, ast.IfExp):
            return self._all((node.body, node.orelse))
        if isinstance(node, ast.ListComp | ast.GeneratorExp | ast.SetComp):
            return self.safe(node.elt)
        if isinstance(node, ast.DictComp):
            return self._all((node.key, node.value))
        if isinstance(node, ast.Compare):
            return True  # a truth, no text
        parts = {ast.JoinedStr: "values", ast.BoolOp: "values", ast.Tuple: "elts", ast.List: "elts", ast.Set: "elts"}
        if type(node) in parts:
            return self._all(getattr(node, parts[type(node)]))
        if isinstance(node, ast.Dict):
            return self._all((*node.keys, *node.values))
        if isinstance(node, ast.BinOp):
            numbers = isinstance(node.op, ast.Mult | ast.Sub | ast.Div | ast.FloorDiv)
            return numbers or (isinstance(node.op, ast.Add | ast.BitOr) and self._all((node.left, node.right)))
        if isinstance(node, ast.Lambda):
            return self.safe(node.body)
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
            return self._all(self._values(node.value))
        inner = {ast.FormattedValue: "value", ast.Starred: "value", ast.Subscript: "value", ast.NamedExpr: "value"}
        return type(node) in inner and self.safe(getattr(node, inner[type(node)]))

    def _safe_call(self, node: ast.Call) -> bool:
        name = _called(node.func)
        if name in QUOTING | NUMBERS:
            return True
        if name == "map" and _called(node.args[0]) in QUOTING:
            return True
        if name == "get" and isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name):
            return self._all((*self._values(node.func.value), *node.args[1:]))
        if isinstance(node.func, ast.Attribute) and name in KEEPING:
            return self.safe(node.func.value) and self._all(node.args)
        if name in GATHERING | {"enumerate"}:
            return self._all(one for one in node.args if not isinstance(one, ast.Lambda | ast.Name) or name != "map")
        known = self._named(node, properties=False)
        if not known and isinstance(node.func, ast.Name):  # a parameter
            given = self._assigned(node.func)
            return bool(given) and all(isinstance(one, ast.Lambda) and self.safe(one) for one in given)
        return bool(known) and all(map(self._returns_safe, known))

    def _named(self, node: Any, properties: bool) -> list[ast.FunctionDef]:
        """The functions, or properties, that are called so: in the same module, if it has one."""
        name = node.attr if properties else _called(node.func)
        found = [one for one in self._functions.get(name, []) if _is_property(one) == properties]
        if not properties and isinstance(node.func, ast.Name):
            found = [one for one in found if not _class_of(one)]
        here = [one for one in found if _module_of(one) is _module_of(node)]
        return here or found

    def _returns_safe(self, function: ast.FunctionDef) -> bool:
        if _is_number(function.returns):
            return True
        own = [node for node in ast.walk(function) if _function_of(node) is function]
        found = [node.value for node in own if isinstance(node, ast.Return | ast.Yield)]
        return bool(found) and self._all(found)

    def _safe_name(self, node: ast.Name) -> bool:
        if node.id.lstrip("_").isupper() and len(node.id) > 1:
            return True
        found = self._assigned(node)
        return bool(found) and self._all(found)

    def _assigned(self, node: ast.Name) -> list[Any]:
        """All that a name is bound to in its function, or in the one around it."""
        if (loops := _loops_around(node)) is not None:
            return [one for loop in loops for one in self._of_target(loop.target, loop.iter, node.id, loops=True)]
        found: list[Any] = []
        scope = _function_of(node)
        while scope is not None and not found:
            for one in self._binding(scope):
                found += self._bound(one, node.id)
            found += self._arguments(scope, node.id)
            scope = _function_of(scope)
        return found

    def _binding(self, scope: Any) -> list[ast.AST]:
        """What binds names in a function."""
        if scope not in self._scopes:
            kinds = ast.Assign | ast.AnnAssign | ast.AugAssign | ast.NamedExpr | ast.For | ast.Call
            self._scopes[scope] = [node for node in ast.walk(scope) if isinstance(node, kinds)]
        return self._scopes[scope]

    def _arguments(self, function: Function, name: str) -> list[Any]:
        """What all calls give for a parameter; a number is one."""
        for at, argument in enumerate(taken := [*function.args.posonlyargs, *function.args.args]):
            if argument.arg == name:
                if _is_number(argument.annotation):
                    return [ast.Constant(0)]
                if isinstance(function, ast.Lambda):
                    return [ast.Name(id="?")]
                shift = 1 if taken[0].arg in ("self", "cls") else 0
                called = function.name if function.name != "__init__" else function._parent.name  # type: ignore[attr-defined]
                calls = [call for call, tree in self._calls[called]]
                of_class = [call for call in calls if _receiver(call) == _class_of(function)]
                calls = of_class or [call for call in calls if _module_of(call) is _module_of(function)] or calls
                given = [call.args[at - shift] for call in calls if len(call.args) > at - shift]
                given += [one.value for call in calls for one in call.keywords if one.arg == name]
                return given or [ast.Name(id="?")]
        return []

    def _bound(self, node: ast.AST, name: str) -> list[Any]:
        if isinstance(node, ast.Assign):
            return [value for target in node.targets for value in self._of_target(target, node.value, name)]
        if isinstance(node, ast.AnnAssign | ast.AugAssign | ast.NamedExpr):
            return self._of_target(node.target, node.value, name) if node.value is not None else []
        if isinstance(node, ast.For):
            return self._of_target(node.target, node.iter, name, loops=True)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "append":
            return [*node.args] if isinstance(node.func.value, ast.Name) and node.func.value.id == name else []
        return []

    def _of_target(self, target: ast.expr, value: Any, name: str, loops: bool = False) -> list[Any]:
        """The value, or that of its parts which a name is bound to where the syntax tells."""
        if isinstance(target, ast.Name):
            return [value] if target.id == name else []
        if name not in {one.id for one in ast.walk(target) if isinstance(one, ast.Name)}:
            return []
        if not isinstance(target, ast.Tuple):
            return []
        parts = self._rows(value) if loops else [value]
        if parts and all(isinstance(row, ast.Tuple) and len(row.elts) == len(target.elts) for row in parts):
            pairs = [pair for row in parts for pair in zip(target.elts, row.elts, strict=True)]
            return [found for part, one in pairs for found in self._of_target(part, one, name)]
        return [value]

    def _resolved(self, node: Any) -> list[Any]:
        """What a name stands for, if it is one, through however many names."""
        found = self._assigned(node) if isinstance(node, ast.Name) else []
        return [last for one in found for last in self._resolved(one)] or [node]

    def _values(self, node: Any) -> list[Any]:
        """What an index may take out of it."""
        found = self._resolved(node)
        if found != [node]:
            return [value for one in found for value in self._values(one)]
        return [node.value] if isinstance(node, ast.DictComp) else node.values if isinstance(node, ast.Dict) else [node]

    def _rows(self, value: Any) -> list[Any]:
        """What a loop over it comes to, one after the other, where the syntax tells."""
        if isinstance(value, ast.Name):
            return [row for one in self._assigned(value) for row in self._rows(one)]
        if isinstance(value, ast.Tuple | ast.List):
            return value.elts
        if isinstance(value, ast.ListComp | ast.GeneratorExp):
            return [value.elt]
        name = _called(value.func) if isinstance(value, ast.Call) else ""
        if name == "enumerate":
            return [ast.Tuple([ast.Constant(0), value.args[0]])]
        if name == "zip":
            return [ast.Tuple([*value.args])]
        if name == "items" and isinstance(value.func.value, ast.Name):
            found = self._resolved(value.func.value)
            if all(isinstance(one, ast.DictComp) for one in found):
                return [ast.Tuple([one.key, one.value]) for one in found]
        return []


def _is_property(function: ast.FunctionDef) -> bool:
    return any("property" in ast.unparse(one) for one in function.decorator_list)


def _module_of(node: Any) -> Any:
    while (above := getattr(node, "_parent", None)) is not None:
        node = above
    return node


def _is_number(annotation: ast.expr | None) -> bool:
    return isinstance(annotation, ast.Name) and annotation.id in ("int", "bool")


def _loops_around(node: ast.Name) -> list[ast.comprehension] | None:
    """Those of the comprehension around a name that bind it; None if none does."""
    above: Any = node
    while (above := getattr(above, "_parent", None)) is not None and not isinstance(above, Function):
        loops = [
            one for one in getattr(above, "generators", ())
            if any(isinstance(part, ast.Name) and part.id == node.id for part in ast.walk(one.target))
        ]  # fmt: skip
        if loops:
            return loops
    return None


def _receiver(call: ast.Call) -> str:
    return _called(call.func.value).strip("_").lower() if isinstance(call.func, ast.Attribute) else "?"


def _class_of(function: Any) -> str:
    above = function._parent
    return above.name.lower() if isinstance(above, ast.ClassDef) else ""


def _called(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _function_of(node: Any) -> Any:
    node = getattr(node, "_parent", None)
    while node is not None and not isinstance(node, Function):
        node = getattr(node, "_parent", None)
    return node
