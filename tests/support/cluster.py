"""A real Spark cluster on this machine: a standalone master and workers of one core each, as child processes.

    Cluster ─┬─ Master   keeps what it knows in files: one that is started again has workers and applications
             └─ Worker   127.0.0.1, localhost, ...: each has a host name of its own, as Spark sees it
                  └─ executors of the applications, and their Python workers; all in the worker's session

Executors have the environment of their worker: what it finds a package by, and credentials.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path

from exporter.local.children import kill_quietly, session_members
from exporter.local.server import LocalServer, accepts
from exporter.spark.jars import find_java

EXECUTOR = b"CoarseGrainedExecutorBackend"
HOSTS = ("127.0.0.1", "localhost")
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


class Daemon(LocalServer):
    """One of Spark's own, by the class of its name. options: of its command line."""

    def __init__(self, kind: str, host: str, options: Sequence[str], java_options: str = "") -> None:
        super().__init__(f"Spark {kind}", f"spark-{kind.lower()}", ports=2)
        self._host = host
        home = Path(find_spec("pyspark").submodule_search_locations[0])  # type: ignore[union-attr,index]
        told = {
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": f"{QUICK} {java_options}",
            "SPARK_WORKER_DIR": str(self._folder),
            "JAVA_HOME": str(find_java().parent.parent.resolve()),
            "PYTHONPATH": os.pathsep.join(filter(None, [os.getcwd(), os.environ.get("PYTHONPATH")])),
        }
        self._line = [
            *("env", *(f"{name}={text}" for name, text in told.items())),
            *(str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind.lower()}.{kind}"),  # nothing between
            *("--host", host, "--port", str(self._port), "--webui-port", str(self._ports[0]), *options),
        ]

    def _command(self) -> list[str]:
        """See LocalServer."""
        return self._line

    def _ready(self) -> bool:
        """See LocalServer."""
        return accepts(self._port, self._host)

    def says(self, text: str) -> bool:
        """Whether its log has a text."""
        return text in self.log_path.read_text("utf-8", "replace")


class Master(Daemon):
    """recovers: whether one that is started again knows what the one before knew."""

    def __init__(self, recovers: bool = True) -> None:
        self._known = tempfile.mkdtemp(prefix="spark-known-")
        mode = f"-Dspark.deploy.recoveryMode=FILESYSTEM -Dspark.deploy.recoveryDirectory={self._known}"
        super().__init__("Master", HOSTS[0], (), mode if recovers else "")

    @property
    def url(self) -> str:
        return f"spark://{HOSTS[0]}:{self._port}"

    def close(self) -> None:
        super().close()
        shutil.rmtree(self._known, ignore_errors=True)


class Worker(Daemon):
    def __init__(self, host: str, master: str) -> None:
        super().__init__("Worker", host, ("--cores", "1", "--memory", "1g", master))

    def _ready(self) -> bool:
        return super()._ready() and self.says("Successfully registered with master")

    def executors(self) -> list[int]:
        """The process ids of its applications' JVMs."""
        return [pid for pid in session_members(self.pid) if EXECUTOR in _command_line(pid)]

    def close(self) -> None:
        left = session_members(self.pid) if self.running else []
        self.kill()  # before its executors, which it would replace
        for pid in left:
            kill_quietly(pid)
        super().close()


class Cluster:
    """master, workers: as they are now; each may be killed and started again."""

    def __init__(self, master: Master, workers: Sequence[Worker]) -> None:
        self.master, self.workers = master, workers

    @property
    def url(self) -> str:
        return self.master.url

    def executors(self) -> list[int]:
        """The process ids of all applications' JVMs."""
        return [pid for worker in self.workers for pid in worker.executors()]


@contextmanager
def cluster(workers: int = 2, recovers: bool = True) -> Iterator[Cluster]:
    """A master and its workers, inside the block."""
    with ExitStack() as stack:
        master = stack.enter_context(Master(recovers))
        yield Cluster(master, [stack.enter_context(Worker(host, master.url)) for host in HOSTS[:workers]])


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
