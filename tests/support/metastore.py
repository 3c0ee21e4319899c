"""A Hive metastore as a child process, with tables in a Derby of its own: all of it is in pyspark's jars."""

from __future__ import annotations

import os
from pathlib import Path

import pyspark

from exporter.local.server import QUICK_START, LocalServer
from exporter.spark.jars import find_java


class LocalMetastore(LocalServer):
    """One metastore; as a context manager it runs inside the block."""

    def __init__(self) -> None:
        super().__init__("Hive metastore", "metastore")

    @property
    def uri(self) -> str:
        """Address for clients; the same over restarts, as are the tables."""
        return f"thrift://127.0.0.1:{self._port}"

    def _command(self) -> list[str]:
        """See LocalServer."""
        told = {
            "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={self._folder}/tables;create=true",
            "datanucleus.schema.autoCreateAll": "true",
            "hive.metastore.schema.verification": "false",
            "hive.metastore.warehouse.dir": f"{self._folder}/warehouse",
            "hive.async.log.enabled": "false",
            "derby.stream.error.file": "/dev/null",
        }
        jars = Path(pyspark.__file__).parent / "jars"
        opened = [f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in ("java.lang", "java.net", "java.util")]
        return [
            str(find_java()), "-Xmx256m", *QUICK_START, *opened, *(f"-D{name}={text}" for name, text in told.items()),
            "-cp", os.path.join(jars, "*"), "org.apache.hadoop.hive.metastore.HiveMetaStore", "-p", str(self._port),
        ]  # fmt: skip
