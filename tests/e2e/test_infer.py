"""From a topic that nobody has described to tables with columns, in two commands; and what a sample is of."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import deltalake
import pytest
from kafka import KafkaProducer

from exporter.cli.main import _exit_code, cli
from exporter.cli.verbs.infer import ASSUMED
from exporter.kafka.sample import Sample, SampledOffsets, SampledRecord
from exporter.operate.infer.infer import infer
from exporter.settings.load import load
from offsets.names import table_folder
from offsets.ranges import TopicPartition
from tests.support import webhooks
from tests.support.lakes import messages, seldom
from tests.support.services import Record, administered, fresh_name, produce
from tests.support.sessions import Kept

pytestmark = [pytest.mark.broker]


def groups(admin: Any) -> set[str]:
    return {one["group_id"] if isinstance(one, dict) else one[0] for one in admin.list_groups()}


def test_a_sample_is_of_the_whole_retained_range_and_leaves_no_trace(
    kafka: str, topic: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records of the beginning and of the end of each partition, an empty one passed; no group, no topic is made."""
    monkeypatch.chdir(tmp_path)
    name = topic(3)
    hooks = [webhooks.record(one) for one in webhooks.payloads(400)]
    odd = [Record(None, None), Record(None, b"x" * 300_000), Record(None, b"{")]
    produce(kafka, name, {0: [*hooks, *odd], 1: hooks[:50]})
    settings = load(None, {"brokers": kafka, "topics": name, "record_bytes_max": "100000"}, {}, ASSUMED)
    with administered(kafka) as admin:
        before = groups(admin)
    found = infer(settings, 150)
    assert (found.records, found.retained, found.partitions, found.topics) == (150, 453, 3, (name,))
    assert found.unusable == {"not_json": 1, "too_long": 1, "tombstone": 1}
    assert found.notes == ()
    assert len(found.types) == 10
    with administered(kafka) as admin:
        new = sorted(groups(admin) - before)  # of other tests, by other topics
        offsets = admin.list_group_offsets(new) if new else {}
    assert not [group for group, of in offsets.items() if any(tp.topic == name for tp in of)]


def test_a_sample_passes_offsets_without_records_and_tells_what_it_cannot_read(
    kafka: str, topic: Callable[..., str]
) -> None:
    """Transactions leave offsets that no consumer sees; of a partition that is not there any more it is said so."""
    name = topic(1)
    producer = KafkaProducer(bootstrap_servers=kafka, transactional_id=fresh_name("txn"))
    producer.init_transactions()
    for number in range(6):
        producer.begin_transaction()
        producer.send(name, value=b"%d" % number, partition=0).get(10)
        if number % 2:
            producer.abort_transaction()
        else:
            producer.commit_transaction()
    producer.close()
    tp = TopicPartition(name, 0)
    wanted = [
        SampledOffsets(tp, range(0, 5)),
        SampledOffsets(tp, range(10_000, 10_010)),
        SampledOffsets(tp, range(5, 12)),
    ]
    sample = Sample({"bootstrap_servers": kafka}, wanted, "read_committed", 1000)
    taken: list[SampledRecord] = list(sample)
    assert [(one.offset, one.value) for one in taken] == [(0, b"0"), (4, b"2"), (8, b"4")]
    assert [text.split(":")[0] for text in sample.unread] == [f"{tp} from offset 10000 on"]


@pytest.fixture
def verb(spark: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[..., int]]:
    """Types a verb, in this process and on the tests' session, in an empty folder; its exit code."""
    monkeypatch.setattr("exporter.spark.session.start", lambda *_, **__: Kept(spark))
    monkeypatch.setattr("exporter.spark.session.starting", lambda *_: lambda: Kept(spark))
    for name, value in {"SPARK_MASTER": "local[2]", "POLL_SECS": "0.2", "SESSION_TIMEOUT_SECS": "6"}.items():
        monkeypatch.setenv(f"EXPORTER_{name}", value)
    monkeypatch.chdir(tmp_path)
    yield lambda *arguments: _exit_code(lambda: cli([*arguments], standalone_mode=False))


def documents(kafka: str, topic: str) -> dict[tuple[int, int], dict[str, Any]]:
    """(partition, offset) -> the payload, of every good record."""
    return {(m.partition(), m.offset()): json.loads(m.value() or b"") for m in messages(kafka, topic)}


def rows(event_type: str) -> dict[tuple[int, int], dict[str, Any]]:
    """(partition, offset) -> the row of a table in ./lake."""
    found = deltalake.DeltaTable(Path("lake", table_folder(event_type))).to_pyarrow_table().to_pylist()
    return {(row["_kafka"]["partition"], row["_kafka"]["offset"]): row for row in found}


def holds(sent: Any, kept: Any) -> bool:
    """Whether a column has what was sent: a time as such, any JSON as its text, null for nothing and for empty."""
    if isinstance(sent, dict):
        if isinstance(kept, str):
            return bool(json.loads(kept) == sent)
        if isinstance(kept, list):  # a map
            return sent.keys() == {*dict(kept)} and all(holds(sent[key], inner) for key, inner in kept)
        return (kept is None and not sent) or all(holds(inner, (kept or {}).get(key)) for key, inner in sent.items())
    if isinstance(sent, list):
        return (kept is None and not sent) or all(map(holds, sent, kept))
    if isinstance(kept, datetime):
        return kept == datetime.fromisoformat(str(sent).replace("Z", "+00:00"))
    if isinstance(kept, str) and not isinstance(sent, str):
        return bool(json.loads(kept) == sent)
    return kept == sent or str(kept) == sent or json.dumps(sent) == kept


@pytest.mark.spark
@pytest.mark.parametrize(
    ("with_header", "flags", "origin"),
    [
        pytest.param(False, (), "declared", id="type in the value"),
        seldom(True, ("--columns-folder", "s"), "declared", id="type in a header"),
        seldom(False, ("--evolve", "add"), "evolved", id="evolved"),
    ],
)
def test_a_new_user_has_tables_with_columns_after_two_commands(
    verb: Callable[..., int], with_header: bool, flags: tuple[str, ...], origin: str, kafka: str,
    topic: Callable[..., str], capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """`infer --write`, `run`: each value of each record in a column, clashes as JSON, no dead letter; and all is clean.

    `check` and `plan` find nothing in the way, `schema` tells where the columns are from, the audit is clean.
    """
    name = topic(2)
    hooks = [webhooks.record(one, with_header) for one in webhooks.payloads(500)]
    produce(kafka, name, {0: hooks[:300], 1: hooks[300:]})
    assert verb("infer", "--brokers", kafka, "--topics", name, "--write", "exporter.toml", *flags) == 0
    for seen in ("check", "plan"):
        assert verb(seen) == 0, capsys.readouterr().out
    assert verb("run", "--until-caught-up") == 0
    capsys.readouterr()
    sent = documents(kafka, name)
    tables = {kind: rows(kind) for kind in webhooks.KINDS}
    assert sum(map(len, tables.values())) == len(sent) == 500
    assert rows("dead_letters") == {}
    for found in tables.values():
        for at, row in found.items():
            missing = {key: inner for key, inner in sent[at].items() if not holds(inner, row.get(key))}
            assert missing == {} or {*missing} == {"empty"}, (at, missing, row)
            assert row["_event_time"] == datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(
                milliseconds=sent[at]["sent_ms"]
            )
    assert verb("audit") == 0, capsys.readouterr().out
    capsys.readouterr()
    assert verb("schema", "--types", "release", "--format", "json") == 0
    told = json.loads(capsys.readouterr().out)
    columns = {one["path"]: (one["type"], one["origin"], one["version"]) for one in told["columns"]}
    assert columns["assets[].size"] == ("JSON", origin, 1 if origin == "evolved" else 0)
    assert columns["published_on"] == ("DATE", origin, 1 if origin == "evolved" else 0)
    assert told["rescued"] == [] and told["whole"]
