"""The write-ahead log without a database: keys, items, the lease keeper, the fake, what deploy/ holds."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from botocore import xform_name
from hypothesis import given
from hypothesis import strategies as st

from exporter.wal.dynamodb import DynamoDbLog
from exporter.wal.dynamodb_calls import CallPatience, Calls
from exporter.wal.dynamodb_items import TABLE, TTL_ATTRIBUTE, from_item, to_item
from exporter.wal.lease_keeper import LeaseKeeper
from offsets.intents import Intent, IntentKey, IntentState, WalUnreachable, parse_keys, partition_key, sort_key
from offsets.leases import LeaseTaken
from offsets.names import FOLDER_BYTES_MAX, BadName, table_folder
from offsets.ranges import TopicPartition
from tests.support.fake_dynamodb import FakeDynamoDb, Wrapped, failure
from tests.support.lakes import wait_until

ROOT = Path(__file__).parents[3]
TP = TopicPartition("events", 0)


def storable(event_type: str) -> bool:
    try:
        table_folder(event_type)
    except BadName:
        return False
    return True


event_types = st.text(min_size=1, max_size=FOLDER_BYTES_MAX // 3).filter(storable)
offsets = st.integers(0, 2**63 - 1)
words = st.from_regex(r"[A-Za-z0-9_-]{1,50}", fullmatch=True)
keys = st.builds(
    IntentKey,
    event_types,
    st.builds(TopicPartition, st.from_regex(r"[A-Za-z0-9._-]{1,249}", fullmatch=True), st.integers(0, 10**6)),
    st.integers(0, 10**9),
)


@given(keys, offsets, words, words)
def test_keys_parse_back_to_what_built_them(key: IntentKey, new: int, commit_id: str, app: str) -> None:
    """Whatever an event type holds; and they fit DynamoDB's 1024 and 2048 bytes."""
    pk, sk = partition_key(app, key.tp), sort_key(key, new, commit_id)
    assert parse_keys(pk, sk) == (app, key, new, commit_id)
    assert len(sk.encode()) <= 1024 and len(pk.encode()) <= 2048


@given(keys, st.tuples(offsets, offsets))
def test_later_positions_sort_after_earlier_ones(key: IntentKey, news: tuple[int, int]) -> None:
    """As numbers, not as texts."""
    low, high = sorted(news)
    assert sort_key(key, low, "c") <= sort_key(key, high, "c")


@given(keys, offsets, st.integers(-1, 2**63 - 2), st.sampled_from(IntentState), st.integers(0, 2**62))
def test_items_read_back_as_what_was_written(
    key: IntentKey, new: int, expected: int, state: IntentState, version: int
) -> None:
    """Each field, each state."""
    landed = version if state is IntentState.COMPLETED else None
    one = Intent(key, "c", "me", expected, new, 0, new, 1, 0, "t", "r", 5, state, landed)
    assert from_item(to_item("app", one)) == one


@pytest.mark.parametrize(
    ("pk", "sk"),
    [
        ("app/t/0", "lease"),
        ("app/t/00", f"intent/a/{0:010d}/{1:020d}/c"),
        ("app/t/0", f"intent/a/{0:09d}/{1:020d}/c"),
        ("app/t/0", f"intent/a/{0:010d}/{1:019d}/c"),
        ("app/t/0", f"intent/~61/{0:010d}/{1:020d}/c"),
        ("app/t/0", f"intent/a/{0:010d}/{1:020d}/"),
        ("app/t/0/x", f"intent/a/{0:010d}/{1:020d}/c"),
        ("app/t/٣", f"intent/a/{0:010d}/{1:020d}/c"),
    ],
)
def test_keys_of_others_are_refused(pk: str, sk: str) -> None:
    """What is not written so is not ours."""
    with pytest.raises(BadName):
        parse_keys(pk, sk)


def test_a_call_with_its_tries_fits_into_any_deadline() -> None:
    """However long it is, there is time for a second call, or at least for one."""
    for deadline in (0.5, 1.0, 2.0, 4.0, 7.5, 15.0, 60.0, 600.0):
        patience = CallPatience.within(deadline)
        assert patience.slowest_secs <= deadline
        assert patience.timeout_secs <= 2


def new_log(client: Any) -> DynamoDbLog:
    return DynamoDbLog(Calls(client, 10, clock=lambda: 0.0, sleep=lambda secs: None), "table", "app")


@pytest.fixture
def db() -> FakeDynamoDb:
    db = FakeDynamoDb(page=2)
    db.create_table(TableName="table", **TABLE)
    return db


def intents_of(*types: str) -> list[Intent]:
    return [Intent(IntentKey(name, TP, 0), "c", "me", -1, 1, 0, 1, 1, 0, "t", "r", 5) for name in types]


def test_every_call_is_counted_by_how_it_ended(db: FakeDynamoDb) -> None:
    """A condition that was not met is a call that was refused, alone and in a transaction."""
    log = new_log(db)
    log.acquire(TP, "me")
    with pytest.raises(LeaseTaken):
        log.acquire(TP, "other")
    assert log.calls == {("update_item", "answered"): 1, ("update_item", "refused"): 1}
    for _ in range(2):
        log.start(intents_of("a", "b"))
    assert (log.calls["transact_write_items", "answered"], log.calls["transact_write_items", "refused"]) == (1, 1)


def test_a_long_answer_comes_in_pages(db: FakeDynamoDb) -> None:
    """All of it is read; a history only as far as was said, and that there is more of it is told."""
    log, made = new_log(db), intents_of(*"abcdefg")
    log.start(made)
    assert log.read(TP) == tuple(made)
    log.fail(made)
    found = [replace(one, state=IntentState.FAILED) for one in made]
    assert log.failed(TP) == (tuple(found), True)
    assert log.failed(TP, pages_max=3) == (tuple(found[:6]), False)


@pytest.mark.parametrize(
    "request_",
    [
        {"Item": {"pk": {"S": "a"}, "sk": {"S": "b"}}},
        {"Item": {"pk": {"S": ""}, "sk": {"S": "b"}}, "ConditionExpression": "attribute_not_exists(pk)"},
        {"Item": {"pk": {"S": "a"}, "sk": {"S": "b"}}, "ConditionExpression": "size(pk) > :one"},
        {"Item": {"pk": {"S": "a"}, "sk": {"S": "b"}, "live": {"S": "b"}, "colour": {"S": "c"}},
         "ConditionExpression": "attribute_not_exists(pk)"},
        {"Item": {"pk": {"S": "a"}, "sk": {"S": "b"}, "live": {"S": "b"}, "expires_at": {"N": "1"}},
         "ConditionExpression": "attribute_not_exists(pk)"},
        {"Item": {"pk": {"S": "a"}, "sk": {"S": "b"}, "live": {"S": "b"}, "new": {"N": 1}},
         "ConditionExpression": "attribute_not_exists(pk)"},
        {"Item": {"pk": {"S": "a"}, "sk": {"S": "b"}, "live": {"S": "b"}},
         "ConditionExpression": "attribute_not_exists(pk)", "ExpressionAttributeNames": {"#state": "state"}},
    ],
)  # fmt: skip
def test_the_fake_is_stricter_than_the_real_one(db: FakeDynamoDb, request_: dict[str, Any]) -> None:
    """Unconditional, empty, unknown, untyped, unused: no test on it passes with such a write."""
    with pytest.raises(AssertionError):
        db.put_item(TableName="table", ReturnValuesOnConditionCheckFailure="ALL_OLD", **request_)
    assert not hasattr(db, "scan") and not hasattr(db, "delete_item") and not hasattr(db, "batch_write_item")


def test_a_keeper_renews_by_itself_tells_a_loss_once_and_gives_back_when_closed(db: FakeDynamoDb) -> None:
    """With its own job, in real time; another one gets what it gave back at once, not after lease_secs."""
    lost: list[TopicPartition] = []
    fails, tries = [False], [0]

    def around(name: str, go_on: Any) -> Any:
        if fails[0]:
            tries[0] += 1
            raise failure("AccessDeniedException", name)
        return go_on()

    keeper = LeaseKeeper(new_log(Wrapped(db, around)), "one", 0.6, lost.append)
    try:
        keeper.take([TP, TopicPartition("events", 1)])
        wait_until(lambda: len(keeper.held()) == 2, 5, "both leases")
        log = new_log(db)
        first = log.lease(TP)
        assert first is not None
        wait_until(lambda: log.lease(TP).counter > first.counter + 2, 5, "renewals")
        fails[0] = True
        wait_until(lambda: len(lost) == 2, 5, "the loss of both")
        enough = tries[0] + 3
        wait_until(lambda: tries[0] > enough, 5, "more renewals that fail")
        assert len(lost) == 2
        assert not keeper.held() and "AccessDenied" in keeper.trouble
        fails[0] = False
        wait_until(lambda: len(keeper.held()) == 2, 5, "both again: nobody has taken them")
        assert len(lost) == 2 and keeper.token(TP) == first.token
    finally:
        keeper.close()
    assert not keeper.held()
    other = LeaseKeeper(log, "two", 600, lost.append, threaded=False)
    other.take([TP])
    other.beat()
    assert other.held() == {TP} and other.token(TP) == first.token + 1


def test_a_beat_that_breaks_is_followed_by_the_next_one(db: FakeDynamoDb, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever broke it: a lease that nobody renews is soon somebody else's."""
    keeper, broken = LeaseKeeper(new_log(db), "one", 1.0, lambda tp: None), []
    beat = keeper.beat

    def breaks_twice() -> None:
        if len(broken) < 2:
            broken.append(1)
            raise RuntimeError("a fault of ours")
        beat()

    monkeypatch.setattr(keeper, "beat", breaks_twice)
    try:
        keeper.take([TP])
        wait_until(lambda: "a fault of ours" in keeper.trouble, 5, "the fault is told")
        wait_until(lambda: keeper.check(TP) and not keeper.trouble, 5, "the lease")
    finally:
        keeper.close()


def test_a_run_without_a_log_pays_nothing_for_it() -> None:
    """boto3 and APScheduler are imported when they are needed."""
    script = "import sys, exporter.cli.main, exporter.task.service, exporter.task.build, exporter.operate.check.check\n"
    script += "import exporter.wal.lease_keeper, exporter.wal.dynamodb\n"
    script += "print(sorted({'boto3', 'botocore', 'apscheduler'} & set(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=True)
    assert ran.stdout == "[]\n"


def called_operations() -> set[str]:
    """Every text in the log's modules that is the name of a method of boto3's client, as IAM calls it."""
    model = botocore.session.get_session().get_service_model("dynamodb")
    operations = {xform_name(name): name for name in model.operation_names}
    texts = set()
    for path in (ROOT / "exporter" / "wal").glob("dynamodb*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.add(node.value)
    return {operations[text] for text in texts & operations.keys()}


def test_the_policy_allows_what_is_called_and_nothing_else() -> None:
    """A transaction needs the rights of its parts and none of its own."""
    policy = json.loads((ROOT / "deploy" / "dynamodb" / "policy.json").read_text())
    allowed = [action for statement in policy["Statement"] for action in statement["Action"]]
    wanted = called_operations() - {"TransactWriteItems"}
    assert {"PutItem", "UpdateItem", "Query", "GetItem", "CreateTable"} <= wanted
    assert sorted(allowed) == sorted(f"dynamodb:{name}" for name in wanted)
    assert {"Scan", "DeleteItem", "DeleteTable"}.isdisjoint(wanted)


def test_the_deployed_table_is_the_one_in_the_code() -> None:
    """table.json, for the command line, word by word."""
    table = json.loads((ROOT / "deploy" / "dynamodb" / "table.json").read_text())
    assert table == {"TableName": "exporter-wal", **TABLE}


def test_terraform_makes_the_same_table() -> None:
    """main.tf: keys, index, billing, TTL, backups; and nothing beyond."""
    text = (ROOT / "deploy" / "dynamodb" / "main.tf").read_text()
    body = text[text.index('resource "aws_dynamodb_table"') :]
    found = re.findall(r"^ +(\w+) *(?:= *(\S+)|\{)$", body, re.M)
    (index,) = TABLE["LocalSecondaryIndexes"]
    (hash_key, range_key), (_, live) = TABLE["KeySchema"], index["KeySchema"]
    wanted: list[tuple[str, str]] = [("name", "var.wal_table"), ("billing_mode", TABLE["BillingMode"])]
    wanted += [("hash_key", hash_key["AttributeName"]), ("range_key", range_key["AttributeName"])]
    for one in TABLE["AttributeDefinitions"]:
        wanted += [("attribute", ""), ("name", one["AttributeName"]), ("type", one["AttributeType"])]
    wanted += [("local_secondary_index", ""), ("name", index["IndexName"]), ("range_key", live["AttributeName"])]
    wanted += [("projection_type", index["Projection"]["ProjectionType"])]
    wanted += [("ttl", ""), ("enabled", "true"), ("attribute_name", TTL_ATTRIBUTE)]
    wanted += [("point_in_time_recovery", ""), ("enabled", "true")]
    assert [(name, value.strip('"')) for name, value in found] == wanted


def test_backups_that_an_account_refuses_are_an_error_but_not_in_dynamodb_local() -> None:
    """Only where the endpoint was given may the call be unknown."""
    from exporter.wal.dynamodb_table import create_table

    class NoBackups(FakeDynamoDb):
        def describe_continuous_backups(self, TableName: str) -> Any:
            raise failure("UnknownOperationException", "DescribeContinuousBackups")

    assert create_table(Calls(NoBackups(), 10, local=True), "table").faults == ()
    with pytest.raises(WalUnreachable, match="UnknownOperation"):
        create_table(Calls(NoBackups(), 10), "table")
