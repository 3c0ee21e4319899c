"""Broker, DynamoDB and store of a drill: its own, on free ports of 127.0.0.1, or those of a settings file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kafka.admin import KafkaAdminClient
from kafka.errors import GroupIdNotFoundError, KafkaError, UnknownTopicOrPartitionError
from pydantic import SecretStr

from exporter.drill.lakes import FolderLakes, Lakes
from exporter.errors import DependencyUnreachable
from exporter.kafka.options import kafka_python_options
from exporter.local.broker import Broker, create_topic
from exporter.local.dynamodb import DynamoDbLocal, runs_here
from exporter.local.server import CREDENTIALS
from exporter.settings.model import Settings
from exporter.wal.dynamodb_calls import connect
from exporter.wal.dynamodb_table import create_table
from offsets.intents import WalMismatch, WalUnreachable

OWN = frozenset({"broker", "dynamodb"})


@dataclass
class Services:
    """Where a drill takes place. broker, dynamodb: its own, which it may kill; None: given, or there is none.

    options: for kafka-python's clients. client: keys of [kafka_client] for the tasks. log: whether there is one;
    endpoint: of its DynamoDB, empty for AWS. lakes: where the tables stand.
    """

    options: dict[str, Any] = field(default_factory=dict)
    client: Mapping[str, Any] = field(default_factory=dict)
    log: bool = False
    endpoint: str = ""
    broker: Broker | None = None
    dynamodb: DynamoDbLocal | None = None
    lakes: Lakes = field(default_factory=FolderLakes)

    @property
    def bootstrap(self) -> list[str]:
        """host:port of some brokers."""
        return list(self.options["bootstrap_servers"])

    @property
    def own(self) -> frozenset[str]:
        """What may be killed or broken."""
        return frozenset(name for name in OWN if getattr(self, name) is not None) | self.lakes.own

    def make_topic(self, topic: str, partitions: int, config: Mapping[str, str] | None = None) -> None:
        """It must not exist. Raises ConfigError if it does, DependencyUnreachable."""
        replication = 1 if self.broker is not None else -1
        create_topic(self.bootstrap[0], topic, partitions, config, self.options, replication)

    def drop_topic(self, topic: str, group: str) -> None:
        """With the group that read it. Raises DependencyUnreachable; what is gone already is no error."""
        admin = KafkaAdminClient(**self.options)
        try:
            for drop, name in ((admin.delete_topics, topic), (admin.delete_groups, group)):
                try:
                    drop([name])
                except (UnknownTopicOrPartitionError, GroupIdNotFoundError):
                    continue
        except KafkaError as error:
            raise DependencyUnreachable(f"the topic {topic} could not be deleted: {error!r}", "delete it") from error
        finally:
            admin.close()

    def make_log(self, table: str) -> None:
        """A table for a write-ahead log. Raises DependencyUnreachable."""
        try:
            create_table(connect(self.endpoint), table)
        except (WalUnreachable, WalMismatch) as error:
            raise DependencyUnreachable(f"DynamoDB: {error.message}", "start the drill again") from error

    def drop_log(self, table: str) -> None:
        """Delete the write-ahead log's table. Raises DependencyUnreachable."""
        try:
            connect(self.endpoint).call("delete_table", TableName=table)
        except WalUnreachable as error:
            if not error.table_missing:
                raise DependencyUnreachable(f"DynamoDB: {error.message}", f"delete the table {table}") from error

    def close(self) -> None:
        """End what is its own."""
        if self.dynamodb is not None:
            self.dynamodb.close()
        if self.broker is not None:
            self.broker.close()


def own_services() -> Services:
    """A broker and, where it can run, DynamoDB Local."""
    broker = Broker()
    services = Services({"bootstrap_servers": [broker.bootstrap]}, broker=broker)
    try:
        broker.start()
        if runs_here():
            services.dynamodb = DynamoDbLocal()
            services.dynamodb.start()
            services.log, services.endpoint = True, services.dynamodb.endpoint
            os.environ.update(CREDENTIALS)
    except BaseException:
        services.close()
        raise
    return services


def _as_toml(value: object) -> object:
    """What JSON and TOML write alike."""
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    return value if isinstance(value, bool | int | float) else str(value)


def given_services(settings: Settings) -> Services:
    """Those of a settings file: its brokers and, if it has a log, the DynamoDB of that."""
    given = {name: getattr(settings.kafka_client, name) for name in settings.kafka_client.model_fields_set}
    client = {name: _as_toml(value) for name, value in given.items() if value is not None}
    log = bool(settings.wal_table) and settings.wal_mode != "off"
    return Services(kafka_python_options(settings), client, log, settings.wal_endpoint if log else "")
