"""Delta log stores of our own, in Java: they write a commit and report failure, or fail without having written.

    compiled by the Janino that Spark ships (no JDK is needed) -> a jar on the class path of the running JVM
    arm(session, "order", replies=1)      the next commit of table `order` is in the log, but its caller is told no
    syncs_seen(session, folder, seen)     the store waits after each sync until `seen` has looked at what was synced

Delta finds them like any other log store, by `spark.delta.logStore.<scheme>.impl`, for tables opened since.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from exporter.spark.java_classes import compiled, packed
from exporter.stores.file import CLASS
from exporter.stores.s3 import LOG_STORE

STORES = {"file": CLASS, "s3a": LOG_STORE}
"""Scheme -> the log store that is built on."""
KEY = "spark.delta.logStore.{scheme}.impl"
PROPERTY = "losing."
PIPES = f"{PROPERTY}pipes"
SOURCE = """
package losing;
public class {NAME} extends {BASE} {
    public {NAME}(org.apache.hadoop.conf.Configuration conf) { super(conf); }

    public void write(org.apache.hadoop.fs.Path path, java.util.Iterator actions, Boolean overwrite,
                      org.apache.hadoop.conf.Configuration conf) throws java.io.IOException {
        boolean commit = path.getName().matches("[0-9]{20}[.]json");
        String table = path.getParent().getParent().getName();
        if (commit && take("requests", table)) throw new java.io.IOException("the request was lost");
        super.write(path, actions, overwrite, conf);
        if (commit && take("replies", table)) throw new java.io.IOException("the reply was lost");
        if (commit && take("retries", table)) throw new java.nio.file.FileAlreadyExistsException(path.toString());
    }
{MORE}
    private static synchronized boolean take(String what, String table) {
        String name = "losing." + what + "." + table;
        int left = Integer.getInteger(name, 0).intValue();
        if (left > 0) System.setProperty(name, Integer.toString(left - 1));
        return left > 0;
    }
}
"""
SYNCING = """
    protected void force(java.nio.file.Path path) throws java.io.IOException {
        boolean data = path.toString().endsWith(".parquet");
        if (data && take("syncs", path.getParent().getParent().getFileName().toString())) {
            throw new java.io.IOException("the disk does not answer");
        }
        super.force(path);
        String pipes = System.getProperty("losing.pipes", "");
        if (!pipes.isEmpty()) tell(pipes, path.toString());
    }

    private static synchronized void tell(String pipes, String path) throws java.io.IOException {
        java.io.OutputStream asks = new java.io.FileOutputStream(pipes + "/asks");
        asks.write(path.getBytes("UTF-8"));
        asks.close();
        java.io.InputStream answers = new java.io.FileInputStream(pipes + "/answers");
        answers.read();
        answers.close();
    }
"""
"""What a store of files does beside."""


def store_of(spark: Any, name: str = "") -> Any:
    """A log store as Delta makes it; ours if no name is given."""
    jvm = spark._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    made = jvm.java.lang.Class.forName(name or CLASS, True, loader)
    conf = spark.sparkContext._jsc.hadoopConfiguration()
    arguments = spark.sparkContext._gateway.new_array(jvm.java.lang.Object, 1)
    arguments[0] = conf
    return made.getConstructors()[0].newInstance(arguments)


@contextmanager
def losing_log_store(session: Any, scheme: str = "file") -> Iterator[None]:
    """Tables that are opened from here on have a store of this module."""
    key, name = KEY.format(scheme=scheme), f"Losing{scheme.capitalize()}LogStore"
    more = SYNCING if scheme == "file" else ""
    source = SOURCE.replace("{MORE}", more).replace("{NAME}", name).replace("{BASE}", STORES[scheme])
    jvm = session._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    with tempfile.TemporaryDirectory() as folder:
        jar = Path(folder) / "losing.jar"
        jar.write_bytes(packed(compiled(jvm, loader, [source])))
        loader.addURL(jvm.java.net.URL(jar.as_uri()))
        conf = session.sparkContext._jsc.sc().conf()
        conf.set(key, f"losing.{name}")
        try:
            yield
        finally:
            conf.set(key, STORES[scheme])


@contextmanager
def syncs_seen(session: Any, folder: Path, seen: Callable[[Path], None]) -> Iterator[None]:
    """Whatever the store brings to disk from here on: `seen` is called right after it, and the store waits for that."""
    asks, answers = folder / "asks", folder / "answers"
    os.mkfifo(asks)
    os.mkfifo(answers)
    failed: list[BaseException] = []

    def listen() -> None:
        while path := asks.read_text("utf-8"):
            try:
                seen(Path(path))
            except BaseException as error:  # noqa: BLE001 - raised again in the test's thread
                failed.append(error)
            answers.write_text("!")

    thread = threading.Thread(target=listen)
    thread.start()
    session._jvm.System.setProperty(PIPES, str(folder))
    try:
        yield
    finally:
        session._jvm.System.setProperty(PIPES, "")
        asks.write_text("")
        thread.join(60)
    for error in failed:
        raise error


def arm(session: Any, table: str, *, replies: int = 0, retries: int = 0, requests: int = 0, syncs: int = 0) -> None:
    """What happens to the next commits of a table, by its folder.

    syncs: so many data files cannot be brought to disk.
    requests: so many are not written. Then replies: so many are written, and an IOException says that they are not.
    Then retries: so many are written, and FileAlreadyExistsException comes back, as when the store's own client sent
    the request twice: Delta looks who was there first, and meets our commit.
    """
    for what, count in (("replies", replies), ("retries", retries), ("requests", requests), ("syncs", syncs)):
        session._jvm.System.setProperty(f"{PROPERTY}{what}.{table}", str(count))


def left(session: Any, table: str) -> int:
    """How many of the armed accidents have not happened yet."""
    whats = ("replies", "retries", "requests", "syncs")
    return sum(int(session._jvm.System.getProperty(f"{PROPERTY}{what}.{table}", "0")) for what in whats)
