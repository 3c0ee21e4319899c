"""What the write-ahead log and its leases ask of DynamoDB, and what stands there: on a real one and the stricter fake.

What every write-ahead log does, whatever it is kept in, is tests/contract/test_log.py.
"""

from __future__ import annotations

import itertools
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ConnectionClosedError

from exporter.local.dynamodb import DynamoDbLocal
from exporter.operate.check.check import check_log
from exporter.settings.load import load
from exporter.wal.dynamodb import DynamoDbLog
from exporter.wal.dynamodb_calls import Calls, connect
from exporter.wal.dynamodb_items import TABLE
from exporter.wal.dynamodb_table import WalTableState, create_table, look_at_table
from offsets.intents import Intent, IntentKey, IntentState, WalMismatch, WalUnreachable
from offsets.ranges import TopicPartition
from tests.support.fake_dynamodb import FakeDynamoDb, Wrapped, failure
from tests.support.lakes import wait_until
from tests.support.services import docker_answers, fresh_name
from tests.support.settings import written

pytestmark = pytest.mark.xdist_group("dynamodb")

TP = TopicPartition("events", 0)
DAY = 86_400
WRITES = ("put_item", "update_item", "transact_write_items")
Change = Callable[[str, Callable[[], Any]], Any]


@dataclass
class Store:
    """A table of its own. calls: operation -> how often a log asked it."""

    client: Any
    table: str
    calls: Counter[str] = field(default_factory=Counter)

    def log(self, around: Change | None = None, now: float = 1_000_000_000.0, table: str = "") -> DynamoDbLog:
        """around: what happens to each call."""

        def counted(name: str, go_on: Callable[[], Any]) -> Any:
            self.calls[name] += 1
            return around(name, go_on) if around else go_on()

        calls = Calls(Wrapped(self.client, counted), 10, clock=lambda: 0.0, sleep=lambda secs: None)
        return DynamoDbLog(calls, table or self.table, "app", 14, now=lambda: now)

    def items(self) -> dict[str, dict[str, Any]]:
        """Commit id -> the intent's item, as a person would look at it."""
        if isinstance(self.client, FakeDynamoDb):
            found = list(self.client.tables[self.table].values())
        else:
            pages = self.client.get_paginator("scan").paginate(TableName=self.table, ConsistentRead=True)
            found = [item for page in pages for item in page["Items"]]
        return {item["commit_id"]["S"]: item for item in found if "commit_id" in item}

    @property
    def writes(self) -> int:
        return sum(self.calls[name] for name in WRITES)


@pytest.fixture(scope="module")
def client(request: pytest.FixtureRequest) -> Any:
    return connect(request.getfixturevalue("dynamodb")).client


@pytest.fixture(params=["fake", "real"])
def store(request: pytest.FixtureRequest) -> Store:
    """The same on both; the real one is started when it is first asked for."""
    client = FakeDynamoDb() if request.param == "fake" else request.getfixturevalue("client")
    name = fresh_name("wal")
    assert create_table(Calls(client, 10, local=True), name) == WalTableState()
    return Store(client, name)


def intent(commit_id: str, new: int, tp: TopicPartition = TP, kind: str = "order", epoch: int = 0) -> Intent:
    return Intent(IntentKey(kind, tp, epoch), commit_id, "me", new - 10, new, new - 9, new, 7, 3, "table", "f" * 64, 5)


def done(one: Intent, version: int) -> Intent:
    return replace(one, state=IntentState.COMPLETED, version=version)


def lost(every: int, name: str = "") -> Change:
    """Each n-th call (of this operation) is done, but its answer is lost."""
    count = itertools.count(1)

    def around(called: str, go_on: Callable[[], Any]) -> Any:
        answer = go_on()
        if name in ("", called) and next(count) % every == 0:
            raise ConnectionClosedError(endpoint_url="somewhere")
        return answer

    return around


def test_a_start_costs_one_query_per_partition(store: Store) -> None:
    """However long the history is, and whatever of it has failed."""
    log = store.log()
    for number in range(1, 6):
        log.start([intent(f"c{number}", number * 10)])
        log.complete([intent(f"c{number}", number * 10)], number)
    log.start([intent("c6", 60), intent("f1", 20, kind="refund/é~ x")])
    log.fail([intent("f1", 20, kind="refund/é~ x")])
    store.calls.clear()
    assert store.log().read(TP) == (done(intent("c5", 50), 5), intent("c6", 60))
    assert store.calls == {"query": 1}


def test_a_commit_costs_two_writes_per_type_and_partition(store: Store) -> None:
    """One to start it, one to complete it and to retire the one before."""
    log = store.log()
    for number in range(1, 4):
        store.calls.clear()
        log.start([intent(f"c{number}", number)])
        log.complete([intent(f"c{number}", number)], number)
        assert store.writes == sum(store.calls.values()) == 2


def test_history_expires_and_the_newest_of_a_key_never_does(store: Store) -> None:
    """expires_at stands on what a later commit or a failure retired, two weeks ahead."""
    log = store.log(now=1_000_000_000)
    for number in (1, 2, 3):
        log.start([intent(f"c{number}", number)])
        log.complete([intent(f"c{number}", number)], number)
    log.start([intent("bad", 4), intent("other", 4, kind="refund")])
    log.fail([intent("bad", 4)])
    marks = {commit: item.get("expires_at", {}).get("N") for commit, item in store.items().items()}
    ends = str(1_000_000_000 + 14 * DAY)
    assert marks == {"c1": ends, "c2": ends, "c3": None, "bad": ends, "other": None}
    assert {commit for commit, item in store.items().items() if "live" in item} == {"c3", "other"}


def test_a_new_process_retires_what_the_former_one_left(store: Store) -> None:
    """It knows the newest by its read; without a read the next one mends it."""
    first, second, third = store.log(), store.log(), store.log()
    first.start([intent("c1", 1)])
    first.complete([intent("c1", 1)], 1)
    second.start([intent("c2", 2)])
    second.complete([intent("c2", 2)], 2)  # has not read: two are live
    assert third.read(TP) == (done(intent("c2", 2), 2),)
    third.start([intent("c3", 3)])
    third.complete([intent("c3", 3)], 3)
    assert [commit for commit, item in store.items().items() if "live" in item] == ["c3"]


def test_an_older_commit_that_is_finished_late_expires(store: Store) -> None:
    """It is history from its beginning, and never read as the newest (tests/contract/test_log.py)."""
    log = store.log()
    log.start([intent("c1", 1), intent("c2", 2)])
    log.complete([intent("c2", 2)], 2)
    log.complete([intent("c1", 1)], 1)
    assert {commit for commit, item in store.items().items() if "expires_at" in item} == {"c1"}


def test_a_commit_of_more_partitions_than_a_transaction_holds(store: Store) -> None:
    """101 partitions take two calls to start, and three to complete with the 101 before them."""
    tps = [TopicPartition("events", number) for number in range(101)]
    log = store.log()
    first, second = [intent("c1", 1, tp) for tp in tps], [intent("c2", 2, tp) for tp in tps]
    log.start(first)
    assert store.writes == 2
    log.complete(first, 1)
    assert store.writes == 4
    log.start(second)
    log.complete(second, 2)
    assert store.writes == 9
    log.start(second[:0])
    assert store.log().read(tps[100]) == (done(second[100], 2),)


def test_one_unmet_condition_of_many_leaves_the_rest_done(store: Store) -> None:
    """A transaction that meets items of its own, or a vanished one before, is sent again without them."""
    tps = [TopicPartition("events", number) for number in range(5)]
    log = store.log()
    log.start([intent("c1", 1, tp) for tp in tps[:2]])
    log.start([intent("c1", 1, tp) for tp in tps])
    log.complete([intent("c1", 1, tp) for tp in tps], 1)
    key = {"pk": {"S": "app/events/1"}, "sk": {"S": f"intent/order/{0:010d}/{1:020d}/c1"}}
    if isinstance(store.client, FakeDynamoDb):
        del store.client.tables[store.table][key["pk"]["S"], key["sk"]["S"]]
    else:
        store.client.delete_item(TableName=store.table, Key=key)
    log.start([intent("c2", 2, tp) for tp in tps])
    log.complete([intent("c2", 2, tp) for tp in tps], 2)
    for tp in tps:
        assert log.read(tp) == (done(intent("c2", 2, tp), 2),)


@pytest.mark.parametrize("operation", [*WRITES, ""])
def test_a_write_whose_answer_was_lost_is_not_done_twice(store: Store, operation: str) -> None:
    """The try after it meets what it wrote itself."""
    log = store.log(lost(2, operation))
    pair = [TP, TopicPartition("events", 1)]
    for number in range(1, 6):
        log.start([intent(f"c{number}", number, tp) for tp in pair])
        log.complete([intent(f"c{number}", number, tp) for tp in pair], number)
        log.start([intent(f"o{number}", number, kind="refund")])
        log.complete([intent(f"o{number}", number, kind="refund")], number)
    log.start([intent("f", 9)])
    log.fail([intent("f", 9)])
    lease = log.acquire(TP, "me")
    for _ in range(6):
        lease = log.renew(lease)
    log.release(lease)
    plain = store.log()
    assert plain.read(TP) == (done(intent("c5", 5), 5), done(intent("o5", 5, kind="refund"), 5))
    assert plain.lease(TP) == replace(lease, released=True)
    assert len([item for item in store.items().values() if "live" in item]) == 2  # one commit id in two partitions


def test_three_failures_of_ten_calls_change_nothing(store: Store) -> None:
    """Before or after the write, throttled, cut off or in conflict: what is stored is the same."""
    rng = random.Random(5)
    kinds = [
        ConnectionClosedError(endpoint_url="somewhere"), failure("ProvisionedThroughputExceededException", "any"),
        failure("InternalServerError", "any", status=500), failure("TransactionConflictException", "any"),
        failure("ExpiredTokenException", "any"),
    ]  # fmt: skip

    def around(name: str, go_on: Callable[[], Any]) -> Any:
        if rng.random() < 0.15:
            raise rng.choice(kinds)
        answer = go_on()
        if rng.random() < 0.15:
            raise rng.choice(kinds)
        return answer

    tps = [TopicPartition("events", number) for number in range(3)]
    logs = [store.log(around), store.log()]
    for log, kind in zip(logs, ("order", "refund"), strict=True):
        for number in range(1, 16):
            log.read(TP)
            log.start([intent(f"{kind}{number}", number, tp, kind) for tp in tps])
            if number % 7 == 0:
                log.fail([intent(f"{kind}{number}", number, tp, kind) for tp in tps])
            else:
                log.complete([intent(f"{kind}{number}", number, tp, kind) for tp in tps], number)
    items = store.items()
    for number in range(1, 16):
        failing, plain = (dict(items[f"{kind}{number}"]) for kind in ("order", "refund"))
        for one in (failing, plain):
            for name in ("event_type", "commit_id", "sk", "live"):
                one[name] = {"S": str(name in one)}
        assert failing == plain


def test_a_table_that_is_not_there_is_told_apart(store: Store) -> None:
    """table_missing, for reads and writes alike, at once."""
    log = store.log(table="no-such-table")
    for call in (
        lambda: log.read(TP), lambda: log.start([intent("c", 1)]), lambda: log.complete([intent("c", 1)], 1),
        lambda: log.start([intent("c", 1), intent("d", 1)]), lambda: log.acquire(TP, "me"), lambda: log.lease(TP),
    ):  # fmt: skip
        store.calls.clear()
        with pytest.raises(WalUnreachable) as caught:
            call()
        assert caught.value.table_missing
        assert sum(store.calls.values()) == 1


def test_items_of_a_later_version_are_not_guessed_at(store: Store) -> None:
    """Neither a format nor a state that this version does not know is read as something else."""
    log = store.log()
    log.start([intent("c1", 1)])
    item = store.items()["c1"]
    for name, value in (("format", {"N": "2"}), ("state", {"S": "parked"}), ("new", {"N": "2"})):
        changed = {**item, name: value}
        if isinstance(store.client, FakeDynamoDb):
            store.client.tables[store.table][item["pk"]["S"], item["sk"]["S"]] = changed
        else:
            store.client.put_item(TableName=store.table, Item=changed)
        with pytest.raises(WalMismatch):
            log.read(TP)


def test_the_table_is_made_once_and_looked_at(store: Store) -> None:
    """Making it again is no error; one without TTL is told, and gets it; one of another shape is left alone."""
    calls = Calls(store.client, 10, local=True)
    assert look_at_table(calls, "no-such-table") == WalTableState(missing=True)
    name = fresh_name("wal")
    store.client.create_table(TableName=name, **TABLE)
    assert "TTL" in look_at_table(calls, name).faults[0]
    for _ in (1, 2):
        assert create_table(calls, name) == WalTableState()
    if not isinstance(store.client, FakeDynamoDb):
        parts = {part: TABLE[part][:1] for part in ("KeySchema", "AttributeDefinitions")}
        store.client.create_table(TableName=f"{name}-x", BillingMode="PAY_PER_REQUEST", **parts)
        assert [fault.split()[1] for fault in create_table(calls, f"{name}-x").faults] == ["key", "has", "TTL"]


def test_check_tells_of_the_log_and_makes_its_table_if_asked(
    dynamodb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Missing, made, unreachable: each with what to do next; nothing is made unless it is asked for."""
    config = written(tmp_path)
    flags = {"wal_table": fresh_name("wal"), "wal_endpoint": dynamodb}
    settings = load(config, flags, {})
    assert list(check_log(load(config, {}, {}), False)) == []
    assert [finding.level for finding in check_log(load(config, {}, {}), True)] == ["error"]
    for _ in (1, 2):
        (finding,) = check_log(settings, False)
        assert (finding.level, finding.hint) == ("error", "exporter check --create-wal makes it")
    for create in (True, True, False):
        (finding,) = check_log(settings, create)
        assert (finding.level, finding.says) == ("ok", f"table {flags['wal_table']}, wal_mode required")
    monkeypatch.setattr("exporter.operate.check.check.connect", lambda endpoint: connect(endpoint, 1.0))
    (finding,) = check_log(load(config, flags | {"wal_endpoint": "http://127.0.0.1:1"}, {}), False)
    assert finding.level == "error" and "`wal_endpoint`" in finding.hint


@pytest.fixture(params=["silent", "throttling", "closed", "broken"])
def bad_endpoint(request: pytest.FixtureRequest) -> Iterator[str]:
    """A DynamoDB that never helps: takes connections only, throttles, is not there, or answers with nonsense."""
    listener = socket.create_server(("127.0.0.1", 0))
    address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    body = b'{"__type":"com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException","message":"slow"}'
    answers = {"throttling": (b"400 Bad", body), "broken": (b"503 Down", b"<html>"), "silent": (b"", b"")}
    if request.param == "closed":
        listener.close()
        yield address
        return

    def serve() -> None:
        status, content = answers[request.param]
        open_: list[socket.socket] = []
        while True:
            try:
                peer, _ = listener.accept()
            except OSError:
                break
            open_.append(peer)
            if status:
                peer.recv(65_536)
                head = b"HTTP/1.1 %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % (status, len(content))
                peer.sendall(head + content)
                peer.close()
        for peer in open_:
            peer.close()

    thread = threading.Thread(target=serve)
    thread.start()
    yield address
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join(10)


def test_what_never_answers_is_unreachable_within_the_deadline(
    bad_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One short line, in time, and no other error than this one."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "local")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    log = DynamoDbLog.connect("table", "app", bad_endpoint, deadline_secs=2.0)
    began = time.monotonic()
    with pytest.raises(WalUnreachable) as caught:
        log.start([intent("c", 1)])
    assert time.monotonic() - began < 2.0 + 3.0  # the client's own pacing, a busy machine
    assert not caught.value.table_missing
    assert caught.value.message.startswith("put_item: ") and len(caught.value.message) < 300


def test_without_credentials_or_region_it_is_unreachable_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Not a traceback of boto3's."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(WalUnreachable, match="region"):
        DynamoDbLog.connect("table", "app")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    log = DynamoDbLog.connect("table", "app", "http://127.0.0.1:1")
    with pytest.raises(WalUnreachable, match="credentials"):
        log.read(TP)


@pytest.mark.skipif(docker_answers(), reason="containers are used instead")
def test_dynamodb_local_is_on_loopback_only_comes_back_empty_and_ends_with_its_parent(
    dynamodb: str, tmp_path: Path
) -> None:
    """Nothing but 127.0.0.1 reaches it; its process is gone however its parent ended."""
    script = (
        "import sys; from exporter.local.dynamodb import DynamoDbLocal; d = DynamoDbLocal(); d.start(); "
        "print(d.pid, d.endpoint, flush=True); sys.stdin.read()"
    )
    root = Path(__file__).parents[2]
    parent = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root,
        env=os.environ | {"TMPDIR": str(tmp_path)},  # what a killed process cannot remove
    )  # fmt: skip
    assert parent.stdout is not None
    pid, endpoint = parent.stdout.readline().split()
    port = int(endpoint.rpartition(":")[2])
    socket.create_connection(("127.0.0.1", port), 5).close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", port), 5)
    parent.send_signal(signal.SIGKILL)
    parent.wait(10)
    wait_until(lambda: not Path("/proc", pid).exists(), 10, "the end of DynamoDB Local")
    with DynamoDbLocal() as own:
        calls = connect(own.endpoint)
        create_table(calls, "table")
        own.kill()
        with pytest.raises(WalUnreachable):
            DynamoDbLog(connect(own.endpoint, 1.0), "table", "app").read(TP)
        own.start()
        with pytest.raises(WalUnreachable) as caught:
            DynamoDbLog(calls, "table", "app").read(TP)
        assert caught.value.table_missing
