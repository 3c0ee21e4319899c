"""`exporter drill` itself, as a user types it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.drill import crowd
from exporter.drill.scenarios import SCENARIOS
from exporter.wal.dynamodb_calls import connect
from tests.support import services
from tests.support.lakes import seldom, wait_until
from tests.support.processes import ROOT, descendants, living

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.drill]

DRILL = [sys.executable, "-c", "from exporter.entry import main; main()", "drill", "--format", "json"]


def started(*flags: str) -> subprocess.Popen[bytes]:
    clean = {name: text for name, text in os.environ.items() if not name.startswith("EXPORTER_FAULTS")}
    return subprocess.Popen(
        [*DRILL, *flags], env={**clean, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, start_new_session=True
    )


@pytest.mark.timeout(600)
@pytest.mark.parametrize("store", ["s3", seldom("file")])
def test_a_drill_of_one_kill_is_clean_and_leaves_only_its_book(tmp_path: Path, store: str) -> None:
    """Killed once, recovered, audited; the time of recovery and what it consists of are told; resumed, it is done.

    With the tables in an S3, and in a folder.
    """
    if store == "s3":
        pytest.importorskip("moto")
    flags = ("--store", store, "--scenario", "random-kills", "--kills", "1", "--records", "300")
    told, _ = started(*flags, "--folder", str(tmp_path / "d")).communicate(timeout=550)
    found = json.loads(told)
    assert (found["runs"], found["clean"], found["audits"]) == (1, 1, 1), found
    assert found["kills"] >= 1 and found["recovery_secs"]["median"] > 0
    left = {path.name for path in (tmp_path / "d").iterdir()}
    assert left == {"drill-1.json", "drill-1.html", "helper.log"}
    again, _ = started(*flags, "--folder", str(tmp_path / "d"), "--resume").communicate(timeout=60)
    assert json.loads(again) == found


@pytest.mark.long
@pytest.mark.timeout(300)
def test_ctrl_c_ends_all_that_a_drill_has_started(tmp_path: Path) -> None:
    """Broker, DynamoDB and exporters are gone, and so is what they had in other folders."""
    drill = started("--scenario", "random-kills", "--records", "300", "--folder", str(tmp_path / "d"))
    wait_until(lambda: list((tmp_path / "d").glob("*/lake/*/_delta_log")), 120, "tables")
    family = descendants(drill.pid)
    assert len(family) >= 4
    drill.send_signal(signal.SIGINT)
    assert drill.wait(60) == 130
    wait_until(lambda: not living({*family}), 20, "the end of all")


@pytest.fixture
def alone() -> Iterator[tuple[str, str]]:
    """A broker and a DynamoDB that no other test makes anything in meanwhile."""
    services.set_credentials()
    with services.kafka_broker() as kafka, services.dynamodb_endpoint() as dynamodb:
        yield kafka, dynamodb


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_drill_on_given_services_leaves_them_as_they_were(alone: tuple[str, str], tmp_path: Path) -> None:
    """Its topics, groups and logs are gone afterwards, and those of others are what they were."""
    kafka, dynamodb = alone
    before = contents(kafka, dynamodb)
    config = tmp_path / "exporter.toml"
    config.write_text(
        f'brokers = ["{kafka}"]\ntopics = ["mine"]\ngroup = "mine"\ntable_root = "{tmp_path / "lake"}"\n'
        f'wal_table = "mine"\nwal_endpoint = "{dynamodb}"\n'
        '[type_from]\nkind = "topic"\n[event_time]\nkind = "record"\n[types.mine]\ncolumns = "id BIGINT"\n'
    )
    flags = ("--scenario", "poison,broker-killed", "--records", "300", "--folder", str(tmp_path / "d"))
    told, _ = started(*flags, "--config", str(config)).communicate(timeout=250)
    assert (json.loads(told)["runs"], json.loads(told)["clean"]) == (1, 1), "it does not kill what is not its own"
    assert contents(kafka, dynamodb) == before
    assert not (tmp_path / "lake").exists()


def contents(kafka: str, dynamodb: str) -> tuple[set[str], set[str], set[str]]:
    """Topics but for the broker's own, groups and DynamoDB tables."""
    with services.administered(kafka) as admin:
        groups = {str(one["group_id"] if isinstance(one, dict) else one[0]) for one in admin.list_groups()}
        tables = connect(dynamodb).call("list_tables")["TableNames"]
        return set(admin.list_topics()) - {"__consumer_offsets"}, groups, set(tables)


@pytest.mark.long
@pytest.mark.parametrize(("store", "left_out"), [("file", "store"), ("s3", "disk")])
@pytest.mark.timeout(7200)
def test_every_scenario_ends_clean(tmp_path: Path, store: str, left_out: str) -> None:
    """exporter drill: all that it knows but for what needs the machine for itself, in two hours at most."""
    told, _ = started("--store", store, "--folder", str(tmp_path / "d")).communicate(timeout=7000)
    found, wanted = json.loads(told), [one for one in SCENARIOS.values() if not one.alone and one.needs != left_out]
    assert (found["clean"], found["failed"]) == (len(wanted), []), found
    assert "nothing doubled" in (tmp_path / "d" / "drill-1.html").read_text()


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_crowd_makes_few_versions_and_no_late_record_while_its_leader_is_killed(tmp_path: Path) -> None:
    """Eight members, 12 partitions, 10 tables: the scenario itself judges its figures."""
    flags = ("--scenario", "coordinated-crowd", "--records", "500", "--folder", str(tmp_path / "d"))
    told, _ = started(*flags).communicate(timeout=1700)
    found = json.loads(told)
    assert (found["runs"], found["clean"], found["audits"], found["kills"]) == (1, 1, 1, crowd.KILLS), found
    figures = found["coordinated-crowd"]
    assert figures["rounds"] >= crowd.ROUNDS and figures["claims_per_commit"] > crowd.PARTITIONS / 2
