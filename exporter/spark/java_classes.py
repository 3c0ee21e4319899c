"""The Delta log store for tables in a file system: a commit is there whole and once, whoever else commits.

    FileLogStore.java    writes versions
    FileChecksums.java   writes the checksum of each, from which Delta and we know a table without reading its log

    compiled at the session's start by the Janino that Spark ships -> a jar on the class path of the driver's JVM

Delta's own store for `file:` looks whether a version is there and then renames over it: two processes that look at
the same moment are both told that they committed, and one commit is gone. Here the version is a hard link to a
file that is complete, which only one of them can make. Neither starts a process, where Hadoop's local file system
starts `readlink` and `chmod` about twenty times for a commit and three times for its checksum.

What a power cut takes is what the system had not written yet. With the setting `sync` a version comes to be in this
order, and its writer is told after the last step only (ORDER):

    the files that it adds, the folders that name them, the entry under a hidden name    synced, in threads
    a checksum that outlived a former version of that number                             taken away
    the entry's name, by a hard link
    the folder of the log; while a table is young, also those above it                   synced

So an entry that is there after a power cut names whole files. It is one place for all that this session commits, what
OPTIMIZE and DELETE write too. This process syncs what its workers wrote: on one machine a file has the same pages,
whoever opens it, and one commit's files are synced side by side, where each worker would wait for the disk at every
file. Workers on other machines (a cluster) have pages of their own; they sync each file themselves as it is written.
Checksums are not synced: one that is cut short or lost is not believed (lake/log_files.py, FileLogStore.read). Neither
are commits that others were killed in the middle of; whoever reads a table syncs its log first (lake/table.py).
"""

from __future__ import annotations

import atexit
import hashlib
import io
import shutil
import tempfile
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from exporter.spark import jars
from exporter.stores import kept
from exporter.stores.store import JavaSide


def install(session: Any, java: JavaSide) -> None:
    """Let the tables that this session opens be committed to by a store's classes. It was made with its settings."""
    if not java.sources:
        return
    jvm = session._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    loader.addURL(jvm.java.net.URL(_classes(jvm, loader, java.sources).as_uri()))


def _classes(jvm: Any, loader: Any, files: Iterable[Path]) -> Path:
    """The jar of compiled classes: in the cache, or one for this process if the cache cannot be written.

    Its name says of what sources it is and what its bytes are: one that a power cut spoilt is made again.
    """
    sources = [path.read_text("utf-8") for path in files]
    folder, of = jars.cache_folder("").parent / "classes", _short_sha256("".join(sources).encode())
    for found in sorted(folder.glob(f"{of}-*.jar")):
        if found.stem == f"{of}-{_short_sha256(found.read_bytes())}":
            return found
    body = packed(compiled(jvm, loader, sources))
    made = folder / f"{of}-{_short_sha256(body)}.jar"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        kept.put(made, body)
    except OSError:
        own = Path(tempfile.mkdtemp())
        atexit.register(shutil.rmtree, own, ignore_errors=True)
        made = own / made.name
        made.write_bytes(body)
    return made


def _short_sha256(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()[:16]


def compiled(jvm: Any, loader: Any, sources: Iterable[str]) -> dict[str, bytes]:
    """Class name -> its code, of Java sources of one class each. loader: where they find what they build on."""
    code: dict[str, bytes] = {}
    for source in sources:
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(loader)
        compiler.cook(source)
        code |= {name: bytes(found) for name, found in compiler.getBytecodes().items()}
    return code


def packed(code: Mapping[str, bytes]) -> bytes:
    """What compiled() gave, as a jar; the same code as the same bytes."""
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w") as jar:
        for name, found in sorted(code.items()):
            jar.writestr(zipfile.ZipInfo(f"{name.replace('.', '/')}.class"), found)
    return body.getvalue()
