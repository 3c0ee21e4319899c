"""What is an answer of a schema registry and what is trouble, by a server that gives each kind of either."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.core.schemas import SchemaText
from exporter.errors import ConfigError, RegistryUnreachable
from exporter.local.server import free_ports
from exporter.registry import client as client_module
from exporter.registry.client import connect
from exporter.registry.options import RegistryOptions
from exporter.registry.server import Client, Reference, RegisteredSchema, whole
from tests.support.certificates import Authority
from tests.support.fake_registry import Failure, FakeRegistry

NO_SUCH_ID = json.dumps({"error_code": 40403, "message": "Schema not found"}).encode()


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    """One that is well."""
    with FakeRegistry() as found:
        yield found


def client_of(*urls: str, timeout_secs: float = 5.0) -> Client:
    return connect(RegistryOptions(urls, timeout_secs=timeout_secs))


def test_a_schema_is_given_as_it_was_registered(registry: FakeRegistry) -> None:
    """Text, kind and references; one that names no kind is Avro."""
    first = registry.add("a", '{"type":"long"}')
    reference = {"name": "a.B", "subject": "a", "version": 1}
    second = registry.add("b", "{}", "JSON", [reference])
    del registry.schemas[first]["schemaType"], registry.schemas[first]["references"]
    client = client_of(registry.url)
    assert client.ask(lambda server: server.schema(first)) == RegisteredSchema("AVRO", '{"type":"long"}')
    assert client.ask(lambda server: server.schema(second)) == RegisteredSchema(
        "JSON", "{}", (Reference("a.B", "a", 1),)
    )
    assert client.ask(lambda server: server.version("b", 1)).id == second
    assert client.ask(lambda server: server.versions("a")) == [1]
    assert client.ask(lambda server: server.subjects()) == ["a", "b"]


def test_only_404_with_40403_says_that_there_is_no_such_id(registry: FakeRegistry) -> None:
    """And a subject that is not there has no versions."""
    client = client_of(registry.url)
    assert client.ask(lambda server: server.schema(9)) is None
    assert client.ask(lambda server: server.versions("none")) == []


@pytest.mark.parametrize(
    ("failure", "says"),
    [
        (Failure(404, b"<html>Not Found</html>"), "HTTP 404 <html>"),
        (Failure(404, b""), "HTTP 404"),
        (Failure(404, b'{"error_code": 404, "message": "HTTP 404 Not Found"}'), "HTTP 404"),
        (Failure(404, b'{"error_code": 40401, "message": "Subject not found"}'), "40401"),
        (Failure(200, NO_SUCH_ID), "no schema"),
        (Failure(500, NO_SUCH_ID), "HTTP 500"),
        (Failure(500, b'{"error_code": 50001}'), "HTTP 500"),
        (Failure(502, b"Bad Gateway"), "HTTP 502"),
        (Failure(503), "HTTP 503"),
        (Failure(429, b"slow down"), "HTTP 429"),
        (Failure(401, b'{"error_code": 40101}'), "HTTP 401"),
        (Failure(403, b"Forbidden"), "HTTP 403"),
        (Failure(301, b"", {"Location": "http://127.0.0.1:1/"}), "HTTP 301"),
        (Failure(200, b"<html>Sign in</html>"), "HTTP 200 <html>"),
        (Failure(200, b""), "HTTP 200"),
        (Failure(200, b"[]"), "no schema"),
        (Failure(200, b'{"id": 9}'), "no schema"),
        (Failure(200, b'{"schema": 9}'), "no schema"),
        (Failure(200, b'{"schema": "x", "schemaType": "XML"}'), "no schema"),
        (Failure(200, b'{"schema": "x", "references": [{"name": "y"}]}'), "no schema"),
        (Failure(200, b'{"schema": "x"', {"Content-Length": "100"}), "IncompleteRead|14 bytes read"),
        (Failure(hang_up=True), "."),
        (Failure(200, b'{"schema": "x"}', after_secs=20), "no answer in time"),
        (Failure(200, b'{"schema": "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}', drip_secs=0.02), "not done after"),
        (Failure(200, b"{}", drip_secs=0.2, drip_head=True), "not done after"),
    ],
    ids=str,
)  # fmt: skip
def test_everything_else_is_trouble(registry: FakeRegistry, failure: Failure, says: str) -> None:
    """Which decides nothing, ends in time, and says what came."""
    number = registry.add("a", '"long"')
    registry.failure = failure
    began = time.monotonic()
    client = client_of(registry.url, timeout_secs=0.3)
    with pytest.raises(RegistryUnreachable, match=says) as caught:
        client.ask(lambda server: server.schema(number))
    assert registry.url in caught.value.message and time.monotonic() - began < 5
    registry.failure = None
    found = client.ask(lambda server: server.schema(number))
    assert found is not None and found.text == '"long"'


def test_nobody_who_listens_is_trouble() -> None:
    """And so is a name that nobody knows."""
    (port,) = free_ports(1)
    for url in (f"http://127.0.0.1:{port}", "http://registry.invalid:8081"):
        with pytest.raises(RegistryUnreachable, match=url) as caught:
            client_of(url, timeout_secs=2.0).ask(lambda server: server.schema(1))
        assert "object at 0x" not in caught.value.message


def test_an_answer_without_end_is_trouble(registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is bounded."""
    monkeypatch.setattr(client_module, "ANSWER_BYTES_MAX", 1_000)
    registry.failure = Failure(200, b'"' + b"x" * 100_000 + b'"')
    with pytest.raises(RegistryUnreachable, match="more than"):
        client_of(registry.url).ask(lambda server: server.schema(1))


def test_the_next_server_is_asked_on_trouble_and_stays_the_first() -> None:
    """The message of a last one that fails has what each of them said."""
    (port,) = free_ports(1)
    with FakeRegistry() as ill, FakeRegistry() as well:
        well.add("a", '"long"')
        ill.failure = Failure(503)
        client = client_of(f"http://127.0.0.1:{port}", ill.url, well.url)
        for _ in range(3):
            assert client.ask(lambda server: server.schema(1))
        assert (len(ill.requests), len(well.requests)) == (1, 3)
        well.failure = Failure(500)
        with pytest.raises(RegistryUnreachable) as caught:
            client.ask(lambda server: server.schema(1))
        assert all(one in caught.value.message for one in (str(port), ill.url, well.url, "503", "500"))
        ill.failure = None
        assert client.ask(lambda server: server.schema(1)) is None, "an answer is one, whatever another would say"


def test_a_conversation_is_held_with_one_server() -> None:
    """Trouble in its middle begins it anew with the next one."""
    with FakeRegistry() as first, FakeRegistry() as second:
        for registry in (first, second):
            registry.add("a", '"long"')
            registry.add("b", '{"type":"record"}', references=[{"name": "a", "subject": "a", "version": 1}])
        first.failure = Failure(500, paths="/subjects/.*")
        client = client_of(first.url, second.url)
        found = client.ask(lambda server: whole(server, server.schema(2) or pytest.fail("unknown")))
        assert found.references == (("a", SchemaText("AVRO", '"long"')),)
        assert first.paths == second.paths == ["/schemas/ids/2", "/subjects/a/versions/1?deleted=true"]


def test_references_are_loaded_with_what_they_refer_to(registry: FakeRegistry) -> None:
    """Each version once, wherever it is referred to; names with a slash too."""
    registry.add("deep/a", '"long"')
    registry.add("b", "1", references=[{"name": "A", "subject": "deep/a", "version": 1}])
    two = [{"name": "A", "subject": "deep/a", "version": 1}, {"name": "B", "subject": "b", "version": 1}]
    number = registry.add("c", "2", references=two)
    found = client_of(registry.url).ask(lambda server: whole(server, server.schema(number) or pytest.fail("unknown")))
    a = SchemaText("AVRO", '"long"')
    assert found == SchemaText("AVRO", "2", (("A", a), ("B", SchemaText("AVRO", "1", (("A", a),)))))
    assert len(registry.requests) == 3


def test_references_without_end_are_trouble(registry: FakeRegistry) -> None:
    """In a circle, as no registry takes them, or more than anybody has."""
    registry.add("a", "1", references=[{"name": "B", "subject": "b", "version": 1}])
    registry.add("b", "2", references=[{"name": "A", "subject": "a", "version": 1}])
    for depth in range(12):
        two = [{"name": f"n{depth}", "subject": f"s{depth - 1}", "version": 1}] * 2 if depth else []
        registry.add(f"s{depth}", str(10 + depth), references=two)
    deep = max(registry.schemas)
    for depth in range(60):
        one = [{"name": f"d{depth}", "subject": f"d{depth - 1}", "version": 1}] if depth else []
        registry.add(f"d{depth}", str(100 + depth), references=one)
    client = client_of(registry.url)
    last = max(registry.schemas)
    for number, says in ((1, "refers to itself"), (deep, "more than 1000"), (last, "50 in a row")):
        with pytest.raises(RegistryUnreachable, match=says):
            client.ask(lambda server, at=number: whole(server, server.schema(at) or pytest.fail("unknown")))


def test_a_reference_that_is_gone_is_trouble(registry: FakeRegistry) -> None:
    """40402 and 40401 say nothing of the id that was asked for."""
    number = registry.add("a", "1", references=[{"name": "B", "subject": "b", "version": 7}])
    client = client_of(registry.url)
    with pytest.raises(RegistryUnreachable, match="40401"):
        client.ask(lambda server: whole(server, server.schema(number) or pytest.fail("unknown")))


@pytest.mark.parametrize("way", ["basic", "token", "url"])
def test_credentials_are_sent_and_never_shown(way: str) -> None:
    """Whatever the server says back, also what was sent to it."""
    user, password = "käthe", "s3cr3t/ü:geheim"
    basic = base64.b64encode(f"{user}:{password}".encode()).decode()
    expected = "Bearer abcdef.token" if way == "token" else f"Basic {basic}"
    with FakeRegistry(expected) as registry:
        registry.add("a", '"long"')
        url, options = registry.url, RegistryOptions((registry.url,))
        if way == "basic":
            options = RegistryOptions((url,), username=user, password=password)
        elif way == "token":
            options = RegistryOptions((url,), token="abcdef.token")
        else:
            address = url.replace("//", "//k%C3%A4the:s3cr3t%2F%C3%BC%3Ageheim@")
            options = RegistryOptions((address,))
        client = connect(options)
        assert client.ask(lambda server: server.schema(1))
        told = f"you sent {expected}" + ("" if way == "token" else f" and {password}")
        registry.failure = Failure(500, told.encode())
        with pytest.raises(RegistryUnreachable) as caught:
            client.ask(lambda server: server.schema(1))
        shown = f"{caught.value} {caught.value.__cause__}"
        assert password not in f"{options}" and "abcdef" not in f"{options} {client}" and basic not in f"{client}"
        assert "you sent" in caught.value.message and registry.url in shown
        assert not [one for one in (password, "abcdef.token", basic, "geheim") if one in caught.value.message]
        wrong = connect(RegistryOptions((url,), username="someone", password="something"))
        registry.failure = None
        with pytest.raises(RegistryUnreachable, match="HTTP 401"):
            wrong.ask(lambda server: server.schema(1))


def test_a_server_is_trusted_by_its_authority_alone(tmp_path: Path) -> None:
    """And it can ask for a client's certificate."""
    ours, others = Authority(tmp_path, "ours"), Authority(tmp_path, "others")
    clients = Authority(tmp_path, "clients")
    with FakeRegistry(certificate=ours.issue("server"), clients=clients.ca) as registry:
        registry.add("a", '"long"')
        mine = clients.issue("me")
        known = RegistryOptions((registry.url,), ca_file=ours.ca, cert_file=mine)
        assert connect(known).ask(lambda server: server.schema(1))
        for options in (
            RegistryOptions((registry.url,), ca_file=others.ca, cert_file=mine),
            RegistryOptions((registry.url,), cert_file=mine),
            RegistryOptions((registry.url,), ca_file=ours.ca),
            RegistryOptions((registry.url,), ca_file=ours.ca, cert_file=others.issue("stranger")),
            RegistryOptions((registry.url.replace("127.0.0.1", "localhost"),), ca_file=ours.ca, cert_file=mine),
        ):
            with pytest.raises(RegistryUnreachable):
                connect(options).ask(lambda server: server.schema(1))


def test_what_cannot_be_used_is_told_before_anything_is_asked(tmp_path: Path) -> None:
    """No address, no file, no certificate in it."""
    for url in ("registry:8081", "ftp://registry", "http://"):
        with pytest.raises(ConfigError, match="no address"):
            client_of(url)
    (tmp_path / "empty.pem").write_text("nothing")
    for file in (tmp_path / "none.pem", tmp_path / "empty.pem"):
        with pytest.raises(ConfigError, match="certificates cannot be used"):
            connect(RegistryOptions(("https://registry:8081",), ca_file=file))
        with pytest.raises(ConfigError, match="certificates cannot be used"):
            connect(RegistryOptions(("https://registry:8081",), cert_file=file))
    with pytest.raises(ConfigError, match="no schema registry"):
        client_of().ask(lambda server: server.subjects())


def test_a_schema_is_registered_once_and_its_id_stays(registry: FakeRegistry) -> None:
    """The same text under the same subject is the same id; Avro is not named, other kinds are."""
    client = client_of(registry.url)
    first = client.ask(lambda server: server.register("a/b-value", "AVRO", '"long"'))
    assert first == client.ask(lambda server: server.register("a/b-value", "AVRO", '"long"'))
    other = client.ask(lambda server: server.register("a/b-value", "PROTOBUF", "CgA="))
    assert registry.schemas[other]["schemaType"] == "PROTOBUF" != registry.schemas[first]["schemaType"]
    assert registry.paths[0] == "/subjects/a%2Fb-value/versions"


def test_a_schema_that_is_refused_is_the_settings_fault(registry: FakeRegistry) -> None:
    """409 is an incompatible one, 422 one that is none; whatever else comes is trouble, as ever."""
    client = client_of(registry.url)
    registry.failure = Failure(409, b'{"error_code": 409, "message": "Schema being registered is incompatible"}')
    with pytest.raises(ConfigError, match="is incompatible") as told:
        client.ask(lambda server: server.register("s", "AVRO", '"long"'))
    assert "another `subject`" in told.value.hint
    for failure in (Failure(409, b"<html>"), Failure(500, b"{}"), Failure(200, b'{"id": "1"}')):
        registry.failure = failure
        with pytest.raises(RegistryUnreachable):
            client.ask(lambda server: server.register("s", "AVRO", '"long"'))
