"""What the JVM is started with, as far as the machine decides it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from exporter.errors import ConfigError
from exporter.lake.lake import require_same_names
from exporter.spark import session as spark

ASKED = "-XX:+UseTransparentHugePages"


@pytest.mark.parametrize(
    ("says", "asks"),
    [("always [madvise] never\n", True), ("always madvise [never]\n", False), ("[always] madvise never\n", False)],
)
def test_java_asks_for_huge_pages_where_they_are_given_to_whoever_asks(tmp_path, monkeypatch, says, asks):
    """Elsewhere it would write a warning to standard output, or ask in vain."""
    monkeypatch.setattr(spark, "HUGE_PAGES", tmp_path / "enabled")
    spark.HUGE_PAGES.write_text(says)
    assert (ASKED in spark._java_options(False, None, None)) == asks


def test_java_asks_for_none_where_the_system_does_not_tell(tmp_path, monkeypatch):
    """A system without them, or not Linux."""
    monkeypatch.setattr(spark, "HUGE_PAGES", tmp_path / "none")
    assert ASKED not in spark._java_options(False, None, None)


@pytest.mark.parametrize(
    ("python", "system", "expected"),
    [
        ("utf-8", "ANSI_X3.4-1968", {"LC_ALL": "C.UTF-8"}),
        ("utf-8", "ISO-8859-1", {"LC_ALL": "C.UTF-8"}),
        ("utf-8", "UTF-8", {}),
        ("iso8859-1", "ISO-8859-1", {}),
        ("ascii", "ANSI_X3.4-1968", {}),
    ],
)
def test_java_gets_a_locale_that_writes_names_as_python_does(python, system, expected):
    """Where both follow the system's, it is left alone."""
    assert spark.java_locale(python, system) == expected


@pytest.mark.parametrize(
    ("path", "encoding", "refused"),
    [("/data/lake", "ANSI_X3.4-1968", False), ("/data/sé", "UTF-8", False), ("/data/sé", "ANSI_X3.4-1968", True),
     ("/data/sé", "ISO-8859-1", True), ("/data/sé", "x-unheard-of", True)],
)  # fmt: skip
def test_a_root_that_java_would_write_otherwise_is_refused(path: str, encoding: str, refused: bool) -> None:
    """Exit 2 with what helps, not two folders of which one is an outage."""
    system = SimpleNamespace(getProperty=lambda name: encoding)
    session: Any = SimpleNamespace(_jvm=SimpleNamespace(java=SimpleNamespace(lang=SimpleNamespace(System=system))))
    if not refused:
        require_same_names(session, Path(path))
        return
    with pytest.raises(ConfigError, match="two folders") as caught:
        require_same_names(session, Path(path))
    assert "LC_ALL" in caught.value.hint
