"""The jar cache: what is taken from it, what is fetched, what is refused. A script stands in for java and Ivy."""

from __future__ import annotations

import configparser
import hashlib
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from exporter.errors import ConfigError, DependencyUnreachable
from exporter.spark import jars
from exporter.spark.jars import Jar

CONTENT = {"one": b"first jar", "two": b"second jar", "three": b"third jar"}

LIST = [
    Jar("a", "org.one", "one", "1.0", hashlib.sha256(CONTENT["one"]).hexdigest()),
    Jar("a", "org.two", "two", "2.0", hashlib.sha256(CONTENT["two"]).hexdigest()),
    Jar("b", "org.one", "one", "1.0", hashlib.sha256(CONTENT["one"]).hexdigest()),
    Jar("b", "org.three", "three", "3.0", hashlib.sha256(CONTENT["three"]).hexdigest()),
]

IVY_STANDIN = """
import pathlib, sys, xml.etree.ElementTree as tree
arguments = dict(zip(sys.argv[1:], sys.argv[2:]))
content = CONTENT
for one in tree.parse(arguments["-ivy"]).iter("dependency"):
    path = arguments["-retrieve"].replace("[artifact]", one.get("name")).replace("[revision]", one.get("rev"))
    path = pathlib.Path(path.replace("(-[classifier])", "").replace("[ext]", "jar"))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content[one.get("name")])
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache and a short list of jars; no java at all unless a test makes one."""
    monkeypatch.setenv("EXPORTER_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(jars, "all_listed", lambda: LIST)
    monkeypatch.setattr(jars, "spark_minor", lambda: "4.0")
    return tmp_path


def make_java(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str, release: str | None = "17.0.15") -> Path:
    """A java command that runs a Python script; `release` is what the file of this name says."""
    home = folder / "java"
    (home / "bin").mkdir(parents=True)
    java = home / "bin" / "java"
    java.write_text(f"#!{sys.executable}\n{script}", "utf-8")
    java.chmod(0o755)
    if release is not None:
        (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{release}"\n', "utf-8")
    monkeypatch.setenv("JAVA_HOME", str(home))
    return java


def left_behind(folder: Path) -> list[str]:
    """Files and folders in the cache that are neither jars nor the note."""
    names = [path.name for path in (folder / "cache").rglob("*") if path.parent.parent.name == "jars"]
    return [name for name in names if not name.endswith(".jar") and name != "verified.txt"]


def test_the_list_names_each_jar_of_a_set_once_with_a_whole_sha256() -> None:
    """jars.txt can be read, and no set holds two versions of one artifact."""
    listed = jars.all_listed()
    sets = {"spark", "kafka", "s3", "azure", "azurite", "gcs", "broker", "dynamodb", "registry", "hdfs"}
    assert {jar.set_name for jar in listed} == sets
    assert all(re.fullmatch("[0-9a-f]{64}", jar.sha256) for jar in listed)
    for spark in jars.JAVA_MAJOR_MAX:
        of_it = [jar for jar in listed if jar.spark in ("", spark)]
        assert {jar.set_name for jar in of_it} == sets
        assert len({(jar.set_name, jar.group, jar.artifact) for jar in of_it}) == len(of_it)


def test_delta_is_of_one_version_in_java_and_in_python() -> None:
    """What its package calls in the JVM is what its jar has."""
    config = configparser.ConfigParser()
    config.read(Path(__file__).parents[3] / "setup.cfg")
    required = config["options"]["install_requires"].split("\n")
    versions = {jar.version for jar in jars.all_listed() if jar.group == "io.delta"}
    assert [f"delta-spark=={version}" for version in versions] == [one for one in required if "delta" in one]
    assert [one.partition("<=")[2] for one in required if one.startswith("pyspark")] == [jars.NEWEST_PYSPARK]


def test_no_set_of_a_session_holds_a_jar_that_pyspark_ships() -> None:
    """Two copies of one library on a class path are a fault that shows late."""
    shipped = {re.sub(r"-\d.*", "", path.name) for path in jars._ivy_jar().parent.glob("*.jar")}
    assert "hadoop-client-api" in shipped
    assert not shipped & {jar.artifact for name in ("spark", "kafka") for jar in jars.listed(name)}


def test_ivy_is_asked_for_the_listed_jars_and_for_nothing_they_depend_on() -> None:
    """Every dependency of the Ivy file is one line of the list and not transitive."""
    asked = list(ElementTree.fromstring(jars.ivy_file(LIST[:2])).iter("dependency"))
    assert [(one.get("name"), one.get("rev")) for one in asked] == [("one", "1.0"), ("two", "2.0")]
    assert {one.get("transitive") for one in asked} == {"false"}


def test_a_classifier_is_asked_for_and_stands_in_the_name() -> None:
    """Maven's way to tell several files of one artifact apart."""
    (server,) = jars.listed("registry")
    assert server.file_name == f"apicurio-registry-app-{server.version}-all.tar.gz"
    (artifact,) = ElementTree.fromstring(jars.ivy_file([server])).iter("artifact")
    assert artifact.attrib == {
        "name": "apicurio-registry-app", "type": "tar.gz", "ext": "tar.gz",
        "{urn:maven}classifier": "all",
    }  # fmt: skip


def test_a_set_is_fetched_into_the_cache_and_then_needs_neither_java_nor_network(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After one fetch the java command may be gone."""
    java = make_java(folder, monkeypatch, IVY_STANDIN.replace("CONTENT", repr(CONTENT)))
    jars.fetch("a", "b")
    java.unlink()
    assert [path.read_bytes() for path in jars.jar_paths("a")] == [CONTENT["one"], CONTENT["two"]]
    assert [path.read_bytes() for path in jars.jar_paths("b")] == [CONTENT["one"], CONTENT["three"]]
    assert left_behind(folder) == []


def test_a_jar_with_another_sha256_never_reaches_the_cache(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A changed download ends the fetch, and nothing of the set is kept."""
    make_java(folder, monkeypatch, IVY_STANDIN.replace("CONTENT", repr(CONTENT | {"two": b"changed"})))
    with pytest.raises(DependencyUnreachable, match=r"two-2\.0\.jar has SHA-256"):
        jars.jar_paths("a")
    assert jars.missing("a") == LIST[:2]
    assert left_behind(folder) == []


def test_an_unreachable_registry_is_a_dependency_unreachable(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit code 69, Ivy's own words, and a hint that names the folder to copy to."""
    make_java(folder, monkeypatch, "print('loading'); print('Server access error at x'); raise SystemExit(1)")
    with pytest.raises(DependencyUnreachable, match="Server access error at x") as caught:
        jars.jar_paths("a")
    assert caught.value.exit_code == 69
    assert str(folder / "cache") in caught.value.hint
    assert left_behind(folder) == []


def test_two_processes_that_fetch_at_once_both_find_whole_jars(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither sees a jar half written, whichever renames last."""
    make_java(folder, monkeypatch, IVY_STANDIN.replace("CONTENT", repr(CONTENT)))
    script = (
        "import sys; from exporter.spark import jars; "
        "jars.all_listed = lambda: [jars.Jar(*l.split()) for l in sys.argv[1:]]"
    )
    script += "; print(sum(len(path.read_bytes()) for path in jars.jar_paths('a')))"
    lines = [f"{jar.set_name} {jar.group} {jar.artifact} {jar.version} {jar.sha256}" for jar in LIST]
    command = [sys.executable, "-c", script, *lines]
    racers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=jars_root()) for _ in range(4)]
    whole = len(CONTENT["one"]) + len(CONTENT["two"])
    assert [racer.communicate(timeout=60)[0] for racer in racers] == [f"{whole}\n"] * 4
    assert left_behind(folder) == []


def jars_root() -> Path:
    """The folder from which `exporter` can be imported."""
    return Path(jars.__file__).parents[2]


def test_a_jar_copied_into_the_cache_by_hand_is_taken_if_it_is_the_right_one(folder: Path) -> None:
    """Machines without network are served by copying; a wrong or cut jar still counts as missing."""
    place = jars.cache_folder("a")
    place.mkdir(parents=True)
    (place / "one-1.0.jar").write_bytes(CONTENT["one"])
    (place / "two-2.0.jar").write_bytes(CONTENT["two"][:-1])
    assert [jar.artifact for jar in jars.missing("a")] == ["two"]
    (place / "two-2.0.jar").write_bytes(CONTENT["two"])
    assert jars.jar_paths("a") == [place / "one-1.0.jar", place / "two-2.0.jar"]


def test_a_jar_that_changed_its_size_after_the_check_is_missing(folder: Path) -> None:
    """A disk that filled up or a copy that broke is noticed without reading every jar at each start."""
    place = jars.cache_folder("a")
    place.mkdir(parents=True)
    for jar in jars.listed("a"):
        (place / jar.file_name).write_bytes(CONTENT[jar.artifact])
    assert jars.missing("a") == []
    (place / "one-1.0.jar").write_bytes(b"")
    assert [jar.artifact for jar in jars.missing("a")] == ["one"]


def test_a_cache_that_cannot_be_written_is_a_configuration_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hint names the setting that moves the cache."""
    make_java(folder, monkeypatch, "")
    (folder / "cache").write_text("a file where the folder should be", "utf-8")
    with pytest.raises(ConfigError) as caught:
        jars.jar_paths("a")
    assert "EXPORTER_CACHE_DIR" in caught.value.hint


def test_an_unknown_set_is_a_configuration_error(folder: Path) -> None:
    """The hint lists the known ones."""
    with pytest.raises(ConfigError, match="'c'") as caught:
        jars.jar_paths("c")
    assert caught.value.hint.endswith("a, b")


def test_two_sets_never_share_an_ivy_process() -> None:
    """Ivy would keep one version only of a jar that both list."""
    groups = [group for name in ("spark", "broker") for group in jars.in_groups(jars.listed(name))]
    assert all(len({jar.set_name for jar in group}) == 1 for group in groups)
    assert [jar for group in groups for jar in group] == [*jars.listed("spark"), *jars.listed("broker")]


@pytest.mark.parametrize("release", ["17.0.15", "21", "21.0.2", "23.0.1"])
def test_a_java_that_spark_runs_on_is_found(folder: Path, monkeypatch: pytest.MonkeyPatch, release: str) -> None:
    """JAVA_HOME is taken, and its release file is believed without starting it."""
    java = make_java(folder, monkeypatch, "raise SystemExit(9)", release)
    assert jars.find_java() == java


@pytest.mark.parametrize("release", ["1.8.0_412", "11.0.22", "16", "24", "25.0.1"])
def test_a_java_that_spark_does_not_run_on_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, release: str
) -> None:
    """Exit code 2 with a hint how to install another one."""
    make_java(folder, monkeypatch, "", release)
    with pytest.raises(ConfigError, match="Java 17 to 23") as caught:
        jars.find_java()
    assert "install Java 17" in caught.value.hint


def test_a_later_spark_runs_on_a_later_java(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hadoop 3.5, which it brings, asks for nothing that Java took away."""
    java = make_java(folder, monkeypatch, "", "25.0.1")
    monkeypatch.setattr(jars, "spark_minor", lambda: "4.2")
    assert jars.find_java() == java


def test_a_spark_that_nothing_is_known_of_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its jars are not listed; the hint names the newest one that is."""
    monkeypatch.setattr(jars, "version", lambda package: "4.3.0")
    with pytest.raises(ConfigError, match=r"pyspark 4.3.0 is installed; known are 4.0, 4.1, 4.2") as caught:
        jars.spark_minor.__wrapped__()
    assert caught.value.hint == f"pip install 'pyspark=={jars.NEWEST_PYSPARK}'"


def test_a_java_without_a_release_file_is_asked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some packagers leave the file out; `java -version` writes to stderr."""
    script = "import sys; print('openjdk version \"21.0.2\" 2024-01-16', file=sys.stderr)"
    java = make_java(folder, monkeypatch, script, release=None)
    assert jars.find_java() == java


def test_no_java_is_a_configuration_error_with_a_hint(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither PATH nor JAVA_HOME, or a JAVA_HOME without java, or a java that does not run."""
    with pytest.raises(ConfigError, match="not found on PATH") as caught:
        jars.find_java()
    assert "install Java 17" in caught.value.hint
    monkeypatch.setenv("JAVA_HOME", str(folder / "nowhere"))
    with pytest.raises(ConfigError, match="cannot be executed"):
        jars.find_java()
    make_java(folder, monkeypatch, "raise SystemExit(1)", release=None)
    with pytest.raises(ConfigError, match="does not run"):
        jars.find_java()
