"""msgspec's types, made while the program runs: type checkers are not to look into them."""

from __future__ import annotations

from types import GenericAlias
from typing import Any

import msgspec


def or_null(spec: Any) -> Any:
    """The same, or null; Raw takes null anyway."""
    return spec if spec is msgspec.Raw else spec | None


def list_of(item: Any) -> Any:
    """An array of such values."""
    return GenericAlias(list, (item,))


def dict_of(item: Any) -> Any:
    """An object of such values, with any keys."""
    return GenericAlias(dict, (str, item))
