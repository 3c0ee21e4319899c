"""A day's tokens in minutes: a task goes on over every end of a token and of a session, and over outages of the server.

    token     |----------|----------|----------|     renewed at half of its life
    session   |----|----|----|----|----|----|        the broker ends it, or the token's end does
"""

from __future__ import annotations

import re
import signal
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from exporter.local.broker import create_topic
from exporter.local.server import free_ports
from tests.support.doors import Doors, oauth_broker, oauth_lines
from tests.support.lakes import Export, seldom, wait_until, writing, wrong_places
from tests.support.processes import Process, descendants, running
from tests.support.services import fresh_name
from tests.support.token_server import TokenServer, token_server

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.drill, pytest.mark.xdist_group("logins")]

SECRET = "client+secret% of ours"
PAGES = ("environment", "jobs", "stages", "executors", "SQL")


@contextmanager
def signed(folder: Path, life_secs: float, reauth_ms: int) -> Iterator[tuple[TokenServer, Doors]]:
    """A server whose tokens live so long, and a broker that ends sessions after so long."""
    server = TokenServer({"exporter": SECRET}, life_secs)
    with ExitStack() as stack:
        stack.enter_context(token_server(server))
        yield server, stack.enter_context(oauth_broker(server.signer.write_jwks(folder / "jwks.json"), reauth_ms))


def export(server: TokenServer, broker: Doors, root: Path, more: str = "") -> Export:
    """Of a new topic; it reads all the time."""
    topic = fresh_name()
    create_topic(broker.bootstrap, topic, 2)
    lines = oauth_lines(server.url, SECRET)
    return Export(broker.login, topic, root, fresh_name("app"), kafka_client=lines, more=more)


def finishes(task: Process, e: Export) -> None:
    """It has exported each record once, and ends as it is told to. e: at the other door."""
    wait_until(lambda: wrong_places(e) == {}, 120, "every record in its place")
    task.signal(signal.SIGTERM)
    assert task.wait() == 0, task.text[-4000:]


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("life_secs", "reauth_ms", "secs"), [(8, 3_000, 24), seldom(60, 45_000, 600)])
def test_a_running_task_outlives_its_tokens_and_shows_none(
    tmp_path: Path, life_secs: int, reauth_ms: int, secs: int
) -> None:
    """ONCE; no round fails, no outage is seen; Spark's pages, the process's lines and all files hold no secret."""
    (port,) = free_ports(1)
    more = f'[spark]\n"spark.ui.enabled" = "true"\n"spark.ui.port" = "{port}"\n'
    with signed(tmp_path, life_secs, reauth_ms) as (server, broker):
        e = export(server, broker, tmp_path, more)
        with running(e) as task:
            with writing(broker.bootstrap, e.topic, per_sec=50):
                task.wait_for("commit_landed", 120)
                got = len(server.given)
                task.works_for(secs)
                renewed = len(server.given) - got
            said = [page(port, name) for name in PAGES] + command_lines(task)
            finishes(task, replace(e, kafka=broker.bootstrap))
        assert 2 * secs / life_secs - 2 <= renewed <= 3 * secs / life_secs + 2, "each at half of the life of the former"
    task.quiet_events()
    files = [path for path in tmp_path.rglob("*") if path.suffix != ".toml" and path.is_file()]
    said += [path.read_bytes().decode("latin-1") for path in files]
    desk = re.search(r"http://127\.0\.0\.1:\d+/", "".join(said))
    assert desk is None, "the desk's address stands beside its key"
    assert [text for text in said for secret in (SECRET, *server.given) if secret in text] == []


def page(port: int, name: str) -> str:
    """One of Spark's own."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/{name}/") as answer:
        return str(answer.read().decode())


def command_lines(task: Process) -> list[str]:
    """Of the task and all below it, which every user of a machine can see."""
    pids = [task.pid, *descendants(task.pid)]
    return [path.read_bytes().decode("latin-1") for pid in pids if (path := Path(f"/proc/{pid}/cmdline")).exists()]


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_server_that_is_down_for_longer_than_a_token_is_an_outage(tmp_path: Path) -> None:
    """The task waits for it, as for brokers, and goes on: every client of it gets in again."""
    life_secs = 10
    with signed(tmp_path, life_secs, 3_000) as (server, broker):
        e = export(server, broker, tmp_path).with_(give_up_secs=600)
        with running(e) as task:
            with writing(broker.bootstrap, e.topic, per_sec=50):
                task.wait_for("commit_landed", 120)
                server.is_down = True
                task.wait_for("token_not_renewed", 60)
                task.wait_for("outage_seen", 120)
                time.sleep(2 * life_secs)  # no state to wait for: it is down for so long
                assert task.ended() is None, task.text[-4000:]
                server.is_down = False
                task.wait_for("outage_ended", 120)
                task.works_for(2)
            finishes(task, replace(e, kafka=broker.bootstrap))
    assert SECRET not in task.text and not [token for token in server.given if token in task.text]
