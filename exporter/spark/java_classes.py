"""Java classes of ours, such as a store's log store: compiled at the session's start by the Janino that Spark ships.

    JavaSide.sources ── compiled ── a jar in the cache ── the class path of the driver's JVM

What those of a file system do, and why they are needed: stores/file.py.
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


def cached(java: JavaSide) -> bool:
    """Whether a session of that store would compile nothing."""
    return _found(_named(_texts(java.sources))) is not None


def _classes(jvm: Any, loader: Any, files: Iterable[Path]) -> Path:
    """The jar of compiled classes: in the cache, or one for this process if the cache cannot be written.

    Its name says of what sources it is and what its bytes are: one that a power cut spoilt is made again.
    """
    sources = _texts(files)
    of = _named(sources)
    if (found := _found(of)) is not None:
        return found
    body = packed(compiled(jvm, loader, sources))
    made = _folder() / f"{of}-{_short_sha256(body)}.jar"
    try:
        _folder().mkdir(parents=True, exist_ok=True)
        kept.put(made, body)
    except OSError:
        own = Path(tempfile.mkdtemp())
        atexit.register(shutil.rmtree, own, ignore_errors=True)
        made = own / made.name
        made.write_bytes(body)
    return made


def _texts(files: Iterable[Path]) -> list[str]:
    return [path.read_text("utf-8") for path in files]


def _named(sources: Iterable[str]) -> str:
    """Of the sources, and of the Spark that they build on."""
    return _short_sha256("".join((jars.spark_minor(), *sources)).encode())


def _found(of: str) -> Path | None:
    """The whole jar of some sources in the cache."""
    jars_of = sorted(_folder().glob(f"{of}-*.jar"))
    return next((jar for jar in jars_of if jar.stem == f"{of}-{_short_sha256(jar.read_bytes())}"), None)


def _folder() -> Path:
    return jars.cache_folder("").parent / "classes"


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
