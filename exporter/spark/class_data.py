"""Spark at a path that stays, with an archive of its loaded classes (class-data sharing): starts are shorter.

    <cache>/spark/<key>/jars/         the jars that pip brought, and Delta; links where possible
    <cache>/spark/<key>/bin/          pyspark's scripts that start the JVM
    <cache>/spark/<key>/classes.jsa   the archive; appears by a rename, whole (operate/prepare.py makes it)
    <cache>/spark/<key>/verified.txt  what all of that is, noted last (stores/kept.py): a damaged home is not taken

A JVM takes an archive only for the class path that it was made with: same files, same times, same path. Each new
environment has Spark's jars at another path, so the cache keeps one set for all. key: of Java's release and of
each jar's name and size; whatever is installed otherwise has another key, and starts as if nothing were here.

Three things differ from what pip brought, for the sake of the start: Spark's machine learning is not there; nor is the
incubating module of Java that it computes with, of which each start would warn; and signed jars come without their
signatures, as Java archives no class of a signed one (the compiler that Spark uses is such).
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import uuid
import zipfile
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from exporter.log import get_logger
from exporter.log_events import Event
from exporter.spark import jars
from exporter.stores import kept

log = get_logger(__name__)

ARCHIVE = "classes.jsa"
LAYOUT = "6"
"""Of what is in a home, apart from the names and sizes of what it is made of."""
_NEEDLESS = "spark-mllib_"
"""Its functions are registered in every session, and for that Scala's whole reflection is set up."""
_START = 'exec "${CMD[@]}"'
"""The line of pyspark's spark-class that becomes Java."""
_EACH_ONCE = r"""for at in "${!CMD[@]}"; do
  if [ "${CMD[$at]}" = "--add-modules=jdk.incubator.vector" ]; then unset "CMD[$at]"; fi
  if [[ "${CMD[$at]:-}" =~ ^(.*):[^:]*/slf4j-api-[^:]*\.jar(:[^:]*/jars/\*.*)$ ]]; then
    CMD[$at]="${BASH_REMATCH[1]}${BASH_REMATCH[2]}"
  fi
done
"""
"""Java warns of the one; the other is among all jars once more, and from 21 on Java then refuses the archive."""
_SIGNATURE = re.compile(r"META-INF/[^/]+\.(SF|RSA|DSA|EC)", re.IGNORECASE)


def home() -> Path:
    """Where this environment's Spark home is, or would be, in the cache. Raises as jars.find_java does."""
    java = jars.find_java().resolve()
    release = java.parent.parent / "release"
    told = release.read_text("utf-8") if release.is_file() else str(java)
    own = [f"{jar.file_name} {jar.sha256}" for jar in jars.listed("spark")]
    brought = [f"{path.name} {path.stat().st_size}" for path in _brought()]
    text = "\n".join([LAYOUT, told, *own, *brought])
    return jars.cache_folder("").parent / "spark" / hashlib.sha256(text.encode()).hexdigest()[:16]


def ready() -> Path | None:
    """The prepared Spark home; None if there is none, if it is damaged, or if SPARK_HOME names another one."""
    given = os.environ.get("SPARK_HOME")
    found = home()
    if given and Path(given) != found:
        return None
    if is_whole(found):
        return found
    if (found / kept.VERIFIED).exists():
        log.warning(Event.PREPARED_DAMAGED, folder=str(found))
    return None


def is_whole(folder: Path) -> bool:
    """Whether the home is there with all that was noted of it; what cannot be read is not."""
    try:
        return kept.intact(folder)
    except OSError:
        return False


def note(folder: Path) -> None:
    """Note what the home consists of, when all of it is there. Raises OSError."""
    brought = {path.name: path for path in (*_brought(), *jars.jar_paths("spark"))}
    found = {}
    for path in (path for path in folder.rglob("*") if path.is_file() and path.name != kept.VERIFIED):
        is_link = path.parent.name == "jars" and os.path.samefile(path, brought[path.name])
        found[str(path.relative_to(folder))] = kept.LINK if is_link else kept.sha256(path)
    kept.note(folder, found)


def clear(folder: Path) -> None:
    """Take away a home that was noted and is not whole any more. What other processes have of it stays theirs."""
    if not kept.notes(folder).files or kept.intact(folder):
        return
    damaged = folder.with_name(f".{folder.name}-{uuid.uuid4().hex}")
    with suppress(FileNotFoundError):  # another process does the same
        folder.rename(damaged)
    shutil.rmtree(damaged, ignore_errors=True)


def link(folder: Path) -> None:
    """Make the home, all but the archive and the note. Of two processes one succeeds, the other finds it made."""
    if folder.exists():
        return
    made = folder.with_name(f".{folder.name}-{uuid.uuid4().hex}")
    try:
        for part in ("jars", "bin"):
            (made / part).mkdir(parents=True)
        for path in (*_brought(), *jars.jar_paths("spark")):
            _put(path, made / "jars" / path.name)
        for path in (_pyspark() / "bin").iterdir():
            shutil.copy2(path, made / "bin" / path.name)
        starter = made / "bin" / "spark-class"
        starter.write_text(starter.read_text("utf-8").replace(_START, _EACH_ONCE + _START), "utf-8")
        kept.folder_into_place(made, folder)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _put(source: Path, target: Path) -> None:
    """A jar at a second place, without its signatures."""
    with zipfile.ZipFile(source) as jar:
        signatures = {name for name in jar.namelist() if _SIGNATURE.fullmatch(name)}
        if not signatures:
            _link(source, target)
            return
        with zipfile.ZipFile(target, "w") as unsigned:
            for entry in jar.infolist():
                if entry.filename not in signatures:
                    unsigned.writestr(entry, jar.read(entry))


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system, or one without links
        shutil.copy2(source, target)


def _brought() -> list[Path]:
    """The jars in pyspark that are of use, by name."""
    jars_of_spark = (path for path in (_pyspark() / "jars").iterdir() if path.suffix == ".jar")
    return sorted(path for path in jars_of_spark if not path.name.startswith(_NEEDLESS))


def _pyspark() -> Path:
    spec = find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("pyspark is not installed")
    return Path(spec.submodule_search_locations[0])
