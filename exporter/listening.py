"""Whether an address can be listened at."""

from __future__ import annotations

import socket


def cannot_listen(host: str, port: int) -> str:
    """Why nobody may listen there now; empty if one may. Asked as the server would."""
    with socket.socket(family_of(host)) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
        except (OSError, OverflowError) as error:
            return str(error)
    return ""


def family_of(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
