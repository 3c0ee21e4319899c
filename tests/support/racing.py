"""Two processes, each with a JVM of its own, that commit to one table of a store at the same time.

    <folder>/ready.<n>   racer n has its session; racer 0 has made the table
    <folder>/go          all are ready

FENCE: a version belongs to one of them alone, and holds what that one says it wrote there.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from exporter.core.deployment import Deployment
from exporter.local.children import FOLLOW_PARENT, ChildProcess
from exporter.stores.store import Store
from exporter.stores.stores import open_store

APP, TABLE = "race", "order"
START_SECS_MAX, RACE_SECS_MAX = 120.0, 240.0
RACER = FOLLOW_PARENT + "import sys; from tests.support.racing import commit; commit(*sys.argv[1:])"


def race(store: Store, folder: Path, commits: int = 20, racers: int = 2) -> None:
    """Let them race, each for so many commits; AssertionError for one that is lost. folder: of this test alone."""
    with ExitStack() as stack:
        running = []
        for number in range(racers):
            told = [store.uri(), json.dumps(dict(store.options)), str(number), str(commits), str(folder)]
            running.append(ChildProcess([RACER, *told], {}, folder / f"{number}.log", folder / f"{number}.out"))
            stack.callback(running[-1].close)
        deadline = time.monotonic() + START_SECS_MAX
        while not all((folder / f"ready.{number}").exists() for number in range(racers)):
            _require(time.monotonic() < deadline and all(racer.ended() is None for racer in running), "ready", folder)
        (folder / "go").touch()
        deadline = time.monotonic() + RACE_SECS_MAX
        while any(racer.ended() is None for racer in running):
            _require(time.monotonic() < deadline, "done", folder)
        _require(all(racer.ended() == 0 for racer in running), "without an error", folder)
    won = {number: json.loads((folder / f"{number}.out").read_text()) for number in range(racers)}
    owner = {version: (number, turn) for number, versions in won.items() for turn, version in enumerate(versions)}
    told = Counter(version for versions in won.values() for version in versions)
    assert told == Counter(range(1, racers * commits + 1))
    assert {version: _written(store, version) for version in owner} == owner


def _written(store: Store, version: int) -> tuple[int, int]:
    """(racer, its turn) as the log entry says."""
    lines = store.read(f"{TABLE}/_delta_log/{version:020d}.json").decode().splitlines()
    (txn,) = [json.loads(line)["txn"] for line in lines if "txn" in json.loads(line)]
    return int(txn["appId"].split("/")[2]), int(txn["version"])


def _require(true: bool, what: str, folder: Path) -> None:
    said = "\n".join(log.read_text("utf-8", "replace")[-2000:] for log in sorted(folder.glob("*.log")))
    assert true, f"the racers are not {what}\n{said}"
    time.sleep(0.02)  # pace of the polling, bounded by the deadline


def commit(root: str, options: str, number: str, commits: str, folder: str) -> None:
    """The child: racer 0 makes the table; each commits under an appId of its own, and prints its versions."""
    from exporter.lake.change import Change
    from exporter.lake.lake import Lake
    from exporter.spark.session import start
    from offsets.names import AppId
    from offsets.positions import Position
    from offsets.ranges import TopicPartition
    from tests.support.lakes import create_anchored

    store, at = open_store(root, json.loads(options)), Path(folder)
    lake = Lake(start(Deployment("local[1]", "512m"), APP, short_lived=True, java=store.java), store, APP)
    if number == "0":
        create_anchored(lake, TABLE, {TopicPartition("t", 1000): Position(0, 0)})
    else:
        lake.session.range(1).count()  # what a first use costs is not to give the other a lead
    (at / f"ready.{number}").touch()
    deadline = time.monotonic() + START_SECS_MAX
    while not (at / "go").exists():
        assert time.monotonic() < deadline
        time.sleep(0.005)  # pace of the polling, bounded by the deadline
    table, app_id = lake.table(TABLE), str(AppId(APP, TopicPartition("t", int(number)), 0))
    won = [table.commit(Change((app_id,), {app_id: turn}, {}), lambda _: None) for turn in range(int(commits))]
    sys.stdout.write(json.dumps(won))
    sys.stdout.flush()
    lake.session.stop()
