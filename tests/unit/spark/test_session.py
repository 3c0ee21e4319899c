"""What the JVM is started with, as far as the machine decides it."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.spark import session as spark
from exporter.stores.store import JavaSide

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


def test_a_session_is_made_with_what_the_store_s_commits_need(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its settings, and its jars beside Spark's own; a home that was prepared for it has them among Spark's."""
    monkeypatch.setattr(spark, "jar_paths", lambda name: [Path(f"/{name}.jar")])
    java = JavaSide({"spark.delta.logStore.x.impl": "X"}, jar_sets=("x",))
    options = spark._options("local[2]", "1g", None, java)
    assert options["spark.delta.logStore.x.impl"] == "X"
    assert options["spark.driver.extraClassPath"] == "/spark.jar:/x.jar"
    options = spark._options("local[2]", "1g", Path("/home"), java)
    assert options["spark.delta.logStore.x.impl"] == "X" and "spark.driver.extraClassPath" not in options
