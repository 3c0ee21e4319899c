"""What a session is started with, on this machine and on a cluster, and what of it a user may say."""

from __future__ import annotations

from dataclasses import replace

import pytest

from exporter.core.deployment import FIXED, OWN, SETTINGS, TUNED, Deployment, refusal
from exporter.spark.batches import SIZES

NEEDED = {"spark.delta.logStore.x.impl": "X", "spark.hadoop.x": "y"}
JARS = ["/spark.jar", "/x.jar"]
CLUSTER = Deployment("spark://m:7077", "2g", "exporter-driver", 7078, "./env/bin/python", "e.tar.gz#env")
REACHED = {
    "spark.driver.host": "exporter-driver",
    "spark.driver.bindAddress": "0.0.0.0",
    "spark.driver.port": "7078",
    "spark.driver.blockManager.port": "7079",
    "spark.archives": "e.tar.gz#env",
}


def test_executors_of_a_cluster_get_the_jars_and_a_way_back_to_the_driver() -> None:
    """Those of the store too: they read the tables' logs. A task is tried again where a machine failed it."""
    options = CLUSTER.spark_options(JARS, NEEDED)
    assert options.items() >= {**REACHED, **NEEDED}.items()
    assert options["spark.jars"] == "/spark.jar,/x.jar"
    assert options["spark.driver.extraClassPath"] == "/spark.jar:/x.jar"
    assert options["spark.task.maxFailures"] == "4"
    assert options["spark.python.daemon.module"] == "exporter.executor.daemon"


def test_what_is_said_of_a_cluster_does_not_count_on_this_machine() -> None:
    """So that a verb may run here by the settings of tasks that run there."""
    options = replace(CLUSTER, master="local[2]").spark_options(JARS, NEEDED)
    assert options["spark.driver.host"] == options["spark.driver.bindAddress"] == "127.0.0.1"
    assert not options.keys() & {"spark.driver.port", "spark.driver.blockManager.port", "spark.archives", "spark.jars"}


def test_what_is_not_said_is_left_to_spark() -> None:
    """The driver's address and ports among it, and the class path where nothing is missing."""
    options = Deployment("yarn").spark_options([], {})
    assert not options.keys() & {*REACHED, "spark.driver.extraClassPath"}


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
def test_a_driver_on_this_machine_listens_on_it_alone(host: str) -> None:
    """Another address may be that of a machine in front of it, which is none of its own."""
    options = Deployment("spark://m:7077", driver_host=host).spark_options([], {})
    assert options["spark.driver.bindAddress"] == host


def test_options_are_passed_on_and_win_over_what_is_for_speed() -> None:
    """Executors whose image has the jars need not fetch them."""
    given = {"spark.executor.memory": "3g", "spark.jars": "", "spark.task.maxFailures": "8", "spark.ui.enabled": "true"}
    given |= {"spark.driver.bindAddress": "10.0.0.1"}
    assert replace(CLUSTER, options=given).spark_options(JARS, NEEDED).items() >= given.items()


def test_what_the_export_rests_on_is_not_an_option() -> None:
    """Nor what has a setting of its own; the reason says what to do."""
    for name in (*FIXED, *OWN, *NEEDED, *SIZES, "spark.delta.logStore.y.impl"):
        assert "rests on" in refusal(name, NEEDED)
    for name, setting in SETTINGS.items():
        assert refusal(name, NEEDED) == f"use the setting {setting}"
    for name in (*TUNED, "spark.executor.memory", "spark.kubernetes.namespace", "spark.hadoop.dfs.nameservices"):
        assert refusal(name, NEEDED) == ""


def test_every_option_that_is_given_is_either_refused_or_gives_way() -> None:
    """None is silently overwritten by ours."""
    options = CLUSTER.spark_options(JARS, NEEDED)
    passed = {name: "theirs" for name in options if not refusal(name, NEEDED)}
    assert replace(CLUSTER, options=passed).spark_options(JARS, NEEDED).items() >= passed.items()


@pytest.mark.parametrize(
    "name", ["fs.s3a.access.key", "fs.s3a.bucket.lake.secret.key", "fs.azure.account.key.a.dfs.core.windows.net"]
)
def test_no_credentials_of_a_store_stand_in_settings(name: str) -> None:
    """Python would not have them, and a file of settings is read by many."""
    assert "standard chain" in refusal(f"spark.hadoop.{name}", ())


@pytest.mark.parametrize(("name", "begin"), [("executor.memory", "spark."), ("fs.s3a.threads.max", "spark.hadoop.")])
def test_an_option_that_spark_would_not_see_is_none(name: str, begin: str) -> None:
    """Spark takes no others, Hadoop's behind a word of its own."""
    assert refusal(name, ()) == f"should begin with {begin}"
