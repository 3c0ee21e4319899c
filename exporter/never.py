"""The end of a `match` that is whole: mypy finds the kind that was forgotten. (typing's own is there from 3.11 on.)"""

from __future__ import annotations

from typing import NoReturn


def assert_never(value: NoReturn) -> NoReturn:
    """For a value that, by its type, cannot be there."""
    raise TypeError(f"nothing is said of {value!r}")
