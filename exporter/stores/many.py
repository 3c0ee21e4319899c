"""The same question about many: in an object store each is a request, so several are asked at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from exporter import threads

AT_ONCE = 8

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")


def each(ask: Callable[[Asked], Answer], of: Sequence[Asked]) -> list[Answer]:
    """The answers, in order. Raises what the first one raises that cannot be given."""
    if len(of) < 2:
        return [ask(one) for one in of]
    with threads.pool(min(AT_ONCE, len(of)), "ask") as pool:
        return [*pool.map(ask, of)]
