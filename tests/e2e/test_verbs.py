"""Every verb that touches a lake, where the lake is in a bucket: what each says is what the tables hold."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from exporter.cli.main import _exit_code, cli
from exporter.core.routing import DEAD_LETTERS
from exporter.faults import Fault
from tests.support import naive
from tests.support.lakes import DDL, S3_GROUP, Export, Exports, bad, event
from tests.support.processes import running
from tests.support.services import Record, fresh_name
from tests.support.sessions import Kept

pytestmark = [pytest.mark.broker, pytest.mark.spark]

IN_A_BUCKET = pytest.mark.parametrize("place", [pytest.param("s3", marks=S3_GROUP)], indirect=True)
RETENTION = "delta.deletedFileRetentionDuration"
OLD = {"order": DDL["order"]}
NEW = {"order": DDL["order"], "click": DDL["click"]}


class Verbs:
    """Types verbs, in this process and on the tests' session: verbs("audit") -> what it says."""

    def __init__(self, e: Export, capsys: pytest.CaptureFixture[str]) -> None:
        self.e = e
        self._capsys = capsys

    def __call__(self, *words: str, code: int = 0) -> Any:
        """Its only JSON value, or a list of them. code: with which it has to end."""
        lines = self.typed(*words, "--format", "json", code=code).splitlines()
        found = [json.loads(line) for line in lines]
        return found[0] if len(found) == 1 else found

    def typed(self, *words: str, code: int = 0) -> str:
        """What it says on stdout."""
        self._capsys.readouterr()
        arguments = [*words, "--config", str(self.e.write())]
        ended = _exit_code(lambda: cli(arguments, standalone_mode=False))
        told = self._capsys.readouterr()
        assert ended == code, f"{words}: {ended}\n{told.out}\n{told.err}"
        return str(told.out)


@pytest.fixture
def verbs(
    exports: Exports,
    dynamodb: str,
    tmp_path: Path,
    spark: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Verbs:
    """Of an export with a write-ahead log, of two partitions."""
    monkeypatch.setattr("exporter.spark.session.start", lambda *_, **__: Kept(spark))
    monkeypatch.setattr("exporter.spark.session.starting", lambda *_, **__: lambda: Kept(spark))
    monkeypatch.chdir(tmp_path)
    scalars = {
        "wal_table": fresh_name("wal"), "wal_endpoint": dynamodb, "event_time_late_max_secs": 0,
        "carried_bytes_max": 0, "round_records_max": 60, "roll_records_max": 20,
    }  # fmt: skip
    return Verbs(exports(2, types=OLD, **scalars), capsys)


def records(count: int, first: int) -> list[Record]:
    """In turn: an order, a click, an order that nothing can decode."""
    made = (lambda n: event("order", n), lambda n: event("click", n), lambda n: bad(b"{"))
    return [made[number % 3](number) for number in range(first, first + count)]


def more(e: Export, first: int) -> None:
    e.send({0: records(60, first), 1: records(60, first + 1000)})


def test_verbs_that_only_look_start_no_jvm(verbs: Verbs, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Of a lake with dead letters and a write-ahead log; what they say of it is what the tables hold."""
    more(verbs.e, 0)
    verbs.typed("check", "--create-wal")
    verbs.typed("run", "--until-caught-up")

    def start(*_: Any, **__: Any) -> Any:
        raise AssertionError("a JVM was started")

    monkeypatch.setattr("exporter.spark.session.start", start)
    assert {(one["lag"], one["verdict"]) for one in verbs("offsets")} == {(0, "agree")}
    assert verbs("plan")["runs"] and {one["lag"] for one in verbs("plan")["partitions"]} == {0}
    assert {one["lag"] for one in verbs("status", "--tables")["positions"]} == {0}
    assert {one["code"]: one["rows"] for one in verbs("dead-letters", "list")} == {"not_json": 40, "unknown_type": 40}
    assert len(verbs("dead-letters", "show", "--limit", "3")) == 3
    assert verbs("schema")["event_type"] == "order"
    verbs.typed("report", "--output", str(tmp_path / "report.html"))
    audited = verbs("audit")
    assert (audited["once"], audited["clean"]) == (120, True)
    sinces = {audited["next_since"]: 0, "0:50": 10 + 60, "2000-01-01": 120}
    for since, once in sinces.items():
        newer = verbs("audit", "--since", since)
        assert (newer["once"], newer["left_out"], newer["clean"]) == (once, 120 - once, True), since


@IN_A_BUCKET
@pytest.mark.long
@pytest.mark.timeout(600)
def test_every_verb_works_on_a_lake_in_a_bucket(
    verbs: Verbs, spark: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """From the first settings file over a killed task, an accident and damage to a lake that is proven whole."""
    begins(verbs, tmp_path)
    looks(verbs, tmp_path)
    replays(verbs)
    tends(verbs, spark, monkeypatch)
    mends(verbs, spark)


def begins(verbs: Verbs, folder: Path) -> None:
    """infer, config, check, plan, run: a task that is killed with files staged, and one that goes on."""
    e, first = verbs.e, folder / "first.toml"
    more(e, 0)
    place = {name: str(value).lower() for name, value in e.place.settings.items()}
    flags = [word for name, value in place.items() for word in (f"--{name.replace('_', '-')}", value)]
    given = ["--brokers", e.kafka, "--topics", e.topic, "--table-root", e.place.table_root]
    assert _exit_code(lambda: cli(["infer", *given, *flags, "--write", str(first)], standalone_mode=False)) == 0
    assert place.keys() <= {line.partition(" = ")[0] for line in first.read_text().splitlines()}
    assert e.place.table_root in verbs.typed("config")
    found = {one["what"]: one for one in verbs("check", "--create-wal")}
    assert found["table_root"]["level"] == found["write-ahead log"]["level"] == "ok"
    assert e.place.files() == [], "nothing is left behind"
    assert verbs("plan")["runs"]
    with running(e, "--until-caught-up", faults=f"{Fault.BEFORE_DELTA_COMMIT.value}:kill:3") as task:
        assert task.wait() == -signal.SIGKILL, task.text
    verbs.e = e = e.with_(group=fresh_name("group"))
    verbs.typed("run", "--until-caught-up")
    naive.assert_each_once(e)


def looks(verbs: Verbs, folder: Path) -> None:
    """repair --log, offsets, status, schema, audit, report, dead-letters list and show."""
    e = verbs.e
    assert verbs("repair", "--log", "--apply")["changes"], "what the killed task had begun"
    for row in verbs("offsets"):
        assert (row["position"], row["lag"], row["verdict"]) == (59, 0, "agree"), row
    assert {one["committed"] for one in verbs("status", "--tables", "--wait-caught-up")["positions"]} == {59}
    assert "note" in {one["path"] for one in verbs("schema", "--types", "order")["columns"]}
    audited = verbs("audit")
    assert (audited["once"], audited["clean"]) == (120, True)
    assert verbs.typed("report", "--output", "page.html").strip() == "page.html"
    assert e.topic in (folder / "page.html").read_text()
    listed = verbs("dead-letters", "list")
    assert sorted((one["code"], one["rows"]) for one in listed) == [("not_json", 40), ("unknown_type", 40)]
    assert len(verbs("dead-letters", "show", "--limit", "5")) == 5


def replays(verbs: Verbs) -> None:
    """dead-letters replay, once the type is declared."""
    verbs.e = e = verbs.e.with_(NEW)
    more(e, 60)
    verbs.typed("run", "--until-caught-up")
    verbs("dead-letters", "replay")
    assert len(e.rows("click")) == 40
    verbs("dead-letters", "replay", "--apply")
    assert len(e.rows("click")) == 80
    assert len(e.rows(DEAD_LETTERS)) == 80
    audited = verbs("audit")
    assert (audited["once"], audited["clean"]) == (240, True)


def tends(verbs: Verbs, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """sweep, maintain: OPTIMIZE, checkpoint, VACUUM; each a dry run first."""
    e = verbs.e
    before = {name: e.files(name) for name in e.tables()}
    dead = {one["event_type"]: {*one["paths"]} for one in verbs("sweep")}
    assert any(dead.values()), "the killed task left files behind"
    assert {name: e.files(name) for name in before} == before
    assert sum(one["deleted"] for one in verbs("sweep", "--apply")) == sum(map(len, dead.values()))
    assert {name: e.files(name) for name in before} == {name: files - dead[name] for name, files in before.items()}
    rows, positions = {name: e.rows(name) for name in before}, e.positions()
    live = {name: len(e.live(name)) for name in before}
    due = {(one["table"], one["what"]) for one in verbs("maintain")}
    assert {(name, "optimize") for name in live if live[name] > 1} <= due
    assert {name: len(e.live(name)) for name in before} == live
    assert {one["outcome"] for one in verbs("maintain", "--apply")} == {"done"}
    assert {name: len(e.live(name)) for name in before} == dict.fromkeys(before, 1)
    with monkeypatch.context() as patch:  # nothing is old enough for a retention that is not refused
        patch.setattr("exporter.operate.maintain.maintain.protects_staged", lambda *_: True)
        patch.setattr("exporter.lake.properties.retention_is_safe", lambda _: True)
        for name in before:
            spark.sql(f"ALTER TABLE {e.sql_name(name)} SET TBLPROPERTIES ('{RETENTION}' = 'interval 0 hours')")
            e.place.write(f"{name}/{min(e.live(name)).partition('/')[0]}/part-0.parquet", b"PAR1 half")
        assert {one["what"] for one in verbs("maintain")} == {"sweep", "vacuum"}
        done = verbs("maintain", "--apply")
        assert {one["outcome"] for one in done} == {"done"}
        assert {one["table"] for one in done if one["what"] == "vacuum"} == before.keys()
    for name in before:
        spark.sql(f"ALTER TABLE {e.sql_name(name)} UNSET TBLPROPERTIES ('{RETENTION}')")
        assert e.files(name) == e.live(name)
        assert e.rows(name) == rows[name]
    assert e.positions() == positions


def mends(verbs: Verbs, spark: Any) -> None:
    """check --deep, plan, repair: a damaged file, and a RESTORE."""
    e = verbs.e
    before = e.table("order").version()
    more(e, 120)
    verbs.typed("run", "--until-caught-up")
    path = f"order/{min(e.live('order'))}"
    kept = e.place.read(path)
    e.place.write(path, b"")
    assert {one["what"]: one["level"] for one in verbs("check", "--deep", code=1)}["audit"] == "error"
    e.place.write(path, kept)
    assert not [one for one in verbs("check", "--deep") if one["level"] == "error"]
    spark.sql(f"RESTORE TABLE {e.sql_name('order')} TO VERSION AS OF {before}")
    assert "table order: RESTORE" in json.dumps(verbs("plan", code=1))
    assert not verbs("repair", "--rewind")["applied"]
    assert verbs("repair", "--rewind", "--apply")["changes"]
    verbs.typed("run", "--until-caught-up")
    audited = verbs("audit", "--content-share", "1")
    assert (audited["once"], audited["clean"]) == (360, True)
