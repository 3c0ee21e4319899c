"""The image as an executor: what its entrypoint starts takes part in a real application, as on Kubernetes."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from exporter.local.server import free_ports
from exporter.spark.jars import cache_folder
from tests.support.cluster import Master

pytestmark = [pytest.mark.long, pytest.mark.drill]

ROOT = Path(__file__).parents[2]
DRIVER = """
import sys
from exporter.core.deployment import Deployment
from exporter.executor.warm import pass_on
from exporter.spark import session as spark
there = Deployment(sys.argv[1], driver_host="127.0.0.1", driver_port=int(sys.argv[2]), options={"spark.jars": ""})
session = spark.start(there, "image")
print(session.sparkContext.applicationId, session.conf.get("spark.executor.extraJavaOptions"), flush=True)
print(session.range(3).mapInArrow(pass_on, "id bigint").toArrow().num_rows, flush=True)
"""


def test_what_the_entrypoint_starts_runs_the_tasks_of_a_driver() -> None:
    """The master has no worker: the only executor is the one that is told of the driver by Spark's variables."""
    (port,) = free_ports(1)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with (
        Master() as master,
        subprocess.Popen(
            [sys.executable, "-c", DRIVER, master.url, str(port)], stdout=subprocess.PIPE, text=True, env=environment
        ) as driver,
    ):
        try:
            assert driver.stdout is not None
            app, _, java = driver.stdout.readline().partition(" ")
            told = {f"SPARK_JAVA_OPT_{at}": word for at, word in enumerate(shlex.split(java))}
            told |= {
                "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
                "EXPORTER_CACHE_DIR": str(cache_folder("").parent), "SPARK_EXECUTOR_MEMORY": "512m",
                "SPARK_DRIVER_URL": f"spark://CoarseGrainedScheduler@127.0.0.1:{port}", "SPARK_EXECUTOR_ID": "1",
                "SPARK_EXECUTOR_CORES": "1", "SPARK_APPLICATION_ID": app, "SPARK_EXECUTOR_POD_IP": "127.0.0.1",
                "SPARK_RESOURCE_PROFILE_ID": "0", "SPARK_EXECUTOR_POD_NAME": "exec-1",
            }  # fmt: skip
            command = [str(ROOT / "deploy/docker/entrypoint.sh"), "executor"]
            with subprocess.Popen(command, env={**environment, **told}) as executor:
                try:
                    assert driver.stdout.readline() == "3\n"
                finally:
                    executor.kill()
        finally:
            driver.kill()
