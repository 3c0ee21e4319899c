"""Part derive: what jobs cost, one kind after the other, and how far a mirror is behind a running export.

Budget 10 min. A mirror of 2,000,000 accounts gets 10,000 changes of the newest 3 % five times, in a process that lives
on; bundles and a topic are made of a table of 500,000 and 400,000 rows; the export of a backlog, alone and beside a
mirror of it, in turn; 5,000 records/s for a minute, mirrored by a process of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

from exporter.demo.shop_types import BASE_DAY
from exporter.local.children import EXPORTER, FOLLOW_PARENT
from tests.bench import derive_job, feeder
from tests.bench.desk import Desk, Filled, Run, Task, checked
from tests.bench.figures import Outcome, Row, Target, ratios, rounded
from tests.bench.freshness import FEEDER
from tests.bench.load import Load, Record

ACCOUNTS, CHANGED, NEWEST, ROUNDS = 2_000_000, 10_000, 0.03, 5
MERGE_SECS_MAX, REWRITTEN_MAX = 5.0, 1.0
ORDERS, ORDERS_MORE = 500_000, 1_000
SENT, SENT_MIN = 400_000, 20_000
BACKLOG, PAIRS, SHARE_MIN = 1_500_000, 2, 0.7
PER_SEC, FED_SECS, ROLL_AGE_SECS, LAG_SECS_MAX = 5_000, 60.0, 5, 30.0
JOB = FOLLOW_PARENT + "from tests.bench.derive_job import main; main()"
MIRROR = '[derive.mirror]\nkind = "mirror"\nsource = "{source}"\nkeys = ["{key}"]\norder = ["{order}"]\n'
VECTORS = "deletion_vectors = true\n"
BUNDLES = """[derive.bundles]
kind = "bundles"
complete = 2
[derive.bundles.inputs.accounts]
source = "account"
transaction = "id"
[derive.bundles.outputs]
pairs = "SELECT _transaction, count(*) AS n, sum(amount) AS total FROM accounts GROUP BY _transaction"
"""
TOPIC = '[derive.topic]\nkind = "to_kafka"\nsource = "account"\ntopic = "{topic}"\nkey = "id"\n'


@dataclass(frozen=True)
class Accounts(Load):
    """One type, 160 bytes. round: 0 = each of `keys` once, in order; else changes of the newest, each round others."""

    types: int = 1
    keys: int = ACCOUNTS
    round: int = 0

    def declared(self) -> dict[str, str]:
        return {"account": "id BIGINT, seq BIGINT, ts TIMESTAMP, name STRING, amount BIGINT, note STRING"}

    def records(self, count: int, partition: int) -> Iterator[Record]:
        bits, newest = Random(f"{self.round}/{partition}"), max(1, int(self.keys * NEWEST))
        for number in range(partition, count, self.partitions):
            key = self.keys - 1 - bits.randrange(newest) if self.round else number % self.keys
            seq, note = self.round * 1_000_000_000 + number, f"{bits.getrandbits(128):032x}"
            value = b'{"type":"account","id":%d,"seq":%d,"ts":"%bT12:00:00Z","name":"name-%d","amount":%d,"note":"%b"}'
            made = value % (key, seq, str(BASE_DAY).encode(), key, bits.getrandbits(20), note.encode())
            yield Record("account", b"%d" % key, made, 0)


def run(desk: Desk) -> Outcome:
    """All of it."""
    outcome = Outcome()
    with desk.broker():
        _mirror(desk, outcome)
        _bundles(desk, outcome)
        _topic(desk, outcome)
    with desk.broker():
        _beside(desk, outcome)
    with desk.broker():
        _lag(desk, outcome)
    return outcome


def with_job(config: Path, job: str) -> Path:
    """The settings with a job in them."""
    config.write_text(config.read_text() + job)
    return config


def exported(desk: Desk, load: Load, count: int, job: str, lake: Path) -> tuple[Filled, Path]:
    """A topic, its tables, and settings with a job."""
    topic = desk.topic(load, count)
    config = with_job(desk.config(topic, lake), job)
    checked(desk.export(config), topic)
    return topic, config


def more(desk: Desk, topic: Filled, config: Path, load: Load, count: int) -> None:
    """More records in the topic and in its table."""
    desk.add(replace(topic, load=load), count)
    desk.export(config)


def told(task: Task, runs: int, secs_max: float = 300.0) -> Run:
    """Until the job has said that it ran so often, and has no more to do."""

    def done(run: Run) -> bool:
        ran = run.of("ran")
        return len(ran) >= runs and not ran[-1]["more"]

    return task.until(f"run {runs}", done, secs_max)


def _mirror(desk: Desk, outcome: Outcome) -> None:
    """Seconds and bytes of a run that takes changes of the newest keys."""
    keys, lake = desk.count(ACCOUNTS, least=20_000), desk.lake()
    changed = min(desk.count(CHANGED, least=300), keys)
    load = Accounts(keys=keys)
    job = MIRROR.format(source="account", key="id", order="seq") + VECTORS
    topic, config = exported(desk, load, keys, job, lake)
    rows: list[Row] = []
    with desk.running([JOB, *derive_job.words(config, "mirror", "account")]) as task:
        told(task, 1)
        for number in range(1, ROUNDS + 1):
            before, runs = live_bytes(lake, "mirror"), len(task.so_far().of("ran"))
            more(desk, topic, config, replace(load, round=number), changed)
            done = told(task, runs + 1)
            ran = done.of("ran")[-1]
            percent = rounded(100 * written_bytes(lake, "mirror", int(ran["version"])) / before)
            rows.append({"run": number, "secs": ran["secs"], "rewritten, %": percent, "files read": ran["read"]})
        first = done.of("ran")[0]
    outcome.tables[f"A mirror of {keys:,} keys, {changed:,} changes of the newest 3 %"] = [
        {"run": 0, "secs": first["secs"]}, *rows
    ]  # fmt: skip
    secs = median(float(row["secs"] or 0) for row in rows)
    worst = max(float(row["rewritten, %"] or 0) for row in rows)
    outcome.targets += [
        Target("mirror: seconds of a run, median", secs, MERGE_SECS_MAX, "s"),
        Target("mirror: bytes written, of the table's", worst, REWRITTEN_MAX, "%"),
    ]


def _bundles(desk: Desk, outcome: Outcome) -> None:
    """Files that a run reads which has a few new rows after many: those past the cursor."""
    lake, load = desk.lake(), Accounts(keys=desk.count(ORDERS, least=4_000) // 2)
    topic, config = exported(desk, load, 2 * load.keys, BUNDLES, lake)
    with desk.running([JOB, *derive_job.words(config, "bundles", "account")]) as task:
        told(task, 1)
        there = len(list((lake / "account").rglob("*.parquet")))
        runs = len(task.so_far().of("ran"))
        more(desk, topic, config, replace(load, round=1), desk.count(ORDERS_MORE, least=100))
        done = told(task, runs + 1)
        came = len(list((lake / "account").rglob("*.parquet"))) - there
    last = done.of("ran")[runs]
    outcome.tables["Bundles: a run with few new rows after many"] = [
        {"files before": there, "files that came": came, "files read": last["read"], "secs": last["secs"]}
    ]
    outcome.targets.append(Target("bundles: files read that are not new", max(0, int(last["read"]) - came), 0, ""))


def _topic(desk: Desk, outcome: Outcome) -> None:
    """Rows a second from a table to a topic."""
    lake, load = desk.lake(), Accounts(keys=desk.count(SENT, least=5_000))
    name = f"derived-{lake.name}"
    _, config = exported(desk, load, load.keys, TOPIC.format(topic=name), lake)
    with desk.running([JOB, *derive_job.words(config, "topic", "account")]) as task:
        done = told(task, 1)
    ran = done.of("ran")
    rows, secs = sum(int(one["rows"]) for one in ran), sum(float(one["secs"]) for one in ran)
    outcome.tables["Records of a topic"] = [{"rows": rows, "secs": rounded(secs), "rows/s": round(rows / secs)}]
    outcome.targets.append(Target("to Kafka: rows/s", rows / secs, SENT_MIN, "rows/s", at_least=True))


def _beside(desk: Desk, outcome: Outcome) -> None:
    """The export of a backlog, alone and with a mirror that follows it, in turn."""
    topic = desk.topic(Load(types=1), desk.count(BACKLOG, least=10_000))
    alone, beside = [], []
    for _ in range(PAIRS):
        alone.append(checked(desk.export(desk.config(topic, desk.lake())), topic))
        config = with_job(desk.config(topic, desk.lake()), PAGES)
        with desk.running(following(config)):
            beside.append(checked(desk.export(config), topic))
    speeds = [[run.rows / run.secs for run in runs] for runs in (alone, beside)]
    each, share = ratios(speeds[1], speeds[0])
    outcome.tables["An export alone and beside a mirror of it, records/s"] = [
        {"pair": at + 1, "alone": round(speeds[0][at]), "beside": round(speeds[1][at]), "ratio": rounded(each[at])}
        for at in range(PAIRS)
    ]
    outcome.targets.append(Target("export beside a mirror, of alone", share, SHARE_MIN, "", at_least=True))


PAGES = MIRROR.format(source="page_view", key="user_id", order="ts")


def following(config: Path) -> list[str]:
    """A process that runs the jobs of its settings as a user would."""
    return [EXPORTER, "derive", "run", "--config", str(config)]


def _lag(desk: Desk, outcome: Outcome) -> None:
    """How much later than in its source a row is in a mirror that follows a steady export."""
    load, lake = Load(types=1), desk.lake()
    topic = desk.topic(load, 0)
    per_sec = desk.count(PER_SEC, least=100) if desk.scale < 1 else PER_SEC
    config = with_job(desk.config(topic, lake, roll_age_max_secs=ROLL_AGE_SECS), PAGES)
    with desk.exporting(config) as export, desk.running(following(config)) as mirror:
        words = feeder.words(topic.bootstrap, topic.name, load, per_sec, desk.secs(FED_SECS, least=10.0))
        with desk.running([FEEDER, *words]) as feeding:
            sent = int(feeding.wait().of("fed")[0]["sent"])
        export.until("the last commit", lambda run: run.rows >= sent, secs_max=300)
        last = filled(lake / "page_view")[-1]
        mirror.until("the mirror has all", lambda _: max(through(lake, "mirror").values(), default=-1) >= last, 300.0)
    found = lags(lake, "page_view", "mirror")
    outcome.tables[f"A mirror behind an export of {per_sec:,} records/s"] = [
        {"commits of the source": len(found), "median, s": rounded(median(found)), "longest, s": rounded(max(found))}
    ]
    outcome.targets.append(Target("lag of a mirror behind the export, longest", max(found), LAG_SECS_MAX, "s"))


# -- what the logs of tables say


def log_of(lake: Path, job: str) -> Path:
    return lake / "_derived.tables" / job / "_delta_log"


def actions(log: Path, version: int) -> list[dict[str, Any]]:
    """Of one version of a table."""
    return [json.loads(line) for line in (log / f"{version:020d}.json").read_text().splitlines()]


def newest(table: Path) -> int:
    """Its newest version."""
    return max(int(path.stem) for path in (table / "_delta_log").glob("*.json") if path.stem.isdigit())


def filled(table: Path) -> list[int]:
    """The versions that brought files, which alone a job has to take."""
    log = table / "_delta_log"
    return [at for at in range(newest(table) + 1) if any("add" in action for action in actions(log, at))]


def live_bytes(lake: Path, job: str) -> int:
    """Bytes of the live data files of a job's table. A version may take a file away and add it with other deletions."""
    live: dict[str, int] = {}
    for version in range(newest(log_of(lake, job).parent) + 1):
        found = actions(log_of(lake, job), version)
        for gone in (action["remove"] for action in found if "remove" in action):
            live.pop(gone["path"], None)
        live |= {action["add"]["path"]: action["add"]["size"] for action in found if "add" in action}
    return sum(live.values())


def written_bytes(lake: Path, job: str, version: int) -> int:
    """Bytes of the data files that a version brought, and of the deletion vectors of those that it kept."""
    found = actions(log_of(lake, job), version)
    before = {action["remove"]["path"] for action in found if "remove" in action}
    adds = [action["add"] for action in found if "add" in action]
    vectors = {json.dumps(add["deletionVector"]): add["deletionVector"] for add in adds if add.get("deletionVector")}
    files = sum(add["size"] for add in adds if add["path"] not in before)
    return files + sum(int(vector["sizeInBytes"]) for vector in vectors.values())


def through(lake: Path, job: str) -> dict[int, int]:
    """Version of a job's table -> the version of its source through which it has looked."""
    log, found = log_of(lake, job), {}
    for version in range(newest(log.parent) + 1 if log.exists() else 0):
        for action in actions(log, version):
            if "/version/" in action.get("txn", {}).get("appId", ""):
                found[version] = int(action["txn"]["version"])
    return found


def lags(lake: Path, source: str, job: str) -> list[float]:
    """Seconds from each commit of the source to the first one of the job's table that has looked through it."""
    table, log = lake / source / "_delta_log", log_of(lake, job)
    looked = sorted(through(lake, job).items())
    found = []
    for version in filled(lake / source):
        written = (table / f"{version:020d}.json").stat().st_mtime
        at = next((mine for mine, seen in looked if seen >= version), None)
        if at is not None:
            found.append((log / f"{at:020d}.json").stat().st_mtime - written)
    return found
