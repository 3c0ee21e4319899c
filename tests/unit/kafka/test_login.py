"""Brokers that do not listen are told at once; what may listen later, or is slow, is waited for."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable

import pytest

from exporter.errors import BrokerSilent
from exporter.kafka import login
from exporter.kafka.login import knock
from exporter.local.server import free_ports


def test_brokers_that_refuse_connections_are_named_long_before_a_client_would() -> None:
    """Each with its reason; kafka-python tries for half a minute, and says that it is a time-out."""
    one, other = free_ports(2)
    began = time.monotonic()
    with pytest.raises(BrokerSilent, match=rf"127\.0\.0\.1:{one}: connection refused; .*:{other}: connection refused"):
        knock([f"127.0.0.1:{one}", f"127.0.0.1:{other}"])
    assert time.monotonic() - began < 15, "kafka-python tries for thirty"


def test_a_name_that_does_not_resolve_is_told() -> None:
    """Such as a broker's of another network."""
    with pytest.raises(BrokerSilent, match=r"no\.such\.host\.invalid:9092: its name does not resolve"):
        knock(["no.such.host.invalid:9092"])


def test_one_that_listens_is_enough_also_a_moment_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that starts again refuses for a moment."""
    gone, comes = free_ports(2)
    with socket.socket() as listener:
        pauses: list[float] = []

        def pause(secs: float) -> None:
            pauses.append(secs)
            listener.bind(("127.0.0.1", comes))
            listener.listen()

        monkeypatch.setattr(login.time, "sleep", pause)
        knock([f"127.0.0.1:{gone}", f"127.0.0.1:{comes}"])
        assert len(pauses) == 1


def test_one_that_gives_no_answer_is_left_to_the_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    """A firewall that drops what it does not like says nothing of the broker."""

    def silent(*_: object, **__: object) -> Callable[[], None]:
        raise TimeoutError

    monkeypatch.setattr(socket, "create_connection", silent)
    knock(["10.0.0.1:9092"])
