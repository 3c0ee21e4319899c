"""TLS and a login on every connection: a whole export, what is refused and how it is told, and no secret anywhere."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from kafka.admin import (
    ACL,
    ACLOperation,
    ACLPermissionType,
    NewTopic,
    ResourcePattern,
    ResourceType,
)

from exporter.core.routing import DEAD_LETTERS
from exporter.errors import ConfigError
from exporter.kafka.control import ControlTopic
from exporter.kafka.options import kafka_python_options
from exporter.local.broker import Broker
from exporter.local.server import free_ports
from exporter.operate.check.check import check_broker
from tests.support.certificates import Authority
from tests.support.doors import client_lines
from tests.support.lakes import DDL, Export, mixed
from tests.support.services import administered, fresh_name, produce
from tests.support.typed import Typed

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.xdist_group("secure")]

PLAIN, SCRAM = 'plain\\"secret, and = more', 'scram " secret = {x}'
"""Passwords with all that one of the two clients might read as something else."""
SECRETS = ("plain\\", "secret, and", "secret = {x}", "admin-secret")
TLS_HANDSHAKE = b"\x16\x03"
LOGIN = "listener.name.sasl_ssl.{}.sasl.jaas.config"
MODULE = "org.apache.kafka.common.security.{}LoginModule required"


class Tap:
    """Stands before the broker's only listener, passes everything on, and keeps how each connection began."""

    def __init__(self) -> None:
        self.firsts: list[bytes] = []
        self.to = 0
        self._listener = socket.create_server(("127.0.0.1", free_ports(1)[0]))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self.to))
            except OSError:
                return
            for one, other, first in ((client, server, True), (server, client, False)):
                threading.Thread(target=self._pass_on, args=(one, other, first), daemon=True).start()

    def _pass_on(self, one: socket.socket, other: socket.socket, first: bool) -> None:
        with closing(one), closing(other):
            try:
                while data := one.recv(1 << 16):
                    if first:
                        self.firsts.append(data[:2])
                        first = False
                    other.sendall(data)
                other.shutdown(socket.SHUT_WR)
            except OSError:
                return


@dataclass(frozen=True)
class Secured:
    """A broker whose only door is SASL_SSL; it asks for a client's certificate and for a login, and heeds rights."""

    broker: Broker
    tap: Tap
    ours: Authority
    others: Authority
    client: Path
    brokers: str = ""
    admin: dict[str, Any] = field(default_factory=dict)

    def lines(self, mechanism: str = "SCRAM-SHA-512", **changed: str | None) -> str:
        """The [kafka_client] table; None leaves a line out."""
        password = PLAIN if mechanism == "PLAIN" else SCRAM
        given: dict[str, str | None] = {
            "security_protocol": "SASL_SSL", "ssl_cafile": str(self.ours.ca), "ssl_certfile": str(self.client),
            "sasl_mechanism": mechanism, "sasl_plain_username": "exporter", "sasl_plain_password": password,
        } | changed  # fmt: skip
        return client_lines(**given)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("pki")
    ours, others = Authority(folder, "ours"), Authority(folder, "others")
    server, client, tap = ours.issue("server"), ours.issue("client"), Tap()
    login = {
        "security_protocol": "SASL_SSL", "ssl_cafile": str(ours.ca), "ssl_certfile": str(client),
        "sasl_mechanism": "PLAIN", "sasl_plain_username": "admin", "sasl_plain_password": "admin-secret",
    }  # fmt: skip
    users = f'user_admin="admin-secret" user_stranger="stranger-secret" user_exporter="{_jaas(PLAIN)}"'
    login_of_its_own = 'username="admin" password="admin-secret"'
    properties = {
        "advertised.listeners": f"SASL_SSL://127.0.0.1:{tap.port}",
        "listener.security.protocol.map": "SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT",
        "ssl.keystore.type": "PEM", "ssl.keystore.location": str(server),
        "ssl.truststore.type": "PEM", "ssl.truststore.location": str(ours.ca),
        "listener.name.sasl_ssl.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        LOGIN.format("scram-sha-512"): MODULE.format("scram.Scram") + ";",
        LOGIN.format("plain"): _properties(f'{MODULE.format("plain.Plain")} {login_of_its_own} {users};'),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:admin",
    }  # fmt: skip
    scram = [f"SCRAM-SHA-512=[name=exporter,password={SCRAM}]"]
    broker = Broker(properties=properties, protocol="SASL_SSL", client=login, users=scram)
    tap.to = int(broker.bootstrap.rpartition(":")[2])
    try:
        with broker:
            yield Secured(broker, tap, ours, others, client, f"127.0.0.1:{tap.port}", login)
    finally:
        tap.close()


def _jaas(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _properties(text: str) -> str:
    """A value in a .properties file."""
    return text.replace("\\", "\\\\")


@pytest.fixture
def topic(secured: Secured) -> str:
    """A topic that the user `exporter` may read; it may send to another one, that of events."""
    name = fresh_name()
    with administered(secured.brokers, **secured.admin) as admin:
        admin.create_topics([NewTopic(name, 2, 1), NewTopic(f"{name}.events", 1, 1)])
        allow, user = ACLPermissionType.ALLOW, "User:exporter"
        places = [ResourcePattern(ResourceType.TOPIC, name)]
        groups = [f"export-us-{number}{suffix}" for number in range(2) for suffix in ("", ".events")]
        places += [ResourcePattern(ResourceType.GROUP, group) for group in groups]
        events = ResourcePattern(ResourceType.TOPIC, f"{name}.events")
        rights = [ACL(user, "*", ACLOperation.READ, allow, place) for place in places]
        admin.create_acls([*rights, ACL(user, "*", ACLOperation.WRITE, allow, events)])
    return name


def librdkafka(secured: Secured) -> dict[str, str]:
    """A producer's options."""
    return {
        "security.protocol": "SASL_SSL", "ssl.ca.location": str(secured.ours.ca), "sasl.mechanisms": "PLAIN",
        "ssl.certificate.location": str(secured.client), "ssl.key.location": str(secured.client),
        "sasl.username": "admin", "sasl.password": "admin-secret",
    }  # fmt: skip


def test_a_whole_export_by_tls_and_login_shows_no_secret_and_never_speaks_in_the_clear(
    secured: Secured, topic: str, tmp_path: Path, spark: Any, typed: Typed
) -> None:
    """Group, admin, Spark's source and the audit, with SCRAM and then with PLAIN, through a client's certificate."""
    said, before = [], len(secured.tap.firsts)
    for number, mechanism in enumerate(("SCRAM-SHA-512", "PLAIN")):
        e = Export(secured.brokers, topic, tmp_path, "export-us", kafka_client=secured.lines(mechanism))
        e = e.with_(group=f"export-us-{number}", events_topic=f"{topic}.events")
        rows = mixed(30, first=30 * number)
        produce(secured.brokers, topic, {0: rows, 1: rows[:5]}, librdkafka(secured))
        code, text = typed("run", e, "--until-caught-up")
        assert code == 0 and "events_held_up" not in text, text
        said.append(text)
    assert {e.position(name)[1] for name in (DEAD_LETTERS, *DDL)} == {59}
    for verb, *wanted in (
        ("check", "user exporter, certificate until", f"events topic: {topic}.events"), ("audit",), ("offsets", "59"),
        ("config", "********"), ("plan", "goes on where the tables are"),
    ):  # fmt: skip
        code, text = typed(verb, e)
        assert code == 0 and all(one in text for one in wanted), text
        said.append(text)
    said += [f"{entry}" for entry in spark.sparkContext.getConf().getAll()]
    said += [repr(e.settings()), str(e.settings().kafka_client)]
    stored = [path for path in (tmp_path / "lake").rglob("*") if path.is_file()]
    said += [path.read_bytes().decode("latin-1") for path in stored]
    assert len(stored) > 10
    assert [(secret, text) for text in said for secret in SECRETS if secret in text] == []
    began = secured.tap.firsts[before:]
    assert len(began) > 10 and set(began) == {TLS_HANDSHAKE}


CASES: dict[str, tuple[Callable[[Secured], dict[str, Any]], int, str, str]] = {
    "wrong PLAIN password": (
        lambda s: {"mechanism": "PLAIN", "sasl_plain_password": "plain\\wrong"}, 2,
        "refuses the login of 'exporter' with PLAIN: Authentication failed", "sasl_plain_password"),
    "wrong SCRAM password": (
        lambda s: {"sasl_plain_password": "scram secret"}, 2,
        "refuses the login of 'exporter' with SCRAM-SHA-512: Authentication failed", "sasl_plain_password"),
    "unknown user": (
        lambda s: {"sasl_plain_username": "nobody"}, 2, "refuses the login of 'nobody'", "sasl_plain_username"),
    "other mechanism": (
        lambda s: {"mechanism": "SCRAM-SHA-256"}, 2, "offers no SCRAM-SHA-256, only", "sasl_mechanism"),
    "untrusted authority": (
        lambda s: {"ssl_cafile": str(s.others.ca)}, 2, "is not trusted: ", "ssl_cafile must hold"),
    "authorities of the system": (
        lambda s: {"ssl_cafile": None}, 2, "is not trusted: ", "ssl_cafile must hold"),
    "no certificate of ours": (
        lambda s: {"ssl_certfile": None}, 2, "refuses the TLS connection: ", "ssl_certfile must hold"),
    "a certificate of others": (
        lambda s: {"ssl_certfile": str(s.others.issue("stranger"))}, 2, "refuses the TLS connection: ", "ssl_certfile"),
    "no login": (
        lambda s: {"security_protocol": "SSL", "mechanism": None, "sasl_plain_username": None,
                   "sasl_plain_password": None}, 2, "asks for a login", "SASL_SSL"),
    "another host name": (
        lambda s: {"brokers": s.brokers.replace("127.0.0.1", "localhost")}, 2,
        "is not one for localhost: Hostname mismatch", "name the broker in `brokers` as in its certificate"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_is_refused_is_one_error_with_a_hint(secured: Secured, tmp_path: Path, typed: Typed, case: str) -> None:
    """Within a second, from whatever verb: what is wrong, whose setting it is, exit code 2, and no secret."""
    change, wanted, says, hint = CASES[case]
    changed = change(secured)
    brokers = changed.pop("brokers", secured.brokers)
    e = Export(brokers, "events", tmp_path, "export-us", kafka_client=secured.lines(**changed))
    code, text = typed("offsets", e)
    assert (code, text.count("error: "), text.count("hint: ")) == (wanted, 1, 1), text
    assert says in text and hint in text.partition("hint: ")[2], text
    assert not [secret for secret in SECRETS if secret in text]


def test_where_nobody_speaks_tls_nothing_is_told(secured: Secured, tmp_path: Path, typed: Typed) -> None:
    """Only the TLS greeting arrives there, no name and no password; exit code 69, because it may be a broker's end."""
    arrived: list[bytes] = []

    def take(listener: socket.socket) -> None:
        while True:
            try:
                with listener.accept()[0] as connection:
                    arrived.append(connection.recv(1 << 16))
            except OSError:
                return

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=take, args=(listener,), daemon=True).start()
        brokers = f"127.0.0.1:{listener.getsockname()[1]}"
        e = Export(brokers, "events", tmp_path, "export-us", kafka_client=secured.lines())
        code, text = typed("offsets", e)
    assert (code, text.count("error: ")) == (69, 1) and "it may speak no TLS" in text, text
    assert arrived and {data[:2] for data in arrived} == {TLS_HANDSHAKE}
    assert b"exporter" not in b"".join(arrived)


def test_check_names_the_rights_that_the_user_lacks(secured: Secured, topic: str, tmp_path: Path) -> None:
    """A user that may see the topic but not read it, nor join the group."""
    with administered(secured.brokers, **secured.admin) as admin:
        place, allow = ResourcePattern(ResourceType.TOPIC, topic), ACLPermissionType.ALLOW
        admin.create_acls([ACL("User:stranger", "*", ACLOperation.DESCRIBE, allow, place)])
    lines = secured.lines("PLAIN", sasl_plain_username="stranger", sasl_plain_password="stranger-secret")
    e = Export(secured.brokers, topic, tmp_path, "export-us", kafka_client=lines)
    e.write().chmod(0o604)
    told = [(one.what, one.level, one.says) for one in check_broker(e.settings())]
    assert ("rights", "error", f"this user has not the right to READ on topic {topic}") in told
    assert ("rights", "error", "this user has not the right to READ on group export-us") in told
    warned = [says for what, level, says in told if (what, level) == ("security", "warn")]
    assert any("ends on" in says for says in warned) and any("open to every user" in says for says in warned), told


def test_what_tasks_say_to_each_other_goes_by_tls_and_login(secured: Secured, topic: str, tmp_path: Path) -> None:
    """Over the control topic, once this user may; before that it is trouble, and `check` names each missing right."""
    name, before, allow = fresh_name(), len(secured.tap.firsts), ACLPermissionType.ALLOW
    e = Export(secured.brokers, topic, tmp_path, "export-us-0", kafka_client=secured.lines())
    e = e.with_(control_topic=name)

    def told(create: bool = False) -> list[tuple[str, str]]:
        found = check_broker(e.settings(), create)
        return [(one.level, one.says) for one in found if one.what in ("topic", "control topic", "rights")][1:]

    def told_soon(*wanted: tuple[str, str]) -> None:
        while told() != [*wanted]:
            assert time.monotonic() < deadline, told()

    ((level, says),) = told(create=True)
    assert level == "error" and f"topic {name} cannot be made" in says
    with (
        administered(secured.brokers, **secured.admin) as admin,
        closing(ControlTopic(kafka_python_options(e.settings()), name)) as one,
    ):
        deadline = time.monotonic() + 60
        admin.create_topics([NewTopic(name, 1, 1)])
        told_soon(("error", f"topic {name} may not be seen by this user"))
        place = ResourcePattern(ResourceType.TOPIC, name)
        admin.create_acls([ACL("User:exporter", "*", ACLOperation.DESCRIBE, allow, place)])
        lacks = "this user has not the right to {} on topic {}"
        told_soon(("error", lacks.format("READ", name)), ("error", lacks.format("WRITE", name)))
        one.send([b"lost"])
        while "Authorization" not in one.trouble:
            assert one.receive(0.1) == [] and time.monotonic() < deadline
        rights = (ACLOperation.READ, ACLOperation.WRITE)
        admin.create_acls([ACL("User:exporter", "*", right, allow, place) for right in rights])
        while b"said" not in one.receive(0.2):
            one.send([b"said"])
            assert time.monotonic() < deadline
        assert [level for level, _ in told()] == ["ok"]
    began = secured.tap.firsts[before:]
    assert began and set(began) == {TLS_HANDSHAKE}


@pytest.mark.long
def test_a_certificate_alone_is_enough_where_no_login_is_asked_for(
    secured: Secured, tmp_path: Path, spark: Any
) -> None:
    """security_protocol = SSL: the client's certificate is the login; the whole export, audited."""
    server, client = secured.ours.issue("server2"), secured.ours.issue("client2")
    login = {"security_protocol": "SSL", "ssl_cafile": str(secured.ours.ca), "ssl_certfile": str(client)}
    properties = {
        "listener.security.protocol.map": "SSL:SSL,CONTROLLER:PLAINTEXT",
        "ssl.keystore.type": "PEM", "ssl.keystore.location": str(server), "ssl.client.auth": "required",
        "ssl.truststore.type": "PEM", "ssl.truststore.location": str(secured.ours.ca),
    }  # fmt: skip
    security = {
        "security.protocol": "SSL", "ssl.ca.location": str(secured.ours.ca),
        "ssl.certificate.location": str(client), "ssl.key.location": str(client),
    }  # fmt: skip
    with Broker(properties=properties, protocol="SSL", client=login) as broker:
        with administered(broker.bootstrap, **login) as admin:
            admin.create_topics([NewTopic("events", 1, 1)])
        produce(broker.bootstrap, "events", {0: mixed(40)}, security)
        lines = "\n".join(f"{name} = '{value}'" for name, value in login.items())
        e = Export(broker.bootstrap, "events", tmp_path, "export-us", kafka_client=lines)
        e.run(spark)
        assert {e.position(name)[1] for name in (DEAD_LETTERS, *DDL)} == {39}
        e.proven(spark)
        open_lines = f"security_protocol = 'SSL'\nssl_cafile = '{secured.ours.ca}'"
        with pytest.raises(ConfigError, match="refuses the TLS connection"):
            Export(broker.bootstrap, "events", tmp_path, "export-us", kafka_client=open_lines).run(spark)
