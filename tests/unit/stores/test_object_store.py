"""What becomes of requests that an object store loses, refuses, or does not answer."""

from __future__ import annotations

import os
import signal
import ssl
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from exporter import secrets
from exporter.core.backoff import Backoff
from exporter.errors import ConfigError, DependencyUnreachable
from exporter.stores import object_client, object_store
from exporter.stores.object_client import StorePatience, kept_client
from exporter.stores.object_errors import StoreRefused
from exporter.stores.s3 import S3Store
from exporter.stores.store import Store
from exporter.stores.stores import open_store
from tests.support.certificates import Authority
from tests.support.fake_s3 import FakeS3, Fault
from tests.support.services import s3_options


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeS3]:
    """An S3 whose clients give up within a second or two."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "someone")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret-of-a-test")
    monkeypatch.setattr(object_client, "REQUEST_SECS", 1)
    monkeypatch.setattr(object_client, "PROBE_SECS", 1)
    monkeypatch.setattr(object_client, "RETRY_SECS", 0.4)
    for waiting in ("PATIENT", "PROBING"):
        monkeypatch.setattr(object_client, waiting, getattr(object_client, waiting)._replace(secs=1))
    monkeypatch.setattr(object_store, "PROBING", object_client.PROBING)
    monkeypatch.setattr(object_store, "PAUSE", Backoff(0.01, 0.1))
    monkeypatch.setattr(object_store, "_patience", StorePatience())
    with FakeS3() as running:
        yield running


@pytest.fixture
def store(s3: FakeS3) -> Store:
    return open_store("s3://lake/tables", s3_options(s3.endpoint))


KEY = "lake/tables/order/x"


@pytest.mark.parametrize(
    "faults", [["lost"], ["500 done"], [503, "lost"], ["lost", 503], [503, 503, 503], ["hangs", 500]]
)
def test_a_file_is_written_whatever_becomes_of_the_first_replies(
    store: Store, s3: FakeS3, faults: list[Fault], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A PUT that arrived, and whose reply did not, meets its own bytes; one that is throttled is tried again."""
    monkeypatch.setattr(object_client, "RETRY_SECS", 10.0)
    body = b"1" * (1000 if "hangs" in faults else 5 << 20)
    s3.faults["PUT"] = faults
    store.write_once("order/x", pa.py_buffer(body))
    assert s3.objects == {KEY: body} and not s3.faults["PUT"]


@pytest.mark.parametrize("there", [b"2", b"12", b""])
def test_after_a_doubt_only_equal_bytes_are_its_own(store: Store, s3: FakeS3, there: bytes) -> None:
    """Another file of that name is told as what it is."""
    s3.objects[KEY] = there
    s3.faults["PUT"] = [500]
    with pytest.raises(FileExistsError):
        store.write_once("order/x", b"1")
    assert s3.objects == {KEY: there}


def test_without_a_doubt_equal_bytes_are_another_s(store: Store, s3: FakeS3) -> None:
    """NAMES: throttled counts as doubt, refused at once does not."""
    s3.objects[KEY] = b"1"
    with pytest.raises(FileExistsError):
        store.write_once("order/x", b"1")
    assert s3.times("PUT") == 1


def test_a_conflict_is_no_file_that_is_there(store: Store, s3: FakeS3) -> None:
    """409: another request for that name is under way, and may yet fail; so it is tried again."""
    s3.faults["PUT"] = [409, 409]
    store.write_once("order/x", b"1")
    assert s3.objects == {KEY: b"1"}
    s3.faults["PUT"] = [409] * 100
    with pytest.raises(OSError) as told:
        store.write_once("order/y", b"1")
    assert not isinstance(told.value, FileExistsError)
    s3.faults["PUT"] = [409]
    store.write_once("order/z", b"1")  # which is tried again: a store with a conflict is not out


@pytest.mark.parametrize("fault", [503, 500, "lost", "hangs"])
def test_an_outage_is_told_within_its_bound_and_the_next_write_waits_less(
    store: Store, s3: FakeS3, fault: Fault
) -> None:
    """A worker has many files: not for each of them a store that is out is waited for. Once it answers, it is over."""
    s3.faults["PUT"] = s3.faults["HEAD"] = s3.faults["LIST"] = [fault] * 200
    began = time.monotonic()
    with pytest.raises(OSError) as told:
        store.write_once("order/x", b"1")
    assert time.monotonic() - began < 10 and "s3a://lake/tables/order/x" in str(told.value)
    tried = s3.times("PUT")
    with pytest.raises(OSError):
        store.below("other").write_once("y", b"1")
    assert s3.times("PUT") == tried + 1
    assert store.trouble() and not isinstance(told.value, StoreRefused)
    s3.faults["GET"] = [fault] * 200
    for call in (store.read, store.size, store.names, store.has_folder) if fault == 503 else (store.names,):
        with pytest.raises(OSError):
            call("order/x")
    s3.faults.clear()
    store.write_once("order/x2", b"1")
    assert store.trouble() == ""


def test_once_a_store_answers_again_it_has_its_time_again(
    store: Store, s3: FakeS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once, and not when the short time is over."""
    for method, ask in ("PUT", lambda: store.write_once("order/x", b"1")), ("HEAD", lambda: store.size("order/x")):
        s3.faults[method] = [503] * 100
        with pytest.raises(OSError):
            ask()
        with monkeypatch.context() as patch:
            patch.setattr(object_client, "RETRY_SECS", 30.0)
            asked = s3.times("LIST")
            s3.faults["LIST"] = [503]
            with pytest.raises(OSError):
                store.names()
            assert s3.times("LIST") == asked + 1, "until then others do not wait either"
            s3.faults[method] = []
            ask()
            s3.faults["PUT"] = [503, 503]
            store.write_once(f"order/{method}", b"1")


def test_a_slow_store_has_its_time_again_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else one that needs longer than the short time would be out for ever, for it is tried all the time."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    patience = StorePatience()
    assert patience.writing("s3a://b/x", 1).secs == object_client.REQUEST_SECS
    assert patience.reading("s3a://b/x") == object_client.PATIENT
    for _ in range(3):
        patience.lost("s3a://b/x")
        assert patience.secs("s3a://b/y") == 0 and patience.secs("s3a://c/x") == object_client.RETRY_SECS
        assert patience.writing("s3a://b/y", 1).secs == object_client.PROBE_SECS
        assert patience.reading("s3a://b/y") == object_client.PROBING
        now[0] += object_client.RETRY_SECS / 2.5
    assert patience.secs("s3a://b/y") == object_client.RETRY_SECS
    assert patience.writing("s3a://b/y", 100 << 20).secs == 4 * object_client.REQUEST_SECS, "a large file has more time"


@pytest.mark.parametrize(
    "fault, error, hint",
    [
        (403, ConfigError, "rights: get, put, list and delete"),
        (404, ConfigError, "make the bucket"),
        ("InvalidAccessKeyId=403", ConfigError, "web identity"),
        ("ExpiredToken=400", ConfigError, "renew"),
        ("PermanentRedirect=301", ConfigError, "s3_region"),
        ("AuthorizationHeaderMalformed=400", ConfigError, "s3_region"),
        ("NotImplemented=501", ConfigError, "conditional writes"),
        ("RequestTimeout=400", DependencyUnreachable, "start again"),
        (503, DependencyUnreachable, "start again"),
    ],
)
def test_what_is_in_the_way_says_whose_it_is(
    store: Store, s3: FakeS3, fault: Fault, error: type[Exception], hint: str
) -> None:
    """The settings' and the credentials' (2), or the store's, which may come back (69)."""
    s3.faults["PUT"] = [fault] * 100
    found = store.unwritable()
    assert type(found) is error and hint in found.hint and "s3a://lake/tables" in found.message


def test_what_no_waiting_changes_is_told_at_once(store: Store, s3: FakeS3) -> None:
    """By every call; a bucket that is gone is no file that is not there."""
    for faults in s3.faults["PUT"], s3.faults["GET"], s3.faults["LIST"]:
        faults += ["AccessDenied=403", "NoSuchBucket=404"]
    for call in (lambda: store.write_once("x", b"1"), lambda: store.read("x"), lambda: store.names()):
        for _ in range(2):
            with pytest.raises(StoreRefused):
                call()
    assert s3.times("PUT") == s3.times("GET") == s3.times("LIST") == 2


def test_a_store_that_ignores_the_condition_is_refused(store: Store, s3: FakeS3) -> None:
    """FENCE rests on it. The probe leaves nothing."""
    assert store.unwritable("order/_delta_log") is None and s3.times("PUT") == 2 and len(s3.asked) == 3
    s3.conditional = False
    found = store.unwritable()
    assert isinstance(found, ConfigError) and "If-None-Match" in found.message and not s3.objects


def test_markers_of_folders_are_neither_files_nor_names(store: Store, s3: FakeS3) -> None:
    """Hadoop's client puts an empty object whose key ends in a slash where a folder is made."""
    for key in ("", "order/", "order/_delta_log/"):
        s3.objects[f"lake/tables/{key}"] = b""
    assert store.names() == ["order"] and store.names("order") == ["_delta_log"]
    assert store.names("order/_delta_log") == []
    assert not store.has_folder("order/_delta_log") and store.has_folder("order") and not store.has_file("order")
    for folder in ("", "order", "order/_delta_log"):
        assert [*store.files(folder)] == []
    store.write_once("order/_delta_log/0", b"1")
    assert store.names("order/_delta_log", after="") == ["0"] == store.names("order/_delta_log", after="-")
    assert [one.path for one in store.files("order/_delta_log")] == ["order/_delta_log/0"]


def test_a_large_file_is_read_by_parts(store: Store, s3: FakeS3) -> None:
    """Memory is bounded, whoever seeks where."""
    body = bytes(range(256)) * (5 << 12)
    store.write_once("order/x", body)
    with store.reader("order/x") as file:
        assert file.read(3) == body[:3] and file.seek(-7, 2) and file.read() == body[-7:] and file.read() == b""
        file.seek(0)
        assert file.read() == body
    s3.faults["GET"] = ["", 403]  # of the second part
    with store.reader("order/x") as file, pytest.raises(OSError):
        file.read()


def test_no_secret_is_in_what_is_told(s3: FakeS3, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither in an error nor in what a store says of itself or is sent as."""
    secrets.keep_secret("secret-of-a-test")
    store = open_store("s3://lake", s3_options(s3.endpoint))
    s3.faults["PUT"] = ["secret-of-a-test=403"] * 9
    told = [str(store.unwritable()), repr(store), str(store.options), str(store.java)]
    with pytest.raises(OSError) as error:
        store.write_once("x", b"1")
    assert not any("secret-of-a-test" in text for text in [*told, str(error.value)])


def test_credentials_that_are_nowhere_are_a_mistake_of_the_settings(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """Told before a JVM is started, with where to give them."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    for profile in ("", "absent"):
        if profile:
            monkeypatch.setenv("AWS_PROFILE", profile)
        found = open_store("s3://lake", s3_options("http://127.0.0.1:1")).unwritable()
        assert isinstance(found, ConfigError) and "no credentials" in found.message and profile in found.message
        assert "web identity" in found.hint


def test_the_environment_says_where_it_is_if_the_settings_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """To this process, to the workers and to the JVM, whatever each of their libraries would look at."""
    for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://a")
    store = S3Store.at("s3://b")
    assert store.options == {"endpoint": "https://a", "region": "eu-1"}
    assert store.java.settings["spark.hadoop.fs.s3a.endpoint"] == "https://a"
    assert store.java.settings["spark.hadoop.fs.s3a.endpoint.region"] == "eu-1"
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "https://c")
    monkeypatch.setenv("AWS_REGION", "eu-2")
    assert S3Store.at("s3://b").options == {"endpoint": "https://c", "region": "eu-2"}
    assert S3Store.at("s3://b", {"endpoint": "https://d", "region": "eu-3"}).options["endpoint"] == "https://d"


def test_a_bucket_stands_in_the_path_of_an_endpoint_of_one_s_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """For the JVM as well; of AWS's own in the host name. Only http:// says that nothing is encrypted."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    told = (("", "false", "true"), ("https://s3.x", "true", "true"), ("http://s3.x", "true", "false"))
    for endpoint, in_path, encrypted in told:
        store = S3Store.at("s3://lake", {"endpoint": endpoint, "region": "r"})
        assert store._client(object_client.PATIENT).config.get("endpoint", "") == endpoint
        java = store.java.settings
        assert java["spark.hadoop.fs.s3a.path.style.access"] == in_path
        assert java["spark.hadoop.fs.s3a.connection.ssl.enabled"] == encrypted


def test_credentials_are_asked_for_again_before_they_expire(monkeypatch: pytest.MonkeyPatch) -> None:
    """The chain renews them a quarter of an hour before; what it gave is believed for less than that."""
    from datetime import datetime, timedelta, timezone

    from exporter.stores.s3 import _Chain

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    found = _Chain()()
    assert (found["access_key_id"], found["secret_access_key"], found["token"]) == ("a", "b", None)
    assert found["expires_at"] - datetime.now(timezone.utc) < timedelta(minutes=10)


def test_a_client_is_made_once_and_in_no_fork() -> None:
    """Its threads are not there in one: it would never answer."""
    made: list[Any] = []
    client = kept_client(lambda *of: made.append(of) or of)
    assert client(1) is client(1) and client(2) and made == [(1,), (2,)]
    child = os.fork()
    if not child:
        signal.alarm(30)
        try:
            client(1)
        except RuntimeError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_a_certificate_that_is_not_trusted_is_told_as_that(s3: FakeS3, tmp_path: Any) -> None:
    """Not as a store that is down: no waiting helps."""
    secured = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    secured.load_cert_chain(Authority(tmp_path, "unknown").issue("s3"))
    s3.listens_with(secured)
    found = open_store("s3://lake", s3_options(s3.endpoint)).unwritable()
    assert isinstance(found, ConfigError) and "not trusted" in found.message and "SSL_CERT_FILE" in found.hint
