"""The broker and the DynamoDB of a drill: its own, on free ports of 127.0.0.1, or given ones."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from exporter.broker import Broker
from exporter.dynamodb_local import CREDENTIALS, DynamoDbLocal, runs_here
from exporter.errors import DependencyUnreachable
from offsets.wal import WalMismatch, WalUnreachable, connect
from offsets.wal_table import create_table


@dataclass
class Services:
    """Where a drill takes place. broker, dynamodb: its own, which it may kill; None: given, or there is none.

    kafka_client: TOML keys of [kafka_client] for a given broker. endpoint: DynamoDB's; empty: there is no log.
    """

    bootstrap: str
    endpoint: str = ""
    broker: Broker | None = None
    dynamodb: DynamoDbLocal | None = None
    client_options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def options(self) -> dict[str, Any]:
        """For kafka-python's clients."""
        return {"bootstrap_servers": self.bootstrap.split(","), **self.client_options}

    def make_log(self, table: str) -> None:
        """A table for a write-ahead log. Raises DependencyUnreachable."""
        try:
            create_table(connect(self.endpoint), table)
        except (WalUnreachable, WalMismatch) as error:
            raise DependencyUnreachable(f"DynamoDB: {error.message}", "start the drill again") from error

    def drop_log(self, table: str) -> None:
        """Raises DependencyUnreachable."""
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
    services = Services("", broker=broker)
    try:
        broker.start()
        services.bootstrap = broker.bootstrap
        if runs_here():
            services.dynamodb = DynamoDbLocal()
            services.dynamodb.start()
            services.endpoint = services.dynamodb.endpoint
            os.environ.update(CREDENTIALS)
    except BaseException:
        services.close()
        raise
    return services
