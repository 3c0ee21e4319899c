"""deploy/kubernetes and the image as an executor: names, ports and accounts agree; Spark knows its options."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from exporter.cli.main import cli
from exporter.monitor.health import ENDPOINTS, START_SECS_MAX
from exporter.settings.load import load
from exporter.settings.model import Settings

DEPLOY = Path(__file__).parents[2] / "deploy"
STOP_MARGIN_SECS = 15.0
"""What leaving the group and ending the JVM may take beyond stop_budget_secs."""
POD = "10.1.2.3"
VOLUMES = {"configMap", "emptyDir", "secret", "persistentVolumeClaim"}
"""Of those that the security level allows."""


KUSTOMIZE = shutil.which("kustomize")
if KUSTOMIZE is None:
    pytest.skip("kustomize, which makes the manifests, is not on PATH", allow_module_level=True)
VARIANTS = ("base", "s3", "coordinated", "derive")


def manifests(variant: str) -> dict[tuple[str, str], dict[str, Any]]:
    """(kind, name) -> manifest, as kustomize makes them; a ConfigMap's name without the hash of what is in it."""
    command = [str(KUSTOMIZE), "build", str(DEPLOY / "kubernetes" / variant)]
    made = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for one in yaml.safe_load_all(made):
        kind, name = one["kind"], one["metadata"]["name"]
        key = kind, name.rpartition("-")[0] if kind == "ConfigMap" else name
        assert key not in found
        found[key] = one
    return found


ALL = {variant: manifests(variant) for variant in VARIANTS}
MANIFESTS = ALL["s3"]
POD_SPEC = MANIFESTS["Deployment", "exporter"]["spec"]["template"]["spec"]
(CONTAINER,) = POD_SPEC["containers"]
PORTS = {port["name"]: port["containerPort"] for port in CONTAINER["ports"]}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """What the task's command line and environment make of the settings."""
    command = cli.commands[CONTAINER["args"][0]]
    config = command.make_context("run", CONTAINER["args"][1:]).params["config"]
    (mount,) = [one for one in CONTAINER["volumeMounts"] if one["mountPath"] == str(config.parent)]
    (volume,) = [one for one in POD_SPEC["volumes"] if one["name"] == mount["name"]]
    path = tmp_path / config.name
    assert volume["configMap"]["name"] == MANIFESTS["ConfigMap", "exporter"]["metadata"]["name"]
    path.write_text(MANIFESTS["ConfigMap", "exporter"]["data"][config.name])
    image = re.search(r"^ENV (EXPORTER_HTTP.*?)(?<!\\)$", (DEPLOY / "docker/Dockerfile").read_text(), re.M | re.S)
    assert image
    environment = dict(re.findall(r"(\w+)=(\S+)", image[1]))
    address, password = (one["valueFrom"] for one in CONTAINER["env"])
    assert address == {"fieldRef": {"fieldPath": "status.podIP"}} and password["secretKeyRef"]["optional"]
    return load(path, {}, {**environment, CONTAINER["env"][0]["name"]: POD})


@pytest.mark.parametrize("variant", VARIANTS)
def test_each_variant_is_what_kubernetes_takes(variant: str, tmp_path: Path) -> None:
    """By the schemas of its API, strictly: no unknown field."""
    for one in ALL[variant].values():
        kubernetes_validate.validate(one, kubernetes_validate.latest_version(), strict=True)


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_settings_of_each_variant_are_good(variant: str, tmp_path: Path) -> None:
    """As its tasks get them: the file, and what their environment says beside it."""
    path = tmp_path / "exporter.toml"
    path.write_text(ALL[variant]["ConfigMap", "exporter"]["data"][path.name])
    tasks = {name: one["spec"]["template"]["spec"]["containers"][0] for (kind, name), one in ALL[variant].items()
             if kind == "Deployment"}  # fmt: skip
    assert set(tasks) == {"exporter"} | ({"exporter-derive"} if variant == "derive" else set())
    for task in tasks.values():
        told = {one["name"]: one.get("value", POD) for one in task["env"] if "secretKeyRef" not in str(one)}
        settings = load(path, {}, told)
        assert settings.commit_mode == ("coordinated" if variant == "coordinated" else "own")
        assert settings.spark_master.startswith("k8s://") == (variant != "base")
        assert settings.table_root.startswith("file:///lake" if variant == "base" else "s3")
        *verb, flag, file = task["args"]
        assert (flag, file) == ("--config", f"/etc/exporter/{path.name}")
        assert verb in (["run"], ["derive", "run"])


def test_executors_and_probes_reach_the_task(settings: Settings) -> None:
    """By its address, on the ports that its pod opens; a stop has the time that it needs."""
    assert settings.spark_master.startswith("k8s://")
    assert settings.driver_host == POD
    assert {"http": settings.http_port, "driver": settings.driver_port, "blocks": settings.driver_port + 1} == PORTS
    assert POD_SPEC["terminationGracePeriodSeconds"] >= settings.stop_budget_secs + STOP_MARGIN_SECS
    annotations = MANIFESTS["Deployment", "exporter"]["spec"]["template"]["metadata"]["annotations"]
    assert annotations["prometheus.io/port"] == str(settings.http_port)


def test_a_hung_task_is_ended_and_one_in_an_outage_is_not() -> None:
    """Only /healthz restarts a task, and not before a start may be over; /readyz says whether to send work."""
    probes = {name: CONTAINER[name]["httpGet"] for name in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert {name: probe["path"] for name, probe in probes.items()} == {
        "startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": "/readyz"
    }  # fmt: skip
    assert {probe["port"] for probe in probes.values()} == {"http"}
    assert {probe["path"] for probe in probes.values()} <= set(ENDPOINTS)
    start = CONTAINER["startupProbe"]
    assert start["periodSeconds"] * start["failureThreshold"] >= START_SECS_MAX


def test_the_driver_may_make_its_executors_and_they_are_of_its_image(settings: Settings) -> None:
    """Accounts, role and binding are there under the names that others call them by."""
    binding = MANIFESTS["RoleBinding", "exporter"]
    assert ("Role", binding["roleRef"]["name"]) in MANIFESTS
    assert [one["name"] for one in binding["subjects"]] == [POD_SPEC["serviceAccountName"]]
    assert ("ServiceAccount", POD_SPEC["serviceAccountName"]) in MANIFESTS
    account = settings.spark["spark.kubernetes.authenticate.executor.serviceAccountName"]
    assert "eks.amazonaws.com/role-arn" in MANIFESTS["ServiceAccount", account]["metadata"]["annotations"]
    assert settings.spark["spark.kubernetes.container.image"] == CONTAINER["image"]
    namespaces = {one["metadata"]["namespace"] for one in MANIFESTS.values()}
    assert namespaces == {settings.spark["spark.kubernetes.namespace"]}
    rules = {kind: rule["verbs"] for rule in MANIFESTS["Role", "exporter"]["rules"] for kind in rule["resources"]}
    assert {"create", "get", "list", "watch", "delete", "deletecollection"} <= {*rules["pods"]}


def test_a_pod_gets_no_variables_of_services() -> None:
    """A Service named exporter would give it EXPORTER_PORT and the like."""
    assert POD_SPEC["enableServiceLinks"] is False


def executor_spec(settings: Settings) -> dict[str, Any]:
    """Of the pods that Spark makes: the template that it is told, where the task finds it."""
    folder, _, name = settings.spark["spark.kubernetes.executor.podTemplateFile"].rpartition("/")
    assert folder in [one["mountPath"] for one in CONTAINER["volumeMounts"]]
    spec: dict[str, Any] = yaml.safe_load(MANIFESTS["ConfigMap", "exporter"]["data"][name])["spec"]
    return spec


def test_all_pods_pass_the_restricted_security_level(settings: Settings) -> None:
    """The task's and its executors': what Kubernetes' Pod Security Standards ask for there, one by one."""
    tasks = [one["spec"]["template"]["spec"] for made in ALL.values() for one in made.values()
             if one["kind"] == "Deployment"]  # fmt: skip
    for spec in (*tasks, executor_spec(settings)):
        of_pod = spec["securityContext"]
        assert of_pod["runAsNonRoot"] is True and of_pod["runAsUser"] > 0
        assert of_pod["seccompProfile"]["type"] in ("RuntimeDefault", "Localhost")
        assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()
        assert all(set(one) - {"name"} <= VOLUMES for one in spec.get("volumes", ()))
        for one in spec["containers"]:
            assert one["securityContext"]["allowPrivilegeEscalation"] is False
            assert one["securityContext"]["capabilities"] == {"drop": ["ALL"]}
            assert not one["securityContext"].get("privileged")
    assert executor_spec(settings)["securityContext"]["runAsUser"] == POD_SPEC["securityContext"]["runAsUser"]


def test_a_drain_of_nodes_takes_one_task_at_a_time() -> None:
    """By the labels that the pods have."""
    budget = MANIFESTS["PodDisruptionBudget", "exporter"]["spec"]
    labels = MANIFESTS["Deployment", "exporter"]["spec"]["template"]["metadata"]["labels"]
    assert budget == {"maxUnavailable": 1, "selector": {"matchLabels": labels}}


def test_a_pod_runs_as_the_image_s_user_without_rights() -> None:
    """It writes to /tmp alone."""
    dockerfile = (DEPLOY / "docker/Dockerfile").read_text()
    assert f"USER {POD_SPEC['securityContext']['runAsUser']}\n" in dockerfile
    assert CONTAINER["securityContext"]["readOnlyRootFilesystem"] is True
    assert "/tmp" in [one["mountPath"] for one in CONTAINER["volumeMounts"]]


def constants(jar: str, *classes: str) -> bytes:
    """The bytes of classes of a jar of Spark's; texts stand in them as they are."""
    home = Path(find_spec("pyspark").submodule_search_locations[0])  # type: ignore[union-attr,index]
    (path,) = (home / "jars").glob(f"{jar}_*.jar")
    with zipfile.ZipFile(path) as archive:
        return b"".join(archive.read(f"org/apache/spark/{name}.class") for name in classes)


def test_spark_knows_every_option_and_every_variable(settings: Settings) -> None:
    """A misspelt one would be ignored in silence. Some names are put together of two texts."""
    known = constants("spark-core", "internal/config/package$")
    known += constants("spark-kubernetes", "deploy/k8s/Config$", "deploy/k8s/Constants$")
    for name in settings.spark:
        assert name.encode() in known or name.rpartition(".")[0].encode() in known, name
    script = (DEPLOY / "docker/entrypoint.sh").read_text()
    for name in set(re.findall(r"\bSPARK_[A-Z_]+", script)):
        assert name.encode() in known, name
    backend = constants("spark-kubernetes", "scheduler/cluster/k8s/KubernetesExecutorBackend$")
    for flag in re.findall(r"--[a-zA-Z-]+(?= )", script):
        assert flag.encode() in backend, flag


def test_the_image_starts_an_executor_as_spark_asks_for_it(tmp_path: Path) -> None:
    """With each of its Java options whole and in order, the jars of the image behind what Spark adds to the path."""
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text('#!/bin/sh\nfor word in "$@"; do printf "%s\\n" "$word"; done\n')
    java.chmod(0o755)
    for name in ("spark", "s3"):
        (tmp_path / "cache" / "jars" / name).mkdir(parents=True)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    told = {f"SPARK_JAVA_OPT_{at}": f"-Dnumber={at} of 12" for at in range(12)}
    told |= {
        "JAVA_HOME": str(tmp_path), "EXPORTER_CACHE_DIR": str(tmp_path / "cache"), "SPARK_CONF_DIR": "/opt/spark/conf",
        "SPARK_CLASSPATH": "/more/*", "SPARK_EXECUTOR_MEMORY": "1g", "SPARK_DRIVER_URL": "spark://d@10.1.2.3:7078",
        "SPARK_EXECUTOR_ID": "3", "SPARK_EXECUTOR_CORES": "2", "SPARK_APPLICATION_ID": "spark-1",
        "SPARK_EXECUTOR_POD_IP": "10.1.2.4", "SPARK_RESOURCE_PROFILE_ID": "0", "SPARK_EXECUTOR_POD_NAME": "exec-3",
    }  # fmt: skip
    command = [str(DEPLOY / "docker/entrypoint.sh"), "executor"]
    ran = subprocess.run(command, env={"PATH": path, **told}, capture_output=True, text=True, check=True)
    words = ran.stdout.splitlines()
    assert words[:14] == [*(told[f"SPARK_JAVA_OPT_{at}"] for at in range(12)), "-Xms1g", "-Xmx1g"]
    conf, more, spark, *ours = words[words.index("-cp") + 1].split(":")
    assert (conf, more) == ("/opt/spark/conf", "/more/*") and spark.endswith("/pyspark/jars/*")
    assert {*ours} == {f"{tmp_path}/cache/jars/{name}/*" for name in ("spark", "s3")}
    rest = words[words.index("-cp") + 2 :]
    assert rest[0].endswith(".KubernetesExecutorBackend")
    assert dict(zip(rest[1::2], rest[2::2], strict=True)) == {
        "--driver-url": "spark://d@10.1.2.3:7078", "--executor-id": "3", "--cores": "2", "--app-id": "spark-1",
        "--hostname": "10.1.2.4", "--resourceProfileId": "0", "--podName": "exec-3",
    }  # fmt: skip
