"""A real schema registry as a child process, in memory, for the demo, the tests and the benchmark.

Apicurio Registry, which speaks Confluent's API below /apis/ccompat/v7. It forgets everything when it stops.

    <folder>/registry.log   what it says
"""

from __future__ import annotations

import urllib.request
from urllib.error import URLError

from exporter.local.server import LocalServer
from exporter.spark.archives import unpacked
from exporter.spark.jars import find_java

SET = "registry"
API = "/apis/ccompat/v7"


class LocalRegistry(LocalServer):
    """One schema registry; as a context manager it runs inside the block.

        with LocalRegistry() as registry:
            client = SchemaRegistryClient({"url": registry.url})

    Not for use from several threads at once.
    """

    def __init__(self, heap_mb: int = 384) -> None:
        """heap_mb: the JVM's largest heap (-Xmx), in MB."""
        super().__init__("schema registry", "registry", ports=2)
        self._heap_mb = heap_mb

    @property
    def url(self) -> str:
        """Address for clients; the same over restarts."""
        return f"{self.endpoint}{API}"

    @property
    def _not_started(self) -> str:
        """See LocalServer."""
        return f"the schema registry did not start on {self.url}"

    def _command(self) -> list[str]:
        """Implements `LocalServer._command`: how the server is started."""
        java, home = find_java(), unpacked(SET)
        (jar,) = home.rglob("*-runner.jar")
        options = {
            "quarkus.http.host": "127.0.0.1", "quarkus.http.port": self._port,
            "quarkus.management.host": "127.0.0.1", "quarkus.management.port": self._ports[0],
            "quarkus.otel.sdk.disabled": "true",
            "apicurio.datasource.jdbc.initial-size": 1, "apicurio.datasource.jdbc.min-size": 1,
            "java.io.tmpdir": self._folder,
        }  # fmt: skip
        command = [str(java), f"-Xmx{self._heap_mb}m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        command += [f"-D{name}={value}" for name, value in options.items()]
        return [*command, "-jar", str(jar)]

    def _ready(self) -> bool:
        """Implements `LocalServer._ready`: whether the registry answers."""
        return _answers(f"{self.url}/subjects")


def _answers(url: str) -> bool:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # it is on this machine
    try:
        with opener.open(url, timeout=5.0) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False
