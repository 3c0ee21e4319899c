"""What starts the workers ahead of the first round."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def pass_on(batches: Iterator[Any]) -> Iterator[Any]:
    """Sent by name: a worker that runs it has imported this module and all that staging needs."""
    return batches
