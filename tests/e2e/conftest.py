"""What end-to-end tests share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.typed import Typed, typed_on


@pytest.fixture
def typed(spark: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Typed]:
    """Types verbs as a person does: typed("run", export, "--until-caught-up") -> exit code, what was said."""
    with typed_on(spark, monkeypatch, capsys) as types:
        yield types
