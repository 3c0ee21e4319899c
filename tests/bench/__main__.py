"""`python -m tests.bench`: a catch-up of mixed events on a real broker, as a user would run it.

Prints one JSON object: records/s from the moment the positions are known to the last commit (start-up is
stated apart), core-seconds, and the peak of the summed PSS of driver, JVM and Python workers. With --wal also what the
write-ahead log, a DynamoDB Local, was asked: calls in all, and per commit with files and partition.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil

from exporter import events
from exporter.broker import Broker, create_topic
from exporter.dynamodb_local import CREDENTIALS, DynamoDbLocal
from offsets.wal import connect
from offsets.wal_table import create_table

SAMPLE_SECS = 0.25
WAL_TABLE = "bench-wal"


@dataclass
class Usage:
    """Peak summed PSS in bytes of a process and its children, and the CPU seconds they used."""

    pss_bytes: int = 0
    cpu_secs: float = 0.0
    parts: dict[str, int] = field(default_factory=dict)
    _cpu: dict[int, float] = field(default_factory=dict)

    def sample(self, root: psutil.Process) -> None:
        """Look once; processes that end meanwhile are passed over."""
        parts: dict[str, int] = {}
        for process in family(root):
            try:
                kind = "jvm" if process.name() == "java" else "driver" if process.pid == root.pid else "workers"
                parts[kind] = parts.get(kind, 0) + process.memory_full_info().pss
                times = process.cpu_times()
                self._cpu[process.pid] = times.user + times.system
            except psutil.Error:
                continue
        if sum(parts.values()) > self.pss_bytes:
            self.pss_bytes, self.parts = sum(parts.values()), parts
        self.cpu_secs = sum(self._cpu.values())


def family(root: psutil.Process) -> list[psutil.Process]:
    """The process and all its descendants, as far as they live."""
    try:
        return [root, *root.children(recursive=True)]
    except psutil.Error:
        return []


def settings_toml(bootstrap: str, topic: str, lake: Path, wal_endpoint: str = "") -> str:
    """Defaults everywhere but for what has none."""
    log = [f'wal_table = "{WAL_TABLE}"', f'wal_endpoint = "{wal_endpoint}"'] if wal_endpoint else []
    lines = [
        f'brokers = ["{bootstrap}"]',
        f'topics = ["{topic}"]',
        'group = "bench"',
        f'table_root = "{lake}"',
        f"record_bytes_max = {events.RECORD_BYTES_MAX}",
        *log,
        '[type_from]\nkind = "json"\nname = "type"',
        '[event_time]\nkind = "json"\npath = "ts"',
    ]
    lines += [f'[types.{name}]\ncolumns = "{ddl}"' for name, ddl in events.schemas().items()]
    return "\n".join(lines) + "\n"


def export(folder: Path, config: Path) -> tuple[Usage, list[dict[str, Any]]]:
    """Run the exporter until it has caught up; what it used and its log lines."""
    log_path = folder / "exporter.log"
    command = [sys.executable, "-c", "from exporter.cli import main; main()", "run", "--until-caught-up"]
    with log_path.open("w") as log:
        child = subprocess.Popen([*command, "--config", str(config)], stderr=log, stdin=subprocess.DEVNULL)
    usage = Usage()
    stop = threading.Event()

    def watch() -> None:
        root = psutil.Process(child.pid)
        while not stop.wait(SAMPLE_SECS):
            usage.sample(root)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        code = child.wait()
    finally:
        stop.set()
        watcher.join()
        if child.poll() is None:
            child.kill()
    if code:
        raise SystemExit(f"the exporter ended with {code}:\n{log_path.read_text()[-3000:]}")
    return usage, list(log_lines(log_path))


def log_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The JSON lines of a log, progress lines passed over."""
    for line in path.read_text().splitlines():
        if line.startswith("{"):
            yield json.loads(line)


def figures(records: int, usage: Usage, lines: list[dict[str, Any]], wall_secs: float) -> dict[str, Any]:
    """What the run amounts to."""

    def at(event: str, last: bool = False) -> datetime:
        times = [line["time"] for line in lines if line["event"] == event]
        return datetime.fromisoformat(times[-1 if last else 0].replace("Z", "+00:00"))

    secs = (at("commit_landed", last=True) - at("positions_recovered")).total_seconds()
    committed = sum(line["rows"] for line in lines if line["event"] == "commit_landed")
    return {
        "records": records,
        "committed": committed,
        "secs": round(secs, 1),
        "records_per_sec": round(committed / secs),
        "core_secs_per_million": round(usage.cpu_secs / committed * 1e6, 1),
        "pss_peak_mib": round(usage.pss_bytes / 2**20),
        "pss_peak_parts_mib": {kind: round(size / 2**20) for kind, size in usage.parts.items()},
        "start_up_secs": round(wall_secs - secs, 1),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        **wal_cost(lines),
    }


def wal_cost(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """What the log was asked; a claim is one partition of a commit with files. Nothing without a log."""
    calls = next((line["calls"] for line in lines if line["event"] == "wal_closed"), None)
    if calls is None:
        return {}
    claims = sum(len(line["positions"]) for line in lines if line["event"] == "commit_landed" and line["files"])
    writes = sum(count for name, count in calls.items() if name != "query")
    return {"wal_calls": calls, "wal_writes_per_claim": round(writes / claims, 2)}


def catch_up(records: int, partitions: int, with_wal: bool = False) -> dict[str, Any]:
    """Fill a topic, export it in one go, measure."""
    with tempfile.TemporaryDirectory(prefix="exporter-bench-") as name, ExitStack() as running:
        folder = Path(name)
        endpoint = ""
        if with_wal:
            os.environ.update(CREDENTIALS)
            endpoint = running.enter_context(DynamoDbLocal()).endpoint
            create_table(connect(endpoint), WAL_TABLE)
        with Broker(folder / "broker") as broker:
            create_topic(broker.bootstrap, "bench", partitions)
            tally = events.produce(broker.bootstrap, "bench", records, partitions=partitions)
            print(f"{records:,} records, {tally.value_bytes / records:.0f} bytes each", file=sys.stderr)
            config = folder / "exporter.toml"
            config.write_text(settings_toml(broker.bootstrap, "bench", folder / "lake", endpoint))
            started = time.monotonic()
            usage, lines = export(folder, config)
            return figures(records, usage, lines, time.monotonic() - started)


def main() -> None:
    """Parse, run, print."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--partitions", type=int, default=2)
    parser.add_argument("--wal", action="store_true", help="with a write-ahead log in DynamoDB Local")
    given = parser.parse_args()
    print(json.dumps(catch_up(given.records, given.partitions, given.wal), indent=2))


if __name__ == "__main__":
    main()
