"""Verbs as a person types them, on the session that tests share."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from exporter.cli import main as cli
from exporter.log import OURS
from tests.support.lakes import Export
from tests.support.sessions import Kept

Typed = Callable[..., tuple[int, str]]


@contextmanager
def typed_on(spark: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Typed]:
    """Types `exporter ...`: the exit code, and all that was printed and logged."""
    monkeypatch.setattr("exporter.spark.session._started", lambda *args, **kwargs: Kept(spark))
    monkeypatch.delenv("EXPORTER_TEST_KAFKA", raising=False)
    monkeypatch.delenv("EXPORTER_TEST_DYNAMODB", raising=False)
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level

    def type_(verb: str, e: Export, *flags: str) -> tuple[int, str]:
        capsys.readouterr()
        code = cli._exit_code(lambda: cli.cli([verb, "--config", str(e.write()), *flags], standalone_mode=False))
        return code, "".join(capsys.readouterr())

    yield type_
    gc.enable()  # a run that fails early leaves it off, as its process ends
    logging.captureWarnings(False)
    root.handlers[:] = handlers
    root.setLevel(level)
    for name in OURS:
        logging.getLogger(name).setLevel(logging.NOTSET)
