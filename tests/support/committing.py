"""A process that commits to tables of a store as a task does, for tests of two that do so at once.

    parent ── {"table", "commits", "log_store"?} ──> child      one order a line; it answers when all are done
           <── {"landed": [[version, n], ...], "failed": [...]}
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from exporter.core.deployment import Deployment
from exporter.lake import log_files
from exporter.lake.change import Change
from exporter.lake.lake import Lake
from exporter.lake.schema import table_schema
from exporter.spark import session as spark
from exporter.stores.store import Store
from exporter.stores.stores import open_store
from exporter.text import first_line
from offsets.names import AppId
from offsets.ranges import TopicPartition

APP = "race"
COLUMNS = '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}'
ROOT = Path(__file__).parents[2]


class Committing:
    """One such process. partition: whose positions it commits."""

    def __init__(self, store: Store, partition: int) -> None:
        code = "import sys; from tests.support.committing import main; main(*sys.argv[1:])"
        told = [store.uri(), json.dumps(dict(store.options)), str(partition)]
        self._process = subprocess.Popen(
            [sys.executable, "-c", code, *told], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
        )
        self._said = iter(self._process.stdout or ())

    def __enter__(self) -> Committing:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.stdin:
            self._process.stdin.close()
        try:
            self._process.wait(60)
        finally:
            self._process.kill()

    def begin(self, table: str, commits: int, log_store: str = "") -> None:
        """Let it make so many commits; the first one creates the table, if it is not there. log_store: not ours."""
        if self._process.stdin:
            print(json.dumps([table, commits, log_store]), file=self._process.stdin, flush=True)

    def done(self) -> dict[str, list[Any]]:
        """Waits for it: the versions that it was told it had made, with its position by each; and errors."""
        found: dict[str, list[Any]] = json.loads(next(self._said))
        return found


def app_id(partition: int) -> str:
    return str(AppId(APP, TopicPartition("t", partition), 0))


def logged(store: Store, table: str) -> list[dict[str, int]]:
    """Of each version, in order and without a gap, the positions that it says."""
    folder = store.below(table)
    versions = sorted(int(name[:-5]) for name in folder.names("_delta_log") if name.endswith(".json"))
    assert versions == [*range(len(versions))]
    found = []
    for version in versions:
        with log_files.entry_lines(folder, version) as lines:
            actions = [json.loads(line) for line in lines]
        found.append({one["txn"]["appId"]: one["txn"]["version"] for one in actions if "txn" in one})
    return found


def main(root: str, options: str, partition: str) -> None:
    """The child."""
    store, me = open_store(root, json.loads(options)), app_id(int(partition))
    session = spark.start(Deployment("local[1]", "512m"), "committing", short_lived=True, java=store.java)
    conf, key = session.sparkContext._jsc.sc().conf(), _log_store_key(store.java.settings)
    with Lake(session, store, APP) as lake:
        for line in sys.stdin:
            name, commits, log_store = json.loads(line)
            conf.set(key, log_store or store.java.settings[key])
            table, landed, failed = lake.table(name), [], []
            for number in range(commits):
                create = table_schema(COLUMNS) if not number and table.view() is None else None
                try:
                    version = table.commit(Change((me,), {me: number}, {}, create=create), lambda view: None)
                    landed.append((version, number))
                except Exception as error:  # noqa: BLE001 - told to the test
                    failed.append(first_line(error))
            print(json.dumps({"landed": landed, "failed": failed}), flush=True)


def _log_store_key(settings: Mapping[str, str]) -> str:
    (key,) = (name for name in settings if name.startswith("spark.delta.logStore."))
    return key
