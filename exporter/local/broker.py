"""A real Kafka broker as a child process, for the demo, the tests and the benchmark.

One JVM is broker and controller (KRaft), on 127.0.0.1 only, without security unless told: not for production.
It never outlives the process that started it, and it leaves nothing outside its folder:

    <folder>/server.properties, log4j2.properties
    <folder>/broker.log     what the broker says, first its formatting
    <folder>/data/          the topics
"""

from __future__ import annotations

import base64
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kafka.admin import KafkaAdminClient, NewTopic
from kafka.errors import KafkaError, TopicAlreadyExistsError

from exporter.errors import ConfigError, DependencyUnreachable
from exporter.local.server import QUICK_START, LocalServer, accepts
from exporter.spark.jars import find_java, jar_paths

LEADERS_SECS_MAX = 60.0
"""Deadline for the leaders of a new topic, many times what is usual."""

_LOG4J = """status = error
rootLogger.level = info
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{HH:mm:ss.SSS} %-5p %c{1} %m%n
"""


class Broker(LocalServer):
    """One broker; as a context manager it runs inside the block and its temporary folder goes with it.

        with Broker() as broker:
            client = KafkaProducer(bootstrap_servers=broker.bootstrap)

    folder: must be empty or absent; it is kept. Without one a temporary folder is used and deleted.
    properties: added to server.properties, winning over ours. heap_mb: -Xmx in MB. protocol: of its one listener for
    clients. client: keywords of kafka-python's clients that such a listener asks for. users: `--add-scram` texts of
    Kafka's storage tool.
    Not for use from several threads at once.
    """

    def __init__(
        self,
        folder: Path | None = None,
        *,
        properties: Mapping[str, str] | None = None,
        heap_mb: int = 384,
        protocol: str = "PLAINTEXT",
        client: Mapping[str, Any] | None = None,
        users: Sequence[str] = (),
    ) -> None:
        super().__init__("broker", "broker", folder, ports=2)
        self._heap_mb = heap_mb
        self._extra = dict(properties or {})
        self._protocol = protocol
        self._client = dict(client or {})
        self._users = tuple(users)
        if folder is not None and folder.exists() and any(folder.iterdir()):
            raise ConfigError(f"the broker's folder {folder} is not empty", "give an empty folder, or none")

    @property
    def bootstrap(self) -> str:
        """host:port for clients; the same over restarts."""
        return f"127.0.0.1:{self._port}"

    @property
    def _not_started(self) -> str:
        """See LocalServer."""
        return f"the Kafka broker on {self.bootstrap} did not start"

    def _command(self) -> list[str]:
        """See LocalServer; its storage is formatted."""
        java = self._java_command()
        if not (self._folder / "data" / "meta.properties").exists():
            self._format(java, self._not_started)
        return [*java, "kafka.Kafka", str(self._folder / "server.properties")]

    def _java_command(self) -> list[str]:
        """java with its class path, all but the main class; writes the two configuration files."""
        java, jars = find_java(), jar_paths("broker")
        lines = [f"{key}={value}\n" for key, value in self._properties().items()]
        (self._folder / "server.properties").write_text("".join(lines), "utf-8")
        (self._folder / "log4j2.properties").write_text(_LOG4J, "utf-8")
        places = [f"-Dlog4j2.configurationFile={self._folder / 'log4j2.properties'}"]
        places += [f"-Djava.io.tmpdir={self._folder}"]  # its codecs' libraries: a killed one leaves them
        memory = ("-Xms64m", f"-Xmx{self._heap_mb}m")
        return [str(java), *memory, *QUICK_START, *places, "-cp", os.pathsep.join(map(str, jars))]

    def _properties(self) -> dict[str, str]:
        """server.properties: one node, few internal partitions, no waiting for other members of a group."""
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{self._ports[0]}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"{self._protocol}://{self.bootstrap},CONTROLLER://127.0.0.1:{self._ports[0]}",
            "advertised.listeners": f"{self._protocol}://{self.bootstrap}",
            "inter.broker.listener.name": self._protocol,
            "log.dirs": str(self._folder / "data"),
            "auto.create.topics.enable": "false",
            "default.replication.factor": "1",
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "4",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "4",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            # A killed broker may not come back before the session of its former self is over (default 9 s).
            "broker.session.timeout.ms": "3000",
            "broker.heartbeat.interval.ms": "500",
            "log.retention.check.interval.ms": "1000",
            "log.cleaner.dedupe.buffer.size": "2097152",
            "log.retention.ms": "-1",
            "message.max.bytes": "20000000",
            "replica.fetch.max.bytes": "20000000",
        } | self._extra

    def _format(self, java: list[str], failed: str) -> None:
        """Write the storage's identity into data/; DependencyUnreachable with the log if that fails."""
        tool = ["kafka.tools.StorageTool", "format", "--standalone", "-t", _cluster_id()]
        tool += [word for user in self._users for word in ("--add-scram", user)]
        self._run([*java, *tool, "-c", str(self._folder / "server.properties")])
        if ended := self._wait_for_end(failed):
            raise self._failed(f"{failed}: formatting its storage ended with {ended}")

    def _ready(self) -> bool:
        """See LocalServer: a client sees a living broker."""
        # A plain connection first: each client that fails to connect leaves a thread behind.
        return accepts(self._port) and answers(self.bootstrap, 5.0, self._client)


def answers(bootstrap: str, timeout_secs: float, client: Mapping[str, Any] | None = None) -> bool:
    """Whether a client gets the description of a cluster with at least one broker from `bootstrap` in time."""
    millis = int(timeout_secs * 1000)
    try:
        admin = KafkaAdminClient(
            bootstrap_servers=bootstrap, bootstrap_timeout_ms=millis, request_timeout_ms=millis,
            client_id="ready-check", **client or {},
        )  # fmt: skip
    except KafkaError:
        return False
    try:
        return bool(admin.describe_cluster()["brokers"])
    except KafkaError:
        return False
    finally:
        admin.close()


def create_topic(
    bootstrap: str,
    topic: str,
    partitions: int = 1,
    config: Mapping[str, str] | None = None,
    options: Mapping[str, Any] | None = None,
    replication: int = 1,
) -> None:
    """Create a topic and return when its partitions have leaders. Its records never expire unless `config` says so.

    options: of the client, security included. replication: factor; -1: the brokers' own.
    Raises ConfigError if the topic exists, DependencyUnreachable if the broker does not do it in time.
    """
    try:
        options = {"bootstrap_servers": bootstrap, **(options or {})}
        admin = KafkaAdminClient(**options, bootstrap_timeout_ms=30_000, client_id="create-topic")
        try:
            configs = {"retention.ms": "-1"} | dict(config or {})
            admin.create_topics([NewTopic(topic, partitions, replication, topic_configs=configs)])
            deadline = time.monotonic() + LEADERS_SECS_MAX
            while not _has_leaders(admin, topic, partitions):
                if time.monotonic() > deadline:
                    raise KafkaError("no leaders for its partitions")
                time.sleep(0.02)  # pace of the polling, bounded by the deadline
        finally:
            admin.close()
    except TopicAlreadyExistsError as error:
        raise ConfigError(f"the topic {topic} exists already at {bootstrap}", "choose another name") from error
    except KafkaError as error:
        raise DependencyUnreachable(
            f"the topic {topic} could not be created at {bootstrap}: {error!r}", "check that the broker runs"
        ) from error


def _has_leaders(admin: KafkaAdminClient, topic: str, partitions: int) -> bool:
    described = admin.describe_topics([topic])[0]["partitions"]
    return len(described) == partitions and all(partition["leader_id"] >= 0 for partition in described)


def _cluster_id() -> str:
    """16 random bytes as Kafka writes them: URL-safe base64 without padding, no leading dash."""
    text = base64.urlsafe_b64encode(os.urandom(16)).decode().rstrip("=")
    return "A" + text[1:]
