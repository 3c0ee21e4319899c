"""The services that tests need: one that is given, else a container, else a process of our own."""

from __future__ import annotations

import os
import socket
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import Producer
from kafka import KafkaAdminClient

from exporter.local.broker import Broker, answers, create_topic
from exporter.local.dynamodb import DynamoDbLocal
from exporter.local.registry import LocalRegistry
from exporter.local.s3 import BUCKET, LocalS3
from exporter.local.server import CREDENTIALS, accepts
from exporter.stores.store import Store
from exporter.stores.stores import open_store
from tests.support.hdfs import LocalHdfs

DOCKER_SECS_MAX = 2.0
"""How long a Docker daemon may take to say that it is there."""

CONTAINER_SECS_MAX = 60.0
PRODUCE_SECS_MAX = TOPIC_SECS_MAX = 30.0
HEAP_MB = 512
"""Of the broker: it has the topics of a whole run, some thousand partitions."""


class Record(NamedTuple):
    """What a test writes. timestamp_ms: ms since 1970; 0 is the time of writing."""

    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()
    timestamp_ms: int = 0


@contextmanager
def kafka_broker() -> Iterator[str]:
    """host:port of a broker: $EXPORTER_TEST_KAFKA, else a container if Docker answers, else a child process."""
    given = os.environ.get("EXPORTER_TEST_KAFKA")
    if given:
        if not answers(given, 10.0):
            raise RuntimeError(f"EXPORTER_TEST_KAFKA is {given}, but no broker answers there")
        yield given
    elif docker_answers():
        from testcontainers.kafka import KafkaContainer

        container = KafkaContainer().with_kraft()
        container.with_env("KAFKA_AUTO_CREATE_TOPICS_ENABLE", "false").with_env("KAFKA_MESSAGE_MAX_BYTES", "20000000")
        with container.with_env("KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS", "0"):
            yield container.get_bootstrap_server()
    else:
        with Broker(heap_mb=HEAP_MB) as broker:
            yield broker.bootstrap


@contextmanager
def dynamodb_endpoint() -> Iterator[str]:
    """URL of a DynamoDB: $EXPORTER_TEST_DYNAMODB, else a container if Docker answers, else a child process."""
    given = os.environ.get("EXPORTER_TEST_DYNAMODB")
    if given:
        yield given
    elif docker_answers():
        from testcontainers.core.container import DockerContainer

        container = DockerContainer("amazon/dynamodb-local:2.6.1").with_exposed_ports(8000)
        with container.with_command("-jar DynamoDBLocal.jar -inMemory -sharedDb -disableTelemetry"):
            port, deadline = int(container.get_exposed_port(8000)), time.monotonic() + CONTAINER_SECS_MAX
            while not accepts(port, container.get_container_host_ip()):
                if time.monotonic() > deadline:
                    raise RuntimeError("the container of DynamoDB Local does not listen")
                time.sleep(0.05)  # pace of the polling, bounded by the deadline
            yield f"http://{container.get_container_host_ip()}:{port}"
    else:
        with DynamoDbLocal() as dynamodb:
            yield dynamodb.endpoint


@contextmanager
def schema_registry() -> Iterator[str]:
    """URL of a schema registry: $EXPORTER_TEST_REGISTRY, else a child process."""
    given = os.environ.get("EXPORTER_TEST_REGISTRY")
    if given:
        yield given
    else:
        with LocalRegistry() as registry:
            yield registry.url


ADDRESSES = {"kafka": kafka_broker, "dynamodb": dynamodb_endpoint, "registry": schema_registry}
"""What tests of several processes share (shared.py)."""


@contextmanager
def s3_store() -> Iterator[Store]:
    """A bucket: $EXPORTER_TEST_S3 (http://host:port/bucket), else one of a child process."""
    set_credentials()
    given = os.environ.get("EXPORTER_TEST_S3")
    if given:
        endpoint, _, bucket = given.rpartition("/")
        yield open_store(f"s3://{bucket}", s3_options(endpoint))
    else:
        with LocalS3() as s3:
            yield open_store(f"s3://{BUCKET}", s3_options(s3.endpoint))


def set_credentials() -> None:
    """Those of the environment, where there are none, to what DynamoDB Local and moto take."""
    for name, text in CREDENTIALS.items():
        os.environ.setdefault(name, text)


@contextmanager
def hdfs_store() -> Iterator[Store]:
    """A folder of an HDFS: $EXPORTER_TEST_HDFS (hdfs://namenode:port/path), else all of a child process."""
    given = os.environ.get("EXPORTER_TEST_HDFS")
    if given:
        yield open_store(given)
    else:
        with LocalHdfs() as hdfs:
            yield open_store(hdfs.uri)


def s3_options(endpoint: str) -> dict[str, str]:
    """What a store is told of an S3 that is on this machine."""
    return {"endpoint": endpoint, "region": "us-east-1"}


def docker_answers() -> bool:
    """Whether a Docker daemon answers within DOCKER_SECS_MAX.

    Asked over its socket, because the client library waits for a minute.
    """
    address = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
    scheme, _, rest = address.partition("://")
    if scheme == "unix":
        if not Path(rest).is_socket():
            return False
        client = socket.socket(socket.AF_UNIX)
        target: Any = rest
    else:
        host, _, port = rest.partition(":")
        client, target = socket.socket(), (host, int(port or 2375))
    with client:
        client.settimeout(DOCKER_SECS_MAX)
        try:
            client.connect(target)
            client.sendall(b"GET /_ping HTTP/1.0\r\nHost: docker\r\n\r\n")
            return b" 200 " in client.recv(64)
        except OSError:
            return False


def fresh_name(prefix: str = "t") -> str:
    """A topic name that no other test uses, also on a given broker."""
    return f"{prefix}-{uuid.uuid4().hex[:12]}"


@contextmanager
def administered(bootstrap: str, **login: Any) -> Iterator[KafkaAdminClient]:
    """An admin client of a broker. login: what that asks for."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap, **login)
    try:
        yield admin
    finally:
        admin.close()


def remove_topic(bootstrap: str, topic: str) -> None:
    """Delete it, and return when it is gone."""
    with administered(bootstrap) as admin:
        admin.delete_topics([topic])
        deadline = time.monotonic() + TOPIC_SECS_MAX
        while topic in admin.list_topics():
            if time.monotonic() > deadline:
                raise RuntimeError(f"the topic {topic} is not gone")
            time.sleep(0.05)  # pace of the polling, bounded by the deadline


def make_again(bootstrap: str, topic: str, partitions: int = 1) -> None:
    """Delete a topic and make another one under the same name."""
    remove_topic(bootstrap, topic)
    create_topic(bootstrap, topic, partitions)


def produce(
    bootstrap: str, topic: str, records: Mapping[int, Sequence[Record]], security: Mapping[str, str] | None = None
) -> None:
    """Write partition -> records, each partition in order; RuntimeError if one is not acknowledged.

    security: options of librdkafka.
    """
    failed: list[object] = []
    producer = Producer(
        {"bootstrap.servers": bootstrap, "enable.idempotence": True, "message.max.bytes": 20_000_000, "log_level": 3}
        | {"on_delivery": lambda error, _: failed.append(error) if error else None}
        | dict(security or {})
    )
    for partition, rows in records.items():
        for row in rows:
            producer.produce(
                topic, row.value, row.key, partition, timestamp=row.timestamp_ms, headers=list(row.headers)
            )
    left = producer.flush(PRODUCE_SECS_MAX)
    if left or failed:
        raise RuntimeError(f"{topic}: {left} records without an answer, errors: {failed[:1]}")
