"""One token for all clients: kept, renewed in time, and given to other processes at a desk."""

from __future__ import annotations

import pickle
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from kafka.errors import KafkaConnectionError

from exporter.errors import ConfigError, DependencyUnreachable
from exporter.kafka.options import kafka_python_options
from exporter.kafka.tokens import tokens as module
from exporter.kafka.tokens.desk import DeskClient, desk
from exporter.kafka.tokens.endpoint import ClientCredentials, claims
from exporter.kafka.tokens.function import OfFunction
from exporter.kafka.tokens.provider import Provider
from exporter.kafka.tokens.tokens import Token, Tokens
from exporter.secrets import masked
from exporter.settings.load import load
from tests.support.lakes import wait_until
from tests.support.token_server import TokenServer, token_server

SECRET = "client+secret% of ours"


def shortly(one: object) -> str:
    return f"{one}"[:9]


class Fake:
    """Tokens that live so long; while it is broken there are none."""

    name = "somebody"

    def __init__(self, life_secs: float) -> None:
        self.life_secs, self.given, self.tries, self.broken = life_secs, 0, 0, False

    def new(self) -> Token:
        self.tries += 1
        if self.broken:
            raise DependencyUnreachable("it is down", "wait")
        self.given += 1
        return Token(f"the token no. {self.given}", time.time() + self.life_secs)


def test_all_that_ask_get_the_same_token() -> None:
    """Also at once, from several threads."""
    fake = Fake(60)
    tokens, got = Tokens(fake), []
    threads = [threading.Thread(target=lambda: got.append(tokens.current().value)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert got == ["the token no. 1"] * 8 and fake.given == 1
    assert masked("it says the token no. 1") == "it says ********"


def test_a_token_is_renewed_before_it_ends_while_somebody_asks() -> None:
    """Nobody who asks waits for a source; and nobody is asked of when nobody asks any more."""
    fake = Fake(6)
    tokens, first = Tokens(fake), time.time()
    while time.time() < first + 7:
        assert tokens.current().expires - time.time() > 1.5, "half of its life, but for a slow machine"
        time.sleep(0.02)  # pace of those that ask
    assert 2 <= fake.given <= 4
    wait_until(lambda: tokens._keeper is None, 10, "its thread has ended")
    given = fake.given
    assert tokens.current().value in (f"the token no. {given}", f"the token no. {given + 1}")


def test_a_source_that_fails_is_no_trouble_while_the_token_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    """After that it is told, and tried again soon, but not by each of many clients that connect again."""
    monkeypatch.setattr(module, "RETRY_SECS", 0.2)
    fake = Fake(4)
    tokens = Tokens(fake)
    ends = tokens.current().expires
    fake.broken = True
    while time.time() < ends - 1.2:
        assert tokens.current().value == "the token no. 1"
        time.sleep(0.02)  # pace of those that ask
    assert fake.tries > 2, "it was tried again meanwhile"
    wait_until(lambda: time.time() > ends, 10, "its end")
    tries = fake.tries
    for _ in range(100):
        with pytest.raises(DependencyUnreachable, match="it is down"):
            tokens.current()
    assert fake.tries - tries < 50
    fake.broken = False
    wait_until(lambda: _given(tokens), 10, "a new one")


def _given(tokens: Tokens) -> str:
    try:
        return tokens.current().value
    except DependencyUnreachable:
        return ""


def test_kafka_python_hears_of_an_outage_as_one_of_the_brokers() -> None:
    """What it raises itself ends no task."""
    fake = Fake(60)
    fake.broken = True
    with pytest.raises(KafkaConnectionError, match="it is down"):
        Provider(Tokens(fake)).token()


def test_another_process_asks_at_the_desk_and_has_to_know_its_key() -> None:
    """Whatever the token is made from does not go there."""
    fake = Fake(60)
    provider = Provider(Tokens(fake))
    written = pickle.dumps(provider)
    assert b"somebody" not in written and b"the token" not in written
    read: Provider = pickle.loads(written)
    assert isinstance(read.giving, DeskClient) and read.token() == "the token no. 1" and fake.given == 1
    assert pickle.dumps(read), "and goes on from there"
    assert read == pickle.loads(pickle.dumps(provider)) != Provider(Tokens(fake)), "for connections that are kept"
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(read.giving.url)
    with pytest.raises(DependencyUnreachable, match="another key"):
        DeskClient(read.giving.url, "another").current()
    with pytest.raises(urllib.error.HTTPError, match="501"):
        urllib.request.urlopen(urllib.request.Request(read.giving.url, method="POST"))


def test_the_desk_tells_why_there_is_no_token() -> None:
    """As the JVM passes it on."""
    fake = Fake(60)
    fake.broken = True
    with pytest.raises(DependencyUnreachable, match="the driver gives no token: it is down"):
        desk(Tokens(fake), "127.0.0.1").current()


def of(server: TokenServer, **changed: str) -> ClientCredentials:
    given = {"url": server.url, "client_id": "ex porter", "secret": SECRET} | changed
    return ClientCredentials(**given)


@pytest.mark.parametrize("form_only", [False, True])
def test_a_token_endpoint_gives_tokens_for_credentials(form_only: bool) -> None:
    """In a header first, as RFC 6749 wants it of each server, then in the form."""
    server = TokenServer({"ex porter": SECRET}, life_secs=60)
    server.form_only = form_only
    with token_server(server):
        token = of(server, scope="a b", audience="kafka").new()
    assert claims(token.value)["sub"] == "ex porter" and 55 < token.expires - time.time() <= 60
    form = {"grant_type": "client_credentials", "scope": "a b", "audience": "kafka"}
    more = {"client_id": "ex porter", "client_secret": SECRET} if form_only else {}
    assert server.asked[-1] == form | more and len(server.asked) == 1 + form_only


def test_a_token_says_when_it_ends_where_the_server_does_not() -> None:
    """A token that is none of JWT's, and says nothing, is taken for five minutes."""
    server = TokenServer({"ex porter": SECRET}, life_secs=60)
    server.silent = ("expires_in",)
    with token_server(server):
        assert 55 < of(server).new().expires - time.time() <= 60
        server.signer.token = lambda *_: "opaque"  # type: ignore[method-assign]
        assert 290 < of(server).new().expires - time.time() <= 300
        server.silent = ("access_token",)
        with pytest.raises(ConfigError, match="gives no access_token"):
            of(server).new()


NO_ENDS = ("nan", float("nan"), "inf", float("-inf"), 1e300, "1e300", 10**400, "soon", None, [60])


@pytest.mark.parametrize("said", NO_ENDS, ids=shortly)
def test_an_end_that_is_no_number_is_looked_up_in_the_token(said: object) -> None:
    """Else it would never be renewed, or all the time."""
    server = TokenServer({"ex porter": SECRET}, life_secs=60)
    server.says = {"expires_in": said}
    with token_server(server):
        assert 55 < of(server).new().expires - time.time() <= 60


def test_what_an_endpoint_refuses_is_told_without_the_secret() -> None:
    """Whose fault it is, by the kind of the error."""
    server = TokenServer({"ex porter": SECRET})
    with token_server(server):
        with pytest.raises(ConfigError, match="HTTP 401: invalid_client") as refused:
            of(server, client_id="stranger").new()
        server.is_down = True
        with pytest.raises(DependencyUnreachable, match="HTTP 503: temporarily_unavailable"):
            of(server).new()
    with pytest.raises(DependencyUnreachable, match="does not answer"):
        of(server).new()
    assert "client_id" in refused.value.hint and SECRET not in repr(of(server))


ANSWERS: dict[str, tuple[str, str]] = {
    "no function": ("nothing", "cannot be imported"),
    "not two": ("return 'token'", "it returned str"),
    "no text": ("return b'token', time.time() + 60", "it returned tuple"),
    "no time": ("return 'token', '2026-01-01'", "its token ends at '2026-01-01'"),
    "no time zone": ("return 'token', datetime(2100, 1, 1)", "its token ends at datetime"),
    "no number": ("return 'token', float('nan')", "its token ends at nan"),
    "no end": ("return 'token', float('inf')", "its token ends at inf"),
    "over": ("return 'token', time.time() - 1", "its token has ended"),
}


@pytest.mark.parametrize("case", ANSWERS)
def test_what_a_function_returns_is_looked_at(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A token that cannot be used would be an outage of brokers."""
    body, says = ANSWERS[case]
    called = f"tokens_{case.replace(' ', '_')}"
    text = f"import time\nfrom datetime import datetime\ndef token():\n    {body}\n"
    (tmp_path / f"{called}.py").write_text(text.replace("token()", "other()") if body == "nothing" else text)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match=says):
        OfFunction(f"{called}:token").new()


@pytest.mark.parametrize("ends", ["time.time() + 60", "datetime.now(timezone.utc) + timedelta(minutes=1)"])
def test_a_function_tells_the_end_in_either_way(ends: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a number, or as a datetime that says where it is meant."""
    called = f"good_{len(ends)}"
    head = "import time\nfrom datetime import datetime, timedelta, timezone\n"
    (tmp_path / f"{called}.py").write_text(f"{head}def token():\n    return 'a token', {ends}\n")
    monkeypatch.syspath_prepend(tmp_path)
    token = OfFunction(f"{called}:token").new()
    assert token.value == "a token" and 55 < token.expires - time.time() <= 60


def test_all_clients_of_a_process_share_one_token(minimal: Callable[[str], Path]) -> None:
    """Whatever options they are made with."""
    server = TokenServer({"exporter": SECRET}, life_secs=60)
    with token_server(server):
        path = minimal(f"""sasl_oauth_token_url = "{server.url}"
sasl_oauth_client_id = "exporter"
sasl_oauth_client_secret = "{SECRET}"
""")
        one, other = (kafka_python_options(load(path, {}, {})) for _ in range(2))
        token, same = (options["sasl_oauth_token_provider"].token() for options in (one, other))
        assert token == same and len(server.given) == 1 and one["sasl_mechanism"] == "OAUTHBEARER"


@pytest.fixture
def minimal(tmp_path: Path) -> Callable[[str], Path]:
    """Writes settings with these lines for OAUTHBEARER."""

    def write(lines: str) -> Path:
        path = tmp_path / "exporter.toml"
        path.write_text(f"""brokers = ["127.0.0.1:1"]
topics = ["events"]
group = "us"
table_root = "{tmp_path}/lake"
new_type = "table"
[type_from]
kind = "topic"
[event_time]
kind = "record"
[kafka_client]
security_protocol = "SASL_SSL"
sasl_mechanism = "OAUTHBEARER"
{lines}""")
        return path

    return write
