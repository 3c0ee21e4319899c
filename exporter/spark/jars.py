"""The jars that pip does not bring: which ones exactly, where they are kept, how they are fetched.

jars.txt lists every jar with its SHA-256, those of a Spark for each minor version. They are fetched once, with the
Ivy that pyspark ships, into the cache folder ($EXPORTER_CACHE_DIR, else the user's cache folder) and put on the class
path from there. No dependency is ever resolved: Ivy gets the list with transitive="false" and no POM is read, so
nothing that is not in jars.txt can arrive. Once a set is there, neither the network nor Java is touched.

    $EXPORTER_CACHE_DIR/jars/<set>/
        <artifact>-<version>.jar    (.so, .dylib) appears by a rename, whole and checked
        verified.txt                what was checked (stores/kept.py)
        .fetch-*/                   a fetch under way, or what a killed one left

Two processes may fetch at once: each works in a folder of its own, and both rename the same bytes into place.
This module must never write outside the cache folder and never name a registry: Ivy knows its default.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import resources
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from xml.sax.saxutils import quoteattr

from exporter.errors import ConfigError, DependencyUnreachable
from exporter.stores import kept

JAVA_MAJOR_MIN = 17
"""The oldest Java that Spark 4 runs on."""

JAVA_MAJOR_MAX = {"4.0": 23, "4.1": 23, "4.2": 25}
"""By Spark. Hadoop before 3.5 calls Subject.getSubject, which always throws since Java 24 (JEP 486)."""

NEWEST_PYSPARK = "4.2.0"
"""The newest one that Delta is made for."""

FETCH_SECS_MAX = 900
"""How long one fetch may take: the largest set but one is 50 MB, so this still serves a line of 0.5 Mbit/s."""

JARS_PER_IVY = 16
"""Ivy fetches one jar after the other; a set larger than this is split over several Ivy processes."""

_INSTALL_JAVA = (
    "install Java 17 or 21 (Debian 12: apt-get install openjdk-17-jre-headless; Debian 13 and Ubuntu: "
    "openjdk-21-jre-headless; Fedora: dnf install java-21-openjdk-headless; macOS: brew install openjdk@21)"
    " and put it on PATH or in JAVA_HOME"
)
_INSTALL_SPARK = f"pip install 'pyspark=={NEWEST_PYSPARK}'"
_SET_CACHE_DIR = "set EXPORTER_CACHE_DIR to a folder that this user can write"

# ivy.checksums is empty because SHA-256 is checked here; usepoms="false" saves two requests per jar.
_IVY_SETTINGS = """<ivysettings>
  <property name="ivy.checksums" value=""/>
  <settings defaultResolver="public"/>
  <timeout-constraints>
    <timeout-constraint name="network" connectionTimeout="5000" readTimeout="60000"/>
  </timeout-constraints>
  <resolvers>
    <ibiblio name="public" m2compatible="true" usepoms="false" timeoutConstraint="network"/>
  </resolvers>
</ivysettings>
"""


@dataclass(frozen=True)
class Jar:
    """One line of jars.txt. `sha256` is 64 hex digits.

    extension: jar, that of a library for the JVM to load, or tar.gz of a server (archives.py). classifier: Maven's.
    spark: the minor version that it is for, in the file behind the set's name (s3@4.2); empty if for each.
    """

    set_name: str
    group: str
    artifact: str
    version: str
    sha256: str
    extension: str = "jar"
    classifier: str = ""
    spark: str = ""

    @property
    def file_name(self) -> str:
        """The name in the cache folder, as Maven names it."""
        classifier = f"-{self.classifier}" if self.classifier else ""
        return f"{self.artifact}-{self.version}{classifier}.{self.extension}"


def jar_paths(set_name: str) -> list[Path]:
    """The jars of one set, in the order of jars.txt; fetches what is missing.

    Raises ConfigError (unknown set, no Java, unwritable cache folder) and DependencyUnreachable (network).
    """
    fetch(set_name)
    return [cache_folder(set_name) / jar.file_name for jar in listed(set_name)]


def fetch(*set_names: str) -> None:
    """Fetch what is missing of several sets at the same time; returns at once if nothing is.

    Raises as jar_paths does. Nothing is kept of a jar whose SHA-256 is not the listed one.
    """
    groups = [group for set_name in dict.fromkeys(set_names) for group in in_groups(missing(set_name))]
    if not groups:
        return
    java, ivy = find_java(), _ivy_jar()
    work = _work_folder(cache_folder(groups[0][0].set_name))
    try:
        _run_ivy(java, ivy, groups, work)
        _move_checked(groups, work)
    except OSError as error:
        raise ConfigError(f"cannot fill the jar cache {cache_folder('')}: {error}", _SET_CACHE_DIR) from error
    finally:
        shutil.rmtree(work, ignore_errors=True)


def missing(set_name: str) -> list[Jar]:
    """The jars of one set that are not in the cache yet; needs neither the network nor Java.

    A jar that is noted since the machine was started is taken if its size is right; any other one (copied there by
    hand) is read once and noted.
    """
    folder = cache_folder(set_name)
    noted = _noted(folder)
    sizes = {jar: kept.size(folder / jar.file_name) for jar in listed(set_name)}
    unknown = [jar for jar, size in sizes.items() if size >= 0 and noted.get(jar.file_name) != (jar.sha256, size)]
    matching = [jar for jar in unknown if kept.sha256(folder / jar.file_name) == jar.sha256]
    if matching:
        _note_verified(folder, matching)
    return [jar for jar in listed(set_name) if sizes[jar] < 0 or (jar in unknown and jar not in matching)]


def in_groups(jars: Sequence[Jar]) -> list[list[Jar]]:
    """The jars of one set, cut for the Ivy processes.

    Never of two sets at once: where they list different versions of one jar, Ivy would drop the older.
    """
    return [list(jars[start : start + JARS_PER_IVY]) for start in range(0, len(jars), JARS_PER_IVY)]


def listed(set_name: str) -> tuple[Jar, ...]:
    """The jars that jars.txt lists for one set and this Spark. ConfigError if there is no such set."""
    jars = [jar for jar in all_listed() if jar.set_name == set_name and jar.spark in ("", spark_minor())]
    if not jars:
        known = ", ".join(sorted({jar.set_name for jar in all_listed()}))
        raise ConfigError(f"no set of jars is called {set_name!r}", f"known sets: {known}")
    return tuple(jars)


def all_listed() -> list[Jar]:
    """Every jar of jars.txt, in its order."""
    text = resources.files("exporter.spark").joinpath("jars.txt").read_text("utf-8")
    return [_jar(line) for line in text.splitlines() if line.strip() and not line.startswith("#")]


def _jar(line: str) -> Jar:
    name, *rest = line.split()
    set_name, _, spark = name.partition("@")
    return replace(Jar(set_name, *rest), spark=spark)


@functools.cache
def spark_minor() -> str:
    """The Spark that is installed, such as 4.2. Raises ConfigError if there is none, or none that is known."""
    try:
        found = version("pyspark")
    except PackageNotFoundError:
        raise ConfigError("pyspark is not installed", _INSTALL_SPARK) from None
    minor = ".".join(found.split(".")[:2])
    if minor not in JAVA_MAJOR_MAX:
        raise ConfigError(f"pyspark {found} is installed; known are {', '.join(JAVA_MAJOR_MAX)}", _INSTALL_SPARK)
    return minor


def cache_folder(set_name: str) -> Path:
    """Where the jars of one set are kept; it need not exist yet."""
    given = os.environ.get("EXPORTER_CACHE_DIR")
    if given:
        return Path(given).absolute() / "jars" / set_name
    user_cache = os.environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser())
    return Path(user_cache).absolute() / "kafka-delta-exporter" / "jars" / set_name


def find_java() -> Path:
    """The java command that Spark and the broker run with: $JAVA_HOME/bin/java, else the first on PATH.

    Raises ConfigError if there is none, or if it is not one that this Spark runs on.
    """
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if found is None:
        raise ConfigError("Java was not found on PATH and JAVA_HOME is not set", _INSTALL_JAVA)
    java = Path(found)
    if not os.access(java, os.X_OK):
        raise ConfigError(f"JAVA_HOME is {home}, but {java} cannot be executed", _INSTALL_JAVA)
    major = _java_major(java)
    newest = JAVA_MAJOR_MAX[spark_minor()]
    if not JAVA_MAJOR_MIN <= major <= newest:
        needed = f"Spark {spark_minor()} needs Java {JAVA_MAJOR_MIN} to {newest}"
        raise ConfigError(f"{java} is Java {major}; {needed}", _INSTALL_JAVA)
    return java


def java_major_of(text: str) -> int | None:
    """The major version in the text of a `release` file or of `java -version`; None if there is none.

    Before Java 9 versions began with "1.": 1.8 is Java 8.
    """
    found = re.search(r'version(?:=| )"(?:1\.)?(\d+)', text, re.IGNORECASE)
    return int(found.group(1)) if found else None


def _java_major(java: Path) -> int:
    """The major version of a java command; its `release` file saves starting it."""
    release = java.resolve().parent.parent / "release"
    lines = release.read_text("utf-8").splitlines() if release.is_file() else []
    major = java_major_of("\n".join(line for line in lines if line.startswith("JAVA_VERSION=")))
    if major is not None:
        return major
    try:
        shown = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise ConfigError(f"{java} does not run: {error}", _INSTALL_JAVA) from error
    major = java_major_of(shown.stderr + shown.stdout)
    if major is None:
        raise ConfigError(f"{java} -version shows no version: {shown.stderr.strip()[:200]}", _INSTALL_JAVA)
    return major


def _ivy_jar() -> Path:
    """The Ivy jar inside the installed pyspark, found without importing pyspark."""
    spec = find_spec("pyspark")
    folders = list(spec.submodule_search_locations or []) if spec else []
    found = [jar for folder in folders for jar in sorted(Path(folder, "jars").glob("ivy-*.jar"))]
    if not found:
        raise ConfigError("pyspark with its jars is not installed", "pip install the exporter into this environment")
    return found[-1]


def _work_folder(folder: Path) -> Path:
    """A fresh folder inside the set's own, so that a later rename stays within one file system."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix=".fetch-", dir=folder))
    except OSError as error:
        raise ConfigError(f"cannot write the jar cache {folder}: {error}", _SET_CACHE_DIR) from error


def _run_ivy(java: Path, ivy: Path, groups: Sequence[Sequence[Jar]], work: Path) -> None:
    """Fetch each group into work/<number>/ with an Ivy process of its own; DependencyUnreachable if one fails."""
    (work / "ivysettings.xml").write_text(_IVY_SETTINGS, "utf-8")
    running: list[tuple[subprocess.Popen[bytes], Path]] = []
    try:
        for number, jars in enumerate(groups):
            description, log = work / f"ivy-{number}.xml", work / f"ivy-{number}.log"
            description.write_text(ivy_file(jars), "utf-8")
            command = [str(java), "-XX:TieredStopAtLevel=1", "-Xmx128m", "-cp", str(ivy), "org.apache.ivy.Main"]
            command += ["-settings", f"{work}/ivysettings.xml", "-ivy", str(description), "-confs", "default"]
            command += ["-types", "jar", "so", "dylib", "tar.gz", "-cache", f"{work}/cache-{number}"]
            command += ["-retrieve", f"{work}/{number}/[artifact]-[revision](-[classifier]).[ext]"]
            with log.open("wb") as output:
                running.append((subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT), log))
        for process, log in running:
            if process.wait(FETCH_SECS_MAX) != 0:
                raise _unreachable(_why(log))
    except subprocess.TimeoutExpired as error:
        raise _unreachable(f"not done after {FETCH_SECS_MAX} s") from error
    finally:
        for process, _ in running:
            process.kill()
            process.wait()


def ivy_file(jars: Sequence[Jar]) -> str:
    """An Ivy module that depends on exactly these jars and on nothing they depend on."""
    dependencies = "\n".join(
        f"    <dependency org={quoteattr(jar.group)} name={quoteattr(jar.artifact)} rev={quoteattr(jar.version)}"
        ' conf="default->default" transitive="false">'
        f"<artifact name={quoteattr(jar.artifact)} type={quoteattr(jar.extension)} ext={quoteattr(jar.extension)}"
        f"{f' m:classifier={quoteattr(jar.classifier)}' if jar.classifier else ''}/>"
        "</dependency>"
        for jar in jars
    )
    return (
        '<ivy-module version="2.0" xmlns:m="urn:maven">\n'
        '  <info organisation="local" module="jars"/>\n'
        '  <configurations><conf name="default"/></configurations>\n'
        f"  <dependencies>\n{dependencies}\n  </dependencies>\n</ivy-module>\n"
    )


def _why(log: Path) -> str:
    """The line of an Ivy log that says best what went wrong."""
    lines = [line.strip() for line in log.read_text("utf-8", "replace").splitlines()]
    words = r"Server access error|UnknownHost|timed out|refused|not found"
    telling = [line for line in lines if re.search(words, line)]
    return (telling or [line for line in lines if line] or ["Ivy failed without a word"])[0][:300]


def _unreachable(why: str) -> DependencyUnreachable:
    return DependencyUnreachable(
        f"the jars that Spark and the broker need could not be fetched: {why}",
        "check the network (a proxy: JAVA_TOOL_OPTIONS='-Dhttps.proxyHost=HOST -Dhttps.proxyPort=PORT'),"
        f" or copy the jars that exporter/spark/jars.txt lists to {cache_folder('<set>')}",
    )


def _move_checked(groups: Sequence[Sequence[Jar]], work: Path) -> None:
    """Check every fetched jar, then rename each into its set's folder."""
    fetched = [(jar, work / str(number) / jar.file_name) for number, jars in enumerate(groups) for jar in jars]
    for jar, path in fetched:
        found = kept.sha256(path)
        if found != jar.sha256:
            raise DependencyUnreachable(
                f"{jar.file_name} has SHA-256 {found}, not {jar.sha256} as listed",
                "something between here and the registry changes downloads; fetch from another network",
            )
    for jar, path in fetched:
        cache_folder(jar.set_name).mkdir(parents=True, exist_ok=True)
        kept.into_place(path, cache_folder(jar.set_name) / jar.file_name)
    for set_name in {jar.set_name for jar, _ in fetched}:
        _note_verified(cache_folder(set_name), [jar for jar, _ in fetched if jar.set_name == set_name])


def _noted(folder: Path) -> dict[str, tuple[str, int]]:
    """File name -> (sha256, bytes) of what was checked since the machine was started."""
    try:
        notes = kept.notes(folder)
    except OSError as error:
        raise ConfigError(f"cannot read the jar cache {folder}: {error}", _SET_CACHE_DIR) from error
    return dict(notes.files) if notes.fresh else {}


def _note_verified(folder: Path, jars: Sequence[Jar]) -> None:
    """Note that jars were checked. Of two writers the last wins; what is lost is only read once more.

    A folder that this user may only read stays as it is: its jars are then read at each start.
    """
    found = {name: sha256 for name, (sha256, _) in _noted(folder).items()}
    if os.access(folder, os.W_OK):
        kept.note(folder, found | {jar.file_name: jar.sha256 for jar in jars})
