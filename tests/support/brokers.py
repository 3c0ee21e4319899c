"""Three real brokers on this machine: topics that have replicas, leaders that die, hang and move.

    node 1   broker and the controller: it lives on, and tells who leads
    node 2   a broker in rack r2
    node 3   a broker in rack r3

Each has two doors: one for everybody, and one with TLS and a login by SCRAM.
"""

from __future__ import annotations

import base64
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

from kafka.admin import NewTopic

from exporter.local.broker import Broker
from exporter.local.server import free_ports
from tests.support.certificates import Authority
from tests.support.lakes import wait_until
from tests.support.services import administered, fresh_name

NODES = (1, 2, 3)
USER, PASSWORD = "exporter", "scram-secret"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
MOVED_SECS_MAX = 60.0


class Node(Broker):
    """One of several brokers."""

    def __init__(self, number: int, controller: int, cluster: str, authority: Authority) -> None:
        self._number, self._cluster = number, cluster
        super().__init__(heap_mb=256)
        self.secured = f"127.0.0.1:{free_ports(1)[0]}"
        doors = f"PLAINTEXT://{self.bootstrap},SECURED://{self.secured}"
        self._extra |= {
            "process.roles": "broker,controller" if number == 1 else "broker",
            "listeners": f"{doors},CONTROLLER://127.0.0.1:{controller}" if number == 1 else doors,
            "advertised.listeners": doors,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SECURED:SASL_SSL,CONTROLLER:PLAINTEXT",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(authority.issue(f"node{number}")),
            "listener.name.secured.sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "listener.name.secured.scram-sha-512.sasl.jaas.config": SCRAM,
            "node.id": str(number),
            "broker.rack": f"r{number}",
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller}",
            "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
            "replica.lag.time.max.ms": "2000",
            "offsets.topic.replication.factor": "3",
            "transaction.state.log.replication.factor": "3",
        }

    def _format(self, java: list[str], failed: str) -> None:
        user = f"SCRAM-SHA-512=[name={USER},password={PASSWORD}]"
        alone = ["--standalone", "--add-scram", user] if self._number == 1 else []
        tool = ["kafka.tools.StorageTool", "format", *alone, "-t", self._cluster]
        self._run([*java, *tool, "-c", str(self._folder / "server.properties")])
        assert self._wait_for_end(failed) == 0, self.log_path.read_text()

    def hang(self) -> None:
        """It answers nothing until `wake`."""
        os.kill(self.pid, signal.SIGSTOP)

    def wake(self) -> None:
        os.kill(self.pid, signal.SIGCONT)


class Brokers:
    """The three of them, by their numbers."""

    def __init__(self, nodes: Mapping[int, Node], ca: Path) -> None:
        self.nodes = nodes
        self._ca = ca

    @property
    def bootstrap(self) -> str:
        """Of the one that lives on, for clients."""
        return self.nodes[1].bootstrap

    @property
    def secured(self) -> str:
        """The other door of that one; `login` has what it asks for."""
        return self.nodes[1].secured

    @property
    def login(self) -> str:
        """Lines of [kafka_client]."""
        lines = {
            "security_protocol": "SASL_SSL", "ssl_cafile": str(self._ca), "sasl_mechanism": "SCRAM-SHA-512",
            "sasl_plain_username": USER, "sasl_plain_password": PASSWORD,
        }  # fmt: skip
        return "\n".join(f'{name} = "{value}"' for name, value in lines.items())

    def topic(
        self, replicas: Sequence[int], config: Mapping[str, str] | None = None, name: str = "", partitions: int = 1
    ) -> str:
        """A new one; of the replicas of each partition the first leads."""
        name = name or fresh_name()
        with administered(self.bootstrap) as admin:
            options = {"retention.ms": "-1", **(config or {})}
            at = {number: [*replicas] for number in range(partitions)}
            admin.create_topics([NewTopic(name, replica_assignments=at, topic_configs=options)])
        self.led_by(name, replicas[:1])
        self.in_sync(name, replicas)
        return name

    def led_by(self, topic: str, nodes: Sequence[int]) -> int:
        """Wait until one of these leads its first partition, and say which."""
        leads: Callable[[], int] = lambda: getattr(self._partition(topic), "leader_id", -1)  # noqa: E731
        wait_until(lambda: leads() in nodes, MOVED_SECS_MAX, f"a leader among {nodes}")
        return leads()

    def in_sync(self, topic: str, nodes: Sequence[int]) -> None:
        """Wait until these and no others have all that was written to its first partition."""
        there = lambda: {*getattr(self._partition(topic), "isr_nodes", ())}  # noqa: E731
        wait_until(lambda: there() == {*nodes}, MOVED_SECS_MAX, f"{nodes} in sync")

    def delete(self, topic: str) -> None:
        with administered(self.bootstrap) as admin:
            admin.delete_topics([topic])
            wait_until(lambda: topic not in admin.list_topics(), MOVED_SECS_MAX, f"the end of {topic}")

    def throttle(self, client_id: str, bytes_per_sec: float) -> None:
        """What each broker sends to who calls itself so."""
        from kafka.protocol.admin import AlterClientQuotasRequest

        entry = AlterClientQuotasRequest.EntryData
        of, to = entry.EntityData("client-id", client_id), entry.OpData("consumer_byte_rate", bytes_per_sec, False)
        request = AlterClientQuotasRequest(entries=[entry(entity=[of], ops=[to])], validate_only=False)
        assert [one.error_code for one in self._asked(request).entries] == [0]

    def _partition(self, topic: str) -> Any:
        from kafka.protocol.metadata import MetadataRequest

        of = MetadataRequest.MetadataRequestTopic(name=topic)
        found = self._asked(MetadataRequest(topics=[of], allow_auto_topic_creation=False)).topics[0].partitions
        return next((one for one in found if one.partition_index == 0), None)

    def _asked(self, request: Any) -> Any:
        """What node 1 answers: the others may hang."""
        with administered(self.bootstrap) as admin:
            return admin._manager.run(admin._manager.send, request, 1)

    def without(self, number: int) -> AbstractContextManager[None]:
        """It is gone, and comes back in the end."""
        return between(self.nodes[number].kill, self.nodes[number].start)

    def stopped(self, number: int) -> AbstractContextManager[None]:
        """It ends in good order, and comes back in the end."""
        return between(self.nodes[number].stop, self.nodes[number].start)

    def hanging(self, number: int) -> AbstractContextManager[None]:
        """It is there, and answers nothing."""
        return between(self.nodes[number].hang, self.nodes[number].wake)


@contextmanager
def between(begin: Callable[[], None], end: Callable[[], None]) -> Iterator[None]:
    begin()
    try:
        yield
    finally:
        end()


@contextmanager
def three_brokers(folder: Path) -> Iterator[Brokers]:
    """All of them answer. folder: for certificates."""
    (controller,) = free_ports(1)
    cluster = "A" + base64.urlsafe_b64encode(os.urandom(16)).decode().rstrip("=")[1:]
    with ExitStack() as stack:
        authority = Authority(folder, "authority")
        nodes = {number: Node(number, controller, cluster, authority) for number in NODES}
        for node in nodes.values():
            stack.enter_context(node)
        made = Brokers(nodes, authority.ca)
        wait_until(lambda: len(_alive(made)) == len(NODES), MOVED_SECS_MAX, "three brokers")
        yield made


def _alive(brokers: Brokers) -> set[int]:
    with administered(brokers.bootstrap) as admin:
        return {int(one["broker_id"]) for one in admin.describe_cluster()["brokers"] if not one.get("is_fenced")}


