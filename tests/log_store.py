"""A Delta log store of our own, in Java: it writes a commit and reports failure, or fails without having written.

    compiled by the Janino that Spark ships (no JDK is needed) -> a jar on the class path of the running JVM
    losing(session, "order", replies=1)   the next commit of table `order` is in the log, but its caller is told no

Delta finds it like any other log store, by `spark.delta.logStore.file.impl`, for tables opened since.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from exporter.log_store import CONFIGURATION, compiled, packed

KEY = "spark.delta.logStore.file.impl"
PROPERTY = "losing."
SOURCE = """
package losing;
public class LosingLogStore extends exporter.FileLogStore {
    public LosingLogStore(org.apache.hadoop.conf.Configuration conf) { super(conf); }

    public void write(org.apache.hadoop.fs.Path path, java.util.Iterator actions, Boolean overwrite,
                      org.apache.hadoop.conf.Configuration conf) throws java.io.IOException {
        boolean commit = path.getName().matches("[0-9]{20}[.]json");
        String table = path.getParent().getParent().getName();
        if (commit && take("requests", table)) throw new java.io.IOException("the request was lost");
        super.write(path, actions, overwrite, conf);
        if (commit && take("replies", table)) throw new java.io.IOException("the reply was lost");
        if (commit && take("retries", table)) throw new java.nio.file.FileAlreadyExistsException(path.toString());
    }

    private static synchronized boolean take(String what, String table) {
        String name = "losing." + what + "." + table;
        int left = Integer.getInteger(name, 0).intValue();
        if (left > 0) System.setProperty(name, Integer.toString(left - 1));
        return left > 0;
    }
}
"""


@contextmanager
def losing_log_store(session: Any) -> Iterator[None]:
    """Tables that are opened from here on have the store of this module."""
    jvm = session._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    with tempfile.TemporaryDirectory() as folder:
        jar = Path(folder) / "losing.jar"
        jar.write_bytes(packed(compiled(jvm, loader, [SOURCE])))
        loader.addURL(jvm.java.net.URL(jar.as_uri()))
        conf = session.sparkContext._jsc.sc().conf()
        conf.set(KEY, "losing.LosingLogStore")
        try:
            yield
        finally:
            conf.set(KEY, CONFIGURATION[KEY])


def arm(session: Any, table: str, *, replies: int = 0, retries: int = 0, requests: int = 0) -> None:
    """What happens to the next commits of a table, by its folder.

    requests: so many are not written. Then replies: so many are written, and an IOException says that they are not.
    Then retries: so many are written, and FileAlreadyExistsException comes back, as when the store's own client sent
    the request twice: Delta looks who was there first, and meets our commit.
    """
    for what, count in (("replies", replies), ("retries", retries), ("requests", requests)):
        session._jvm.System.setProperty(f"{PROPERTY}{what}.{table}", str(count))


def left(session: Any, table: str) -> int:
    """How many of the armed accidents have not happened yet."""
    whats = ("replies", "retries", "requests")
    return sum(int(session._jvm.System.getProperty(f"{PROPERTY}{what}.{table}", "0")) for what in whats)
