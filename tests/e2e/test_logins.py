"""Logins by tokens: a whole export, what is refused and how it is told, and neither secret nor token anywhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from exporter.core.routing import DEAD_LETTERS
from exporter.local.broker import create_topic
from exporter.local.server import free_ports
from tests.support.certificates import Authority
from tests.support.doors import Doors, client_lines, oauth_broker
from tests.support.lakes import DDL, Export, mixed, wrong_places
from tests.support.services import fresh_name, produce
from tests.support.token_server import AUDIENCE, TokenServer, token_server
from tests.support.typed import Typed

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.xdist_group("logins")]

SECRET = "client+secret% of ours"
FUNCTION = """
import time
from pathlib import Path

def token():
    return Path(__file__).with_name("token").read_text(), time.time() + 60

def nothing():
    return "a token"

def fails():
    raise RuntimeError("no such vault")
"""


@dataclass(frozen=True)
class Signed:
    """A broker that takes the tokens of a server; the server speaks TLS."""

    broker: Doors
    server: TokenServer
    ours: Authority
    others: Authority

    def lines(self, **changed: str | None) -> str:
        """The [kafka_client] table; None leaves a line out."""
        given: dict[str, str | None] = {
            "security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "OAUTHBEARER",
            "sasl_oauth_token_url": self.server.url, "sasl_oauth_cafile": str(self.ours.ca),
            "sasl_oauth_client_id": "exporter", "sasl_oauth_client_secret": SECRET,
        } | changed  # fmt: skip
        return client_lines(**given)

    def of_function(self, name: str) -> str:
        unused = dict.fromkeys(("token_url", "cafile", "client_id", "client_secret"))
        return self.lines(**{f"sasl_oauth_{one}": None for one in unused}, sasl_oauth_function=name)


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Signed]:
    folder = tmp_path_factory.mktemp("oauth")
    ours, others = Authority(folder, "ours"), Authority(folder, "others")
    server = TokenServer({"exporter": SECRET})
    with ExitStack() as stack:
        stack.enter_context(token_server(server, ours.issue("server")))
        broker = stack.enter_context(oauth_broker(server.signer.write_jwks(folder / "jwks.json")))
        yield Signed(broker, server, ours, others)


@pytest.fixture
def topic(signed: Signed) -> str:
    name = fresh_name()
    create_topic(signed.broker.bootstrap, name, 2)
    return name


def written_down(folder: Path) -> list[str]:
    """What an export has left in its folder, but for its settings."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".toml"]
    return [path.read_bytes().decode("latin-1") for path in files]


def test_a_whole_export_by_tokens_shows_neither_secret_nor_token(
    signed: Signed, topic: str, tmp_path: Path, spark: Any, typed: Typed
) -> None:
    """Group, admin, workers and the audit; one token does for all of them."""
    rows = mixed(30)
    produce(signed.broker.bootstrap, topic, {0: rows, 1: rows[:5]})
    e = Export(signed.broker.login, topic, tmp_path, "export-us", kafka_client=signed.lines(sasl_oauth_scope="a b"))
    asked, said = len(signed.server.asked), []
    for verb, *wanted in (
        ("run", ), ("check", "SASL_PLAINTEXT, user exporter", "nothing is encrypted"), ("audit",), ("offsets", "29"),
        ("config", "********"), ("plan", "goes on where the tables are"),
    ):  # fmt: skip
        code, text = typed(verb, e, *(("--until-caught-up",) if verb == "run" else ()))
        assert code == 0 and all(one in text for one in wanted), text
        said.append(text)
    assert {e.position(name)[1] for name in (DEAD_LETTERS, *DDL)} == {29}
    assert signed.server.asked[asked:] == [{"grant_type": "client_credentials", "scope": "a b"}]
    said += [f"{entry}" for entry in spark.sparkContext.getConf().getAll()]
    said += [repr(e.settings()), *written_down(tmp_path)]
    secrets = [SECRET, *signed.server.given]
    assert len(said) > 20
    assert [(secret, text) for text in said for secret in secrets if secret in text] == []


def test_a_function_of_the_users_gives_tokens(
    signed: Signed, topic: str, tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any token that the brokers take, from wherever it comes."""
    (tmp_path / "our_tokens.py").write_text(FUNCTION)
    (tmp_path / "token").write_text(signed.server.signer.token("somebody", 60))
    monkeypatch.syspath_prepend(tmp_path)
    produce(signed.broker.bootstrap, topic, {0: mixed(20)})
    e = Export(signed.broker.login, topic, tmp_path, "export-us", kafka_client=signed.of_function("our_tokens:token"))
    e.run(spark)
    e.proven(spark)
    assert wrong_places(replace(e, kafka=signed.broker.bootstrap)) == {}


CASES: dict[str, tuple[Callable[[Signed], str], int, str, str]] = {
    "wrong secret": (
        lambda s: s.lines(sasl_oauth_client_secret="client+secret"), 2,
        "refuses the client 'exporter': HTTP 401: invalid_client", "sasl_oauth_client_secret"),
    "unknown client": (
        lambda s: s.lines(sasl_oauth_client_id="nobody"), 2, "refuses the client 'nobody'", "sasl_oauth_client_id"),
    "untrusted endpoint": (
        lambda s: s.lines(sasl_oauth_cafile=str(s.others.ca)), 2,
        "the certificate of the token endpoint", "sasl_oauth_cafile must hold"),
    "no endpoint": (
        lambda s: s.lines(sasl_oauth_token_url=f"https://127.0.0.1:{free_ports(1)[0]}/"), 69, "does not answer",
        "sasl_oauth_token_url"),
    "a token for others": (
        lambda s: s.lines(sasl_oauth_audience="others"), 2,
        "refuses the login of 'exporter' with OAUTHBEARER", "check their issuer, audience and scope"),
    "other mechanism": (
        lambda s: "security_protocol = 'SASL_PLAINTEXT'\nsasl_mechanism = 'PLAIN'\nsasl_plain_username = 'u'\n"
        f"sasl_plain_password = '{SECRET}'", 2, "offers no PLAIN, only OAUTHBEARER", "sasl_mechanism"),
    "a function that is not there": (
        lambda s: s.of_function("our_tokens:none"), 2, "our_tokens:none cannot be imported", "package.module:function"),
    "a function of something else": (
        lambda s: s.of_function("our_tokens:nothing"), 2, "it returned str", "a token as text, and when it ends"),
    "a function that fails": (
        lambda s: s.of_function("our_tokens:fails"), 69, "no such vault", "see what it needs"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_is_refused_is_one_error_with_a_hint(
    signed: Signed, tmp_path: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    """Within three seconds: what is wrong, whose setting it is, and no secret."""
    (tmp_path / "our_tokens.py").write_text(FUNCTION)
    monkeypatch.syspath_prepend(tmp_path)
    lines, wanted, says, hint = CASES[case]
    e = Export(signed.broker.login, "events", tmp_path, "export-us", kafka_client=lines(signed))
    began = time.monotonic()
    code, text = typed("offsets", e)
    assert time.monotonic() - began < 3
    assert (code, text.count("error: "), text.count("hint: ")) == (wanted, 1, 1), text
    assert says in text and hint in text.partition("hint: ")[2], text
    assert not [secret for secret in (SECRET, *signed.server.given) if secret in text]


def test_a_server_that_reads_no_header_gets_the_credentials_in_the_form(
    signed: Signed, tmp_path: Path, typed: Typed
) -> None:
    """And an audience, and what says nowhere how long it holds, is asked for what it says itself."""
    server = TokenServer({"exporter": SECRET}, life_secs=60)
    server.form_only, server.silent, server.signer = True, ("expires_in",), signed.server.signer
    with token_server(server):
        lines = signed.lines(sasl_oauth_token_url=server.url, sasl_oauth_cafile=None, sasl_oauth_audience=AUDIENCE)
        _, text = typed("check", Export(signed.broker.login, "events", tmp_path, "export-us", kafka_client=lines))
    assert "SASL_PLAINTEXT, user exporter" in text, text
    assert [form["audience"] for form in server.asked] == [AUDIENCE] * 2 and len(server.given) == 1
