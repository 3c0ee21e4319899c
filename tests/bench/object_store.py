"""Part s3: an object store beside a folder: throughput of a catch-up, what a commit takes, a start after much history.

The server is a MinIO, if there is one on the path, else moto. It runs on the same cores, so what it uses of them is
measured and told; throughput "without the server" takes its CPU, spread over the cores, off the time.

Budget 8 min: a topic of 3 M records, three times each in turn; bursts of one type; two tables of 10 and 20,000 commits.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import boto3

from exporter.local.s3 import BUCKET, LocalS3
from exporter.local.server import CREDENTIALS, accepts, free_ports
from exporter.stores.stores import open_store
from tests.bench.commits import COMMIT_SECS_MAX, one_burst
from tests.bench.desk import Desk, Filled, Run, checked
from tests.bench.figures import Outcome, Row, Target, percentile, ratios, rounded
from tests.bench.load import Load
from tests.bench.start_up import COMMITS_EACH, FRESH, LONG_HISTORY_TIMES_MAX, STARTS, age, made

RECORDS, TURNS, BURSTS = 3_000_000, 3, 20
SHARE_MIN = 0.8
HISTORIES = (10, 20_000)
START_SECS_MAX = 30.0
_CORES = os.cpu_count() or 1
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Server:
    """An S3 of this part. pid: of its process."""

    name: str
    endpoint: str
    pid: int

    def cpu_secs(self) -> float:
        """What it has used so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    @property
    def options(self) -> dict[str, str]:
        return {"endpoint": self.endpoint, "region": "us-east-1"}

    @property
    def settings(self) -> dict[str, Any]:
        return {"s3_endpoint": self.endpoint, "s3_region": "us-east-1"}

    def lake(self) -> str:
        """A new, empty place for tables."""
        return f"s3://{BUCKET}/lake-{uuid.uuid4().hex[:8]}"


@contextmanager
def server(folder: Path) -> Iterator[Server]:
    """MinIO or moto, with a bucket; what its clients are told besides stands in this process's environment."""
    os.environ.update(CREDENTIALS)
    if program := shutil.which("minio"):
        with _minio(program, folder) as found:
            yield found
        return
    with LocalS3() as moto:
        yield Server("moto", moto.endpoint, moto.pid)


@contextmanager
def _minio(program: str, folder: Path) -> Iterator[Server]:
    port, console = free_ports(2)
    login = {"MINIO_ROOT_USER": "benchmark", "MINIO_ROOT_PASSWORD": "benchmark"}
    os.environ.update(AWS_ACCESS_KEY_ID="benchmark", AWS_SECRET_ACCESS_KEY="benchmark")
    command = [program, "server", str(folder / "minio"), "--address", f"127.0.0.1:{port}"]
    command += ["--console-address", f"127.0.0.1:{console}", "--quiet"]
    with (folder / "minio.log").open("wb") as log:
        child = subprocess.Popen(command, env={**os.environ, **login}, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + START_SECS_MAX
        while not accepts(port):
            if child.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"MinIO does not listen:\n{(folder / 'minio.log').read_text()[-2000:]}")
            time.sleep(0.05)  # pace of the polling, bounded by the deadline
        found = Server("MinIO", f"http://127.0.0.1:{port}", child.pid)
        boto3.client("s3", endpoint_url=found.endpoint, region_name="us-east-1").create_bucket(Bucket=BUCKET)
        yield found
    finally:
        child.terminate()
        child.wait(30)


def run(desk: Desk) -> Outcome:
    """All three."""
    outcome = Outcome()
    with server(desk.folder) as s3:
        outcome.notes.append(f"The store is {s3.name}.")
        _catch_up(desk, s3, outcome)
        _commits(desk, s3, outcome)
        _start_up(desk, s3, outcome)
    return outcome


def _catch_up(desk: Desk, s3: Server, outcome: Outcome) -> None:
    """The same topic into a folder and into the store, in turn."""
    rows: list[Row] = []
    speeds: dict[str, list[float]] = {"file": [], "s3": []}
    with desk.broker():
        topic = desk.topic(Load(), desk.count(RECORDS, least=5_000))
        for _ in range(TURNS):
            for name in speeds:
                before = s3.cpu_secs()
                lake, settings = (desk.lake(), {}) if name == "file" else (s3.lake(), s3.settings)
                done = checked(desk.export(desk.config(topic, lake, **settings)), topic)
                theirs = s3.cpu_secs() - before
                speeds[name].append(done.rows / (done.secs - theirs / _CORES))
                rows.append(_row(name, done, theirs, speeds[name][-1]))
    each, share = ratios(speeds["s3"], speeds["file"])
    outcome.tables["A catch-up of 10 types, in turn"] = rows
    outcome.targets.append(Target("throughput, times that of file:", share, SHARE_MIN, "x", at_least=True))
    outcome.notes.append(f"Pairs: {', '.join(f'{one:.2f}' for one in each)}.")


def _row(name: str, done: Run, theirs: float, without: float) -> Row:
    used = sum(done.usage.between(*done.window).values())
    return {
        "store": name,
        "records/s": round(done.rows / done.secs),
        "records/s, without the server": round(without),
        "core-s/M, window": rounded(used / done.rows * 1e6),
        "server, core-s": rounded(theirs),
        "commits": len(done.of("commit_landed")),
        "commit, median": rounded(median(float(line["secs"]) for line in done.of("commit_landed"))),
    }


def _commits(desk: Desk, s3: Server, outcome: Outcome) -> None:
    """One record of one type and partition at a time, each awaited; the same into a folder."""
    rows: list[Row] = []
    places: list[tuple[str, str | Path, Mapping[str, Any]]] = [
        ("file", desk.lake(), {}), ("s3", s3.lake(), s3.settings),
    ]  # fmt: skip
    for name, lake, settings in places:
        with desk.broker():
            topic = desk.topic(Load(types=1, size="small", bad_every=0), 20)
            desk.export(desk.config(topic, lake, **settings))
            config = desk.config(topic, lake, roll_age_max_secs=1, heartbeat_secs=600, poll_secs=0.2, **settings)
            with desk.exporting(config) as task:
                secs = [secs for _ in range(1 + max(3, desk.count(BURSTS))) for secs in one_burst(task, topic)][2:]
        rows.append({"store": name, "commits": len(secs), "commit, median": rounded(median(secs)),
                     "commit, p90": rounded(percentile(secs, 0.9))})  # fmt: skip
    outcome.tables["What a commit takes, seconds"] = rows
    found = float(rows[-1]["commit, median"] or 0)
    outcome.targets.append(Target("a commit of one type in S3, median", found, COMMIT_SECS_MAX, "s"))


def _start_up(desk: Desk, s3: Server, outcome: Outcome) -> None:
    """Starts with a short and with a long history behind the one table, in turn."""
    lengths = [desk.count(commits, least=10) for commits in HISTORIES]
    with desk.broker():
        topic, base = made(desk, 1)
        desk.add(topic, max(lengths) + (STARTS + 1) * FRESH)
        lakes = {commits: _aged(desk, s3, topic, base, commits) for commits in lengths}
        runs: dict[int, list[Run]] = {commits: [] for commits in lakes}
        for lake in lakes.values():
            desk.export(desk.config(topic, lake, **s3.settings))
        for _ in range(STARTS):
            desk.add(topic, FRESH)
            for commits, lake in lakes.items():
                runs[commits].append(desk.export(desk.config(topic, lake, **s3.settings)))
    firsts = {commits: median(run.at("round_read") - run.started for run in of) for commits, of in runs.items()}
    outcome.tables["Seconds from the start of the process to the first round, in S3; medians"] = [
        {"commits of history": commits, "first round": rounded(secs)} for commits, secs in firsts.items()
    ]
    times = firsts[max(firsts)] / firsts[min(firsts)] if len(firsts) > 1 else None
    what = "first round with 20,000 commits of history in S3, times that with 10"
    outcome.targets.append(Target(what, times, LONG_HISTORY_TIMES_MAX, "x"))


def _aged(desk: Desk, s3: Server, topic: Filled, base: Path, commits: int) -> str:
    """A lake with so much history, made in a folder and then carried over."""
    here, there = desk.lake(), s3.lake()
    shutil.copytree(base, here)
    age(topic, here, commits)
    if commits > COMMITS_EACH:
        desk.module("tests.bench.history", [str(here), "bench"])
    store = open_store(there, s3.options)
    files = [path for path in here.rglob("*") if path.is_file()]
    with ThreadPoolExecutor(8) as pool:
        for _ in pool.map(lambda path: store.replace(str(path.relative_to(here)), path.read_bytes()), files):
            pass
    return there
