"""What the JVM is started with, as far as the machine decides it."""

from __future__ import annotations

import pytest

from exporter import spark

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
