"""A real DynamoDB as a child process, in memory, for the demo, the tests and the benchmark.

DynamoDB Local's own main listens on all interfaces and reports each start to its maker. So it is not run: Jetty's XML
puts the same request handler behind a connector of 127.0.0.1. It has no backups, does not expire items by itself, and
forgets everything when it stops.

    <folder>/server.xml     what is started
    <folder>/dynamodb.log   what it says
"""

from __future__ import annotations

import os
import platform
import sys

from exporter.errors import ConfigError
from exporter.local.server import QUICK_START, LocalServer
from exporter.spark.jars import cache_folder, find_java, jar_paths

SET = "dynamodb"

PLATFORMS = {("linux", "x86_64"), ("darwin", "x86_64"), ("darwin", "arm64")}
"""Where its SQLite has a library: (sys.platform, machine)."""

# Arguments of the handler: its number, in memory, its file (none), one database for all credentials and regions,
# slow changes of tables. The empty Arg of the outer one: no CORS.
_XML = """<?xml version="1.0"?>
<!DOCTYPE Configure PUBLIC "-//Jetty//Configure//EN" "https://jetty.org/configure_10_0.dtd">
<Configure class="org.eclipse.jetty.server.Server">
  <Arg>
    <New class="java.net.InetSocketAddress"><Arg type="String">127.0.0.1</Arg><Arg type="int">PORT</Arg></New>
  </Arg>
  <Set name="handler">
    <New class="org.eclipse.jetty.server.handler.ContextHandler">
      <Set name="handler">
        <New class="com.amazonaws.services.dynamodbv2.local.server.LocalDynamoDBServerHandler">
          <Arg>
            <New class="com.amazonaws.services.dynamodbv2.local.server.LocalDynamoDBRequestHandler">
              <Arg type="int">0</Arg>
              <Arg type="boolean">true</Arg>
              <Arg/>
              <Arg type="boolean">true</Arg>
              <Arg type="boolean">false</Arg>
            </New>
          </Arg>
          <Arg/>
        </New>
      </Set>
    </New>
  </Set>
</Configure>
"""


def runs_here() -> bool:
    return (sys.platform, platform.machine()) in PLATFORMS


class DynamoDbLocal(LocalServer):
    """One DynamoDB; as a context manager it runs inside the block.

        with DynamoDbLocal() as dynamodb:
            client = boto3.client("dynamodb", endpoint_url=dynamodb.endpoint, ...)

    Not for use from several threads at once.
    """

    def __init__(self, heap_mb: int = 192) -> None:
        """heap_mb: -Xmx in MB. ConfigError where it cannot run."""
        if not runs_here():
            raise ConfigError(
                f"DynamoDB Local has no library for {sys.platform} on {platform.machine()}",
                "run it in a container, or elsewhere, and give its address",
            )
        super().__init__("DynamoDB Local", "dynamodb")
        self._heap_mb = heap_mb

    def _command(self) -> list[str]:
        """Implements `LocalServer._command`: how the server is started."""
        java, jars = find_java(), [path for path in jar_paths(SET) if path.suffix == ".jar"]
        (self._folder / "server.xml").write_text(_XML.replace("PORT", str(self._port)), "utf-8")
        libraries = cache_folder(SET)
        command = [str(java), f"-Xmx{self._heap_mb}m", *QUICK_START]
        command += [f"-Djava.library.path={libraries}", f"-Dsqlite4java.library.path={libraries}"]
        command += [f"-Djava.io.tmpdir={self._folder}"]  # a copy of that library: a killed one leaves it
        command += ["-cp", os.pathsep.join(map(str, jars))]
        return [*command, "org.eclipse.jetty.xml.XmlConfiguration", "server.xml"]
