"""What the JVM is started with, as far as the machine decides it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from exporter.core.deployment import PAGES, Deployment
from exporter.secrets import MASK, masked
from exporter.spark import session as spark
from exporter.stores.store import JavaSide
from exporter.stores.stores import open_store

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


@pytest.fixture
def prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jars that nobody fetches, and an environment that is put right again."""
    monkeypatch.setattr(spark, "jar_paths", lambda name: [Path(f"/{name}.jar")])
    for name in ("JAVA_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_HOME", "LC_ALL", *PAGES):
        monkeypatch.setenv(name, os.environ.get(name, ""))


@pytest.mark.usefixtures("prepared")
def test_a_session_is_made_with_what_the_store_s_commits_need(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its settings, and its jars beside Spark's own: behind all others where Spark is prepared."""
    java = JavaSide({"spark.delta.logStore.x.impl": "X"}, jar_sets=("x",))
    for home, first, last in (None, "/spark.jar:/x.jar", ""), (Path("/home"), None, "/x.jar"):
        monkeypatch.setenv(spark.LAST_JARS, "")
        monkeypatch.setattr(spark.class_data, "ready", lambda home=home: home)
        options = spark._prepared(Deployment("local[2]"), java)
        assert options["spark.delta.logStore.x.impl"] == "X" and options.get("spark.driver.extraClassPath") == first
        assert os.environ[spark.LAST_JARS] == last
    options = spark._prepared(Deployment("local[2]"), replace(java, jars_first=True))
    assert options["spark.driver.extraClassPath"] == "/x.jar", "what stands for some of Spark's own"


@pytest.mark.usefixtures("prepared")
@pytest.mark.parametrize(
    "root, sets", [("file:///lake", ["spark"]), ("s3://lake/tables", ["spark", "s3"])], ids=["file", "s3"]
)
def test_jars_of_a_store_are_fetched_for_that_store_only(
    monkeypatch: pytest.MonkeyPatch, root: str, sets: list[str]
) -> None:
    """Nobody waits for megabytes that their tables do not need."""
    asked: list[str] = []
    monkeypatch.setattr(spark.class_data, "ready", lambda: None)
    monkeypatch.setattr(spark, "jar_paths", lambda name: asked.append(name) or [])
    spark._prepared(Deployment("local[2]"), open_store(root, {"region": "r"}).java)
    assert asked == sets


@pytest.mark.usefixtures("prepared")
def test_a_task_has_no_client_of_kafka_in_its_jvm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its workers read. What the export is measured beside has one."""
    started: list[str] = []

    def start(_: Deployment, name: str, options: Mapping[str, str], java: JavaSide) -> None:
        started.append(options["spark.driver.extraClassPath"])

    monkeypatch.setattr(spark.class_data, "ready", lambda: None)
    monkeypatch.setattr(spark, "_started", start)
    spark.starting(Deployment("local[2]"), "run")()
    spark.start(Deployment("local[2]"), "structured", kafka=True)
    assert started == ["/spark.jar", "/spark.jar:/kafka.jar"]


@pytest.mark.usefixtures("prepared")
def test_workers_of_a_cluster_have_their_own_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those on this machine have this one, whatever is said of a cluster's; a prepared home is for this machine."""
    monkeypatch.setattr(spark.class_data, "ready", lambda: Path("/home"))
    cluster = Deployment("spark://m:7077", worker_python="./env/bin/python")
    assert spark._prepared(cluster)["spark.jars"] == "/spark.jar"
    assert os.environ["PYSPARK_PYTHON"] == "./env/bin/python"
    for one in (Deployment("yarn"), replace(cluster, master="local[2]")):
        spark._prepared(one)
        assert os.environ["PYSPARK_PYTHON"] == os.environ["PYSPARK_DRIVER_PYTHON"] == sys.executable


@pytest.mark.usefixtures("prepared")
def test_a_secret_among_the_options_is_masked_from_then_on() -> None:
    """In whatever Spark quotes of it. Its command line does not have it (SECRET)."""
    spark._prepared(Deployment("yarn", options={"spark.ssl.keyPassword": "hunter2-of-spark"}))
    assert masked("no: hunter2-of-spark") == f"no: {MASK}"
