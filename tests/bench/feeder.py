"""Writes records at a steady rate with the present time as timestamp: a process of its own, for part freshness."""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict
from itertools import cycle

from tests.bench.load import Load, Sender, pace

PREPARED = 40_000
"""Records that are made beforehand and sent in turn: to make one costs more than to send it."""
LINGER_MS = 5


def words(bootstrap: str, topic: str, load: Load, per_sec: int, secs: float) -> list[str]:
    """The command line."""
    return [bootstrap, topic, json.dumps(asdict(load)), str(per_sec), str(secs)]


def main() -> None:
    """Prints `since` (seconds since 1970) and how many were sent, and how far from the rate that was."""
    parser = argparse.ArgumentParser()
    for name, kind in (("bootstrap", str), ("topic", str), ("load", json.loads), ("per_sec", int), ("secs", float)):
        parser.add_argument(name, type=kind)
    given = parser.parse_args()
    load = Load(**given.load)
    parts = range(load.partitions)
    streams = [load.records(PREPARED, partition) for partition in parts]
    prepared = [
        (partition, record)
        for records in zip(*streams, strict=False)
        for partition, record in zip(parts, records, strict=True)
    ]
    sender, since = Sender(given.bootstrap, given.topic, LINGER_MS), time.time()
    print(json.dumps({"event": "feeding", "since": since}), flush=True)
    sent = pace(sender, cycle(prepared), given.per_sec, given.secs)
    sender.flush()
    print(json.dumps({"event": "fed", "sent": sent, "late_secs": time.time() - since - given.secs}), flush=True)
