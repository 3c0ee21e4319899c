"""Part wal: the base case of catch-up with a write-ahead log, a DynamoDB Local, and what that log was asked.

Budget 2 min: 1 M records.
"""

from __future__ import annotations

import os

from exporter.local.dynamodb import DynamoDbLocal
from exporter.local.server import CREDENTIALS
from exporter.wal.dynamodb_calls import connect
from exporter.wal.dynamodb_table import create_table
from tests.bench.catch_up import figures
from tests.bench.desk import Desk, Run, checked
from tests.bench.figures import Outcome, Row
from tests.bench.load import Load

RECORDS = 1_000_000
TABLE = "bench-wal"


def run(desk: Desk) -> Outcome:
    """One export with the log."""
    os.environ.update(CREDENTIALS)
    with DynamoDbLocal() as dynamodb, desk.broker():
        create_table(connect(dynamodb.endpoint), TABLE)
        topic = desk.topic(Load(), desk.count(RECORDS, least=5_000))
        config = desk.config(topic, desk.lake(), wal_table=TABLE, wal_endpoint=dynamodb.endpoint)
        done = checked(desk.export(config), topic)
    return Outcome(tables={"10 types, 360 B, 2 partitions": [{**figures(done, topic), **asked(done)}]})


def asked(run: Run) -> Row:
    """Calls by name; a claim is one partition of a commit with files."""
    calls = dict(run.of("wal_closed")[-1]["calls"])
    claims = sum(len(line["positions"]) for line in run.of("commit_landed") if line["files"])
    writes = sum(count for name, count in calls.items() if name != "query")
    return {**calls, "writes per claim": round(writes / claims, 2)}
