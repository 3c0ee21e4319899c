"""Which ports local servers are given."""

from __future__ import annotations

import random
import socket
import subprocess
import sys

import pytest

from exporter.errors import ConfigError
from exporter.local import server


def test_a_port_whose_server_is_down_is_given_to_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither in this process nor in another; and the end of who has it sets it free."""
    claims: list[socket.socket] = []
    monkeypatch.setattr(server, "_CLAIMS", claims)
    (mine,) = server.free_ports(1)
    lines = [
        "import random", "from exporter.local import server", f"server.PORTS = range({mine}, {mine + 1})",
        "random.sample = lambda ports, _: list(ports)", "server.free_ports(1)",
    ]  # fmt: skip
    monkeypatch.setattr(server, "PORTS", range(mine, mine + 1))
    monkeypatch.setattr(random, "sample", lambda ports, _: list(ports))
    with pytest.raises(ConfigError, match="no free port"):
        server.free_ports(1)
    other = [sys.executable, "-c", "\n".join(lines)]
    assert "no free port" in subprocess.run(other, check=False, capture_output=True, text=True).stderr
    for claim in claims:
        claim.close()
    for _ in range(2):
        subprocess.run(other, check=True)
