"""What each setting is for: the text that stands below it in its model, which is read where somebody asks for it.

pydantic would read them all at each start (`use_attribute_docstrings`), which takes a fourth longer than all the rest.
"""

from __future__ import annotations

import ast
import functools
import inspect
import sys
from collections.abc import Iterator, Mapping
from itertools import pairwise

from pydantic import BaseModel


@functools.cache
def said(model: type[BaseModel]) -> Mapping[str, str]:
    """Name of a setting -> its text in one line, of a model and of the parts that it is made of."""
    parts = [part for part in reversed(model.__mro__) if part.__module__.startswith(__package__)]
    return {name: text for part in parts for name, text in _below(part.__module__).get(part.__name__, {}).items()}


@functools.cache
def _below(module: str) -> Mapping[str, Mapping[str, str]]:
    """Class of a module -> its fields that have a text -> that text."""
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {one.name: dict(_texts(one)) for one in tree.body if isinstance(one, ast.ClassDef)}


def _texts(of: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for field, below in pairwise(of.body):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                yield name, " ".join(text.split())
