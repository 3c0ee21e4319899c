"""A real HDFS as a child process, one NameNode and one DataNode.

    <folder>/data         what it holds, also over its restarts
    <folder>/up.json      is there when it is up
    <folder>/hdfs.log     what it says
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from exporter.errors import ConfigError
from exporter.local.server import QUICK_START, LocalServer
from exporter.spark.jars import find_java, jar_paths

SET = "hdfs"
OF_SPARK = (
    "hadoop-client-api", "hadoop-client-runtime", "slf4j-api", "log4j-slf4j2-impl", "log4j-core", "log4j-api",
    "log4j-1.2-api", "jcl-over-slf4j", "snappy-java",
)  # fmt: skip
"""Jars that pyspark brings and it needs."""


class LocalHdfs(LocalServer):
    """One HDFS; as a context manager it runs inside the block.

        with LocalHdfs() as hdfs:
            store = open_store(f"{hdfs.uri}/lake")

    Not for use from several threads at once.
    """

    def __init__(self, heap_mb: int = 400, options: Mapping[str, str] | None = None) -> None:
        """heap_mb: -Xmx in MB. options: Hadoop's, for the NameNode and the DataNode."""
        super().__init__("HDFS", "hdfs", ports=3)
        self._heap_mb = heap_mb
        self._options = dict(options or {})
        self._up = self._folder / "up.json"

    @property
    def uri(self) -> str:
        """The root of all its files; the same over restarts."""
        return f"hdfs://127.0.0.1:{self._port}"

    @property
    def _not_started(self) -> str:
        """See LocalServer."""
        return f"HDFS did not start on {self.uri}"

    def _command(self) -> list[str]:
        """See LocalServer; the files that were there are there again."""
        java, jars, data = find_java(), [*jar_paths(SET), *_of_spark()], self._folder / "data"
        self._up.unlink(missing_ok=True)
        command = [str(java), f"-Xmx{self._heap_mb}m", *QUICK_START]
        command += [f"-Dtest.build.data={data}", f"-Djava.io.tmpdir={self._folder}"]
        command += ["-cp", os.pathsep.join(map(str, jars)), "org.apache.hadoop.test.MiniDFSClusterManager"]
        command += [] if data.exists() else ["-format"]
        http, commands = map(str, self._ports)
        command += ["-datanodes", "1", "-nnport", str(self._port), "-httpport", http]
        command += ["-cmdport", commands, "-writeDetails", str(self._up)]
        for name, text in {"hadoop.tmp.dir": str(self._folder / "tmp"), **self._options}.items():
            command += ["-D", f"{name}={text}"]
        return command

    def _ready(self) -> bool:
        """See LocalServer: it can be written."""
        return self._up.exists() and super()._ready()


def _of_spark() -> list[Path]:
    """Raises ConfigError if pyspark with its jars is not installed."""
    spec = find_spec("pyspark")
    folders = [Path(folder, "jars") for folder in spec.submodule_search_locations or []] if spec else []
    found = [jar for folder in folders for name in OF_SPARK for jar in folder.glob(f"{name}-[0-9]*.jar")]
    if len(found) < len(OF_SPARK):
        raise ConfigError("pyspark with its jars is not installed", "pip install the exporter into this environment")
    return found
