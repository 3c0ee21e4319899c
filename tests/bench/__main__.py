"""`python -m tests.bench`: what the exporter does per core and second, on a real broker, beside its alternatives.

Prints one JSON object and writes it to a folder with an HTML page of the same. Each part is a file of this package;
together they have an hour on two cores that have nothing else to do. A part that fails is told in both; the others
go on, and the exit code is 1 then. A target that is missed is told, and is no failure.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from exporter.local.children import ended_by_signals
from exporter.operate.prepare import prepare
from exporter.spark import class_data, jars
from tests.bench import (
    audits,
    catch_up,
    commits,
    coordinated,
    derive,
    evolving,
    formats,
    freshness,
    idle,
    later,
    limit,
    memory,
    object_store,
    pairs,
    partitions,
    rules,
    sparse,
    start_up,
    sync,
    unknown_fields,
    wal,
)
from tests.bench.desk import CORES, HEAP, ROOT, Desk
from tests.bench.figures import Outcome
from tests.bench.page import as_html


@dataclass(frozen=True)
class Part:
    """budget_secs: what it may take at scale 1."""

    title: str
    run: Callable[[Desk], Outcome]
    budget_secs: int
    usual: bool = True


PARTS = {
    "catch-up": Part("Catch-up: throughput and CPU", catch_up.run, 330),
    "structured": Part("Beside the Structured Streaming job", pairs.run, 1500),
    "limit": Part("Against the limit", limit.run, 180),
    "freshness": Part("Freshness: from produced to readable", freshness.run, 330),
    "commits": Part("What commits cost", commits.run, 300),
    "start-up": Part("Start-up", start_up.run, 360),
    "memory": Part("Memory", memory.run, 120),
    "idle": Part("Idle", idle.run, 120),
    "sparse": Part("Small files", sparse.run, 210),
    "audits": Part("The proof", audits.run, 300, usual=False),
    "partitions": Part("Many partitions", partitions.run, 150, usual=False),
    "sync": Part("With and without waiting for the disk", sync.run, 240, usual=False),
    "unknown": Part("Fields that no column holds", unknown_fields.run, 150),
    "evolving": Part("Columns that evolution made", evolving.run, 300, usual=False),
    "rules": Part("Filters and computed columns", rules.run, 360, usual=False),
    "formats": Part("JSON, Avro and Protobuf", formats.run, 600, usual=False),
    "s3": Part("A folder and an object store", object_store.run, 480, usual=False),
    "derive": Part("Tables and topics that are made of others", derive.run, 600, usual=False),
    "coordinated": Part("Commits of a leader", coordinated.run, 540, usual=False),
    "later": Part("Columns that came later, and rows in order", later.run, 900, usual=False),
    "wal": Part("With a write-ahead log", wal.run, 120, usual=False),
}
"""In the order in which they run; those that are not usual only where they are asked for."""
LOOP = 4_000_000
"""Rounds of the loop before, between and after the parts."""


def environment() -> dict[str, Any]:
    """The machine and the versions."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    java = subprocess.run([str(jars.find_java()), "-version"], capture_output=True, text=True, check=False)
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return {
        "cores": os.cpu_count(),
        "cores of Spark": CORES,
        "heap of the JVM": HEAP,
        "memory, GiB": round(memory / 2**30, 1),
        "system": platform.platform(terse=True),
        "processor": _processor(),
        "load at the start": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "java": (java.stderr.splitlines() or ["?"])[0],
        "commit": commit.stdout.strip() or "?",
        "class-data sharing": class_data.ready() is not None,
        **{name: version(name) for name in ("pyspark", "pyarrow", "msgspec", "kafka-python", "confluent-kafka")},
        "jars": ", ".join(jar.file_name for jar in jars.listed("spark") if "delta-spark" in jar.file_name),
    }


def _processor() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "?")


def loop_secs() -> float:
    """Seconds of a fixed loop on one core: how fast the machine is just now, by which figures of two runs differ."""
    started, total = time.perf_counter(), 0
    for number in range(LOOP):
        total += number * number
    return round(time.perf_counter() - started, 3)


def measure(names: Sequence[str], scale: float, keep: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Run the parts; what is to be told. keep: called after each part, so that a broken run leaves what it had."""
    began = time.monotonic()
    told: dict[str, Any] = {
        "began": time.strftime("%Y-%m-%d %H:%M", time.gmtime()), "scale": scale, "secs": 0.0,
        "environment": environment(), "parts": {},
    }  # fmt: skip
    loop = loop_secs()
    for name in names:
        part, started, before = PARTS[name], time.monotonic(), loop
        folder = Path(tempfile.mkdtemp(prefix=f"exporter-bench-{name}-"))
        desk = Desk(folder, scale)
        desk.say(f"{name} begins")
        try:
            found = part.run(desk).as_json()
        except Exception as error:  # noqa: BLE001 - told, and the other parts are worth having
            traceback.print_exc()
            found = {"error": f"{type(error).__name__}: {error}"}
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        secs = round(time.monotonic() - started, 1)
        loop = loop_secs()
        about = {"title": part.title, "secs": secs, "budget_secs": part.budget_secs, "loop_secs": [before, loop]}
        told["parts"][name] = {**about, **found}
        told["secs"] = round(time.monotonic() - began, 1)
        keep(told)
    return told


def _names(text: str) -> list[str]:
    """Names of parts, in the order of PARTS. Raises argparse.ArgumentTypeError."""
    asked = {name.strip() for name in text.split(",") if name.strip()}
    if unknown := asked - PARTS.keys():
        raise argparse.ArgumentTypeError(f"no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    return [name for name in PARTS if name in asked]


def main() -> None:
    """Parse, run, print."""
    usual = [name for name, part in PARTS.items() if part.usual]
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--only", type=_names, default=usual, metavar="NAME[,NAME]", help=", ".join(PARTS))
    parser.add_argument("--out", type=Path, default=Path("artifacts"), help="folder for bench.json and bench.html")
    parser.add_argument("--scale", type=float, default=1.0, help="of record numbers; below 1 also of durations")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)

    def keep(told: dict[str, Any]) -> None:
        (given.out / "bench.json").write_text(json.dumps(told, indent=2))
        (given.out / "bench.html").write_text(as_html(told))

    if prepare():
        print("fetched jars and made the archive of classes first", file=sys.stderr)
    with ended_by_signals():
        told = measure(given.only, given.scale, keep)
    print(json.dumps(told, indent=2))
    if any("error" in part for part in told["parts"].values()):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
