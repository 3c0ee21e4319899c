"""Keys of AWS that end while a process works: of a profile, and of web identity."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from exporter import aws
from exporter.catalog.glue import GlueCatalog
from exporter.core.backoff import Backoff
from exporter.errors import DependencyUnreachable
from exporter.stores import object_store
from exporter.stores.object_errors import StoreRefused
from exporter.stores.store import Store
from exporter.stores.stores import open_store
from exporter.wal.dynamodb_calls import connect
from offsets.intents import WalUnreachable
from tests.support.expiring import Gate, Profile, token_service
from tests.support.fake_s3 import FakeS3
from tests.support.services import s3_options

Using = Callable[[dict[str, str]], None]


@pytest.fixture
def using(monkeypatch: pytest.MonkeyPatch) -> Using:
    """Take an environment over."""

    def use(environment: dict[str, str]) -> None:
        for name in ("AWS_PROFILE", "AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE"):
            monkeypatch.delenv(name, raising=False)
        for name, text in environment.items():
            monkeypatch.setenv(name, text)

    return use


@pytest.fixture
def s3() -> Iterator[FakeS3]:
    with FakeS3() as s3:
        yield s3


@pytest.fixture
def gate(s3: FakeS3) -> Iterator[Gate]:
    with Gate(s3.endpoint) as gate:
        yield gate


def works_for(store: Store, secs: float) -> int:
    """Writes and reads; how many files."""
    until, number = time.monotonic() + secs, 0
    while time.monotonic() < until:
        store.write_once(f"x{number}", b"1")
        assert store.read(f"x{number}") == b"1" and store.has_file(f"x{number}") and store.has_folder("")
        number += 1
        time.sleep(0.02)
    return number


def test_a_store_outlives_the_keys_of_a_profile(using: Using, tmp_path: Path, gate: Gate) -> None:
    """Three lives of them; not for each request a process is started."""
    profile = Profile(tmp_path, life_secs=3)
    using(profile.environment)
    written = works_for(open_store("s3://lake/tables", s3_options(gate.endpoint)), 9.0)
    assert not gate.strangers and gate.passed >= 4 * written
    assert 3 <= profile.made < 40, f"{profile.made} of {written} files"


def test_a_store_outlives_the_keys_of_web_identity_and_shows_the_token_of_then(
    using: Using, tmp_path: Path, gate: Gate
) -> None:
    """The file is written anew while it works, as a cluster does."""
    with token_service(tmp_path, life_secs=3) as sts:
        using(sts.environment)
        store = open_store("s3://lake/tables", s3_options(gate.endpoint))
        for token in ("first", "second", "third"):
            sts.token.write_text(token)
            works_for(store.below(token), 3.0)
    assert not gate.strangers and list(dict.fromkeys(sts.tokens)) == ["first", "second", "third"]
    assert len(sts.tokens) < 40


def test_keys_that_end_on_their_way_are_no_refusal(
    using: Using, tmp_path: Path, s3: FakeS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is signed again with others. A HEAD is answered without words."""
    fault = "ExpiredToken=400"
    using(Profile(tmp_path, life_secs=60).environment)
    monkeypatch.setattr(object_store, "PAUSE", Backoff(0.01, 0.1))
    store = open_store("s3://lake/tables", s3_options(s3.endpoint))
    s3.objects["lake/tables/there"] = b"1"
    s3.faults |= {method: [fault] for method in ("HEAD", "GET", "LIST", "PUT", "DELETE")}
    assert store.size("there") == 1 and store.read("there") == b"1" and store.names() == ["there"]
    store.write_once("new", b"2")
    assert store.delete("there") and s3.objects == {"lake/tables/new": b"2"}
    assert not any(s3.faults.values())
    s3.faults["PUT"] = [fault]
    assert store.unwritable() is None


def test_keys_that_nobody_renews_are_a_refusal_once_they_have_ended(using: Using, tmp_path: Path, s3: FakeS3) -> None:
    """At once, as before."""
    using({**Profile(tmp_path, 60).environment, "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"})
    store = open_store("s3://lake/tables", s3_options(s3.endpoint))
    for method, ask in ("PUT", lambda: store.write_once("x", b"1")), ("GET", lambda: store.read("x")):
        s3.faults[method] = ["ExpiredToken=400"]
        with pytest.raises(StoreRefused, match="ExpiredToken"):
            ask()
        assert s3.times(method) == 1


def test_a_chain_that_fails_is_no_trouble_while_its_keys_live(using: Using, tmp_path: Path, gate: Gate) -> None:
    """Then it is an outage; and a program that is not there is no file that is not there."""
    profile = Profile(tmp_path, life_secs=4)
    using(profile.environment)
    store = open_store("s3://lake/tables", s3_options(gate.endpoint))
    works_for(store, 0.1)
    profile.script.rename(tmp_path / "away")
    works_for(store.below("more"), 2.5)
    time.sleep(2.5)
    with pytest.raises(OSError, match="custom-process") as told:
        store.read("x0")
    assert not isinstance(told.value, FileNotFoundError | StoreRefused)
    (tmp_path / "away").rename(profile.script)
    assert store.read("x0") == b"1"
    config = Path(profile.environment["AWS_CONFIG_FILE"])
    config.write_text("[profile short]\ncredential_process = /there/is/none\n")
    found = open_store("s3://other/tables", s3_options(gate.endpoint)).unwritable()
    assert isinstance(found, DependencyUnreachable) and "/there/is/none" in found.message


def test_clients_of_other_services_share_the_rule(using: Using, tmp_path: Path) -> None:
    """DynamoDB's, of the write-ahead log: few processes; keys that ended on their way are asked with again."""
    profile = Profile(tmp_path, life_secs=60)
    using(profile.environment)
    found = aws.session().get_credentials()
    for _ in range(20):
        assert found.get_frozen_credentials().access_key.startswith("until")
        assert found.get_deferred_property("account_id")() is None, "which a client asks for before each request"
    assert profile.made <= 2
    with Gate("http://127.0.0.1:9", share=1.0) as gate:
        calls, slept = connect(gate.endpoint), [0.0]
        calls.clock, calls.sleep = lambda: sum(slept), slept.append  # the pauses are all the time that a call takes
        calls.client.meta.events.register("needs-retry.*", lambda **_: None)
        with pytest.raises(WalUnreachable, match="ExpiredToken"):
            calls.call("list_tables")
        assert gate.on_the_way > 1 and not gate.strangers
    glue: Any = GlueCatalog.connect("lake", "http://127.0.0.1:9")
    assert isinstance(glue._client._request_signer._credentials, aws.Keys)
