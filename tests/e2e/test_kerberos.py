"""Logins of Kerberos: with a keytab, and with the tickets of a cache; what is refused, and how it is told."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from exporter.local.broker import create_topic
from tests.support.doors import Doors
from tests.support.kdc import REALM, Kdc
from tests.support.lakes import Export, mixed, seldom, wrong_places
from tests.support.processes import running
from tests.support.services import produce

pytest.importorskip("gssapi", reason="the package gssapi is not installed (extra `kerberos`)")
pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.xdist_group("logins")]

US = f"exporter@{REALM}"


@dataclass(frozen=True)
class Realm:
    """A KDC, and a broker that asks for its tickets."""

    kdc: Kdc
    broker: Doors
    ours: Path
    others: Path

    def lines(self, *more: str) -> str:
        return "\n".join(["security_protocol = 'SASL_PLAINTEXT'", "sasl_mechanism = 'GSSAPI'", *more])

    def by_keytab(self, keytab: Path, principal: str = US) -> str:
        return self.lines(f"sasl_kerberos_principal = '{principal}'", f"sasl_kerberos_keytab = '{keytab}'")


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realm]:
    kdc = Kdc(tmp_path_factory.mktemp("kdc"))
    with ExitStack() as stack:
        stack.enter_context(kdc.running())
        server, ours, others = kdc.keytab("kafka/localhost"), kdc.keytab("exporter"), kdc.keytab("stranger")
        jaas = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true"
        jaas += f' keyTab="{server}"'
        properties = {
            "listener.name.login.sasl.enabled.mechanisms": "GSSAPI",
            "listener.name.login.gssapi.sasl.jaas.config": f'{jaas} principal="kafka/localhost@{REALM}";',
            "listener.name.login.sasl.kerberos.service.name": "kafka",
            "listener.name.login.gssapi.connections.max.reauth.ms": "5000",
        }
        java = {"java.security.krb5.conf": str(kdc.conf)}
        broker = stack.enter_context(Doors("SASL_PLAINTEXT", properties, java, "localhost"))
        create_topic(broker.bootstrap, "events", 2)
        produce(broker.bootstrap, "events", {0: mixed(30), 1: mixed(5)})
        yield Realm(kdc, broker, ours, others)


@pytest.mark.parametrize("way", ["keytab", seldom("cache")])
def test_a_whole_export_with_tickets(realm: Realm, tmp_path: Path, way: str) -> None:
    """By Python's clients and Spark's, then the audit; a keytab is enough by itself."""
    if way == "cache":
        realm.kdc.run("kinit", "-k", "-t", str(realm.ours), "exporter")
    lines = realm.by_keytab(realm.ours) if way == "keytab" else realm.lines()
    e = Export(realm.broker.login, "events", tmp_path, "export-us", kafka_client=lines)
    none = {"KRB5CCNAME": f"FILE:{tmp_path}/none"} if way == "keytab" else {}
    for verb, *flags in (("run", "--until-caught-up"), ("audit",)):
        with running(e, *flags, env={**realm.kdc.environment, **none}, verb=verb) as task:
            assert task.wait() == 0, task.text
    assert wrong_places(replace(e, kafka=realm.broker.bootstrap)) == {}


def test_what_is_refused_is_one_error_with_a_hint(realm: Realm, tmp_path: Path) -> None:
    """No ticket, keys of another, a KDC that does not run, a broker of another name: whose setting it is."""
    missing = tmp_path / "krb5.conf"
    missing.write_text(re.sub(r"kdc = 127\.0\.0\.1:\d+", "kdc = 127.0.0.1:1", realm.kdc.conf.read_text()))
    nothing = {**realm.kdc.environment, "KRB5CCNAME": f"FILE:{tmp_path}/none"}
    by_us = realm.by_keytab(realm.ours)
    for lines, brokers, env, wanted, says in (
        (realm.lines(), realm.broker.login, nothing, 2, "Kerberos gives the owner of the ticket no ticket"),
        (realm.by_keytab(realm.others), realm.broker.login, nothing, 2, f"Kerberos gives {US} no ticket"),
        (by_us, realm.broker.login.replace("localhost", "127.0.0.1"), nothing, 2, "no ticket for 127.0.0.1"),
        (by_us, realm.broker.login, {**nothing, "KRB5_CONFIG": str(missing)}, 69, "Cannot contact any KDC"),
    ):
        e = Export(brokers, "events", tmp_path, "export-us", kafka_client=lines)
        began = time.monotonic()
        with running(e, verb="offsets", env=env) as task:
            assert task.wait() == wanted, task.text
        assert time.monotonic() - began < 30, "with the start of a process"
        assert says in task.text and (task.text.count("error: "), task.text.count("hint: ")) == (1, 1), task.text
