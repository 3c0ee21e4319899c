"""Executors on a real Spark cluster get their tokens from the driver."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from exporter.local.broker import create_topic
from exporter.stores.store import Store
from tests.support.cluster import cluster
from tests.support.doors import oauth_broker, oauth_lines
from tests.support.lakes import S3_GROUP, Export, mixed, wrong_places
from tests.support.places import Place
from tests.support.processes import running
from tests.support.services import fresh_name, produce
from tests.support.token_server import TokenServer, token_server

pytestmark = [
    pytest.mark.broker,
    pytest.mark.spark,
    pytest.mark.drill,
    pytest.mark.long,
    S3_GROUP,
    pytest.mark.parametrize("place", ["s3"], indirect=True),
]

SECRET = "client+secret% of ours"


def test_executors_ask_the_driver_for_tokens(tmp_path: Path, place: Place, s3: Store) -> None:
    """They fetch the class for it, and need nothing that a token is made from."""
    server = TokenServer({"exporter": SECRET}, life_secs=60)
    with ExitStack() as stack:
        stack.enter_context(token_server(server))
        broker = stack.enter_context(oauth_broker(server.signer.write_jwks(tmp_path / "jwks.json"), 5_000))
        spark = stack.enter_context(cluster(workers=1))
        create_topic(broker.bootstrap, "events", 2)
        produce(broker.bootstrap, "events", {0: mixed(40), 1: mixed(5)})
        lines = oauth_lines(server.url, SECRET)
        more = '[spark]\n"spark.executor.memory" = "512m"\n'
        e = Export(broker.login, "events", tmp_path, fresh_name("app"), at=place, kafka_client=lines, more=more)
        e = e.with_(spark_master=spark.url, driver_host="127.0.0.1")
        with running(e, "--until-caught-up") as task:
            assert task.wait(240) == 0, task.text[-4000:]
        assert wrong_places(replace(e, kafka=broker.bootstrap)) == {}
        assert len(spark.workers) == 1 and SECRET not in task.text
