"""Exports with a write-ahead log under test: its table, what it holds, and a client that can be cut off.

The tables are read with deltalake and the topic with confluent-kafka as everywhere; the log is read with boto3 itself.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from botocore.exceptions import EndpointConnectionError

from exporter.wal.dynamodb import DynamoDbLog
from exporter.wal.dynamodb_calls import Calls, connect
from exporter.wal.dynamodb_table import create_table
from tests.support.fake_dynamodb import Wrapped
from tests.support.lakes import Export


@dataclass(frozen=True)
class LoggedCommitItem:
    """One item of the log, as it stands there."""

    event_type: str
    partition: int
    epoch: int
    expected: int
    new: int
    rows: int
    state: str


class Log:
    """The log's table of one export, and the way to it: cut() and mend(), fail_share of all calls, counted calls."""

    def __init__(self, endpoint: str, table: str) -> None:
        self.table = table
        self.endpoint = endpoint
        self.calls: Counter[str] = Counter()
        self.fail_share = 0.0
        self._direct = connect(endpoint)
        self._cut = threading.Event()
        self._random = random.Random(7)
        self.create()

    def create(self) -> None:
        create_table(self._direct, self.table)

    def delete(self) -> None:
        self._direct.client.delete_table(TableName=self.table)

    def cut(self) -> None:
        self._cut.set()

    def mend(self) -> None:
        self._cut.clear()

    def open(self, app: str) -> Callable[[float], DynamoDbLog]:
        """log_of for build_service."""

        def around(name: str, go_on: Callable[[], Any]) -> Any:
            self.calls[name] += 1
            if self._cut.is_set():
                raise EndpointConnectionError(endpoint_url=self.endpoint)
            fails, lost = self._random.random() < self.fail_share, self._random.random() < 0.5
            if fails and not lost:
                raise EndpointConnectionError(endpoint_url=self.endpoint)
            answer = go_on()
            if fails:
                raise EndpointConnectionError(endpoint_url=self.endpoint)
            return answer

        client = Wrapped(self._direct.client, around)
        return lambda deadline_secs: DynamoDbLog(Calls(client, 0.0), self.table, app)

    def items(self) -> list[LoggedCommitItem]:
        """Every intent, by type, partition and position."""
        found = self._direct.client.scan(TableName=self.table, ConsistentRead=True)["Items"]
        intents = [item for item in found if item["sk"]["S"].startswith("intent/")]
        return sorted((_read(item) for item in intents), key=lambda i: (i.event_type, i.partition, i.epoch, i.new))

    def states(self) -> Counter[str]:
        return Counter(item.state for item in self.items())

    def newest(self) -> dict[tuple[str, int], int]:
        """(event type, partition) -> position of the newest completed commit."""
        return {(i.event_type, i.partition): i.new for i in self.items() if i.state == "completed"}

    def of(self, export: Export, **scalars: Any) -> Export:
        """The export with this log: tasks through the client that can be cut off, verbs straight."""
        settings = {"wal_table": self.table, "wal_endpoint": self.endpoint, **scalars}
        return replace(export.with_(**settings), log_of=self.open(export.app))


def _read(item: dict[str, Any]) -> LoggedCommitItem:
    number = {name: int(item[name]["N"]) for name in ("epoch", "expected", "new", "rows")}
    partition = int(item["pk"]["S"].rpartition("/")[2])
    return LoggedCommitItem(
        item["event_type"]["S"], partition, number["epoch"], number["expected"], number["new"], number["rows"],
        item["state"]["S"],
    )  # fmt: skip
