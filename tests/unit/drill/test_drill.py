"""The drill's schedule, book and naive check, without any service."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from exporter.arrow.own_columns import KAFKA_TYPE
from exporter.drill import coordinated, drills, producer, routes
from exporter.drill.kills import ELSEWHERE, POINTS
from exporter.drill.lakes import FolderLakes
from exporter.drill.record import PARTS, Book, Moment, RunRecord, Strike, read_book, recoveries, summary
from exporter.drill.report import as_html
from exporter.drill.run import NotAsItMust, Run
from exporter.drill.scenarios import SCENARIOS, Scenario
from exporter.drill.schedule import kills, random_of
from exporter.drill.services import Services, given_services
from exporter.errors import ConfigError, DependencyUnreachable, FoundProblem
from exporter.faults import Fault
from exporter.local.plain import PlainLake, problems
from exporter.settings.load import load

WANTED = {(0, 0): "order", (0, 1): "click", (0, 2): "order", (1, 0): "dead_letters"}


def drawn(seed: int, run: int, count: int = 10) -> object:
    return kills(random_of(seed, "random-kills", run), count)


def test_the_same_seed_gives_the_same_schedule() -> None:
    """Also for a run that is done alone; another seed, run or scenario gives another one."""
    assert drawn(7, 3) == drawn(7, 3)
    assert len({drawn(7, 3), drawn(7, 4), drawn(8, 3), kills(random_of(7, "other", 3), 10)}) == 4
    both = kills(random_of(1, "random-kills", 1), 200)
    assert 60 < sum(kill.after_commit for kill in both) < 140
    assert 60 < sum(kill.whole for kill in both) < 140
    assert str(kills(random_of(7, "random-kills", 3), 1)[0]) == "Kill(after_commit=True, secs=0.535, whole=False)"


def record(run: int, failure: str = "", secs: float | None = None) -> RunRecord:
    parts = dict.fromkeys(PARTS, 1.0) if secs is not None else {}
    strike = Strike(1.5, "kill -9 of the driver", "run-1", secs, parts)
    return RunRecord(
        "random-kills", run, 7, failure, 10.0, 100, strikes=[strike], marks=[Moment(0.1, "run-1", "start")]
    )


def test_a_book_is_read_back_as_it_was_written() -> None:
    """Everything that a resumed drill and the report need is in the JSON."""
    book = Book(7, {"python": "3"}, [record(1, secs=9.0), record(2, "lost")], [record(1, "lost")])
    assert read_book(book.to_json()) == book
    assert json.loads(book.to_json())["summary"] == summary(book.runs)
    with pytest.raises(ValueError, match="format"):
        read_book('{"format": 99}')


def test_runs_that_are_clean_are_not_done_again() -> None:
    """A run that was not is done again, and what it had found is kept."""
    book = Book(7)
    for one in (record(1), record(2, "lost"), record(3)):
        book.add(one)
    assert book.done() == {("random-kills", 1), ("random-kills", 3)}
    with pytest.raises(FoundProblem, match="random-kills 2"):
        drills.require_clean(book)
    book.add(record(2))
    assert book.done() == {("random-kills", run) for run in (1, 2, 3)}
    assert [(one.run, one.failure) for one in book.failed_before] == [(2, "lost")]
    drills.require_clean(book)


def test_the_summary_counts_what_was_recovered_from() -> None:
    """Kills that were struck again before a commit have no time; the median is over the others."""
    told = summary([record(1, secs=9.0), record(2, secs=11.0), record(3), record(4, "lost", 40.0)])
    assert (told["runs"], told["clean"], told["kills"], told["recovered"]) == (4, 3, 4, 3)
    assert told["recovery_secs"] == {"min": 9.0, "median": 11.0, "p90": 40.0, "max": 40.0}
    assert told["recovery_parts_median_secs"] == dict.fromkeys(PARTS, 1.0)
    assert told["failed"] == ["random-kills 4: lost"]
    assert summary([])["recovery_secs"] == {}
    assert len(recoveries([record(1, secs=9.0), record(3)])) == 1


def test_the_report_tells_what_was_found_and_loads_nothing() -> None:
    """Scenarios, recovery times, and the worst run as a timeline; a run that is not clean is the worst, and said so."""
    clean = record(1, secs=9.0)
    clean.marks = [
        Moment(0.1, "run-1", "start"), Moment(2.0, "run-1", "owns", "t-0"), Moment(2.5, "run-1", "owns", "t-1"),
        Moment(3.0, "run-1", "commit", "order 1: 5 rows"), Moment(4.0, "run-1", "gives", "t-0"),
        Moment(5.0, "run-1", "refused", "order"), Moment(6.0, "run-1", "strike", "kill -9 of the driver"),
    ]  # fmt: skip
    told = as_html(Book(7, {"python": "3.11"}, [clean, record(2)]))
    assert "2 of 2 runs clean" in told and "The worst run: random-kills 1" in told
    for words in ("owns 0+1", "refused order", "strike kill -9", "median 9.0 s", "python", "commit order 1: 5 rows"):
        assert words in told, words
    assert "<script" not in told and "http" not in told.replace("http-equiv", "")
    told = as_html(Book(7, {}, [clean, record(2, "1 offsets <missing>")], [record(1, "lost before")]))
    assert "1 of 2 runs are not clean" in told and "The worst run: random-kills 2" in told
    assert "1 offsets &lt;missing&gt;" in told and "lost before" in told
    assert "nothing doubled" in as_html(Book(7))


def test_every_fault_point_is_in_a_scenario() -> None:
    """A point that is added to the code must be added to the drill."""
    assert {point for point, _ in (*POINTS, *coordinated.STEPS)} | ELSEWHERE == set(Fault)
    assert not {point for point, _ in POINTS} & ELSEWHERE
    assert all(one.what for one in SCENARIOS.values()), "each says in one line what it is"


def test_a_given_service_is_never_killed(tmp_path: Path) -> None:
    """What a settings file names is used as it says, and nothing there counts as the drill's own."""
    pem = tmp_path / "ca.pem"
    pem.write_text("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n")
    config = tmp_path / "exporter.toml"
    config.write_text(
        'brokers = ["a:1", "b:2"]\ntopics = ["mine"]\ngroup = "mine"\ntable_root = "/lake"\nwal_table = "mine"\n'
        '[type_from]\nkind = "topic"\n[event_time]\nkind = "record"\n[types.mine]\ncolumns = "id BIGINT"\n'
        f'[kafka_client]\nsecurity_protocol = "SASL_SSL"\nssl_cafile = "{pem}"\nsasl_mechanism = "PLAIN"\n'
        'sasl_plain_username = "u"\nsasl_plain_password = "secret"\n'
    )
    services = given_services(load(config, {}, {}))
    assert (services.bootstrap, services.log, services.endpoint) == (["a:1", "b:2"], True, "")
    assert services.own == {"disk"}, "what stands in its folder"
    assert services.client["sasl_plain_password"] == "secret" and services.client["ssl_cafile"] == str(pem)
    assert services.options["security_protocol"] == "SASL_SSL"
    assert {one.needs for one in SCENARIOS.values()} == {"", "broker", "dynamodb", "disk", "store"}


def test_a_failed_run_says_what_went_wrong_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where its topic cannot be removed then."""

    def unremovable(run: Run, keep: bool) -> None:
        raise DependencyUnreachable("nobody is there", "start it")

    def play(run: Run) -> None:
        raise NotAsItMust("a record is missing")

    monkeypatch.setattr(Run, "open", lambda run, config: None)
    monkeypatch.setattr(Run, "close", unremovable)
    services, helper = Services({}, lakes=FolderLakes()), cast(Any, None)
    record = drills._play(Scenario("odd", play), 1, drills.Options("odd"), services, helper, tmp_path)
    assert record.failure == "a record is missing; and then: nobody is there"


def test_a_folder_that_holds_something_is_not_touched(tmp_path: Path) -> None:
    """Unless it is resumed; an unknown scenario is refused before anything is started."""
    (tmp_path / "mine").write_text("")
    with pytest.raises(ConfigError, match="not empty"):
        drills.drill(drills.Options("random-kills", folder=tmp_path))
    with pytest.raises(ConfigError, match="--resume needs the --folder"):
        drills.drill(drills.Options("random-kills", resume=True))
    (tmp_path / "drill-1.json").write_text("{}")
    with pytest.raises(ConfigError, match="no drill's book"):
        drills.drill(drills.Options("random-kills", folder=tmp_path, resume=True))
    (tmp_path / "drill-2.json").write_text(Book(2, drills.environment("s3")).to_json())
    with pytest.raises(ConfigError, match="with --store s3"):
        drills.drill(drills.Options("random-kills", seed=2, folder=tmp_path, resume=True))
    with pytest.raises(ConfigError, match="no scenario"):
        drills.drill(drills.Options("nonsense", folder=tmp_path, resume=True))


def test_every_made_up_record_names_its_table() -> None:
    """The load mixes the declared types and dead letters; the poisoned one has a bad record in each tenth place."""
    made = [producer.mixed(number) for number in range(200)]
    assert {one.key.decode() for one in made} == {*producer.TYPES, "dead_letters"}
    assert [n for n in range(40) if producer.poisoned(n).key == b"dead_letters"] == [9, 19, 29, 39]
    for one in made:
        if one.key != b"dead_letters":
            assert json.loads(one.value or b"")["type"] == one.key.decode()


def commit(
    lake: Path, table: str, version: int, position: int, offsets: list[int], partition: int = 0, filtered: int = 0
) -> Path:
    """A commit as the exporter makes it, written by hand."""
    folder = lake / table
    (folder / "_delta_log").mkdir(parents=True, exist_ok=True)
    (folder / "day=2026-01-31").mkdir(exist_ok=True)
    path = folder / "day=2026-01-31" / f"{version}.parquet"
    rows = [{"topic": "t", "partition": partition, "epoch": 0, "offset": one, "timestamp": None} for one in offsets]
    pq.write_table(pa.table({"_kafka": pa.array(rows, KAFKA_TYPE)}), path)
    claim = {"expected": -1, "new": position, "rows": len(offsets), **({"filtered": filtered} if filtered else {})}
    told = {"owner": "host:42:ab", "commit_id": "x", "partitions": {f"t-{partition}": claim}}
    actions = [
        {"commitInfo": {"operation": "STREAMING UPDATE", "userMetadata": json.dumps(told)}},
        {"txn": {"appId": f"app/t/{partition}/0", "version": position}},
        {"add": {"path": f"day%3D2026-01-31/{version}.parquet".replace("%3D", "=")}},
    ]
    log = folder / "_delta_log" / f"{version:020d}.json"
    log.write_text("\n".join(json.dumps(one) for one in actions))
    return path


def test_the_naive_check_knows_what_must_be_where_at_any_moment(tmp_path: Path) -> None:
    """Below its table's position a record is there once; beyond it, nowhere; caught up, everywhere."""
    lake = PlainLake(tmp_path)
    commit(tmp_path, "order", 0, 1, [0])
    (one,) = lake.look()
    assert (one.table, one.version, one.pid, one.rows, one.moves) == ("order", 0, 42, 1, {"t-0": (-1, 1)})
    assert list(problems(WANTED, lake, "app", "t", through=False)) == []
    assert "missing" in next(problems(WANTED, lake, "app", "t", through=True))
    commit(tmp_path, "click", 0, 5, [1])
    commit(tmp_path, "dead_letters", 0, 0, [0], partition=1)
    last = commit(tmp_path, "order", 1, 2, [2])
    assert len(lake.look()) == 3
    assert list(problems(WANTED, lake, "app", "t", through=True)) == []
    (last.parent / "staged.parquet").write_bytes(b"")
    assert lake.orphans() == 1
    commit(tmp_path, "click", 1, 6, [2])
    lake.look()
    assert "1 offsets twice" in next(problems(WANTED, lake, "app", "t", through=False))
    last.unlink()
    assert "not there" in next(problems(WANTED, looked(tmp_path), "app", "t", through=False))


def test_of_a_merged_commit_it_is_told_whose_claims_it_has(tmp_path: Path) -> None:
    """The leader's are those that bear no other owner."""
    commit(tmp_path, "order", 0, 1, [0])
    log = tmp_path / "order" / "_delta_log" / f"{0:020d}.json"
    claims = {"t-0": {"expected": -1, "new": 1, "offer": "a", "owner": "host:43:x"}, "t-1": {"expected": 3, "new": 3}}
    told = {"owner": "host:42:ab", "commit_id": "x", "offers": ["a"], "partitions": claims}
    log.write_text(json.dumps({"commitInfo": {"userMetadata": json.dumps(told)}}))
    (one,) = PlainLake(tmp_path).look()
    assert (one.pid, one.offers, one.moved_by(43), one.moved_by(42)) == (42, 1, {"t-0"}, {"t-1"})
    assert one.moves == {"t-0": (-1, 1), "t-1": (3, 3)}


def looked(root: Path) -> PlainLake:
    """One that has looked."""
    lake = PlainLake(root)
    lake.look()
    return lake


def test_a_row_in_a_wrong_table_or_beyond_its_position_is_found(tmp_path: Path) -> None:
    """Not only what is missing or twice."""
    commit(tmp_path, "click", 0, 1, [0])
    assert "misplaced" in next(problems({(0, 0): "order"}, looked(tmp_path), "app", "t", through=False))
    commit(tmp_path / "2", "order", 0, -1, [0])
    assert "misplaced" in next(problems({(0, 0): "order"}, looked(tmp_path / "2"), "app", "t", through=False))
    commit(tmp_path / "3", "order", 0, 0, [])
    assert "missing" in next(problems({(0, 0): "order"}, looked(tmp_path / "3"), "app", "t", through=False))


def test_a_record_of_several_tables_is_looked_for_in_each_and_what_they_leave_out_is_counted(tmp_path: Path) -> None:
    """Each by its own position; a dead letter of two types is there twice."""
    wanted = {(0, 0): "order+click", (0, 1): "order+-click", (0, 2): "dead_letters+dead_letters", (0, 3): "-click"}

    def wrong(through: bool = False) -> list[str]:
        return [one.partition(":")[0] for one in problems(wanted, looked(tmp_path), "app", "t", through)]

    commit(tmp_path, "order", 0, 1, [0, 1])
    commit(tmp_path, "dead_letters", 0, 3, [2, 2])
    assert wrong() == [] and wrong(through=True) == ["1 offsets missing"]
    commit(tmp_path, "click", 0, 1, [0])
    assert wrong() == ["click has counted 0 records of partition 0 that are left out, not 1"]
    commit(tmp_path, "click", 1, 3, [], filtered=1)
    assert wrong() == ["click has counted 1 records of partition 0 that are left out, not 2"]
    commit(tmp_path, "click", 2, 3, [], filtered=1)
    assert wrong(through=True) == []
    commit(tmp_path, "dead_letters", 1, 3, [2])
    commit(tmp_path, "order", 1, 3, [3])
    assert wrong() == ["1 offsets misplaced", "1 offsets twice"]


def test_each_fate_occurs_in_the_drill_of_rules() -> None:
    """What its records' keys name: a row, a dead letter, and what a filter leaves out, of each table that has it."""
    fates = {name for number in range(2_000) for name in routes.record(number).key.decode().split("+")}
    assert fates == {"everything", "large", "-large", "thirds", "-thirds", "dead_letters", "-dead_letters"}
