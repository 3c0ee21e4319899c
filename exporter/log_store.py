"""The Delta log store for tables in a file system: a commit is there whole and once, whoever else commits.

    FileLogStore.java    writes versions
    FileChecksums.java   writes the checksum of each, from which Delta and we know a table without reading its log

    compiled at the session's start by the Janino that Spark ships -> a folder on the class path of the driver's JVM

Delta's own store for `file:` looks whether a version is there and then renames over it: two processes that look at
the same moment are both told that they committed, and one commit is gone. Here the version is a hard link to a
file that is complete, which only one of them can make. Neither starts a process, where Hadoop's local file system
starts `readlink` and `chmod` about twenty times for a commit and three times for its checksum.
"""

from __future__ import annotations

import atexit
import hashlib
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from exporter import jars

CLASS = "exporter.FileLogStore"
CHECKSUMS_CLASS = "exporter.FileChecksums"
SOURCES = [Path(__file__).with_name(f"{name.rpartition('.')[2]}.java") for name in (CLASS, CHECKSUMS_CLASS)]
CONFIGURATION = {
    "spark.delta.logStore.file.impl": CLASS,
    "spark.sql.streaming.checkpointFileManagerClass": CHECKSUMS_CLASS,
}


def install(session: Any) -> None:
    """Let the tables that this session opens be committed to by these. The session was made with `CONFIGURATION`."""
    jvm = session._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    loader.addURL(jvm.java.net.URL(f"{_classes(jvm, loader).as_uri()}/"))


def _classes(jvm: Any, loader: Any) -> Path:
    """The folder with the compiled classes: in the cache, or one for this process if the cache cannot be written."""
    sources = [path.read_text("utf-8") for path in SOURCES]
    cached = jars.cache_folder("").parent / "classes" / hashlib.sha256("".join(sources).encode()).hexdigest()[:16]
    if cached.is_dir():
        return cached
    code = compiled(jvm, loader, sources)
    try:
        cached.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(dir=cached.parent))
    except OSError:
        made = Path(tempfile.mkdtemp())
        atexit.register(shutil.rmtree, made, ignore_errors=True)
        cached = made
    write(code, made)
    return _put(made, cached)


def compiled(jvm: Any, loader: Any, sources: Iterable[str]) -> dict[str, bytes]:
    """Class name -> its code, of Java sources of one class each. loader: where they find what they build on."""
    code: dict[str, bytes] = {}
    for source in sources:
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(loader)
        compiler.cook(source)
        code |= {name: bytes(found) for name, found in compiler.getBytecodes().items()}
    return code


def write(code: Mapping[str, bytes], folder: Path) -> None:
    """What compiled() gave, as a class path wants it."""
    for name, found in code.items():
        path = folder.joinpath(*name.split(".")).with_suffix(".class")
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(found)


def _put(made: Path, cached: Path) -> Path:
    """Rename; of two processes one succeeds, the other uses what that one made."""
    if made != cached:
        try:
            made.chmod(0o755)
            made.rename(cached)
        except OSError:
            shutil.rmtree(made, ignore_errors=True)
    return cached
